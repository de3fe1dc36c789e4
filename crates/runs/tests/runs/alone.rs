//! Runs without the crates above: starts, updates, limits, timers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use segno_engine::{script, update::admit::Admit};
use segno_environment::Environment;
use segno_proto::{
    enums::WorkflowIdConflictPolicy,
    nanos_duration,
    taskqueue::TaskQueue,
    update::{Input, Meta, Request},
};
use segno_runs::{CallError, NewNamespace, NodeOptions, RunSelector, WaitFor, WorkflowKey};
use segno_store::MemoryStore;
use tokio::time::{Instant, sleep, timeout};

use crate::common::{clock::JumpingClock, request, serve, served, start};

#[tokio::test]
async fn runs_need_no_scripts() {
    let store = Arc::new(MemoryStore::default());
    let runs = serve(store, &Environment::of_machine(), NodeOptions::default()).await;
    let namespace = runs.namespaces.get("default").expect("every store has it");
    let started = runs.start_workflow(request(&namespace, "w")).await.expect("it starts");
    assert!(started.started && started.run.state().script.is_none());
    let mut scripted = request(&namespace, "scripted");
    scripted.options.task_queue = Some(TaskQueue { name: script::QUEUE.to_owned(), ..Default::default() });
    let refused = runs.start_workflow(scripted).await.map(|_| ());
    assert!(matches!(refused, Err(CallError::NoScript(_))), "{refused:?}");
    runs.shut_down();
    runs.lifecycle.end();
    let freed = Arc::downgrade(&runs);
    drop((started, runs));
    let until_freed = async {
        while freed.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), until_freed).await.expect("nothing holds them");
}

/// An operator sets the clock forward while the only timer is far away: it fires soon after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_timer_notices_a_clock_that_is_set_forward() {
    let clock = Arc::new(JumpingClock::default());
    let store = Arc::new(MemoryStore::default());
    let runs = serve(store, &Environment::with_clock(clock.clone()), NodeOptions::default()).await;
    let namespace = runs.namespaces.get("default").expect("it is always there");
    let mut call = request(&namespace, "w");
    call.options.workflow_run_timeout = Some(nanos_duration(1800 * 1_000_000_000));
    runs.start_workflow(call).await.expect("a workflow starts");
    let key = WorkflowKey::new(namespace.key, "w");
    sleep(Duration::from_millis(50)).await;
    clock.jump(Duration::from_secs(3600));
    let closed = async {
        while runs.snapshot(&key, "").await.expect("it exists").run.is_running() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(Duration::from_secs(10), closed).await.is_ok(), "it sleeps on");
}

/// An update waits while its workflow is deleted. A deletion closes the run and removes it a moment later; whichever of
/// the two the caller notices, its answer is that the workflow was closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_a_deleted_workflow_hears_of_its_end() {
    let (runs, _gate) = served().await;
    for round in 0..200 {
        let (key, _) = start(&runs, &format!("deleted-{round}")).await;
        let asked = {
            let (runs, key) = (runs.clone(), key.clone());
            tokio::spawn(async move {
                let call = Admit::new(update("u"), false, Default::default());
                let until = Instant::now() + Duration::from_secs(10);
                runs.update_workflow(&key, &RunSelector::default(), call, WaitFor::Completed, until).await
            })
        };
        while runs.poll_update(&key, "", "u", WaitFor::Admitted, Instant::now()).await.is_err() {
            sleep(Duration::from_millis(1)).await;
        }
        runs.delete_run(&key, "").await.expect("it can be deleted");
        let answer = asked.await.expect("the caller does not panic");
        assert!(matches!(answer, Err(CallError::UpdateAborted(_))), "round {round}: {answer:?}");
    }
}

fn update(id: &str) -> Request {
    let meta = Meta { update_id: id.to_owned(), identity: "client".to_owned() };
    Request { meta: Some(meta), input: Some(Input { name: id.to_owned(), ..Default::default() }), ..Default::default() }
}

/// A start that finds its workflow does not count, nor does one that takes its place.
#[tokio::test]
async fn only_new_workflows_count() {
    let (runs, _gate) = served().await;
    let data = BTreeMap::from([("segno.limit.open-workflows".to_owned(), "1".to_owned())]);
    let new = NewNamespace { name: "limited".to_owned(), data, ..Default::default() };
    let limited = runs.namespaces.register(&*runs.store, &runs.ids, new).await.expect("the name is free");
    for _ in 0..3 {
        runs.start_workflow(request(&limited, "one")).await.expect("the same request");
    }
    let mut again = request(&limited, "one");
    again.options.request_id = "again".to_owned();
    again.options.conflict_policy = WorkflowIdConflictPolicy::TerminateExisting;
    runs.start_workflow(again).await.expect("it takes the place of the other");
    let refused = runs.start_workflow(request(&limited, "two")).await.map(|_| ());
    assert!(matches!(refused, Err(CallError::StartRefused(_))), "{refused:?}");
}
