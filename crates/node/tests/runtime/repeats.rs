//! A worker whose answer was taken and that never heard so: it answers again, here or after a restart of the node.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use segno_engine::{
    Rejection,
    activity::{self, ActivityRef},
    complete_task::CompleteTask,
    repeats::{self, Digest},
};
use segno_node::{
    CallError, CompletedTask, Environment, Node, NodeOptions, QueueKind, RunSelector, StartedActivity, StartedTask,
    WorkflowKey,
};
use segno_proto::command::{Command, command::Attributes};
use tokio::time::timeout;

use crate::common::{gate::Gate, story, worker};

const FIRST: Digest = Digest(1);
const OTHER: Digest = Digest(2);

async fn node_on(gate: &Arc<Gate>) -> Arc<Node> {
    Node::start(gate.clone(), Environment::of_machine(), NodeOptions::default()).await.expect("a node starts")
}

/// A workflow, and its first task in the hands of a worker.
async fn begun(node: &Arc<Node>) -> StartedTask {
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    node.runs.start_workflow(story::start(&namespace, "w")).await.expect("a workflow starts");
    let poll = worker::poll_of(node, QueueKind::Workflow, story::QUEUE);
    let task =
        node.dispatch.poll_here::<StartedTask>(&poll, None).await.expect("a poll works").expect("there is a task");
    task.delivery.delivered();
    task
}

async fn complete(node: &Arc<Node>, task: &StartedTask, call: &CompleteTask) -> Result<CompletedTask, CallError> {
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let key = WorkflowKey::new(namespace.key, &task.run.info.workflow_id);
    node.dispatch.complete_workflow_task(namespace, &key, &task.run.info.run_id, call.clone(), Default::default()).await
}

async fn result(node: &Arc<Node>, started: &StartedActivity, digest: Digest) -> Result<(), CallError> {
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let reference = ActivityRef::Token {
        scheduled_event_id: started.activity.scheduled_event_id,
        attempt: started.activity.attempt,
        started_time: started.activity.started_time,
    };
    let key = WorkflowKey::new(namespace.key, &started.run.info.workflow_id);
    let selector = RunSelector::run(started.run.info.run_id.clone());
    let apply = move |run: &_, context| {
        let completed = activity::complete(run, context, &reference, None, "worker".to_owned(), None);
        repeats::result(run, context, digest, completed)
    };
    node.runs.transact(&key, &selector, apply).await
}

fn eager(mut command: Command) -> Command {
    if let Some(Attributes::ScheduleActivityTaskCommandAttributes(attributes)) = &mut command.attributes {
        attributes.request_eager_execution = true;
    }
    command
}

fn is_unknown_task(refused: &Result<CompletedTask, CallError>) -> bool {
    matches!(refused, Err(CallError::Rejected(Rejection::TaskNotFound)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_answer_comes_again_also_from_another_node() {
    let gate = Arc::new(Gate::default());
    let node = node_on(&gate).await;
    let task = begun(&node).await;
    let mut call = worker::complete_with(worker::token_of(&task), vec![eager(story::activity("plain"))]);
    (call.digest, call.force_new_task, call.return_new_task) = (FIRST, true, true);
    call.eager_request_ids = vec!["eager".to_owned()];
    let first = complete(&node, &task, &call).await.expect("it is taken");
    first.delivery.as_ref().expect("it carries something").delivered();
    let first_task = first.new_task.expect("it carries a task");
    let expected = first_task.history.clone().into_history().events().expect("history can be read");
    let commits = gate.commits.load(Ordering::SeqCst);
    let other = CompleteTask { digest: OTHER, ..call.clone() };
    let mut here = node.clone();
    for _ in 0..2 {
        let repeat = complete(&here, &task, &call).await.expect("it was taken");
        assert!(repeat.completed.repeated);
        repeat.delivery.as_ref().expect("it carries something").delivered();
        let repeated = repeat.new_task.expect("it carries the task");
        assert_eq!(repeated.task, first_task.task);
        assert_eq!(repeated.history.into_history().events().expect("history can be read"), expected);
        let activities = |all: &[StartedActivity]| -> Vec<_> {
            all.iter().map(|started| (started.activity.clone(), started.scheduled.clone())).collect()
        };
        assert_eq!(activities(&repeat.activities), activities(&first.activities));
        assert!(is_unknown_task(&complete(&here, &task, &other).await));
        here = node_on(&gate).await;
    }
    assert_eq!(gate.commits.load(Ordering::SeqCst), commits, "a repeat stores nothing");
    // The token of the repeated answer is good.
    let next = worker::complete_with(worker::token_of(&first_task), vec![story::complete()]);
    let next = CompleteTask { digest: OTHER, ..next };
    complete(&here, &task, &next).await.expect("it is taken");
    let repeat = complete(&here, &task, &next).await.expect("it was taken");
    assert!(repeat.completed.repeated && repeat.new_task.is_none());
    assert!(is_unknown_task(&complete(&here, &task, &call).await), "only the last one is known");
}

/// A run that another one follows is no longer the current one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_run_knows_its_last_completion_and_results() {
    let gate = Arc::new(Gate::default());
    let node = node_on(&gate).await;
    let task = begun(&node).await;
    let call = worker::complete_with(worker::token_of(&task), vec![story::activity("plain")]);
    complete(&node, &task, &call).await.expect("it is taken");
    let poll = worker::poll_of(&node, QueueKind::Activity, story::QUEUE);
    let started = node
        .dispatch
        .poll_here::<StartedActivity>(&poll, None)
        .await
        .expect("a poll works")
        .expect("there is an activity");
    started.delivery.delivered();
    result(&node, &started, FIRST).await.expect("it is taken");
    let poll = worker::poll_of(&node, QueueKind::Workflow, story::QUEUE);
    let task =
        node.dispatch.poll_here::<StartedTask>(&poll, None).await.expect("a poll works").expect("there is a task");
    task.delivery.delivered();
    let mut call = worker::complete_with(worker::token_of(&task), vec![story::complete()]);
    call.digest = FIRST;
    complete(&node, &task, &call).await.expect("it is taken");
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let mut again = story::start(&namespace, "w");
    again.options.request_id = "another".to_owned();
    let current = node.runs.start_workflow(again).await.expect("a workflow starts");
    assert_ne!(current.run.info.run_id, task.run.info.run_id);
    for node in [node.clone(), node_on(&gate).await] {
        assert!(complete(&node, &task, &call).await.expect("it was taken").completed.repeated);
        assert!(is_unknown_task(&complete(&node, &task, &CompleteTask { digest: OTHER, ..call.clone() }).await));
        assert_eq!(result(&node, &started, FIRST).await, Ok(()));
        assert_eq!(result(&node, &started, OTHER).await, Err(CallError::Rejected(Rejection::Closed)));
    }
}

/// A repeat that comes while the first one is being stored is answered when that is stored, not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_waits_for_the_commit_of_the_first() {
    let gate = Arc::new(Gate::default());
    let node = node_on(&gate).await;
    let task = begun(&node).await;
    let mut call = worker::complete_with(worker::token_of(&task), vec![story::complete()]);
    call.digest = FIRST;
    gate.held.store(true, Ordering::SeqCst);
    let leaves = timeout(Duration::from_millis(50), complete(&node, &task, &call)).await;
    assert!(leaves.is_err(), "the caller leaves before the commit is done");
    let repeat = complete(&node, &task, &call);
    tokio::pin!(repeat);
    assert!(timeout(Duration::from_millis(50), &mut repeat).await.is_err(), "nothing is stored yet");
    gate.held.store(false, Ordering::SeqCst);
    assert!(repeat.await.expect("it was taken").completed.repeated);
}

/// If the first one was not stored, the repeat takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_of_what_was_not_stored_is_a_first() {
    let gate = Arc::new(Gate::default());
    let node = node_on(&gate).await;
    let task = begun(&node).await;
    let call = worker::complete_with(worker::token_of(&task), vec![story::activity("plain")]);
    complete(&node, &task, &call).await.expect("it is taken");
    let poll = worker::poll_of(&node, QueueKind::Activity, story::QUEUE);
    let started = node
        .dispatch
        .poll_here::<StartedActivity>(&poll, None)
        .await
        .expect("a poll works")
        .expect("there is an activity");
    started.delivery.delivered();
    gate.fails_once.store(true, Ordering::SeqCst);
    assert!(matches!(result(&node, &started, FIRST).await, Err(CallError::OutcomeUnknown(_))));
    assert_eq!(result(&node, &started, FIRST).await, Ok(()));
    let commits = gate.commits.load(Ordering::SeqCst);
    assert_eq!(result(&node, &started, FIRST).await, Ok(()));
    assert_eq!(gate.commits.load(Ordering::SeqCst), commits, "the second time it is a repeat");
}
