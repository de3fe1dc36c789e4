//! Trials of runs at workers of a candidate: who gets them, what these workers see, and that nothing changes.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use segno_engine::{complete_task::CompleteTask, signal};
use segno_node::{
    Environment, MemberQueue, Node, NodeOptions, Poll, PollerVersion, QueryAnswer, QueryFailure, QueueKind, QueueType,
    RunSelector, Sdk, StartedTask, TrialCandidate, TrialOutcome, WorkerVersion, WorkflowKey, named_version,
};
use segno_proto::{
    command::{Command, command::Attributes},
    enums::{EventType, WorkflowTaskFailedCause},
    events::HistoryEvent,
};
use segno_store::MemoryStore;

use crate::common::{story, worker};

const CANDIDATE: &str = "candidate";
const TIMEOUT: Duration = Duration::from_secs(5);
const ID: &str = "tried";

/// A node with one run that waits, and whose first task made an activity and a timer.
struct Rollout {
    node: Arc<Node>,
    key: WorkflowKey,
}

impl Rollout {
    async fn begin() -> Self {
        let node = Node::start(Arc::new(MemoryStore::default()), Environment::of_machine(), NodeOptions::default())
            .await
            .expect("a node starts");
        let namespace = node.runs.namespaces.get("default").expect("it is always there");
        node.runs.start_workflow(story::start(&namespace, ID)).await.expect("a workflow starts");
        let rollout = Self { key: WorkflowKey::new(namespace.key, ID), node };
        rollout.turn(vec![story::timer(3_600_000 * story::MILLISECOND), story::activity("one")]).await;
        rollout
    }

    /// The run's worker completes the next task, and has the run in its cache.
    async fn turn(&self, commands: Vec<Command>) {
        let task = self.take(worker::poll_of(&self.node, QueueKind::Workflow, story::QUEUE)).await.expect("a task");
        self.complete(&task, commands).await;
    }

    async fn complete(&self, task: &StartedTask, commands: Vec<Command>) {
        let plain = worker::complete_with(worker::token_of(task), commands);
        let call = CompleteTask { sticky: Some(worker::sticky()), ..plain };
        let namespace = self.node.runs.namespaces.get("default").expect("it is always there");
        let run_id = task.run.info.run_id.clone();
        self.node
            .dispatch
            .complete_workflow_task(namespace, &self.key, &run_id, call, Default::default())
            .await
            .expect("it is taken");
    }

    fn sticky_poll(&self) -> Poll {
        worker::poll_of(&self.node, QueueKind::Workflow, story::STICKY_QUEUE)
    }

    /// Signals the run, while its worker polls the sticky queue.
    async fn signal(&self) {
        assert!(self.take(self.sticky_poll()).await.is_none());
        let call = signal::Signal { name: "go".to_owned(), ..Default::default() };
        let apply = move |run: &_, context| signal::signal(run, context, call);
        self.node.runs.transact(&self.key, &RunSelector::default(), apply).await.expect("it is signalled");
    }

    async fn take(&self, poll: Poll) -> Option<StartedTask> {
        let task: StartedTask = self.node.dispatch.poll_here(&poll, None).await.expect("a poll works")?;
        task.delivery.delivered();
        Some(task)
    }

    fn candidate_poll(&self) -> Poll {
        worker::poll_of(&self.node, QueueKind::Workflow, CANDIDATE)
    }

    fn try_run(&self, candidate: TrialCandidate, locate: bool) -> tokio::task::JoinHandle<TrialOutcome> {
        let (node, key) = (self.node.clone(), self.key.clone());
        tokio::spawn(async move {
            node.dispatch.try_run(&key, "", &candidate, TIMEOUT, locate).await.expect("a trial is made")
        })
    }

    fn answer(&self, task: &StartedTask, answer: QueryAnswer) {
        let query = task.query.as_ref().expect("it is a query");
        assert!(self.node.dispatch.answer_query(query.id, answer), "the trial waits for it");
    }
}

fn on_queue() -> TrialCandidate {
    TrialCandidate { queue: Some(CANDIDATE.to_owned()), version: None }
}

/// An activity whose id is its type.
fn activity(kind: &str) -> Command {
    let mut command = story::activity(kind);
    if let Some(Attributes::ScheduleActivityTaskCommandAttributes(activity)) = &mut command.attributes {
        kind.clone_into(&mut activity.activity_id);
    }
    command
}

fn events(task: &StartedTask) -> Vec<HistoryEvent> {
    task.history.clone().into_history().events().expect("a history")
}

fn failed(message: &str) -> QueryAnswer {
    let cause = WorkflowTaskFailedCause::NonDeterministicError;
    QueryAnswer::Failed(QueryFailure { message: message.to_owned(), failure: None, cause })
}

#[tokio::test]
async fn a_trial_changes_nothing() {
    let rollout = Rollout::begin().await;
    rollout.signal().await;
    let runs = &rollout.node.runs;
    let before = runs.snapshot(&rollout.key, "").await.expect("it is there").run.clone();
    assert!(before.state().task.is_some() && before.state().sticky.is_some(), "its next task waits at its worker");
    let commits = runs.metrics.commits.load(Ordering::Relaxed);
    let trial = rollout.try_run(on_queue(), false);
    let task = rollout.take(rollout.candidate_poll()).await.expect("the candidate gets it");
    let kinds: Vec<EventType> = events(&task).iter().map(HistoryEvent::event_type).collect();
    assert_eq!(kinds.last(), Some(&EventType::ActivityTaskScheduled), "the signal is not sent");
    assert_eq!((kinds.len(), task.previous_started_event_id, task.task.started_event_id), (6, 3, 0));
    assert_eq!(task.query.as_ref().map(|query| query.query.query_type.as_str()), Some("__temporal_workflow_metadata"));
    rollout.answer(&task, QueryAnswer::Answered(None));
    assert!(matches!(trial.await.expect("it ends"), TrialOutcome::Replayed));
    let after = runs.snapshot(&rollout.key, "").await.expect("it is there").run.clone();
    assert!(Arc::ptr_eq(&before, &after), "the run is the very same");
    assert_eq!(runs.metrics.commits.load(Ordering::Relaxed), commits, "nothing was committed");
    // The worker that has the run in its cache gets its task.
    let sticky = rollout.take(rollout.sticky_poll()).await;
    assert!(sticky.expect("it waits there").query.is_none());
}

#[tokio::test]
async fn workers_that_compare_nothing_for_a_query_get_a_task() {
    let rollout = Rollout::begin().await;
    let go = Sdk { name: "temporal-go".to_owned(), version: "1.50.0".to_owned() };
    let closing = [Vec::new(), vec![story::complete()]];
    for commands in closing {
        let trial = rollout.try_run(on_queue(), false);
        let poll = Poll { sdk: go.clone(), ..rollout.candidate_poll() };
        let task = rollout.take(poll).await.expect("the candidate gets it");
        let kinds: Vec<EventType> = events(&task).iter().skip(6).map(HistoryEvent::event_type).collect();
        assert_eq!(kinds, [EventType::WorkflowTaskScheduled, EventType::WorkflowTaskStarted]);
        assert_eq!((task.task.started_event_id, task.previous_started_event_id), (8, 3));
        let id = task.query.as_ref().expect("its token is that of a query").id;
        assert!(rollout.node.dispatch.complete_trial(id, &commands));
        assert!(!rollout.node.dispatch.complete_trial(id, &commands), "it is over");
        let outcome = trial.await.expect("it ends");
        assert_eq!(matches!(outcome, TrialOutcome::Replayed), commands.is_empty(), "{outcome:?}");
    }
    let run = rollout.node.runs.snapshot(&rollout.key, "").await.expect("it is there").run.clone();
    assert!(run.is_running() && run.state().next_event_id == 7);
}

#[tokio::test]
async fn a_failed_task_ends_a_trial_and_nothing_else() {
    let rollout = Rollout::begin().await;
    let trial = rollout.try_run(on_queue(), false);
    let task = rollout.take(rollout.candidate_poll()).await.expect("the candidate gets it");
    let id = task.query.as_ref().expect("it is a query").id;
    assert!(!rollout.node.dispatch.fail_trial(id + 1, WorkflowTaskFailedCause::NonDeterministicError, None));
    assert!(rollout.node.dispatch.fail_trial(id, WorkflowTaskFailedCause::NonDeterministicError, None));
    let TrialOutcome::Failed(failure) = trial.await.expect("it ends") else { panic!("it failed") };
    assert_eq!(failure.cause, WorkflowTaskFailedCause::NonDeterministicError);
}

#[tokio::test]
async fn the_event_is_located_by_shorter_histories() {
    let rollout = Rollout::begin().await;
    for kind in ["two", "three", "four"] {
        rollout.signal().await;
        let task = match rollout.take(rollout.sticky_poll()).await {
            Some(task) => task,
            // A slow machine: its time in the sticky queue is over.
            None => {
                rollout.take(worker::poll_of(&rollout.node, QueueKind::Workflow, story::QUEUE)).await.expect("a task")
            }
        };
        rollout.complete(&task, vec![activity(kind)]).await;
    }
    let trial = rollout.try_run(on_queue(), true);
    let message = "activity type of scheduled event 'three' does not match";
    let mut tried = 0;
    let outcome = loop {
        if trial.is_finished() {
            break trial.await.expect("it ends");
        }
        let Some(task) = rollout.take(rollout.candidate_poll()).await else { continue };
        tried += 1;
        let scheduled = EventType::ActivityTaskScheduled;
        let count = events(&task).iter().filter(|event| event.event_type() == scheduled).count();
        rollout.answer(&task, if count >= 3 { failed(message) } else { QueryAnswer::Answered(None) });
    };
    let TrialOutcome::Failed(failure) = outcome else { panic!("{outcome:?} after {tried} trials") };
    let run = rollout.node.runs.snapshot(&rollout.key, "").await.expect("it is there");
    let named = rollout.node.runs.stored_events(&run, failure.event_id, failure.event_id).await.expect("the event");
    let text = format!("{:?}", named);
    assert!(failure.event_type == EventType::ActivityTaskScheduled && text.contains("three"), "{text}");
    assert_eq!(tried, 3, "the whole history and two shorter ones");
}

#[tokio::test]
async fn only_workers_of_the_candidate_get_a_trial() {
    let rollout = Rollout::begin().await;
    let namespace = rollout.key.namespace;
    let version = |build: &str| named_version("d".to_owned(), build.to_owned());
    for build in ["1", "2"] {
        let queue = MemberQueue { name: story::QUEUE.to_owned(), kind: QueueType::Workflow };
        rollout.node.runs.register_poller(namespace, &version(build), queue).await.expect("it registers");
    }
    let poll = |version: Option<&WorkerVersion>| Poll {
        version: PollerVersion::of(version),
        ..worker::poll_of(&rollout.node, QueueKind::Workflow, story::QUEUE)
    };
    let trial = rollout.try_run(TrialCandidate { queue: None, version: Some(version("2")) }, false);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(rollout.take(poll(None)).await.is_none(), "workers without a version");
    assert!(rollout.take(poll(Some(&version("1")))).await.is_none(), "workers of another version");
    assert!(rollout.take(rollout.sticky_poll()).await.is_none(), "the worker that has the run in its cache");
    let task = rollout.take(poll(Some(&version("2")))).await.expect("the candidate gets it");
    rollout.answer(&task, QueryAnswer::Answered(None));
    assert!(matches!(trial.await.expect("it ends"), TrialOutcome::Replayed));
}

#[tokio::test(start_paused = true)]
async fn silence_is_no_answer_and_leaves_nothing() {
    let rollout = Rollout::begin().await;
    let trial = rollout.try_run(on_queue(), false);
    assert!(matches!(trial.await.expect("it ends"), TrialOutcome::NoAnswer));
    assert!(rollout.take(rollout.candidate_poll()).await.is_none(), "the task was withdrawn");
    // A worker that takes it and dies.
    let trial = rollout.try_run(on_queue(), false);
    let task = rollout.take(rollout.candidate_poll()).await.expect("the candidate gets it");
    assert!(matches!(trial.await.expect("it ends"), TrialOutcome::NoAnswer));
    let late = QueryAnswer::Answered(None);
    assert!(!rollout.node.dispatch.answer_query(task.query.as_ref().expect("it is a query").id, late));
}

#[tokio::test]
async fn a_task_that_was_not_delivered_goes_to_another_worker_of_the_candidate() {
    let rollout = Rollout::begin().await;
    let trial = rollout.try_run(on_queue(), false);
    let lost: StartedTask = rollout
        .node
        .dispatch
        .poll_here(&rollout.candidate_poll(), None)
        .await
        .expect("a poll works")
        .expect("it gets it");
    drop(lost);
    let task = rollout.take(rollout.candidate_poll()).await.expect("another worker gets it");
    rollout.answer(&task, QueryAnswer::Answered(None));
    assert!(matches!(trial.await.expect("it ends"), TrialOutcome::Replayed));
}
