//! Namespaces over time: closed runs go when their retention is over, deleted namespaces go with everything in them,
//! and a restart in the middle changes nothing.

use std::{sync::Arc, time::Duration};

use segno_engine::terminate::{self, Terminate};
use segno_proto::enums::NamespaceState;
use segno_runs::{CallError, Namespace, NamespaceDetail, NamespaceName, NewNamespace, RunSelector, WorkflowKey};
use segno_store::{
    NamespaceKey, ReadError, Store, Wait,
    fault::{FaultPlan, WriteFault},
};
use tokio::time::sleep;

use crate::common::{Place, Served, request};

const HOUR: Duration = Duration::from_secs(3600);

async fn namespace(node: &Served, name: &str, retention: Duration) -> Arc<Namespace> {
    let retention = retention.as_nanos() as i64;
    let new = NewNamespace { name: name.to_owned(), retention, ..Default::default() };
    node.namespaces.register(new).await.expect("the name is free")
}

async fn start(node: &Served, namespace: &Namespace, id: &str) -> WorkflowKey {
    node.runs.start_workflow(request(namespace, id)).await.expect("a workflow starts");
    WorkflowKey::new(namespace.key, id)
}

async fn close(node: &Served, key: &WorkflowKey) {
    let end = |run: &_, context| terminate::terminate(run, context, Terminate::default());
    node.runs.transact(key, &RunSelector::default(), end).await.expect("it runs");
}

async fn is_there(node: &Served, key: &WorkflowKey) -> bool {
    match node.runs.snapshot(key, "").await {
        Ok(_) => true,
        Err(CallError::WorkflowNotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn until_gone(node: &Served, key: &WorkflowKey) {
    for _ in 0..500 {
        if !is_there(node, key).await {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{key:?} is still there");
}

fn jump(place: &Place, node: &Served, by: Duration) {
    place.clock.jump(by);
    node.namespaces.check_retention();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_runs_go_when_their_time_is_over_and_open_ones_stay() {
    let place = Place::default();
    let node = place.start(&FaultPlan::new()).await;
    let (short, long) = (namespace(&node, "short", HOUR).await, namespace(&node, "long", 48 * HOUR).await);
    let mut keys = Vec::new();
    for id in ["closed", "open"] {
        keys.push(start(&node, &short, id).await);
    }
    let kept = start(&node, &long, "closed").await;
    close(&node, &keys[0]).await;
    close(&node, &kept).await;

    jump(&place, &node, HOUR / 2);
    sleep(Duration::from_millis(100)).await;
    assert!(is_there(&node, &keys[0]).await, "half of its time is left");

    jump(&place, &node, HOUR);
    until_gone(&node, &keys[0]).await;
    assert!(is_there(&node, &keys[1]).await, "it is open");
    assert!(is_there(&node, &kept).await, "its namespace keeps it longer");
    assert_eq!(place.memory.first_close(short.key).wait(), Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_runs_of_a_workflow_go_and_the_current_one_stays() {
    let place = Place::default();
    let node = place.start(&FaultPlan::new()).await;
    let namespace = namespace(&node, "n", HOUR).await;
    let key = start(&node, &namespace, "w").await;
    close(&node, &key).await;
    let mut again = request(&namespace, "w");
    again.options.request_id = "again".to_owned();
    node.runs.start_workflow(again).await.expect("the id may be used again");
    jump(&place, &node, 2 * HOUR);
    for _ in 0..500 {
        if place.memory.runs_of(namespace.key, None, 10).wait().map(|runs| runs.len()) == Ok(1) {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(place.memory.runs_of(namespace.key, None, 10).wait().map(|runs| runs.len()), Ok(1));
    assert!(node.runs.snapshot(&key, "").await.expect("the current run stays").run.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_retention_counts_for_runs_that_closed_before() {
    let place = Place::default();
    let node = place.start(&FaultPlan::new()).await;
    let namespace = namespace(&node, "n", 1000 * HOUR).await;
    let key = start(&node, &namespace, "w").await;
    close(&node, &key).await;
    jump(&place, &node, 3 * HOUR);
    sleep(Duration::from_millis(50)).await;
    assert!(is_there(&node, &key).await);
    let shorter = |detail: &mut NamespaceDetail| {
        detail.retention = 2 * HOUR.as_nanos() as i64;
        Ok(())
    };
    node.namespaces.change(NamespaceName::Name("n".to_owned()), shorter).await.expect("it is there");
    until_gone(&node, &key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expired_while_no_node_ran_goes_at_the_next_start() {
    let place = Place::default();
    let node = place.start(&FaultPlan::new()).await;
    let namespace = namespace(&node, "n", HOUR).await;
    let mut keys = Vec::new();
    // More than one page.
    for id in 0..150 {
        let key = start(&node, &namespace, &format!("w{id}")).await;
        close(&node, &key).await;
        keys.push(key);
    }
    node.shut_down();
    place.clock.jump(2 * HOUR);
    let plan = FaultPlan::new();
    // The first looks fail as well.
    plan.fail_write(3, WriteFault::NotDone);
    let node = place.start(&plan).await;
    node.namespaces.check_retention();
    for key in &keys {
        until_gone(&node, key).await;
    }
}

/// Waits until a namespace and everything in it is gone.
async fn until_deleted(place: &Place, node: &Served, deleted: &Namespace) {
    for _ in 0..1000 {
        if node.runs.namespaces.find(&NamespaceName::Id(deleted.detail.id.clone())).is_none() {
            let stored = place.memory.namespaces().wait().expect("the store can be read");
            assert!(stored.iter().all(|record| record.key != deleted.key));
            assert_eq!(place.memory.runs_of(deleted.key, None, 10).wait(), Ok(Vec::new()));
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{} is still there", deleted.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_namespace_frees_its_name_at_once_and_takes_its_runs_along() {
    let place = Place::default();
    let node = place.start(&FaultPlan::new()).await;
    let old = namespace(&node, "n", HOUR).await;
    let mut keys = Vec::new();
    for id in 0..100 {
        let key = start(&node, &old, &format!("w{id}")).await;
        if id % 2 == 0 {
            close(&node, &key).await;
        }
        keys.push(key);
    }
    let by_name = NamespaceName::Name("n".to_owned());
    let name = node.namespaces.delete(by_name, 0).await.expect("it is there");
    assert_eq!(name, format!("n-deleted-{}", &old.detail.id[..5]));
    assert_eq!(node.runs.namespaces.get(&name).map(|namespace| namespace.state()), Some(NamespaceState::Deleted));
    assert!(node.runs.namespaces.live(&name).is_none() && node.runs.namespaces.get("n").is_none());

    // The name is used again while the old runs go.
    let new = namespace(&node, "n", HOUR).await;
    assert!(new.key > old.key);
    let same_id = start(&node, &new, "w1").await;
    // Deleting it twice is deleting it once.
    let by_id = NamespaceName::Id(old.detail.id.clone());
    assert_eq!(node.namespaces.delete(by_id, 0).await, Ok(name));
    until_deleted(&place, &node, &old).await;
    for key in &keys {
        assert_eq!(place.memory.current(old.key, &key.workflow_id).wait(), Ok(None));
    }
    assert!(is_there(&node, &same_id).await);
    let unknown = node.namespaces.delete(NamespaceName::Name("nowhere".to_owned()), 0).await;
    assert_eq!(unknown, Err(CallError::NamespaceNotFound("nowhere".to_owned())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_goes_on_after_a_restart_in_the_middle() {
    let place = Place::default();
    let plan = FaultPlan::new();
    let node = place.start(&plan).await;
    let old = namespace(&node, "n", HOUR).await;
    for id in 0..100 {
        start(&node, &old, &format!("w{id}")).await;
    }
    node.namespaces.delete(NamespaceName::Name("n".to_owned()), 0).await.expect("it is there");
    let left = |limit| place.memory.runs_of(old.key, None, limit).wait().map(|runs| runs.len());
    for _ in 0..1000 {
        if left(200).is_ok_and(|left| left < 100) {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    // The power fails: nothing more is written by this node.
    plan.fail_all_writes(Some(WriteFault::NotDone));
    node.shut_down();
    sleep(Duration::from_millis(50)).await;
    assert!(left(200).is_ok_and(|left| left > 0), "the deletion was cut short");

    let plan = FaultPlan::new();
    let node = place.start(&plan).await;
    assert!(node.runs.namespaces.get("n").is_none());
    // Faults on the way: a commit that is lost, one that is done but not known to be, a read that fails.
    let calls = plan.calls();
    plan.fail_write(calls.writes + 3, WriteFault::NotDone);
    plan.fail_write(calls.writes + 5, WriteFault::DoneButUnknown);
    plan.fail_read(calls.reads + 40, ReadError::Failed("injected".to_owned()));
    until_deleted(&place, &node, &old).await;
    // Its key is not used again, also not by the next node.
    node.shut_down();
    let node = place.start(&FaultPlan::new()).await;
    let new = namespace(&node, "n", HOUR).await;
    assert!(new.key > old.key, "{:?} after {:?}", new.key, old.key);
    assert_ne!(new.key, NamespaceKey(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_stays_as_long_as_its_deleter_wants() {
    let place = Place::default();
    let node = place.start(&FaultPlan::new()).await;
    let old = namespace(&node, "n", HOUR).await;
    let key = start(&node, &old, "w").await;
    let delay = HOUR.as_nanos() as i64;
    node.namespaces.delete(NamespaceName::Name("n".to_owned()), delay).await.expect("it is there");
    until_gone(&node, &key).await;
    sleep(Duration::from_millis(1500)).await;
    assert!(node.runs.namespaces.find(&NamespaceName::Id(old.detail.id.clone())).is_some());
    node.shut_down();
    place.clock.jump(2 * HOUR);
    let node = place.start(&FaultPlan::new()).await;
    until_deleted(&place, &node, &old).await;
}
