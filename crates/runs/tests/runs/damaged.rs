//! Runs that cannot be read: they can be deleted and terminated, and their workflow ids can be used again.

use segno_proto::{common::RetryPolicy, enums::WorkflowExecutionStatus};
use segno_runs::{CallError, WorkflowKey};
use segno_store::{Commit, CurrentReset, RunKey, Store, Wait};

use crate::common::{forgetful, request, served_with, start, terminate};

/// There is a way out: a damaged run can be deleted, and its workflow id used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_run_can_be_deleted() {
    let (runs, gate) = served_with(forgetful()).await;
    let (key, run) = start(&runs, "w").await;
    let run_id = runs.snapshot(&key, "").await.expect("it exists").run.info.run_id.clone();
    gate.damaged.lock().expect("no holder panics").insert(run);
    // Runs leave memory when others come.
    for id in 0..100 {
        start(&runs, &format!("other{id}")).await;
    }
    assert!(matches!(runs.snapshot(&key, "").await, Err(CallError::DataLoss(_))), "it is damaged");
    let other = WorkflowKey::new(key.namespace, "other1");
    assert!(runs.delete_run(&other, &run_id).await.is_err(), "it does not belong to that workflow");
    let healthy = runs.snapshot(&other, "").await.expect("it exists").run.info.run_id.to_uppercase();
    assert!(runs.delete_run(&other, &healthy).await.is_err(), "that is another id, and nothing is wrong with the run");
    assert!(runs.snapshot(&other, "").await.expect("it exists").run.is_running());
    runs.delete_run(&key, "").await.expect("it can be deleted");
    assert_eq!(gate.memory.current(key.namespace, "w").wait(), Ok(None));
    start(&runs, "w").await;
}

/// Runs whose state is there are terminated by a transition, though their pointer or their first event is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_its_pointer_or_its_start_is_terminated_as_others_are() {
    let (runs, gate) = served_with(forgetful()).await;
    let (lost, lost_run) = start(&runs, "lost").await;
    let namespace = runs.namespaces.get("default").expect("it is always there");
    let mut retried = request(&namespace, "retried");
    retried.options.retry_policy = Some(RetryPolicy { maximum_attempts: 3, ..Default::default() });
    let retried_run = RunKey(runs.start_workflow(retried).await.expect("a workflow starts").run.info.run_key);
    for id in 0..100 {
        start(&runs, &format!("other{id}")).await;
    }
    let reset = CurrentReset { namespace: namespace.key, workflow_id: "lost".to_owned(), current: None };
    let done = gate.memory.commit(vec![Commit { current_reset: vec![reset], ..Default::default() }]).wait();
    assert_eq!(done, [Ok(())]);
    gate.without_history.lock().expect("no holder panics").insert(retried_run);
    for (key, run) in [(lost, lost_run), (WorkflowKey::new(namespace.key, "retried"), retried_run)] {
        assert!(runs.snapshot(&key, "").await.is_err(), "{}: it is damaged", key.workflow_id);
        terminate(&runs, &key, "", "").await.expect("it can be terminated");
        let found = runs.snapshot(&key, "").await.expect("it can be read now");
        assert_eq!((found.key(), found.run.status()), (run, WorkflowExecutionStatus::Terminated));
        let last = gate.memory.history_reverse(run, i64::MAX, 1).wait().expect("it is readable").remove(0);
        assert_eq!(last.last_event_id, 3, "{}: its history ends with the termination", key.workflow_id);
        start(&runs, &key.workflow_id).await;
    }
}
