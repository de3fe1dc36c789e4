//! Calls that wait for one run, and the commit thread: calls share commits, a failed commit fails all its calls, waiting calls are
//! bounded.

use std::{sync::atomic::Ordering, time::Duration};

use segno_proto::enums::EventType;
use segno_runs::{CallError, with_request_bytes};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::common::{request, served, signal, start, stored};

/// Calls behind a commit that failed find the run as it is stored, not none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_behind_a_failed_commit_find_their_run() {
    let (runs, gate) = served().await;
    let (key, _) = start(&runs, "w").await;
    for _ in 0..5 {
        gate.held.store(true, Ordering::SeqCst);
        let mut calls = JoinSet::new();
        for number in 0..600 {
            let (runs, key) = (runs.clone(), key.clone());
            calls.spawn(async move { signal(&runs, &key, format!("s{number}")).await });
        }
        sleep(Duration::from_millis(50)).await;
        gate.fails_once.store(true, Ordering::SeqCst);
        gate.held.store(false, Ordering::SeqCst);
        let answers = calls.join_all().await;
        let fine = |answer: &Result<(), CallError>| matches!(answer, Ok(()) | Err(CallError::OutcomeUnknown(_)));
        assert!(answers.iter().all(fine), "{:?}", answers.iter().find(|answer| !fine(answer)));
        assert!(answers.iter().any(Result::is_ok), "only one commit failed");
    }
}

/// Calls that wait for the same run share a commit; each is answered, and history has all of them in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_a_run_share_its_commit() {
    let (runs, gate) = served().await;
    let (key, run) = start(&runs, "w").await;
    let before = gate.commits.load(Ordering::SeqCst);
    gate.held.store(true, Ordering::SeqCst);
    let mut calls = JoinSet::new();
    for number in 0..100 {
        let (runs, key) = (runs.clone(), key.clone());
        calls.spawn(async move { signal(&runs, &key, format!("s{number:03}")).await });
        if number == 0 {
            // The first one is on its way to the disk.
            sleep(Duration::from_millis(20)).await;
        }
    }
    sleep(Duration::from_millis(100)).await;
    assert!(calls.try_join_next().is_none(), "no caller is answered before the commit");
    gate.held.store(false, Ordering::SeqCst);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
    assert_eq!(gate.commits.load(Ordering::SeqCst) - before, 2, "one, and then all that waited for it");
    let (_, events) = stored::stored(&gate.memory, run).expect("it is stored");
    stored::history(&events).expect("ids have no gaps");
    let signals = events.iter().filter(|event| event.event_type() == EventType::WorkflowExecutionSignaled);
    assert_eq!(signals.count(), 100);
}

/// A commit that fails fails all calls in it, and the run goes on from what is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_commit_that_fails_fails_all_its_calls() {
    let (runs, gate) = served().await;
    let (key, run) = start(&runs, "w").await;
    gate.held.store(true, Ordering::SeqCst);
    let mut calls = JoinSet::new();
    for number in 0..20 {
        let (runs, key) = (runs.clone(), key.clone());
        calls.spawn(async move { signal(&runs, &key, format!("s{number}")).await });
    }
    sleep(Duration::from_millis(100)).await;
    gate.silent.store(true, Ordering::SeqCst);
    gate.held.store(false, Ordering::SeqCst);
    assert!(calls.join_all().await.iter().all(|answer| matches!(answer, Err(CallError::OutcomeUnknown(_)))));
    gate.silent.store(false, Ordering::SeqCst);
    signal(&runs, &key, "last".to_owned()).await.expect("the run goes on");
    let (_, events) = stored::stored(&gate.memory, run).expect("it is stored");
    stored::history(&events).expect("ids have no gaps");
}

/// Calls that wait for one workflow are limited; further calls are refused as busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_calls_on_one_workflow_are_refused() {
    let (runs, gate) = served().await;
    let (key, _) = start(&runs, "w").await;
    gate.held.store(true, Ordering::SeqCst);
    let mut calls = JoinSet::new();
    for number in 0..1100 {
        let (runs, key) = (runs.clone(), key.clone());
        calls.spawn(async move { signal(&runs, &key, format!("s{number}")).await });
    }
    let mut busy = 0;
    while let Ok(Some(Ok(answer))) = timeout(Duration::from_secs(2), calls.join_next()).await {
        assert_eq!(answer, Err(CallError::Busy));
        busy += 1;
    }
    assert!((90..=100).contains(&busy), "{busy}");
    gate.held.store(false, Ordering::SeqCst);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
}

/// Large calls that wait for one run are limited by their bytes as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_calls_on_one_workflow_are_refused() {
    let (runs, gate) = served().await;
    let (key, _) = start(&runs, "w").await;
    gate.held.store(true, Ordering::SeqCst);
    let mut calls = JoinSet::new();
    for number in 0..20 {
        let (runs, key) = (runs.clone(), key.clone());
        let call = async move { signal(&runs, &key, format!("s{number}")).await };
        calls.spawn(with_request_bytes(4 << 20, call));
    }
    let mut busy = 0;
    while let Ok(Some(Ok(answer))) = timeout(Duration::from_secs(2), calls.join_next()).await {
        assert_eq!(answer, Err(CallError::Busy));
        busy += 1;
    }
    assert_eq!(busy, 11, "one has the run, and 32 MiB wait");
    gate.held.store(false, Ordering::SeqCst);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
    // Nothing of them is still counted.
    for number in 0..9 {
        let call = signal(&runs, &key, format!("after{number}"));
        assert_eq!(with_request_bytes(4 << 20, call).await, Ok(()));
    }
}

/// A writer thread that panics is noticed: health tells, and the process that runs the runs is told to end it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_panics_is_noticed() {
    let (runs, gate) = served().await;
    assert_eq!(runs.lifecycle.failure(), None);
    gate.panics.store(true, Ordering::SeqCst);
    let namespace = runs.namespaces.get("default").expect("it is always there");
    assert!(runs.start_workflow(request(&namespace, "w")).await.is_err());
    let why = timeout(Duration::from_secs(5), runs.lifecycle.failed()).await.expect("it is noticed");
    assert!(why.contains("the writer thread"), "{why}");
    assert!(runs.lifecycle.failure().is_some());
    assert!(matches!(runs.start_workflow(request(&namespace, "x")).await, Err(CallError::Unavailable(_))));
}
