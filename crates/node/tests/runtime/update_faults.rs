//! Storage fails while an update is answered or looked up: its caller hears nothing that is not stored, and asking again
//! with the same id is safe.

use std::{sync::Arc, time::Duration};

use segno_engine::update::admit::Admit;
use segno_node::{
    CallError, CompletedTask, Delivery, Node, QueueKind, RunSelector, StartedTask, UpdateReply, UpdateStage, WaitFor,
    WorkflowKey,
};
use segno_proto::{enums::EventType, events::HistoryEvent};
use segno_store::{
    MemoryStore, ReadError, RunKey,
    fault::{FaultPlan, WriteFault},
};
use tokio::{task::JoinHandle, time::Instant};

use crate::common::{Place, check, story, updates, worker};

/// Long enough never to be waited for.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A node with one workflow whose first turn is over.
struct Scene {
    place: Place,
    plan: FaultPlan,
    node: Arc<Node>,
    key: WorkflowKey,
    run_key: RunKey,
    queue: &'static str,
}

impl Scene {
    /// Tasks come by `queue` from now on, the normal or the sticky one.
    async fn new(queue: &'static str) -> Self {
        let (place, plan) = (Place::new(), FaultPlan::new());
        let node = place.start(&plan).await;
        let namespace = node.runs.namespaces.get("default").expect("it is always there");
        let id = if queue == story::STICKY_QUEUE { "sticky" } else { "updates" };
        let started = node.runs.start_workflow(story::start(&namespace, id)).await.expect("a workflow starts");
        let key = WorkflowKey::new(namespace.key, id);
        let run_key = RunKey(started.run.info.run_key);
        let scene = Self { place, plan, node, key, run_key, queue };
        let first = scene.next_task(story::QUEUE).await;
        scene.answer(&first).await.expect("the first turn is taken");
        // A sticky queue is served once its worker has asked there.
        let poll = worker::poll_of(&scene.node, QueueKind::Workflow, queue);
        assert!(
            scene.node.dispatch.poll_here::<StartedTask>(&poll, None).await.expect("a poll works").is_none(),
            "nothing to do yet"
        );
        scene
    }

    async fn next_task(&self, queue: &str) -> StartedTask {
        loop {
            let poll = worker::poll_of(&self.node, QueueKind::Workflow, queue);
            if let Some(task) = self.node.dispatch.poll_here::<StartedTask>(&poll, None).await.expect("a poll works") {
                task.delivery.delivered();
                return task;
            }
        }
    }

    /// Accepts and completes, or rejects, what a task brings.
    async fn answer(&self, task: &StartedTask) -> Result<CompletedTask, CallError> {
        let mut call = worker::complete_with(worker::token_of(task), Vec::new());
        (call.commands, call.messages) = updates::answer(&task.messages, &[], 0);
        if self.queue == story::STICKY_QUEUE {
            call.sticky = Some(worker::sticky());
            call.return_new_task = true;
        }
        let namespace = self.node.runs.namespaces.get("default").expect("it is always there");
        let run_id = task.run.info.run_id.clone();
        let completed =
            self.node.dispatch.complete_workflow_task(namespace, &self.key, &run_id, call, Default::default()).await?;
        completed.delivery.iter().for_each(Delivery::delivered);
        Ok(completed)
    }

    /// A caller that waits for the outcome.
    fn ask(&self, id: &str) -> JoinHandle<Result<UpdateReply, CallError>> {
        let (node, key) = (self.node.clone(), self.key.clone());
        let call = Admit::new(updates::request(id), false, Default::default());
        let until = Instant::now() + WAIT_MAX;
        tokio::spawn(async move {
            node.runs.update_workflow(&key, &RunSelector::default(), call, WaitFor::Completed, until).await
        })
    }

    fn stored(&self) -> Vec<HistoryEvent> {
        stored(&self.place.memory, self.run_key)
    }

    fn count(&self, kind: EventType) -> usize {
        self.stored().iter().filter(|event| event.event_type() == kind).count()
    }
}

fn stored(memory: &MemoryStore, run: RunKey) -> Vec<HistoryEvent> {
    check::stored(memory, run).expect("the run is stored").1
}

/// What a caller heard, soon: no caller waits until patience ends.
async fn heard(caller: JoinHandle<Result<UpdateReply, CallError>>) -> Result<UpdateReply, CallError> {
    let soon = tokio::time::timeout(Duration::from_secs(5), caller).await;
    soon.expect("a caller hears something soon").expect("a caller does not panic")
}

/// Waits until a node that was just started has read what it reads by itself.
async fn is_quiet(plan: &FaultPlan) {
    let mut before = None;
    while before != Some(plan.calls().reads) {
        before = Some(plan.calls().reads);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_outcome(reply: &UpdateReply) -> bool {
    matches!(reply.stage, UpdateStage::Completed(_))
}

/// The worker's answer cannot be written. Its caller hears nothing of that, and gets the next answer.
async fn a_write_fails(queue: &'static str, fault: WriteFault) {
    let scene = Scene::new(queue).await;
    let caller = scene.ask(updates::YES);
    let task = scene.next_task(queue).await;
    assert!(!caller.is_finished(), "no answer yet");
    scene.plan.fail_next_write(fault);
    let refused = scene.answer(&task).await.expect_err("the write failed");
    assert!(crate::common::worth_repeating(&refused), "{refused:?}");
    if fault == WriteFault::DoneButUnknown {
        assert!(is_outcome(&heard(caller).await.expect("it is stored")), "what is stored may be told");
    } else {
        assert_eq!(scene.count(EventType::WorkflowExecutionUpdateAccepted), 0);
        // Its caller waits: the update is admitted again. After the failure the worker is no longer sticky or still is: it looks at both.
        let task = tokio::select! {
            task = scene.next_task(story::QUEUE) => task,
            task = scene.next_task(story::STICKY_QUEUE) => task,
        };
        assert!(!caller.is_finished(), "nothing is stored, so nothing is told");
        scene.answer(&task).await.expect("it is written now");
        assert!(is_outcome(&heard(caller).await.expect("it is answered")));
    }
    assert!(is_outcome(&heard(scene.ask(updates::YES)).await.expect("asked again, it is the same")));
    assert_eq!(scene.count(EventType::WorkflowExecutionUpdateAccepted), 1);
    assert_eq!(scene.count(EventType::WorkflowExecutionUpdateCompleted), 1);
    check::history(&scene.stored()).expect("a valid history");
    scene.node.shut_down();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_written() {
    for queue in [story::QUEUE, story::STICKY_QUEUE] {
        for fault in [WriteFault::NotDone, WriteFault::Full, WriteFault::DoneButUnknown] {
            a_write_fails(queue, fault).await;
        }
    }
}

/// Nothing can be read once the worker has its task: its answer is taken, its caller told, the next task brought.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_needs_nothing_that_is_stored() {
    for queue in [story::QUEUE, story::STICKY_QUEUE] {
        let scene = Scene::new(queue).await;
        let first = scene.ask(updates::YES);
        let task = scene.next_task(queue).await;
        let second = scene.ask(updates::NO);
        while scene.node.runs.poll_update(&scene.key, "", updates::NO, WaitFor::Admitted, Instant::now()).await.is_err()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        scene.plan.fail_all_reads(Some(ReadError::Failed("injected fault".to_owned())));
        let completed = scene.answer(&task).await.expect("the answer is taken");
        assert!(is_outcome(&heard(first).await.expect("it is answered")), "{queue}");
        assert_eq!(completed.new_task.is_some(), queue == story::STICKY_QUEUE, "the reply brings what is asked");
        let next = match completed.new_task {
            Some(next) => next,
            None => {
                scene.plan.clear();
                scene.next_task(queue).await
            }
        };
        scene.answer(&next).await.expect("the answer is taken");
        assert!(is_outcome(&heard(second).await.expect("it is rejected")), "{queue}");
        scene.node.shut_down();
    }
}

/// After a restart an outcome is read from storage. Each read fails in turn: the caller hears that it may ask again, and
/// then hears the same outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_that_cannot_be_looked_up() {
    let scene = Scene::new(story::QUEUE).await;
    let caller = scene.ask(updates::YES);
    let task = scene.next_task(story::QUEUE).await;
    scene.answer(&task).await.expect("the answer is taken");
    let told = heard(caller).await.expect("it is answered");
    scene.node.shut_down();
    let mut failures = 0;
    for by_poll in [true, false] {
        for nth in 1.. {
            let plan = FaultPlan::new();
            let node = scene.place.start(&plan).await;
            let look = async || {
                let until = Instant::now() + WAIT_MAX;
                if by_poll {
                    return node.runs.poll_update(&scene.key, "", updates::YES, WaitFor::Completed, until).await;
                }
                let call = Admit::new(updates::request(updates::YES), false, Default::default());
                node.runs.update_workflow(&scene.key, &RunSelector::default(), call, WaitFor::Completed, until).await
            };
            is_quiet(&plan).await;
            plan.fail_read(plan.calls().reads + nth, ReadError::Failed("injected fault".to_owned()));
            let first = look().await;
            plan.clear();
            let was_enough = first.is_ok();
            match first {
                Ok(reply) => assert_eq!(reply, told),
                Err(error) => assert!(crate::common::worth_repeating(&error), "read {nth}: {error:?}"),
            }
            assert_eq!(look().await.expect("it can be read now"), told, "read {nth}");
            node.shut_down();
            if was_enough {
                break;
            }
            failures += 1;
        }
    }
    assert!(failures >= 4, "the pointer, the run and its history were read, {failures} reads failed");
}
