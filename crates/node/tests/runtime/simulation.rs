//! A node in simulated time: with the same seed it does the same, to the byte.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use segno_node::{Environment, Ids, Node, NodeOptions, RuntimeClock, seed_thread};
use segno_store::{MemoryStore, NamespaceKey, RunKey, Store, Wait};
use tokio::{runtime::Builder, task::JoinSet, time::sleep};

use crate::common::{Place, story, worker};

/// When the simulation begins, in nanoseconds since the epoch.
const BEGIN: i64 = 1_700_000_000_000_000_000;
/// Workflows that a client starts, and those that come of them. Workflows with updates are left out: the answers of their
/// workers are numbered in the process.
const STARTED: [&str; 3] = ["target", "parent", "chain"];
const ALL: [&str; 4] = ["target", "parent", "chain", "child"];

/// Batches of history by run, as they are stored.
type Histories = Vec<(RunKey, Vec<(i64, i64, Bytes)>)>;

/// One life of a node with timers, activities that are retried, a child, signals and a chain of runs.
fn life(seed: u64) -> Histories {
    seed_thread(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let place = Place::new();
        let environment = Environment {
            clock: Arc::new(RuntimeClock::from(BEGIN)),
            random: Arc::new(Ids::of_seed(seed)),
            threads: None,
            cores: 1,
            ..Environment::of_machine()
        };
        let node = Node::start(place.memory.clone(), environment, NodeOptions::default()).await;
        place.node.send_replace(Some(node.expect("a node starts")));
        let (ledger, seen) = (worker::Ledger::default(), worker::Seen::default());
        let mut workers = JoinSet::new();
        for _ in 0..2 {
            workers.spawn(worker::workflow_worker(place.clone(), seen.clone(), story::QUEUE));
        }
        workers.spawn(worker::activity_worker(place.clone(), ledger.clone()));
        for id in STARTED {
            worker::start(&place, &ledger, id).await;
        }
        worker::send_signal(&place, &ledger, "parent").await;
        for id in ALL {
            while !worker::is_closed(&place, id).await {
                sleep(Duration::from_millis(5)).await;
            }
        }
        workers.shutdown().await;
        histories(&place.memory)
    })
}

fn histories(store: &MemoryStore) -> Histories {
    let runs = store.runs_of(NamespaceKey(1), None, 100).wait().expect("memory can be read");
    let history = |run| store.history(run, 1, i64::MAX, usize::MAX, usize::MAX).wait().expect("memory can be read");
    runs.into_iter()
        .map(|run| {
            let batches = history(run).into_iter();
            (run, batches.map(|batch| (batch.first_event_id, batch.last_event_id, batch.events)).collect())
        })
        .collect()
}

#[test]
fn equal_seeds_give_equal_histories() {
    let first = life(7);
    assert!(first.len() > ALL.len(), "the chain has two runs");
    assert!(first.iter().map(|(_, batches)| batches.len()).sum::<usize>() > 20, "much happens");
    assert!(life(7) == first, "the same seed");
    assert!(life(8) != first, "another seed: ids differ");
}
