//! Limits of namespaces that hold for what runs start, and commits and queries of one namespace beside those of another.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use segno_engine::{
    signal::{self, Signal},
    terminate::{self, Terminate},
};
use segno_node::{
    CallError, Environment, ListCaller, Namespace, NewNamespace, Node, NodeOptions, RunSelector, Source, WorkflowKey,
};
use segno_proto::{enums::QueryRejectCondition, query::WorkflowQuery};
use tokio::time::{Instant, sleep};

use crate::common::{JumpingClock, gate::Gate, story};

const PARENT: &str = "workflow Parent(n) {
  for (let i = 0; i < n; i++) { Workflow.start(\"Child\", i, { id: `child-${i}` }) }
  await wait_for_signal(\"end\")
}";
const CHILD: &str = "workflow Child(n) { await wait_for_signal(\"end\") }";

async fn node() -> Arc<Node> {
    let (gate, clock) = (Arc::<Gate>::default(), Arc::<JumpingClock>::default());
    Node::start(gate, Environment::with_clock(clock), NodeOptions::default()).await.expect("a node starts")
}

async fn namespace(node: &Arc<Node>, name: &str, settings: &[(&str, &str)]) -> Arc<Namespace> {
    let data: BTreeMap<_, _> = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let new = NewNamespace { name: name.to_owned(), retention: 86_400_000_000_000, data, ..Default::default() };
    node.namespaces.register(new).await.expect("the name is free")
}

async fn deploy(node: &Arc<Node>, namespace: &Arc<Namespace>, text: &str) {
    let source = Source { text: text.into(), activate: true, ..Default::default() };
    node.scripts.deploy(namespace.clone(), source).await.expect("it is deployed");
}

async fn start(node: &Arc<Node>, namespace: &Namespace, kind: &str, id: &str, number: u32) -> Result<(), CallError> {
    let mut start = story::start(namespace, id);
    start.options.workflow_type = Some(segno_proto::common::WorkflowType { name: kind.to_owned() });
    let data = number.to_string().into_bytes();
    let metadata = BTreeMap::from([("encoding".to_owned(), "json/plain".into())]);
    let payload = segno_proto::common::Payload { metadata, data: data.into(), ..Default::default() };
    start.options.input = Some(segno_proto::common::Payloads { payloads: vec![payload] });
    node.runs.start_workflow(start).await.map(|_| ())
}

async fn open(node: &Arc<Node>, namespace: &Arc<Namespace>) -> u64 {
    let counted = node.runs.count(ListCaller::default(), namespace, "ExecutionStatus = 'Running'").await;
    counted.expect("they are counted").1.iter().map(|group| group.runs).sum()
}

async fn until_open(node: &Arc<Node>, namespace: &Arc<Namespace>, wanted: u64) {
    let until = Instant::now() + Duration::from_secs(20);
    while open(node, namespace).await != wanted {
        assert!(Instant::now() < until, "{} are open, not {wanted}", open(node, namespace).await);
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_count_as_open_workflows_and_wait_until_there_is_room() {
    let node = node().await;
    let limited = namespace(&node, "limited", &[("segno.limit.open-workflows", "10")]).await;
    deploy(&node, &limited, PARENT).await;
    deploy(&node, &limited, CHILD).await;
    start(&node, &limited, "Parent", "parent", 30).await.expect("there is room");
    until_open(&node, &limited, 10).await;
    let refused = start(&node, &limited, "Child", "another", 0).await;
    assert!(matches!(&refused, Err(CallError::StartRefused(refusal)) if !refusal.is_rate()), "{refused:?}");
    sleep(Duration::from_millis(1200)).await;
    assert_eq!(open(&node, &limited).await, 10, "also after they were counted again");
    // Those that wait follow when others end.
    let mut ended = 0;
    for number in 0..30 {
        let key = WorkflowKey::new(limited.key, &format!("child-{number}"));
        let end = |run: &_, context| terminate::terminate(run, context, Terminate::default());
        ended += usize::from(node.runs.transact(&key, &RunSelector::default(), end).await.is_ok());
    }
    assert!(ended >= 9, "{ended}");
    until_open(&node, &limited, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_of_clients_are_refused_and_those_of_runs_wait_when_there_are_too_many_in_a_second() {
    let node = node().await;
    let limited = namespace(&node, "limited", &[("segno.limit.starts-per-second", "50")]).await;
    deploy(&node, &limited, PARENT).await;
    deploy(&node, &limited, CHILD).await;
    start(&node, &limited, "Parent", "parent", 150).await.expect("the first");
    until_open(&node, &limited, 151).await;
    let mut refused = None;
    for number in 0..200 {
        refused = start(&node, &limited, "Child", &format!("one-{number}"), 0).await.err();
        if refused.is_some() {
            break;
        }
    }
    match refused {
        Some(CallError::StartRefused(refusal)) => assert!(refusal.is_rate() && refusal.after < Duration::from_secs(1)),
        other => panic!("{other:?}"),
    }
    let unlimited = namespace(&node, "unlimited", &[]).await;
    for number in 0..200 {
        start(&node, &unlimited, "Child", &format!("one-{number}"), 0).await.expect("no limit is set");
    }
}

/// The schedule of a script waits until its namespace has room for its run.
#[tokio::test]
async fn schedules_of_scripts_count() {
    let node = node().await;
    let limited = namespace(&node, "limited", &[("segno.limit.open-workflows", "1")]).await;
    start(&node, &limited, "T", "one", 0).await.expect("there is room");
    deploy(&node, &limited, "schedule(\"0 0 1 1 *\")\nworkflow Yearly() { return 1 }").await;
    assert_eq!(open(&node, &limited).await, 1);
}

/// While a query of one namespace takes long, calls and queries of another are answered.
#[tokio::test]
async fn queries_of_one_namespace_do_not_hold_up_calls_of_another() {
    let node = node().await;
    let (busy, quiet) = (namespace(&node, "busy", &[]).await, namespace(&node, "quiet", &[]).await);
    let text = "workflow Q() {
      query long() { let sum = 0; for (let i = 0; i < 7000; i++) { sum += i } return sum }
      query short() { return 1 }
      await wait_for_signal(\"end\")
    }";
    for namespace in [&busy, &quiet] {
        deploy(&node, namespace, text).await;
        start(&node, namespace, "Q", "q", 0).await.expect("it starts");
    }
    let ask = |namespace: &Arc<Namespace>, name: &str| {
        let (node, key) = (node.clone(), WorkflowKey::new(namespace.key, "q"));
        let query = WorkflowQuery { query_type: name.to_owned(), ..Default::default() };
        let deadline = Instant::now() + Duration::from_secs(60);
        async move { node.dispatch.query(&key, "", query, QueryRejectCondition::None, deadline).await }
    };
    // One thread serves calls here. If the queries were executed on it, all of them would come first.
    let long: Vec<_> = (0..30).map(|_| tokio::spawn(ask(&busy, "long"))).collect();
    tokio::task::yield_now().await;
    ask(&quiet, "short").await.expect("it is answered");
    let signal = |run: &_, context| signal::signal(run, context, Signal { name: "s".to_owned(), ..Default::default() });
    let key = WorkflowKey::new(quiet.key, "q");
    node.runs.transact(&key, &RunSelector::default(), signal).await.expect("it is stored");
    let answered = long.iter().filter(|query| query.is_finished()).count();
    assert!(answered < 30, "they came first");
    for query in long {
        query.await.expect("no panic").expect("it is answered");
    }
}
