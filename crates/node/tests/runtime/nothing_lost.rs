//! No fault of a caller, a run or a loop makes a node forget a task or keeps another caller from working.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use segno_engine::{
    Rejection,
    signal::{self, Signal},
    terminate::{self, Terminate},
};
use segno_node::{CallError, Environment, Node, NodeOptions, QueueKind, RunSelector, StartedTask, WorkflowKey};
use segno_proto::{
    command::{Command, command::Attributes},
    common::RetryPolicy,
    enums::WorkflowExecutionStatus,
};
use segno_store::{
    RunKey, Store, Wait,
    fault::{FaultPlan, WriteFault},
};
use tokio::time::{sleep, timeout};

use crate::common::{Place, gate::Gate, story, worker};

async fn node_with(options: NodeOptions) -> (Arc<Node>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let node = Node::start(gate.clone(), Environment::of_machine(), options).await.expect("a node starts");
    (node, gate)
}

async fn node() -> (Arc<Node>, Arc<Gate>) {
    node_with(NodeOptions::default()).await
}

async fn start(node: &Arc<Node>, id: &str) -> (WorkflowKey, RunKey) {
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let started = node.runs.start_workflow(story::start(&namespace, id)).await.expect("a workflow starts");
    (WorkflowKey::new(namespace.key, id), RunKey(started.run.info.run_key))
}

async fn signal(node: &Arc<Node>, key: &WorkflowKey, name: String) -> Result<(), CallError> {
    let call = Signal { name, ..Default::default() };
    node.runs.transact(key, &RunSelector::default(), move |run, context| signal::signal(run, context, call)).await
}

async fn terminate(node: &Arc<Node>, key: &WorkflowKey, run_id: &str, first_run_id: &str) -> Result<(), CallError> {
    let call = Terminate { first_run_id: first_run_id.to_owned(), ..Default::default() };
    let decide = move |run: &segno_engine::Run, context| terminate::terminate(run, context, call);
    node.runs.terminate_run(key, &RunSelector::run(run_id), first_run_id, decide).await
}

/// Runs whose workflow task a worker gets until no more come.
async fn drain(node: &Arc<Node>) -> HashSet<u64> {
    let mut runs = HashSet::new();
    while let Some(task) = poll(node).await {
        task.delivery.delivered();
        runs.insert(task.run.info.run_key);
    }
    runs
}

async fn poll(node: &Arc<Node>) -> Option<segno_node::StartedTask> {
    let poll = worker::poll_of(node, QueueKind::Workflow, story::QUEUE);
    node.dispatch.poll_here::<StartedTask>(&poll, None).await.expect("a poll works")
}

/// A node that drops runs from memory as soon as it can.
fn forgetful() -> NodeOptions {
    NodeOptions { cache_bytes_max: 1, ..Default::default() }
}

/// More tasks than a queue keeps, and pollers that leave at any moment: all of them are offered in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_of_a_full_queue_is_forgotten_when_pollers_leave() {
    let (node, _gate) = node_with(NodeOptions { queue_tasks_max: 100, ..Default::default() }).await;
    for id in 0..1000 {
        start(&node, &format!("w{id}")).await;
    }
    let mut seen = HashSet::new();
    for round in 0..2000_u64 {
        let poll = worker::poll_of(&node, QueueKind::Workflow, story::QUEUE);
        // Most leave before they have something, some in the middle of it.
        let left =
            timeout(Duration::from_micros(round % 7 * 40), node.dispatch.poll_here::<StartedTask>(&poll, None)).await;
        if let Ok(Ok(Some(task))) = left {
            task.delivery.delivered();
            seen.insert(task.run.info.run_key);
        }
    }
    // What was given back is offered again; a refill takes a moment.
    for _ in 0..50 {
        seen.extend(drain(&node).await);
        if seen.len() == 1000 {
            return;
        }
    }
    panic!("{} of 1000 were offered", seen.len());
}

/// Damaged runs of every kind are set aside, and all others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_run_blocks_nobody() {
    let (node, gate) = node_with(NodeOptions { queue_tasks_max: 20, ..forgetful() }).await;
    let mut good = HashSet::new();
    for id in 0..100 {
        let (key, run) = start(&node, &format!("w{id}")).await;
        match id % 10 {
            0 => _ = gate.damaged.lock().expect("no holder panics").insert(run),
            5 => _ = gate.lost.lock().expect("no holder panics").insert(key.workflow_id.to_string()),
            _ => _ = good.insert(run.0),
        }
    }
    // Runs leave memory when others come.
    for id in 100..200 {
        good.insert(start(&node, &format!("w{id}")).await.1.0);
    }
    let mut seen = HashSet::new();
    for _ in 0..20 {
        seen.extend(drain(&node).await);
        if good.is_subset(&seen) {
            break;
        }
    }
    assert!(good.is_subset(&seen), "{} of {}", seen.intersection(&good).count(), good.len());
    let damaged = node.gauges().into_iter().find(|gauge| gauge.0 == "damaged_runs").map(|gauge| gauge.2);
    assert!(damaged > Some(0), "they are counted: {damaged:?}");
}

/// A run that may be retried needs its first event. Without it the next attempt would begin with nothing, so the run is
/// damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_start_is_missing_is_damaged() {
    let (node, gate) = node_with(forgetful()).await;
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let mut retried = story::start(&namespace, "w");
    retried.options.retry_policy = Some(RetryPolicy { maximum_attempts: 3, ..Default::default() });
    let started = node.runs.start_workflow(retried).await.expect("a workflow starts");
    let (key, run) = (WorkflowKey::new(namespace.key, "w"), RunKey(started.run.info.run_key));
    // Runs leave memory when others come.
    let mut others = HashSet::new();
    for id in 0..100 {
        others.insert(start(&node, &format!("other{id}")).await.1.0);
    }
    assert!(node.runs.snapshot(&key, "").await.is_ok(), "nothing is wrong yet");
    for id in 100..200 {
        others.insert(start(&node, &format!("other{id}")).await.1.0);
    }
    gate.without_history.lock().expect("no holder panics").insert(run);
    match node.runs.snapshot(&key, "").await {
        Err(CallError::DataLoss(why)) => {
            assert!(why.ends_with("history does not begin with the start of the run"), "{why}")
        }
        other => panic!("it is damaged, and the answer is {other:?}"),
    }
    assert!(matches!(signal(&node, &key, "s".to_owned()).await, Err(CallError::DataLoss(_))));
    assert_eq!(drain(&node).await, others, "it blocks no other run");
    node.runs.delete_run(&key, "").await.expect("it can be deleted");
    start(&node, "w").await;
}

/// A node with a run that can no longer be read, and others that have taken its place in the cache.
struct Damaged {
    node: Arc<Node>,
    gate: Arc<Gate>,
    key: WorkflowKey,
    run: RunKey,
    run_id: String,
}

impl Damaged {
    async fn new() -> Self {
        let (node, gate) = node_with(forgetful()).await;
        let (key, run) = start(&node, "w").await;
        let run_id = node.runs.snapshot(&key, "").await.expect("it exists").run.info.run_id.clone();
        gate.damaged.lock().expect("no holder panics").insert(run);
        for id in 0..100 {
            start(&node, &format!("other{id}")).await;
        }
        Self { node, gate, key, run, run_id }
    }
}

/// Terminating it is a way out as well: it is listed as terminated, offered nowhere, and its workflow id can be used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_run_can_be_terminated() {
    let Damaged { node, gate, key, run, run_id } = Damaged::new().await;
    let other = WorkflowKey::new(key.namespace, "other1");
    assert!(terminate(&node, &other, &run_id, "").await.is_err(), "it does not belong to that workflow");
    let unknown = "ffffffff-ffff-7fff-8fff-ffffffffffff";
    assert_eq!(terminate(&node, &key, "", unknown).await, Err(Rejection::RunNotFound.into()), "another chain");
    terminate(&node, &key, &run_id, "").await.expect("it can be terminated");
    let facts = gate.memory.facts(run).wait().expect("it is readable").expect("it is listed");
    assert_eq!(facts.status, WorkflowExecutionStatus::Terminated as i32);
    let closed = facts.closed.expect("it is closed");
    assert_eq!(closed.history_length, 2, "what is left of its history tells");
    assert_eq!(gate.memory.current(key.namespace, "w").wait(), Ok(None));
    let open = gate.memory.open_runs(None, 1000).wait().expect("they are readable");
    assert!(open.iter().all(|open| open.key != run), "a restart does not come across it");
    // The store accepted what was written, so it is damaged in another way now.
    gate.damaged.lock().expect("no holder panics").remove(&run);
    assert!(matches!(node.runs.snapshot(&key, &run_id).await, Err(CallError::DataLoss(_))), "it stays damaged");
    assert_eq!(terminate(&node, &key, &run_id, "").await, Err(Rejection::Closed.into()));
    let (_, next) = start(&node, "w").await;
    assert!(!drain(&node).await.contains(&run.0));
    node.runs.delete_run(&key, &run_id).await.expect("it can be deleted");
    assert_eq!(gate.memory.facts(run).wait(), Ok(None));
    assert_eq!(gate.memory.current(key.namespace, "w").wait(), Ok(Some(next)), "the new one is as it was");
}

/// A task that its worker never got is offered again, also when its run left memory meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_was_given_back_survives_the_eviction_of_its_run() {
    let (node, _gate) = node_with(forgetful()).await;
    let (_, run) = start(&node, "w").await;
    let task = poll(&node).await.expect("there is a task");
    assert_eq!(task.run.info.run_key, run.0);
    // The connection breaks before the answer is written.
    drop(task);
    sleep(Duration::from_millis(50)).await;
    for id in 0..200 {
        start(&node, &format!("other{id}")).await;
    }
    assert!(drain(&node).await.contains(&run.0), "it is never offered again");
}

/// Polls beside deletions answer with the next task, not with an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_do_not_fail_when_workflows_are_deleted_beside_them() {
    let (node, _gate) = node().await;
    let mut keys = Vec::new();
    for id in 0..200 {
        keys.push(start(&node, &format!("w{id}")).await.0);
    }
    let deleting = {
        let node = node.clone();
        tokio::spawn(async move {
            for key in keys.iter().step_by(2) {
                node.runs.delete_run(key, "").await.expect("it can be deleted");
            }
        })
    };
    assert!(drain(&node).await.len() >= 100);
    deleting.await.expect("deleting works");
}

/// Activities that travel with an answer that its worker no longer reads are offered to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eager_activities_are_not_lost_when_the_caller_leaves() {
    let (node, gate) = node().await;
    let (key, _) = start(&node, "w").await;
    let task = poll(&node).await.expect("there is a task");
    task.delivery.delivered();
    let mut call = worker::complete_with(worker::token_of(&task), vec![eager(story::activity("plain"))]);
    call.eager_request_ids = vec!["eager".to_owned()];
    gate.held.store(true, Ordering::SeqCst);
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let run_id = task.run.info.run_id.clone();
    let leaving = node.dispatch.complete_workflow_task(namespace, &key, &run_id, call, Default::default());
    assert!(timeout(Duration::from_millis(50), leaving).await.is_err(), "the caller leaves before the commit is done");
    gate.held.store(false, Ordering::SeqCst);
    let offered = timeout(Duration::from_secs(5), worker::fail_activity(&node)).await;
    assert!(offered.is_ok(), "no worker is offered the activity");
}

fn eager(mut command: Command) -> Command {
    if let Some(Attributes::ScheduleActivityTaskCommandAttributes(attributes)) = &mut command.attributes {
        attributes.request_eager_execution = true;
    }
    command
}

/// Messages that cannot be delivered take nothing from those that can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undeliverable_messages_do_not_stop_the_others() {
    let (node, gate) = node_with(forgetful()).await;
    let (_, target) = start(&node, "target").await;
    gate.damaged.lock().expect("no holder panics").insert(target);
    for id in 0..10 {
        start(&node, &format!("sender{id}")).await;
    }
    let mut taken = 0;
    while taken < 10 {
        let Some(task) = poll(&node).await else { continue };
        task.delivery.delivered();
        if !task.run.info.workflow_id.starts_with("sender") {
            continue;
        }
        let signals = (0..20).map(|_| story::signal("target", "hello")).collect();
        answer(&node, &task, signals).await;
        taken += 1;
    }
    let (parent, _) = start(&node, "parent").await;
    let task = poll(&node).await.expect("there is a task");
    task.delivery.delivered();
    answer(&node, &task, vec![story::child()]).await;
    let child = WorkflowKey::new(parent.namespace, "child");
    let started = async {
        while node.runs.snapshot(&child, "").await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(Duration::from_secs(5), started).await.is_ok(), "the child waits behind the signals");
}

async fn answer(node: &Arc<Node>, task: &segno_node::StartedTask, commands: Vec<Command>) {
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let key = WorkflowKey::new(namespace.key, &task.run.info.workflow_id);
    let call = worker::complete_with(worker::token_of(task), commands);
    let run_id = task.run.info.run_id.clone();
    node.dispatch
        .complete_workflow_task(namespace, &key, &run_id, call, Default::default())
        .await
        .expect("it is taken");
}

/// A disk that is full degrades the node until there is room again: noticed by the next commit, or without one by a probe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_degrades_the_node_until_there_is_room() {
    let plan = FaultPlan::new();
    let node = Place::new().start(&plan).await;
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    for with_commit in [true, false] {
        assert_eq!(node.ill_health(), None);
        plan.fail_all_writes(Some(WriteFault::Full));
        let refused = node.runs.start_workflow(story::start(&namespace, "full")).await;
        assert!(matches!(refused, Err(CallError::StorageFull(_))), "{:?}", refused.err());
        // The first start fails before there is anything to commit.
        let degraded = async {
            while node.ill_health().is_none() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(5), degraded).await.expect("it is degraded");
        let why = node.ill_health().unwrap_or_default();
        assert!(why.starts_with("degraded: storage: the disk is full"), "{why}");
        plan.fail_all_writes(None);
        if with_commit {
            node.runs.start_workflow(story::start(&namespace, "room")).await.expect("there is room again");
            assert_eq!(node.ill_health(), None);
        }
    }
    let recovered = async {
        while node.ill_health().is_some() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), recovered).await.expect("a probe finds out");
    node.shut_down();
}
