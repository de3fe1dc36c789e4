//! Forwards a call that arrives at one node to the node that owns its subject.
//!
//! The table of calls has the subject of a call ([`Route`]); the map of the cluster has its owner. With one node this
//! does not run. A call that comes from another node is carried out here or refused as moved, never forwarded again.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message;
use segno_engine::{schedule::WORKFLOW_ID_PREFIX, standalone, standalone_nexus};
use segno_node::{
    ActivityToken, CallError, ChangedNodes, Cluster, ConnectionId, Delivery, ForwardError, ForwardedCall,
    ForwardedReply, NexusCallToken, NexusTaskToken, Node, Place, QueryToken, RemoteTask, TaskToken, Token, WorkflowKey,
};
use segno_proto::{
    Rpc,
    decode::decode,
    worker::WorkerHeartbeat,
    workflowservice::{self as api, execute_multi_operation_request::operation::Operation},
};
use segno_store::NamespaceKey;
use tokio::time::Instant;
use tonic::{Code, Extensions, Request, Response, Status};

use super::{Workflows, foreign_tokens::foreign_workflow};
use crate::{
    peers::CallMetadata,
    reply::{Reply, ReplyFuture, reply_of},
    security::Caller,
    status,
};

/// How long a call waits for what it is about to arrive somewhere.
const MOVING_MAX: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// A token ends with its authentication.
const MAC_BYTES: usize = 8;

/// Marks a call that another node sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerOrigin;

/// The subject of a call, which decides the node that makes it.
#[derive(Clone)]
pub(crate) enum Route {
    /// Nothing in particular: any node can answer.
    Here,
    /// A workflow, by namespace and id.
    Workflow(String, String),
    /// A schedule, by namespace and id.
    Schedule(String, String),
    /// A standalone activity, by namespace and id.
    Activity(String, String),
    /// A standalone Nexus operation, by namespace and id.
    Operation(String, String),
    /// A task, by namespace and token.
    Token(String, Bytes),
    /// A request to the handler of a Nexus operation, by the handler's namespace and token.
    NexusTask(String, Bytes),
    /// A query, by its token.
    Query(Bytes),
    /// A queue or a worker, by namespace and name.
    Home(String, String),
    /// A duty that there is once for the whole cluster.
    Once,
    /// The same, and changes are announced to all nodes.
    Leader,
    /// Every node must receive it.
    AllNodes,
}

/// How it is found out what a call is about.
pub(crate) enum RouteSource {
    /// It is always the same.
    Always(Route),
    /// Its request says it.
    Request(fn(Bytes) -> Result<Route, Status>),
}

/// The parts of a call that make it possible on another node.
pub(crate) struct Forwarding {
    pub(crate) path: &'static str,
    /// It changes nothing.
    pub(crate) reads: bool,
    pub(crate) route: RouteSource,
}

impl Forwarding {
    fn route(&self, message: &Bytes) -> Result<Route, Status> {
        match &self.route {
            RouteSource::Always(route) => Ok(route.clone()),
            RouteSource::Request(route) => route(message.clone()),
        }
    }

    /// Whether the call may be made again when its answer was lost. An update is recognised by its id; without one the node that
    /// has answered chose it.
    fn may_repeat(&self, message: &Bytes) -> bool {
        if self.path != api::UpdateWorkflowExecutionRequest::PATH {
            return self.reads;
        }
        let update = decode::<api::UpdateWorkflowExecutionRequest>(message.clone()).ok();
        let meta = update.and_then(|update| update.request).and_then(|request| request.meta);
        meta.is_some_and(|meta| !meta.update_id.is_empty())
    }
}

/// A workflow by the execution that names it.
pub(crate) fn of_execution(namespace: String, named: Option<segno_proto::common::WorkflowExecution>) -> Route {
    match named {
        Some(execution) if !execution.workflow_id.is_empty() => Route::Workflow(namespace, execution.workflow_id),
        _ => Route::Here,
    }
}

/// An activity of a workflow, or a standalone one if no workflow is named.
pub(crate) fn of_activity(namespace: String, workflow_id: String, activity_id: String) -> Route {
    match workflow_id.is_empty() {
        true => Route::Activity(namespace, activity_id),
        false => Route::Workflow(namespace, workflow_id),
    }
}

/// The subject of an explanation.
pub(crate) fn of_explained(request: segno_proto::segno_workflow::ExplainRequest) -> Route {
    let named = |name: &str| !name.is_empty();
    match request {
        request if named(&request.schedule_id) => Route::Schedule(request.namespace, request.schedule_id),
        request if named(&request.job_id) => Route::Once,
        request if named(&request.activity_id) => Route::Activity(request.namespace, request.activity_id),
        request => Route::Workflow(request.namespace, request.workflow_id),
    }
}

/// A queue by its description.
pub(crate) fn of_queue(namespace: String, queue: Option<segno_proto::taskqueue::TaskQueue>) -> Route {
    queue.map_or(Route::Here, |queue| Route::Home(namespace, queue.name))
}

/// The workflow that one of several operations starts.
pub(crate) fn of_operations(
    namespace: String,
    operations: Vec<api::execute_multi_operation_request::Operation>,
) -> Route {
    let started = operations.into_iter().find_map(|operation| match operation.operation {
        Some(Operation::StartWorkflow(start)) => Some(start.workflow_id),
        _ => None,
    });
    started.map_or(Route::Here, |workflow_id| Route::Workflow(namespace, workflow_id))
}

/// Where what a call is about is.
fn place_of(node: &Node, route: &Route) -> Place {
    match route {
        Route::Here | Route::AllNodes => Place::Here,
        Route::Leader | Route::Once => node.runs.leader(),
        Route::Workflow(namespace, workflow_id) => of_workflow(node, namespace, workflow_id),
        Route::Schedule(namespace, id) => of_workflow(node, namespace, &format!("{WORKFLOW_ID_PREFIX}{id}")),
        Route::Activity(_, id) | Route::Operation(_, id) if id.is_empty() => Place::Here,
        Route::Activity(namespace, id) => {
            of_workflow(node, namespace, &format!("{}{id}", standalone::WORKFLOW_ID_PREFIX))
        }
        Route::Operation(namespace, id) => {
            of_workflow(node, namespace, &format!("{}{id}", standalone_nexus::WORKFLOW_ID_PREFIX))
        }
        // What cannot be read is refused here, with the right words.
        Route::Token(namespace, token) => match workflow_of_token(node, namespace, token) {
            Some(key) => node.runs.place(&key),
            // A failed workflow task that was a query.
            None => query_node(node, namespace, token).map_or(Place::Here, |asker| node.runs.node_place(asker)),
        },
        Route::NexusTask(namespace, token) => {
            let Some(namespace) = node.runs.namespaces.get(namespace) else { return Place::Here };
            let key = &namespace.token_key;
            match NexusTaskToken::open(token, key) {
                Ok(token) => node.runs.place(&WorkflowKey::new(NamespaceKey(token.namespace), &token.workflow_id)),
                Err(_) => {
                    let call = NexusCallToken::open(token, key);
                    call.map_or(Place::Here, |token| node.runs.node_place(token.node))
                }
            }
        }
        Route::Query(token) => {
            let body = token.len().checked_sub(MAC_BYTES).map(|length| &token[..length]);
            let asker = body.and_then(|body| QueryToken::decode(body).ok()).map_or(0, |token| token.node);
            node.runs.node_place(asker)
        }
        Route::Home(namespace, name) => match node.runs.namespaces.get(namespace) {
            Some(namespace) if !name.is_empty() => node.runs.home(namespace.key, name),
            _ => Place::Here,
        },
    }
}

fn of_workflow(node: &Node, namespace: &str, workflow_id: &str) -> Place {
    match node.runs.namespaces.get(namespace) {
        Some(namespace) if !workflow_id.is_empty() => node.runs.place(&WorkflowKey::new(namespace.key, workflow_id)),
        _ => Place::Here,
    }
}

/// The node that sent the query of a token.
fn query_node(node: &Node, namespace: &str, token: &[u8]) -> Option<u64> {
    let namespace = node.runs.namespaces.get(namespace)?;
    QueryToken::open(token, &namespace.token_key).ok().map(|token| token.node)
}

/// The workflow of a task token, of ours or of Temporal's.
fn workflow_of_token(node: &Node, namespace: &str, token: &[u8]) -> Option<WorkflowKey> {
    let namespace = node.runs.namespaces.get(namespace)?;
    let task = TaskToken::open(token, &namespace.token_key).map(|token| token.workflow_id);
    let workflow_id = task.or_else(|_| ActivityToken::open(token, &namespace.token_key).map(|token| token.workflow_id));
    match workflow_id {
        Ok(workflow_id) => Some(WorkflowKey::new(namespace.key, &workflow_id)),
        Err(_) => foreign_workflow(node, token),
    }
}

/// A call as another node needs it.
fn forwarded(path: &str, body: Bytes, metadata: CallMetadata, deadline: Option<Instant>) -> ForwardedCall {
    ForwardedCall {
        path: path.to_owned(),
        body,
        timeout: deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
        connection: metadata.connection,
        is_tool: metadata.is_tool,
        sdk: metadata.sdk(),
        task: None,
    }
}

impl Workflows {
    /// The part of a poll that matters among several nodes: the task that another node chose for it, or the call for that node.
    pub(crate) fn poll_among_nodes<Q: Rpc>(&self, request: &Request<Q>) -> (Option<RemoteTask>, Option<ForwardedCall>) {
        if self.node.cluster.is_none() {
            return (None, None);
        }
        let task = request.extensions().get::<RemoteTask>().cloned();
        let metadata = CallMetadata::of(request);
        let deadline = metadata.timeout.map(|timeout| Instant::now() + timeout);
        let body = request.get_ref().encode_to_vec().into();
        (task, Some(forwarded(Q::PATH, body, metadata, deadline)))
    }
}

impl Workflows {
    /// Announces to all other nodes what workers said about themselves with a poll.
    pub(crate) fn tell_everybody(
        &self,
        namespace: &str,
        heartbeats: &[WorkerHeartbeat],
        connection: Option<ConnectionId>,
    ) {
        let Some(cluster) = &self.node.cluster else { return };
        let report = api::RecordWorkerHeartbeatRequest {
            namespace: namespace.to_owned(),
            worker_heartbeat: heartbeats.to_vec(),
            ..Default::default()
        };
        let metadata = CallMetadata { connection, ..Default::default() };
        let body = report.encode_to_vec().into();
        cluster.forward_to_all(&forwarded(api::RecordWorkerHeartbeatRequest::PATH, body, metadata, None));
    }
}

/// The answer to a poll that the owner of its task made.
pub(crate) fn answer_there<A: Message + Default>(
    body: Bytes,
    delivery: Option<Delivery>,
) -> Result<Response<A>, Status> {
    let answer = A::decode(body)
        .map_err(|error| Status::internal(format!("the answer of another node cannot be read: {error}")))?;
    Ok(with_delivery(Response::new(answer), delivery))
}

/// An answer that another node made.
fn answer_of(forwarded: ForwardedReply) -> Result<Reply, Status> {
    if forwarded.code != 0 {
        let code = Code::from_i32(forwarded.code);
        return Err(Status::with_details(code, forwarded.message, forwarded.details));
    }
    Ok(with_delivery(reply_of(&forwarded.body), forwarded.delivery))
}

fn with_delivery<A>(mut response: Response<A>, delivery: Option<Delivery>) -> Response<A> {
    if let Some(delivery) = delivery {
        response.extensions_mut().insert(delivery);
    }
    response
}

/// Response metadata of a change: the nodes that have it, those that have not and admit no callers until they have, and those of
/// older versions of which it is not known.
const CONFIRMED: &str = "segno-nodes-confirmed";
const REFUSING: &str = "segno-nodes-refusing";
const UNCONFIRMED: &str = "segno-nodes-unconfirmed";

/// Says where a change is in effect.
fn show_nodes(answer: &mut Reply, nodes: &ChangedNodes) {
    let lists = [(CONFIRMED, &nodes.confirmed), (REFUSING, &nodes.refusing), (UNCONFIRMED, &nodes.unconfirmed)];
    for (name, nodes) in lists.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
        // A name that is not ASCII is shown as far as it is.
        let list: String = nodes.join(",").chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
        if let Ok(list) = list.parse() {
            answer.metadata_mut().insert(name, list);
        }
    }
}

/// Makes a call where it belongs. `here` makes it on this node.
pub(crate) async fn routed(
    node: &Arc<Node>,
    cluster: &Arc<Cluster>,
    call: &Forwarding,
    message: Bytes,
    extensions: Extensions,
    here: &(dyn Fn(Bytes, Extensions) -> ReplyFuture + Send + Sync),
) -> Result<Reply, Status> {
    let route = call.route(&message)?;
    if extensions.get::<PeerOrigin>().is_some() {
        let changes = matches!(route, Route::Leader);
        if matches!(route, Route::Leader | Route::Once | Route::Home(..)) && place_of(node, &route) != Place::Here {
            return Err(status::from_call(CallError::Moved));
        }
        if changes {
            cluster.catch_up().await.map_err(status::from_call)?;
        }
        let answer = here(message, extensions).await;
        if changes && answer.is_ok() {
            cluster.peers.publish_changes(None).await;
        }
        return answer;
    }
    let metadata: CallMetadata = extensions.get().copied().unwrap_or_default();
    let caller = extensions.get::<Arc<Caller>>().cloned();
    let begun = Instant::now();
    let deadline = metadata.timeout.map(|timeout| begun + timeout);
    // Counted from when it was first found to be moving.
    let mut patience: Option<Instant> = None;
    let mut pause = PAUSE_MIN;
    loop {
        match place_of(node, &route) {
            Place::Here => {
                let mut extensions = Extensions::default();
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                extensions.insert(CallMetadata { timeout: left, ..metadata });
                if let Some(caller) = &caller {
                    extensions.insert(caller.clone());
                }
                if matches!(route, Route::Leader) {
                    // A change is made to what is stored, not to what this node had before another one led.
                    cluster.catch_up().await.map_err(status::from_call)?;
                }
                let mut answer = here(message.clone(), extensions).await;
                if !answer.as_ref().is_err_and(status::is_moved) {
                    match &route {
                        Route::Leader => {
                            if let Ok(answer) = &mut answer {
                                show_nodes(answer, &cluster.peers.publish_changes(None).await);
                            }
                        }
                        Route::AllNodes => {
                            let call = forwarded(call.path, message.clone(), metadata, None);
                            cluster.forward_to_all(&call);
                        }
                        _ => {}
                    }
                    return answer;
                }
            }
            Place::There(other) => {
                let sent = forwarded(call.path, message.clone(), metadata, deadline);
                match cluster.forward(other, sent, deadline).await {
                    Ok(forwarded) => {
                        let mut answer = answer_of(forwarded);
                        // The leader has waited for all nodes; this asks them again, to show which have it.
                        if let (Route::Leader, Ok(answer)) = (&route, &mut answer) {
                            let until = begun + cluster.topology.lease();
                            show_nodes(answer, &cluster.peers.publish_changes(Some(until)).await);
                        }
                        return answer;
                    }
                    Err(ForwardError::NotSent | ForwardError::Moved) => {}
                    Err(ForwardError::Unknown) if call.may_repeat(&message) => {}
                    Err(ForwardError::Unknown) => {
                        let why = "the connection to the node that serves this broke".to_owned();
                        return Err(status::from_call(CallError::OutcomeUnknown(why)));
                    }
                }
            }
            Place::Nowhere => {}
        }
        let now = Instant::now();
        let until = *patience.get_or_insert_with(|| (now + MOVING_MAX).min(deadline.unwrap_or(now + MOVING_MAX)));
        if now + pause >= until {
            return Err(Status::unavailable(
                "what the call is about is moving from one node of the cluster to another, please retry",
            ));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
