//! Storage fails at every write and every read in turn, or the node dies after every commit: the same workflows come to
//! the same end, nothing that was acknowledged is lost, nothing happens twice.
//!
//! Each test runs its trials side by side and reports all that went wrong.

use std::{sync::Arc, time::Duration};

use segno_store::{
    ReadError,
    fault::{Calls, FaultPlan, WriteFault},
};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::common::{Place, check, story, worker};

/// Longest life of one trial; an untroubled one takes little more than a second.
const TRIAL_MAX: Duration = Duration::from_secs(8);
/// Trials side by side.
const TRIALS: usize = 48;

/// What happens to the node of a trial.
#[derive(Clone, Debug)]
enum Trouble {
    None,
    Write(u64, WriteFault),
    Read(u64),
    /// After this many writes no write succeeds, and another node takes over.
    DiesAfter(u64),
}

/// One life of all workflows, with some trouble.
async fn trial(trouble: Trouble) -> Result<Calls, String> {
    let place = Place::new();
    let plan = FaultPlan::new();
    match &trouble {
        Trouble::None => {}
        Trouble::Write(nth, fault) => plan.fail_write(*nth, *fault),
        Trouble::Read(nth) => plan.fail_read(*nth, ReadError::Failed("injected fault".to_owned())),
        Trouble::DiesAfter(last) => {
            for nth in last + 1..last + 2000 {
                plan.fail_write(nth, WriteFault::NotDone);
            }
        }
    }
    let ledger = worker::Ledger::default();
    let mut helpers = JoinSet::new();
    let seen = worker::Seen::default();
    for queue in [story::QUEUE, story::QUEUE, story::STICKY_QUEUE] {
        helpers.spawn(worker::workflow_worker(place.clone(), seen.clone(), queue));
    }
    helpers.spawn(worker::activity_worker(place.clone(), ledger.clone()));
    helpers.spawn(supervise(place.clone(), plan.clone(), trouble.clone()));
    let done = tokio::time::timeout(TRIAL_MAX, worker::client(place.clone(), ledger.clone())).await;
    // The last messages may still be on their way.
    let acknowledged = || ledger.lock().expect("no holder panics").clone();
    let mut result = Err("not checked".to_owned());
    for _ in 0..100 {
        result = check::everything(&place.memory, &acknowledged());
        if result.is_ok() || done.is_err() {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    while let Some(finished) = helpers.try_join_next() {
        if let Err(error) = finished
            && error.is_panic()
        {
            result = Err(format!("a worker panicked: {error}"));
        }
    }
    helpers.shutdown().await;
    if let Some(node) = place.current() {
        node.shut_down();
    }
    result.map_err(|error| format!("{trouble:?}: {error}")).map(|()| plan.calls())
}

/// Starts the node, and another one when it dies.
async fn supervise(place: Place, plan: FaultPlan, trouble: Trouble) {
    let node = place.start(&plan).await;
    let Trouble::DiesAfter(last) = trouble else { return };
    while plan.calls().writes <= last {
        sleep(Duration::from_millis(1)).await;
    }
    place.node.send_replace(None);
    plan.fail_all_reads(Some(ReadError::Failed("dead".to_owned())));
    node.shut_down();
    // Time went on while no node was there.
    place.clock.jump(Duration::from_secs(2));
    place.start(&FaultPlan::new()).await;
}

/// Runs trials side by side; panics with everything that went wrong.
async fn all(troubles: Vec<Trouble>) {
    let permits = Arc::new(Semaphore::new(TRIALS));
    let mut trials = JoinSet::new();
    let count = troubles.len();
    for trouble in troubles {
        let permits = permits.clone();
        trials.spawn(async move {
            let _permit = permits.acquire_owned().await.expect("it is never closed");
            trial(trouble).await
        });
    }
    let mut wrong = Vec::new();
    while let Some(finished) = trials.join_next().await {
        if let Err(error) = finished.expect("a trial does not panic") {
            wrong.push(error);
        }
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{} of {count} trials went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

async fn calls_without_trouble() -> Calls {
    trial(Trouble::None).await.expect("without trouble everything works")
}

fn write_positions(calls: Calls, fault: WriteFault) -> Vec<Trouble> {
    (1..=calls.writes).map(|nth| Trouble::Write(nth, fault)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_that_is_not_done() {
    all(write_positions(calls_without_trouble().await, WriteFault::NotDone)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_that_is_done_but_reported_as_unknown() {
    all(write_positions(calls_without_trouble().await, WriteFault::DoneButUnknown)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_for_which_there_is_no_room() {
    all(write_positions(calls_without_trouble().await, WriteFault::Full)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_that_fails() {
    let calls = calls_without_trouble().await;
    all((1..=calls.reads).map(Trouble::Read).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_dies() {
    let calls = calls_without_trouble().await;
    // The first two writes are the namespace and the run keys.
    all((2..calls.writes).map(Trouble::DiesAfter).collect()).await;
}
