//! Things that happen in the same moment, made to happen: what must come next is never forgotten.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use segno_engine::{
    signal::{self, Signal},
    terminate::{self, Terminate},
};
use segno_node::{Environment, Node, NodeOptions, RunSelector, WorkflowKey};
use segno_proto::enums::{EventType, WorkflowExecutionStatus};
use tokio::time::{Instant, sleep};

use crate::common::{check, gate::Gate, story, worker};

async fn node() -> (Arc<Node>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let node =
        Node::start(gate.clone(), Environment::of_machine(), NodeOptions::default()).await.expect("a node starts");
    (node, gate)
}

async fn start(node: &Arc<Node>, id: &str) -> WorkflowKey {
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    node.runs.start_workflow(story::start(&namespace, id)).await.expect("a workflow starts");
    WorkflowKey::new(namespace.key, id)
}

/// The child was started, the report to its parent failed, and the parent is terminated before the report is repeated:
/// the parent close policy must reach the child all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_whose_start_was_not_reported_hears_of_its_parents_end() {
    let (node, gate) = node().await;
    let parent = start(&node, "parent").await;
    gate.closed.store(true, Ordering::SeqCst);
    worker::first_turn(&node, vec![story::child()]).await;
    let child = WorkflowKey::new(parent.namespace, "child");
    while node.runs.snapshot(&child, "").await.is_err() {
        sleep(Duration::from_millis(1)).await;
    }
    let end = |run: &_, context| terminate::terminate(run, context, Terminate::default());
    node.runs.transact(&parent, &RunSelector::default(), end).await.expect("the parent is terminated");
    gate.closed.store(false, Ordering::SeqCst);
    for _ in 0..300 {
        let child = node.runs.snapshot(&child, "").await.expect("the child was started");
        if child.run.status() == WorkflowExecutionStatus::Terminated {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("the child runs on without a parent");
}

/// The signal arrived and the target completed because of it, but the report to the sender failed: when it is repeated
/// the sender must not hear that the signal failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_that_arrived_is_not_reported_as_failed() {
    let (node, gate) = node().await;
    let target = start(&node, "target").await;
    worker::first_turn(&node, Vec::new()).await;
    let sender = start(&node, "sender").await;
    gate.closed.store(true, Ordering::SeqCst);
    worker::first_turn(&node, vec![story::signal("target", "hello")]).await;
    worker::first_turn(&node, vec![story::complete()]).await;
    let status = node.runs.snapshot(&target, "").await.expect("the target exists").run.status();
    assert_eq!(status, WorkflowExecutionStatus::Completed, "the signal woke the target");
    gate.closed.store(false, Ordering::SeqCst);
    for _ in 0..500 {
        let run = &node.runs.snapshot(&sender, "").await.expect("the sender exists").run;
        if run.state().external_signals.is_empty() {
            let key = segno_store::RunKey(run.info.run_key);
            let (_, events) = check::stored(&gate.memory, key).expect("the sender is stored");
            let heard: Vec<_> = events.iter().map(|event| event.event_type()).collect();
            assert!(heard.contains(&EventType::ExternalWorkflowExecutionSignaled), "the sender heard {heard:?}");
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("the sender hears nothing");
}

/// An activity's back-off ends while other things happen to its run: the next attempt is offered nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_not_forgotten_when_other_things_happen() {
    let (node, _gate) = node().await;
    for round in 0..10 {
        let key = start(&node, &format!("busy-{round}")).await;
        worker::first_turn(&node, vec![story::activity("flaky")]).await;
        worker::fail_activity(&node).await;
        // The back-off takes 10 ms.
        let quiet = Instant::now() + Duration::from_millis(20);
        while Instant::now() < quiet {
            let call = Signal { name: "noise".to_owned(), ..Default::default() };
            node.runs
                .transact(&key, &RunSelector::default(), move |run, context| signal::signal(run, context, call))
                .await
                .expect("a signal arrives");
        }
        let again = tokio::time::timeout(Duration::from_secs(2), worker::fail_activity(&node)).await;
        assert!(again.is_ok(), "round {round}: the second attempt is never offered");
        let end = |run: &_, context| terminate::terminate(run, context, Terminate::default());
        node.runs.transact(&key, &RunSelector::default(), end).await.expect("the workflow is terminated");
    }
}
