//! A node that was stopped leaves nothing behind in memory: its parts hold each other in one direction only.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use segno_node::{Environment, Node, NodeOptions, QueueKind, StartedTask};
use segno_store::{MemoryStore, Store};
use tokio::time::{Instant, sleep};

use crate::common::{story, worker};

#[tokio::test]
async fn a_node_that_was_stopped_is_freed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let node = Node::start(store, Environment::of_machine(), NodeOptions::default()).await.expect("the node starts");
    let namespace = node.runs.namespaces.get("default").expect("it is there");
    node.runs.start_workflow(story::start(&namespace, "w")).await.expect("a workflow starts");
    let poll = worker::poll_of(&node, QueueKind::Workflow, story::QUEUE);
    let task = node.dispatch.poll_here::<StartedTask>(&poll, None).await.expect("a poll works").expect("a task waits");
    let (runs, dispatch) = (Arc::downgrade(&node.runs), Arc::downgrade(&node.dispatch));
    let (matching, workers) = (Arc::downgrade(&node.matching), Arc::downgrade(&node.workers));
    node.shut_down();
    node.end();
    drop(node);
    // Loops end when they see that the node stops.
    let until = Instant::now() + Duration::from_secs(20);
    let parts_left = || is_left(&runs) + is_left(&dispatch) + is_left(&matching) + is_left(&workers);
    while parts_left() > 0 && Instant::now() < until {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(parts_left(), 0, "a part holds another one that holds it");
    // A worker that leaves later finds no node to give its task back to.
    drop(task);
}

fn is_left<T>(part: &Weak<T>) -> usize {
    usize::from(part.strong_count() > 0)
}
