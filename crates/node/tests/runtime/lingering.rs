//! Tasks that outlive the run of a script: they are carried out when the run completed, when it continued as new, and when
//! another run took its workflow id; with retries and time-outs, by workers that come later, after a restart.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use segno_engine::{
    Rejection,
    activity::{self, ActivityRef},
};
use segno_node::{
    CallError, Environment, Namespace, NewNamespace, Node, NodeOptions, QueueKind, RunSelector, Source,
    StartedActivity, WorkflowKey,
};
use segno_store::NamespaceKey;
use tokio::time::{sleep, timeout};

use crate::common::{JumpingClock, gate::Gate, story, worker};

const CONTINUES: &str = "workflow w(n = 0) {
  Task.run(\"t\", n, { queue: \"story\", start_to_close: \"10s\", retry: { initial_interval: \"1s\", max_attempts: 2 } })
  if (n < 2) return Workflow.continueAsNew(n + 1)
  return n
}";
const COMPLETES: &str = "workflow w() { Task.run(\"t\", 0, { queue: \"story\" }); return 1 }";

struct Place {
    gate: Arc<Gate>,
    clock: Arc<JumpingClock>,
    options: NodeOptions,
}

impl Place {
    fn new(cache_bytes_max: usize) -> Self {
        let options = NodeOptions { cache_bytes_max, ..Default::default() };
        Self { gate: Arc::default(), clock: Arc::default(), options }
    }

    fn jump(&self, node: &Node, seconds: u64) {
        self.clock.jump(Duration::from_secs(seconds));
        node.runs.clock_moved();
        node.namespaces.check_retention();
    }

    async fn node(&self) -> Arc<Node> {
        let node = Node::start(self.gate.clone(), Environment::with_clock(self.clock.clone()), self.options).await;
        node.expect("a node starts")
    }
}

async fn deploy(node: &Arc<Node>, text: &str) {
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let text = text.replace("\"story\"", &format!("{:?}", story::QUEUE)).into_bytes();
    let source = Source { text, activate: true, ..Default::default() };
    node.scripts.deploy(namespace, source).await.expect("it is deployed");
}

async fn start(node: &Arc<Node>, namespace: &Namespace, request_id: &str) -> String {
    let mut start = story::start(namespace, "w");
    start.options.request_id = request_id.to_owned();
    node.runs.start_workflow(start).await.expect("it starts").run.info.run_id.clone()
}

async fn poll(node: &Arc<Node>, namespace: NamespaceKey) -> Option<StartedActivity> {
    let mut poll = worker::poll_of(node, QueueKind::Activity, story::QUEUE);
    poll.queue.namespace = namespace;
    let started = node.dispatch.poll_here::<StartedActivity>(&poll, None).await.expect("a poll works")?;
    started.delivery.delivered();
    Some(started)
}

async fn next(node: &Arc<Node>) -> StartedActivity {
    let namespace = node.runs.namespaces.get("default").expect("it is always there").key;
    let found = async {
        loop {
            if let Some(started) = poll(node, namespace).await {
                return started;
            }
        }
    };
    timeout(Duration::from_secs(10), found).await.expect("an activity is offered")
}

fn key_of(started: &StartedActivity) -> (WorkflowKey, RunSelector, ActivityRef) {
    let info = &started.run.info;
    let reference = ActivityRef::Token {
        scheduled_event_id: started.activity.scheduled_event_id,
        attempt: started.activity.attempt,
        started_time: started.activity.started_time,
    };
    let key = WorkflowKey::new(NamespaceKey(info.namespace_key), &info.workflow_id);
    (key, RunSelector::run(info.run_id.clone()), reference)
}

async fn complete(node: &Arc<Node>, started: &StartedActivity) -> Result<(), CallError> {
    let (key, selector, reference) = key_of(started);
    let complete =
        move |run: &_, context| activity::complete(run, context, &reference, None, "worker".to_owned(), None);
    node.runs.transact(&key, &selector, complete).await
}

async fn fail(node: &Arc<Node>, started: &StartedActivity) {
    let (key, selector, reference) = key_of(started);
    let fail = move |run: &_, context| activity::fail(run, context, &reference, None, String::new(), None, None);
    node.runs.transact(&key, &selector, fail).await.expect("it is taken");
}

async fn pending(node: &Arc<Node>, started: &StartedActivity) -> usize {
    let (key, selector, _) = key_of(started);
    node.runs.snapshot(&key, &selector.run_id).await.expect("it is kept").run.state().activities.len()
}

async fn closed(node: &Arc<Node>, key: &WorkflowKey, run_id: &str) {
    let closed = async {
        loop {
            let current = node.runs.snapshot(key, "").await.expect("it exists").run.clone();
            if !current.is_running() && current.info.first_run_id == run_id {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), closed).await.expect("it closes");
}

/// With a cache that forgets runs at once, and with one that does not.
async fn tasks_of_a_chain_are_carried_out(cache_bytes_max: usize, restarts: bool) {
    let place = Place::new(cache_bytes_max);
    let mut node = place.node().await;
    deploy(&node, CONTINUES).await;
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let key = WorkflowKey::new(namespace.key, "w");
    let first = start(&node, &namespace, "one").await;
    // Runs of a chain begin a second apart.
    for _ in 0..3 {
        place.jump(&node, 2);
        sleep(Duration::from_millis(20)).await;
    }
    closed(&node, &key, &first).await;
    let mut held = vec![next(&node).await, next(&node).await, next(&node).await];
    held.sort_by_key(|started| started.run.info.run_key);
    let runs: BTreeSet<_> = held.iter().map(|started| started.run.info.run_id.clone()).collect();
    assert_eq!(runs.len(), 3, "each run of the chain has one");
    if restarts {
        node.shut_down();
        node = place.node().await;
    }
    // The first ends, the second fails and is tried again, the third is forgotten by its worker.
    complete(&node, &held[0]).await.expect("it is taken");
    assert_eq!(pending(&node, &held[0]).await, 0);
    assert_eq!(complete(&node, &held[0]).await, Err(CallError::Rejected(Rejection::Closed)));
    fail(&node, &held[1]).await;
    place.jump(&node, 2);
    let again = next(&node).await;
    assert_eq!((&again.run.info.run_id, again.activity.attempt), (&held[1].run.info.run_id, 2));
    place.jump(&node, 9);
    let again = next(&node).await;
    assert_eq!((&again.run.info.run_id, again.activity.attempt), (&held[2].run.info.run_id, 2));
    complete(&node, &again).await.expect("it is taken");
    // The second attempt of the second one times out, and there is no third.
    place.jump(&node, 10);
    let over = async {
        while pending(&node, &held[1]).await > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), over).await.expect("it times out");
    for started in &held {
        let run = crate::common::check::stored(&place.gate.memory, segno_store::RunKey(started.run.info.run_key));
        let (_, events) = run.expect("it is stored");
        crate::common::check::history(&events).expect("history is as it was");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_runs_that_continued_as_new() {
    tasks_of_a_chain_are_carried_out(64 << 20, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_runs_that_left_memory() {
    tasks_of_a_chain_are_carried_out(1, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_runs_before_a_restart() {
    tasks_of_a_chain_are_carried_out(64 << 20, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_run_whose_id_another_one_took() {
    let place = Place::new(64 << 20);
    let node = place.node().await;
    deploy(&node, COMPLETES).await;
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let key = WorkflowKey::new(namespace.key, "w");
    let first = start(&node, &namespace, "one").await;
    closed(&node, &key, &first).await;
    let held = next(&node).await;
    let second = start(&node, &namespace, "two").await;
    closed(&node, &key, &second).await;
    let third = start(&node, &namespace, "three").await;
    closed(&node, &key, &third).await;
    complete(&node, &held).await.expect("it is taken");
    let runs = [next(&node).await, next(&node).await].map(|started| started.run.info.run_id.clone());
    assert_eq!(BTreeSet::from(runs), BTreeSet::from([second.clone(), third]));
    // One that is deleted takes its tasks with it.
    node.runs.delete_run(&key, &second).await.expect("it is deleted");
    place.jump(&node, 100_000);
    sleep(Duration::from_millis(100)).await;
    assert!(matches!(node.runs.snapshot(&key, &second).await, Err(CallError::RunNotFound { .. })));
}

/// Retention begins when a run closes, and waits for its tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_kept_until_its_tasks_are_over() {
    let place = Place::new(64 << 20);
    let node = place.node().await;
    let retention = 3600 * 1_000_000_000;
    let new = NewNamespace { name: "short".to_owned(), retention, ..Default::default() };
    let namespace = node.namespaces.register(new).await.expect("it is registered");
    let text = COMPLETES.replace("\"story\"", &format!("{:?}", story::QUEUE)).into_bytes();
    let source = Source { text, activate: true, ..Default::default() };
    node.scripts.deploy(namespace.clone(), source).await.expect("it is deployed");
    let key = WorkflowKey::new(namespace.key, "w");
    let first = start(&node, &namespace, "one").await;
    closed(&node, &key, &first).await;
    let second = start(&node, &namespace, "two").await;
    closed(&node, &key, &second).await;
    let exists = |run_id: String| {
        let (node, key) = (node.clone(), key.clone());
        async move { node.runs.snapshot(&key, &run_id).await.is_ok() }
    };
    place.jump(&node, 7200);
    sleep(Duration::from_millis(1500)).await;
    assert!(exists(first.clone()).await && exists(second.clone()).await, "their tasks wait");
    let started = poll(&node, namespace.key).await.expect("it is offered");
    complete(&node, &started).await.expect("it is taken");
    let gone = async {
        while exists(started.run.info.run_id.clone()).await {
            place.jump(&node, 61);
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(20), gone).await.expect("it is over");
    let other = if started.run.info.run_id == first { second } else { first };
    assert!(exists(other).await, "its task waits");
}
