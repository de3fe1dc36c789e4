//! Calls go to the node that they are about, through whatever node they come in.
//!
//! A request type says what it is about ([`Routed`]); the map of the cluster says where that is. With one node everything is
//! here, and nothing of this runs. A call that comes from another node is carried out here or refused as moved, never sent on.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message;
use segno_engine::{schedule::WORKFLOW_ID_PREFIX, standalone};
use segno_proto::{
    operatorservice as operator, segno_access as access, segno_flow as flow, segno_worker as worker,
    segno_workflow as workflow,
    worker::WorkerHeartbeat,
    workflowservice::{self as api, execute_multi_operation_request::operation::Operation},
};
use segno_runtime::{
    ActivityToken, CallError, ChangedNodes, Cluster, ConnectionId, Delivery, ForwardError, Forwarded, ForwardedCall,
    Node, Place, QueryToken, RemoteTask, TaskToken, Token, WorkflowKey,
};
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};

use super::{Workflows, foreign_tokens::foreign_workflow};
use crate::{peers::CallMetadata, security::Caller, status};

/// How long a call waits for what it is about to arrive somewhere.
const MOVING_MAX: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// A token ends with its authentication.
const MAC_BYTES: usize = 8;

/// Marks a call that another node sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Via;

/// What a call is about.
pub(crate) enum Route<'a> {
    /// Nothing in particular: any node can answer.
    Here,
    /// A workflow, by namespace and id.
    Workflow(&'a str, &'a str),
    /// A schedule, by namespace and id.
    Schedule(&'a str, &'a str),
    /// A standalone activity, by namespace and id.
    Activity(&'a str, &'a str),
    /// A task, by namespace and token.
    Token(&'a str, &'a [u8]),
    /// A query, by its token.
    Query(&'a [u8]),
    /// A queue or a worker, by namespace and name.
    Home(&'a str, &'a str),
    /// What there is once for the whole cluster.
    Once,
    /// The same, and changes are told to all.
    Leader,
    /// Every node is to know.
    Everybody,
}

/// A request that knows what it is about.
pub(crate) trait Routed: Message + Clone + Default + 'static {
    /// Its method.
    const PATH: &'static str;
    /// Whether it may be made again when its answer was lost.
    const READS: bool;

    fn route(&self) -> Route<'_>;
}

/// A workflow by the execution that names it.
fn of_execution<'a>(namespace: &'a str, named: &'a Option<segno_proto::common::WorkflowExecution>) -> Route<'a> {
    match named {
        Some(execution) if !execution.workflow_id.is_empty() => Route::Workflow(namespace, &execution.workflow_id),
        _ => Route::Here,
    }
}

/// An activity of a workflow, or a standalone one if no workflow is named.
fn of_activity<'a>(namespace: &'a str, workflow_id: &'a str, activity_id: &'a str) -> Route<'a> {
    match workflow_id.is_empty() {
        true => Route::Activity(namespace, activity_id),
        false => Route::Workflow(namespace, workflow_id),
    }
}

/// A queue by its description.
fn of_queue<'a>(namespace: &'a str, queue: &'a Option<segno_proto::taskqueue::TaskQueue>) -> Route<'a> {
    queue.as_ref().map_or(Route::Here, |queue| Route::Home(namespace, &queue.name))
}

macro_rules! routed {
    ($service:literal $module:ident: $($reads:ident $name:literal $type:ident |$request:ident| $route:expr;)*) => {
        $(impl Routed for $module::$type {
            const PATH: &'static str = concat!("/", $service, "/", $name);
            const READS: bool = routed!(@ $reads);

            fn route(&self) -> Route<'_> {
                let $request = self;
                let _ = $request;
                $route
            }
        })*
    };
    (@ read) => { true };
    (@ write) => { false };
}

routed! {
    "temporal.api.workflowservice.v1.WorkflowService" api:
    write "StartWorkflowExecution" StartWorkflowExecutionRequest |r| Route::Workflow(&r.namespace, &r.workflow_id);
    write "SignalWithStartWorkflowExecution" SignalWithStartWorkflowExecutionRequest
        |r| Route::Workflow(&r.namespace, &r.workflow_id);
    write "SignalWorkflowExecution" SignalWorkflowExecutionRequest |r| of_execution(&r.namespace, &r.workflow_execution);
    write "RequestCancelWorkflowExecution" RequestCancelWorkflowExecutionRequest
        |r| of_execution(&r.namespace, &r.workflow_execution);
    write "TerminateWorkflowExecution" TerminateWorkflowExecutionRequest
        |r| of_execution(&r.namespace, &r.workflow_execution);
    write "DeleteWorkflowExecution" DeleteWorkflowExecutionRequest |r| of_execution(&r.namespace, &r.workflow_execution);
    read "DescribeWorkflowExecution" DescribeWorkflowExecutionRequest |r| of_execution(&r.namespace, &r.execution);
    read "QueryWorkflow" QueryWorkflowRequest |r| of_execution(&r.namespace, &r.execution);
    write "RespondQueryTaskCompleted" RespondQueryTaskCompletedRequest |r| Route::Query(&r.task_token);
    read "GetWorkflowExecutionHistory" GetWorkflowExecutionHistoryRequest |r| of_execution(&r.namespace, &r.execution);
    read "GetWorkflowExecutionHistoryReverse" GetWorkflowExecutionHistoryReverseRequest
        |r| of_execution(&r.namespace, &r.execution);
    write "PollWorkflowTaskQueue" PollWorkflowTaskQueueRequest |r| Route::Here;
    write "PollActivityTaskQueue" PollActivityTaskQueueRequest |r| Route::Here;
    write "PollNexusTaskQueue" PollNexusTaskQueueRequest |r| Route::Here;
    write "RespondWorkflowTaskCompleted" RespondWorkflowTaskCompletedRequest
        |r| Route::Token(&r.namespace, &r.task_token);
    write "RespondWorkflowTaskFailed" RespondWorkflowTaskFailedRequest |r| Route::Token(&r.namespace, &r.task_token);
    write "ResetStickyTaskQueue" ResetStickyTaskQueueRequest |r| of_execution(&r.namespace, &r.execution);
    write "RecordActivityTaskHeartbeat" RecordActivityTaskHeartbeatRequest
        |r| Route::Token(&r.namespace, &r.task_token);
    write "RecordActivityTaskHeartbeatById" RecordActivityTaskHeartbeatByIdRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "RespondActivityTaskCompleted" RespondActivityTaskCompletedRequest
        |r| Route::Token(&r.namespace, &r.task_token);
    write "RespondActivityTaskCompletedById" RespondActivityTaskCompletedByIdRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "RespondActivityTaskFailed" RespondActivityTaskFailedRequest |r| Route::Token(&r.namespace, &r.task_token);
    write "RespondActivityTaskFailedById" RespondActivityTaskFailedByIdRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "RespondActivityTaskCanceled" RespondActivityTaskCanceledRequest
        |r| Route::Token(&r.namespace, &r.task_token);
    write "RespondActivityTaskCanceledById" RespondActivityTaskCanceledByIdRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "PauseActivity" PauseActivityRequest |r| of_execution(&r.namespace, &r.execution);
    write "UnpauseActivity" UnpauseActivityRequest |r| of_execution(&r.namespace, &r.execution);
    write "ResetActivity" ResetActivityRequest |r| of_execution(&r.namespace, &r.execution);
    write "UpdateActivityOptions" UpdateActivityOptionsRequest |r| of_execution(&r.namespace, &r.execution);
    write "PauseActivityExecution" PauseActivityExecutionRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "UnpauseActivityExecution" UnpauseActivityExecutionRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "ResetActivityExecution" ResetActivityExecutionRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "UpdateActivityExecutionOptions" UpdateActivityExecutionOptionsRequest
        |r| of_activity(&r.namespace, &r.workflow_id, &r.activity_id);
    write "StartActivityExecution" StartActivityExecutionRequest |r| Route::Activity(&r.namespace, &r.activity_id);
    read "DescribeActivityExecution" DescribeActivityExecutionRequest
        |r| Route::Activity(&r.namespace, &r.activity_id);
    read "PollActivityExecution" PollActivityExecutionRequest |r| Route::Activity(&r.namespace, &r.activity_id);
    read "ListActivityExecutions" ListActivityExecutionsRequest |r| Route::Here;
    read "CountActivityExecutions" CountActivityExecutionsRequest |r| Route::Here;
    write "RequestCancelActivityExecution" RequestCancelActivityExecutionRequest
        |r| Route::Activity(&r.namespace, &r.activity_id);
    write "TerminateActivityExecution" TerminateActivityExecutionRequest
        |r| Route::Activity(&r.namespace, &r.activity_id);
    write "DeleteActivityExecution" DeleteActivityExecutionRequest |r| Route::Activity(&r.namespace, &r.activity_id);
    read "GetSystemInfo" GetSystemInfoRequest |r| Route::Here;
    read "GetClusterInfo" GetClusterInfoRequest |r| Route::Here;
    read "DescribeNamespace" DescribeNamespaceRequest |r| Route::Here;
    read "ListNamespaces" ListNamespacesRequest |r| Route::Here;
    write "RegisterNamespace" RegisterNamespaceRequest |r| Route::Leader;
    write "UpdateNamespace" UpdateNamespaceRequest |r| Route::Leader;
    write "DeprecateNamespace" DeprecateNamespaceRequest |r| Route::Leader;
    read "GetSearchAttributes" GetSearchAttributesRequest |r| Route::Here;
    write "ShutdownWorker" ShutdownWorkerRequest |r| Route::Everybody;
    write "RecordWorkerHeartbeat" RecordWorkerHeartbeatRequest |r| Route::Everybody;
    read "ListWorkers" ListWorkersRequest |r| Route::Here;
    read "CountWorkers" CountWorkersRequest |r| Route::Here;
    read "DescribeWorker" DescribeWorkerRequest |r| Route::Here;
    read "ListTaskQueuePartitions" ListTaskQueuePartitionsRequest |r| of_queue(&r.namespace, &r.task_queue);
    read "DescribeTaskQueue" DescribeTaskQueueRequest |r| of_queue(&r.namespace, &r.task_queue);
    read "ListWorkflowExecutions" ListWorkflowExecutionsRequest |r| Route::Here;
    read "ScanWorkflowExecutions" ScanWorkflowExecutionsRequest |r| Route::Here;
    read "ListOpenWorkflowExecutions" ListOpenWorkflowExecutionsRequest |r| Route::Here;
    read "ListClosedWorkflowExecutions" ListClosedWorkflowExecutionsRequest |r| Route::Here;
    read "ListArchivedWorkflowExecutions" ListArchivedWorkflowExecutionsRequest |r| Route::Here;
    read "CountWorkflowExecutions" CountWorkflowExecutionsRequest |r| Route::Here;
    write "UpdateWorkflowExecution" UpdateWorkflowExecutionRequest |r| of_execution(&r.namespace, &r.workflow_execution);
    read "PollWorkflowExecutionUpdate" PollWorkflowExecutionUpdateRequest |r| {
        let named = r.update_ref.as_ref().map(|update| &update.workflow_execution);
        named.map_or(Route::Here, |execution| of_execution(&r.namespace, execution))
    };
    write "ExecuteMultiOperation" ExecuteMultiOperationRequest |r| {
        let started = r.operations.iter().find_map(|operation| match &operation.operation {
            Some(Operation::StartWorkflow(start)) => Some(start.workflow_id.as_str()),
            _ => None,
        });
        started.map_or(Route::Here, |workflow_id| Route::Workflow(&r.namespace, workflow_id))
    };
    write "ResetWorkflowExecution" ResetWorkflowExecutionRequest |r| of_execution(&r.namespace, &r.workflow_execution);
    write "CreateSchedule" CreateScheduleRequest |r| Route::Schedule(&r.namespace, &r.schedule_id);
    read "DescribeSchedule" DescribeScheduleRequest |r| Route::Schedule(&r.namespace, &r.schedule_id);
    write "UpdateSchedule" UpdateScheduleRequest |r| Route::Schedule(&r.namespace, &r.schedule_id);
    write "PatchSchedule" PatchScheduleRequest |r| Route::Schedule(&r.namespace, &r.schedule_id);
    read "ListScheduleMatchingTimes" ListScheduleMatchingTimesRequest
        |r| Route::Schedule(&r.namespace, &r.schedule_id);
    write "DeleteSchedule" DeleteScheduleRequest |r| Route::Schedule(&r.namespace, &r.schedule_id);
    read "ListSchedules" ListSchedulesRequest |r| Route::Here;
    read "CountSchedules" CountSchedulesRequest |r| Route::Here;
    write "StartBatchOperation" StartBatchOperationRequest |r| Route::Once;
    write "StopBatchOperation" StopBatchOperationRequest |r| Route::Once;
    read "DescribeBatchOperation" DescribeBatchOperationRequest |r| Route::Once;
    read "ListBatchOperations" ListBatchOperationsRequest |r| Route::Once;
    write "UpdateWorkflowExecutionOptions" UpdateWorkflowExecutionOptionsRequest
        |r| of_execution(&r.namespace, &r.workflow_execution);
    write "PauseWorkflowExecution" PauseWorkflowExecutionRequest |r| Route::Workflow(&r.namespace, &r.workflow_id);
    write "UnpauseWorkflowExecution" UnpauseWorkflowExecutionRequest
        |r| Route::Workflow(&r.namespace, &r.workflow_id);
    write "CreateWorkflowRule" CreateWorkflowRuleRequest |r| Route::Leader;
    read "DescribeWorkflowRule" DescribeWorkflowRuleRequest |r| Route::Here;
    write "DeleteWorkflowRule" DeleteWorkflowRuleRequest |r| Route::Leader;
    read "ListWorkflowRules" ListWorkflowRulesRequest |r| Route::Here;
    write "UpdateTaskQueueConfig" UpdateTaskQueueConfigRequest |r| Route::Leader;
    write "RespondNexusTaskCompleted" RespondNexusTaskCompletedRequest |r| Route::Here;
    write "RespondNexusTaskFailed" RespondNexusTaskFailedRequest |r| Route::Here;
}

routed! {
    "temporal.api.operatorservice.v1.OperatorService" operator:
    write "AddSearchAttributes" AddSearchAttributesRequest |r| Route::Leader;
    write "RemoveSearchAttributes" RemoveSearchAttributesRequest |r| Route::Leader;
    write "DeleteNamespace" DeleteNamespaceRequest |r| Route::Leader;
}

routed! {
    "segno.flow.v1.FlowService" flow:
    write "Deploy" DeployRequest |r| Route::Leader;
    write "Activate" ActivateRequest |r| Route::Leader;
    write "Rollback" RollbackRequest |r| Route::Leader;
    write "Delete" DeleteRequest |r| Route::Leader;
    read "DescribeRun" DescribeRunRequest |r| Route::Workflow(&r.namespace, &r.workflow_id);
    write "Migrate" MigrateRequest |r| Route::Workflow(&r.namespace, &r.workflow_id);
}

routed! {
    "segno.access.v1.AccessService" access:
    write "CreateKey" CreateKeyRequest |r| Route::Leader;
    write "RevokeKey" RevokeKeyRequest |r| Route::Leader;
}

routed! {
    "segno.worker.v1.WorkerService" worker:
    write "Heartbeat" HeartbeatRequest |r| Route::Home(&r.namespace, &r.worker_instance_key);
}

routed! {
    "segno.workflow.v1.WorkflowService" workflow:
    read "Explain" ExplainRequest |r| Route::Workflow(&r.namespace, &r.workflow_id);
    read "DescribeQueue" DescribeQueueRequest |r| Route::Home(&r.namespace, &r.task_queue);
}

/// Where what a call is about is.
fn place_of(node: &Node, route: &Route<'_>) -> Place {
    match route {
        Route::Here | Route::Everybody => Place::Here,
        Route::Leader | Route::Once => node.leader(),
        Route::Workflow(namespace, workflow_id) => of_workflow(node, namespace, workflow_id),
        Route::Schedule(namespace, id) => of_workflow(node, namespace, &format!("{WORKFLOW_ID_PREFIX}{id}")),
        Route::Activity(_, "") => Place::Here,
        Route::Activity(namespace, id) => {
            of_workflow(node, namespace, &format!("{}{id}", standalone::WORKFLOW_ID_PREFIX))
        }
        // What cannot be read is refused here, with the right words.
        Route::Token(namespace, token) => {
            workflow_of_token(node, namespace, token).map_or(Place::Here, |key| node.place(&key))
        }
        Route::Query(token) => {
            let body = token.len().checked_sub(MAC_BYTES).map(|length| &token[..length]);
            let asker = body.and_then(|body| QueryToken::decode(body).ok()).map_or(0, |token| token.node);
            node.node_place(asker)
        }
        Route::Home(namespace, name) => match node.namespaces.get(namespace) {
            Some(namespace) if !name.is_empty() => node.home(namespace.key, name),
            _ => Place::Here,
        },
    }
}

fn of_workflow(node: &Node, namespace: &str, workflow_id: &str) -> Place {
    match node.namespaces.get(namespace) {
        Some(namespace) if !workflow_id.is_empty() => node.place(&WorkflowKey::new(namespace.key, workflow_id)),
        _ => Place::Here,
    }
}

/// The workflow of a task token, of ours or of Temporal's.
fn workflow_of_token(node: &Node, namespace: &str, token: &[u8]) -> Option<WorkflowKey> {
    let namespace = node.namespaces.get(namespace)?;
    let task = TaskToken::open(token, &namespace.token_key).map(|token| token.workflow_id);
    let workflow_id = task.or_else(|_| ActivityToken::open(token, &namespace.token_key).map(|token| token.workflow_id));
    match workflow_id {
        Ok(workflow_id) => Some(WorkflowKey::new(namespace.key, &workflow_id)),
        Err(_) => foreign_workflow(node, token),
    }
}

/// Makes a call of a service that is not Temporal's main one where it belongs.
macro_rules! here {
    ($self:ident, $request:ident => $here:expr) => {
        match &$self.node.cluster {
            None => $here,
            Some(cluster) => {
                let here =
                    crate::grpc::routing::routed(&$self.node, cluster, $request, |$request| async move { $here });
                Box::pin(here).await
            }
        }
    };
}
pub(crate) use here;

/// What another node needs to make a call.
pub(crate) fn forwarded<Q: Routed>(message: &Q, metadata: CallMetadata, deadline: Option<Instant>) -> ForwardedCall {
    ForwardedCall {
        path: Q::PATH.to_owned(),
        body: Bytes::from(message.encode_to_vec()),
        timeout: deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
        connection: metadata.connection,
        is_tool: metadata.is_tool,
        sdk: metadata.sdk(),
        task: None,
    }
}

impl Workflows {
    /// What a poll needs among several nodes: the task that another node chose for it, or what that node needs.
    pub(super) fn poll_among_nodes<Q: Routed>(
        &self,
        request: &Request<Q>,
    ) -> (Option<RemoteTask>, Option<ForwardedCall>) {
        if self.node.cluster.is_none() {
            return (None, None);
        }
        let task = request.extensions().get::<RemoteTask>().cloned();
        let metadata = CallMetadata::of(request);
        let deadline = metadata.timeout.map(|timeout| Instant::now() + timeout);
        (task, Some(forwarded(request.get_ref(), metadata, deadline)))
    }
}

impl Workflows {
    /// Lets all other nodes know what workers told about themselves with a poll.
    pub(super) fn tell_everybody(
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
        cluster.forward_to_all(&forwarded(&report, metadata, None));
    }
}

/// The answer to a poll that the owner of its task made.
pub(super) fn answer_there<A: Message + Default>(
    body: Bytes,
    delivery: Option<Delivery>,
) -> Result<Response<A>, Status> {
    let (message, details) = (String::new(), Bytes::new());
    answer_of(Forwarded { code: 0, message, details, body, delivery, moved: false })
}

/// An answer that another node made.
pub(crate) fn answer_of<A: Message + Default>(forwarded: Forwarded) -> Result<Response<A>, Status> {
    if forwarded.code != 0 {
        let code = Code::from_i32(forwarded.code);
        return Err(Status::with_details(code, forwarded.message, forwarded.details));
    }
    let answer = A::decode(forwarded.body)
        .map_err(|error| Status::internal(format!("the answer of another node cannot be read: {error}")))?;
    let mut response = Response::new(answer);
    if let Some(delivery) = forwarded.delivery {
        response.extensions_mut().insert(delivery);
    }
    Ok(response)
}

/// Response metadata of a change: the nodes that have it, those that have not and admit no callers until they have, and those of
/// older versions of which it is not known.
const CONFIRMED: &str = "segno-nodes-confirmed";
const REFUSING: &str = "segno-nodes-refusing";
const UNCONFIRMED: &str = "segno-nodes-unconfirmed";

/// Says where a change is in effect.
fn show_nodes<A>(answer: &mut Response<A>, nodes: &ChangedNodes) {
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
pub(crate) async fn routed<Q, A, F>(
    node: &Arc<Node>,
    cluster: &Arc<Cluster>,
    request: Request<Q>,
    here: impl Fn(Request<Q>) -> F,
) -> Result<Response<A>, Status>
where
    Q: Routed,
    A: Message + Default,
    F: Future<Output = Result<Response<A>, Status>>,
{
    if request.extensions().get::<Via>().is_some() {
        let route = request.get_ref().route();
        let changes = matches!(route, Route::Leader);
        if matches!(route, Route::Leader | Route::Once | Route::Home(..)) && place_of(node, &route) != Place::Here {
            return Err(status::from_call(CallError::Moved));
        }
        if changes {
            cluster.catch_up().await.map_err(status::from_call)?;
        }
        let answer = here(request).await;
        if changes && answer.is_ok() {
            cluster.peers.publish_changes(None).await;
        }
        return answer;
    }
    let metadata = CallMetadata::of(&request);
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let message = request.into_inner();
    let begun = Instant::now();
    let deadline = metadata.timeout.map(|timeout| begun + timeout);
    // Counted from when it was first found to be moving.
    let mut patience: Option<Instant> = None;
    let mut pause = PAUSE_MIN;
    loop {
        let route = message.route();
        match place_of(node, &route) {
            Place::Here => {
                let mut request = Request::from_parts(MetadataMap::new(), Default::default(), message.clone());
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                request.extensions_mut().insert(CallMetadata { timeout: left, ..metadata });
                if let Some(caller) = &caller {
                    request.extensions_mut().insert(caller.clone());
                }
                if matches!(route, Route::Leader) {
                    // A change is made to what is stored, not to what this node had before another one led.
                    cluster.catch_up().await.map_err(status::from_call)?;
                }
                let mut answer = here(request).await;
                if !answer.as_ref().is_err_and(status::is_moved) {
                    match route {
                        Route::Leader => {
                            if let Ok(answer) = &mut answer {
                                show_nodes(answer, &cluster.peers.publish_changes(None).await);
                            }
                        }
                        Route::Everybody => cluster.forward_to_all(&forwarded(&message, metadata, None)),
                        _ => {}
                    }
                    return answer;
                }
            }
            Place::There(other) => {
                let call = forwarded(&message, metadata, deadline);
                match cluster.forward(other, call, deadline).await {
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
                    Err(ForwardError::Unknown) if Q::READS => {}
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
