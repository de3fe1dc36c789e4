//! Scripts that this server cannot execute: a stored version that is over a limit, a turn that takes too long. Both are
//! visible, neither ends the process or is tried without end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use prost::Message;
use segno_engine::{
    machine::{coverage, workflow_task},
    script,
};
use segno_node::{Environment, MoveCall, Namespace, NewNamespace, Node, NodeOptions, ScriptInfo, Source, WorkflowKey};
use segno_proto::nanos_duration;
use segno_store::{Commit, DocumentWrite, Store, Wait};
use tokio::time::{sleep, timeout};

use crate::common::{JumpingClock, gate::Gate, story};

const SMALL: &str = "workflow w() { return 1 }";

/// Source and code of a version, as they are stored.
#[derive(Clone, PartialEq, Message)]
struct Content {
    #[prost(bytes = "vec", tag = "1")]
    source: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    code: Vec<u8>,
    #[prost(string, tag = "3")]
    file_name: String,
}

async fn start_node(gate: &Arc<Gate>) -> Arc<Node> {
    let clock = Arc::new(JumpingClock::default());
    Node::start(gate.clone(), Environment::with_clock(clock), NodeOptions::default()).await.expect("a node starts")
}

/// Where no limit of steps ends a script before its time does.
const PATIENT: &str = "patient";

fn namespace(node: &Node) -> Arc<Namespace> {
    let known = node.runs.namespaces.get(PATIENT).or_else(|| node.runs.namespaces.get("default"));
    known.expect("one of them is there")
}

async fn deploy(node: &Arc<Node>, text: &str) -> String {
    let source = Source { text: text.as_bytes().to_vec(), activate: true, ..Default::default() };
    node.scripts.deploy(namespace(node), source).await.expect("it is deployed").version
}

async fn start(node: &Arc<Node>, task_timeout_ms: i64) -> WorkflowKey {
    let namespace = namespace(node);
    let mut start = story::start(&namespace, "w");
    start.options.workflow_task_timeout = Some(nanos_duration(task_timeout_ms * story::MILLISECOND));
    node.runs.start_workflow(start).await.expect("it starts");
    WorkflowKey::new(namespace.key, "w")
}

/// How often the turn failed, and what the last one failed with.
async fn failing(node: &Node, key: &WorkflowKey) -> (i64, String) {
    let current = node.runs.snapshot(key, "").await.expect("the run is there");
    let state = current.run.state();
    (i64::from(state.failures_since_success), state.last_task_failure.clone())
}

async fn until_failed(node: &Node, key: &WorkflowKey, wanted: i64) {
    let reached = async {
        while failing(node, key).await.0 < wanted {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let reached = timeout(Duration::from_secs(60), reached).await;
    assert!(reached.is_ok(), "{wanted} failures were not reached: {:?}", failing(node, key).await);
}

async fn until_closed(node: &Node, key: &WorkflowKey) {
    let closed = async {
        while node.runs.snapshot(key, "").await.expect("the run is there").run.is_running() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(20), closed).await.expect("the run closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable() {
    let gate: Arc<Gate> = Arc::default();
    let node = start_node(&gate).await;
    let version = deploy(&node, SMALL).await;
    let (key, name) = (namespace(&node).key, format!("flow-version/{version}/w"));
    node.end();
    // What a server stored that did not have the limit, with code that this one does not read.
    let spread = "...A, ".repeat(12);
    let source =
        format!("const A = [{}]\nconst B = [{spread}]\nworkflow w() {{ return B.length }}", "1,".repeat(50_000));
    let content = Content { source: source.into_bytes(), code: vec![9; 100], file_name: "w.flow".to_owned() };
    let documents = vec![DocumentWrite { namespace: key, name, content: Some(content.encode_to_vec().into()) }];
    gate.memory.commit(vec![Commit { documents, ..Default::default() }]).wait().remove(0).expect("it is stored");

    let node = start_node(&gate).await;
    let run = start(&node, 10_000).await;
    until_failed(&node, &run, 1).await;
    let (_, why) = failing(&node, &run).await;
    let reason = "F0010 in line 2, column 11: the script with its constants is over 8388608 bytes";
    assert!(why.contains(&version[..12]) && why.contains(reason), "{why}");
    let described = node.scripts.describe(&namespace(&node), "w").await.expect("it is described");
    let listed = node.scripts.list(&namespace(&node), "", 10).await.expect("it is listed");
    let unusable = |info: &ScriptInfo| info.unusable.get(&version).cloned();
    assert_eq!(unusable(&described).as_deref(), Some(reason));
    assert_eq!(listed.iter().find_map(unusable).as_deref(), Some(reason));
    // It backs off: the next attempt is two seconds away.
    let before = failing(&node, &run).await.0;
    sleep(Duration::from_millis(300)).await;
    assert!(failing(&node, &run).await.0 <= before + 1);
    // No turn was taken, so that the run can go on with a version that is in order.
    let fixed = deploy(&node, "workflow w() { return 2 }").await;
    let moved =
        node.scripts.migrate_run(namespace(&node), &run, MoveCall { version: fixed, ..Default::default() }).await;
    moved.expect("it is moved");
    until_closed(&node, &run).await;
    node.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn overtime() {
    let gate: Arc<Gate> = Arc::default();
    let node = start_node(&gate).await;
    let data = BTreeMap::from([("segno.flow.steps-max".to_owned(), "10000000000".to_owned())]);
    let retention = 86_400_000 * story::MILLISECOND;
    let new = NewNamespace { name: PATIENT.to_owned(), retention, data, ..Default::default() };
    node.namespaces.register(new).await.expect("it is registered");
    deploy(&node, "workflow w() { while (true) {} }").await;
    let run = start(&node, 600).await;
    until_failed(&node, &run, script::OVERTIME_ATTEMPTS_MAX.into()).await;
    assert_eq!(failing(&node, &run).await, (5, script::OVERTIME.to_owned()));
    assert!(script::waits_for_operator(&node.runs.snapshot(&run, "").await.expect("the run is there").run));
    node.end();

    // It is not tried again by itself, also not after a restart.
    let node = start_node(&gate).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(failing(&node, &run).await.0, 5);
    // The operator asks for one more attempt,
    let again = node.scripts.migrate_run(namespace(&node), &run, MoveCall::default()).await;
    again.expect("it is tried again");
    until_failed(&node, &run, 6).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(failing(&node, &run).await.0, 6);
    // and then deploys a script that does less.
    deploy(&node, SMALL).await;
    node.scripts.migrate_run(namespace(&node), &run, MoveCall::default()).await.expect("it is moved");
    until_closed(&node, &run).await;
    node.end();
}

/// A turn whose transition has a step that is in no table is not stored, neither with the event that made it necessary nor by an
/// executor; the event is. On one thread, because the step is missing on this thread alone.
#[tokio::test]
async fn illegal_steps_of_turns_are_not_stored() {
    let gate: Arc<Gate> = Arc::default();
    let node = start_node(&gate).await;
    deploy(&node, SMALL).await;
    let (from, on) = (workflow_task::State::Started, workflow_task::Event::Complete);
    coverage::remove(Some(("workflow_task", from as usize, on as usize)));
    let run = start(&node, 10_000).await;
    sleep(Duration::from_millis(300)).await;
    let stopped = node.runs.snapshot(&run, "").await.expect("the start is stored").run.clone();
    assert!(stopped.is_running() && stopped.state().last_completed_started_id == 0, "{:?}", stopped.state());
    node.end();
    coverage::remove(None);

    let node = start_node(&gate).await;
    until_closed(&node, &run).await;
    node.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_node_with_scripts_is_freed() {
    let gate: Arc<Gate> = Arc::default();
    let node = start_node(&gate).await;
    deploy(&node, "workflow w() { log(\"once\")\n await wait_for_signal(\"go\") }").await;
    let run = start(&node, 10_000).await;
    assert!(node.runs.snapshot(&run, "").await.expect("it is stored").run.state().last_completed_started_id > 0);
    node.shut_down();
    node.end();
    let runs = Arc::downgrade(&node.runs);
    drop(node);
    let freed = async {
        while runs.strong_count() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), freed).await.expect("nothing holds its runs");
}
