//! The table of calls: for each RPC its handler, who may make it, where it is handled among nodes, whether it may wait.
//!
//! Everything that depends on an RPC is derived from here: dispatch ([`call`]), security ([`rules`]), metrics, fair
//! share, the answer to calls that are not built. A test compares the table with the descriptors of the protocol. Only
//! services with streaming methods, and that of the test server, are not handled through it; [`OTHERS`] has their
//! rules.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use segno_calls::request_fields::{of_requests, text_field};
use segno_node::{HashMap, Node};
use segno_proto::{
    Rpc, decode::decode, operatorservice as operator, segno_access as access, segno_cluster as cluster,
    segno_flow as flow, segno_verification as verification, segno_worker as worker, segno_workflow as workflow,
    workflowservice as api,
};
use tonic::{Extensions, Request, Response, Status, metadata::MetadataMap};

use crate::{
    grpc::{
        AccessCalls, ClusterCalls, Disabled, FlowCalls, Operator, VerificationCalls, WorkerLeases,
        WorkflowExplanations, Workflows,
        routing::{
            self, Forwarding, Route, RouteSource, of_activity, of_execution, of_explained, of_operations, of_queue,
        },
    },
    metrics::calls::MethodCalls,
    reply::{ReplyFuture, encoded, failed, message_of},
    security::rules::{
        ADMIN, KNOWN, PUBLIC, READ, Rule, Rules, SERVER_ADMIN, SERVER_READ, SERVER_WRITE, WORK, WORK_OR_WRITE, WRITE,
    },
};

/// The handlers of the calls of all services.
pub(crate) struct Handlers {
    node: Arc<Node>,
    workflows: Workflows,
    operator: Operator,
    leases: WorkerLeases,
    flows: FlowCalls,
    access: AccessCalls,
    explanations: WorkflowExplanations,
    cluster: ClusterCalls,
    verifications: VerificationCalls,
}

impl Handlers {
    /// The services on a node, which listens at these addresses for gRPC and HTTP.
    pub(crate) fn new(node: Arc<Node>, addresses: (String, String)) -> Self {
        Self {
            workflows: Workflows::new(node.clone()),
            operator: Operator::new(node.clone(), addresses),
            leases: WorkerLeases::new(node.clone()),
            flows: FlowCalls::new(node.clone()),
            access: AccessCalls::new(node.clone()),
            explanations: WorkflowExplanations::new(node.clone()),
            cluster: ClusterCalls::new(node.clone()),
            verifications: VerificationCalls::new(node.clone()),
            node,
        }
    }
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It is answered as soon as it is handled.
    Short,
    /// It may wait until others have read their lists.
    Lists,
    /// It may wait for an event or a worker.
    Event,
    /// It waits for a task, and counts among the polls of its namespace.
    Poll,
}

/// From an encoded request to its encoded response, on this node.
type Handle = fn(Arc<Handlers>, Bytes, Extensions) -> ReplyFuture;

/// A call that is built.
pub(crate) struct Method {
    pub(crate) path: &'static str,
    pub(crate) wait: Wait,
    /// Workers make it: these calls have fair-share queues of their own.
    pub(crate) is_of_workers: bool,
    /// The number of the field that names the namespace.
    pub(crate) namespace_field: Option<u32>,
    /// How many there were.
    pub(crate) calls: MethodCalls,
    rule: Rule,
    handle: Handle,
    forwarding: Forwarding,
}

impl Method {
    fn new(path: &'static str, rule: Rule, reads: bool, wait: Wait, handle: Handle, route: RouteSource) -> Self {
        let is_of_workers = rule.is_for_workers();
        let forwarding = Forwarding { path, reads, route };
        let calls = MethodCalls::default();
        Self { path, wait, is_of_workers, namespace_field: None, calls, rule, handle, forwarding }
    }

    /// Service and name.
    pub(crate) fn names(&self) -> (&'static str, &'static str) {
        names(self.path)
    }
}

/// A row: the request => handler and how it is called, who may call, whether it changes anything and may wait, and where it is
/// handled (on any node, if nothing is said).
///
/// How handlers are called: `direct` with the whole request, and they make the response themselves; `request` with the whole
/// request; `inner` with its message; `sync_request`, `sync` and `infallible` likewise, without waiting; `constant` with nothing;
/// `within` with all handlers besides, because they make further calls.
macro_rules! calls {
    ($($module:ident :: $request:ident => $service:ident . $method:ident $way:ident, $rule:ident, $effect:ident $wait:ident
        $(, |$r:ident| $route:expr)? $(, $place:path)?;)*) => {
        fn calls() -> Vec<Method> {
            vec![$(Method::new(
                <$module::$request as Rpc>::PATH,
                $rule,
                calls!(@effect $effect),
                calls!(@wait $wait),
                |handlers, message, extensions| match request::<$module::$request>(message, extensions) {
                    Ok(request) => Box::pin(async move {
                        encoded(calls!(@$way handlers $service $method request))
                    }),
                    Err(status) => failed(status),
                },
                calls!(@route $module $request $(|$r| $route)? $($place)?),
            ),)*]
        }
    };
    (@direct $handlers:ident $service:ident $method:ident $request:ident) => {
        $handlers.$service.$method($request).await
    };
    (@request $handlers:ident $service:ident $method:ident $request:ident) => {
        $handlers.$service.$method($request).await.map(Response::new)
    };
    (@inner $handlers:ident $service:ident $method:ident $request:ident) => {
        $handlers.$service.$method($request.into_inner()).await.map(Response::new)
    };
    (@sync_request $handlers:ident $service:ident $method:ident $request:ident) => {
        $handlers.$service.$method($request).map(Response::new)
    };
    (@sync $handlers:ident $service:ident $method:ident $request:ident) => {
        $handlers.$service.$method($request.into_inner()).map(Response::new)
    };
    (@infallible $handlers:ident $service:ident $method:ident $request:ident) => {
        Ok(Response::new($handlers.$service.$method($request.into_inner())))
    };
    (@constant $handlers:ident $service:ident $method:ident $request:ident) => {{
        let _ = $request;
        Ok(Response::new($handlers.$service.$method()))
    }};
    (@within $handlers:ident $service:ident $method:ident $request:ident) => {
        $handlers.$service.$method(&$handlers, $request).await
    };
    (@effect reads) => { true };
    (@effect writes) => { false };
    (@wait short) => { Wait::Short };
    (@wait lists) => { Wait::Lists };
    (@wait waits) => { Wait::Event };
    (@wait poll) => { Wait::Poll };
    (@route $module:ident $request:ident) => { RouteSource::Always(Route::Here) };
    (@route $module:ident $request:ident $place:path) => { RouteSource::Always($place) };
    (@route $module:ident $request:ident |$r:ident| $route:expr) => {
        RouteSource::Request(|message| {
            let $r: $module::$request = decode(message)?;
            Ok($route)
        })
    };
}

/// Features that are off: their calls have nothing but a refusal.
macro_rules! refusals {
    ($($module:ident :: $request:ident, $rule:ident, |$service:ident, $r:ident| $refusal:expr;)*) => {
        fn refusals() -> Vec<Method> {
            vec![$(Method::new(
                <$module::$request as Rpc>::PATH,
                $rule,
                true,
                Wait::Short,
                |handlers, message, extensions| {
                    let ($service, request) = (&handlers.workflows, request::<$module::$request>(message, extensions));
                    failed(request.map_or_else(|status| status, |$r| {
                        let $r = $r.get_ref();
                        $refusal
                    }))
                },
                RouteSource::Always(Route::Here),
            ),)*]
        }
    };
}

calls! {
    api::StartWorkflowExecutionRequest => workflows.start direct, WRITE, writes short, |r| Route::Workflow(r.namespace, r.workflow_id);
    api::SignalWithStartWorkflowExecutionRequest => workflows.signal_with_start inner, WRITE, writes short, |r| Route::Workflow(r.namespace, r.workflow_id);
    api::SignalWorkflowExecutionRequest => workflows.signal inner, WRITE, writes short, |r| of_execution(r.namespace, r.workflow_execution);
    api::RequestCancelWorkflowExecutionRequest => workflows.request_cancel inner, WRITE, writes short, |r| of_execution(r.namespace, r.workflow_execution);
    api::TerminateWorkflowExecutionRequest => workflows.terminate inner, WRITE, writes short, |r| of_execution(r.namespace, r.workflow_execution);
    api::DeleteWorkflowExecutionRequest => workflows.delete inner, WRITE, writes short, |r| of_execution(r.namespace, r.workflow_execution);
    api::DescribeWorkflowExecutionRequest => workflows.describe inner, READ, reads short, |r| of_execution(r.namespace, r.execution);
    api::QueryWorkflowRequest => workflows.query request, READ, reads waits, |r| of_execution(r.namespace, r.execution);
    api::RespondQueryTaskCompletedRequest => workflows.answer_query inner, WORK, writes short, |r| Route::Query(r.task_token);
    api::GetWorkflowExecutionHistoryRequest => workflows.history request, READ, reads waits, |r| of_execution(r.namespace, r.execution);
    api::GetWorkflowExecutionHistoryReverseRequest => workflows.history_reverse inner, READ, reads short, |r| of_execution(r.namespace, r.execution);
    api::PollWorkflowTaskQueueRequest => workflows.poll_workflow_task direct, WORK, writes poll;
    api::RespondWorkflowTaskCompletedRequest => workflows.complete_workflow_task direct, WORK, writes short, |r| Route::Token(r.namespace, r.task_token);
    api::RespondWorkflowTaskFailedRequest => workflows.fail_workflow_task inner, WORK, writes short, |r| Route::Token(r.namespace, r.task_token);
    api::ResetStickyTaskQueueRequest => workflows.reset_sticky inner, WORK, writes short, |r| of_execution(r.namespace, r.execution);
    api::PollActivityTaskQueueRequest => workflows.poll_activity direct, WORK, writes poll;
    api::RecordActivityTaskHeartbeatRequest => workflows.heartbeat request, WORK_OR_WRITE, writes short, |r| Route::Token(r.namespace, r.task_token);
    api::RecordActivityTaskHeartbeatByIdRequest => workflows.heartbeat_by_id inner, WORK_OR_WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::RespondActivityTaskCompletedRequest => workflows.activity_completed inner, WORK_OR_WRITE, writes short, |r| Route::Token(r.namespace, r.task_token);
    api::RespondActivityTaskCompletedByIdRequest => workflows.activity_completed_by_id inner, WORK_OR_WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::RespondActivityTaskFailedRequest => workflows.activity_failed inner, WORK_OR_WRITE, writes short, |r| Route::Token(r.namespace, r.task_token);
    api::RespondActivityTaskFailedByIdRequest => workflows.activity_failed_by_id inner, WORK_OR_WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::RespondActivityTaskCanceledRequest => workflows.activity_canceled inner, WORK_OR_WRITE, writes short, |r| Route::Token(r.namespace, r.task_token);
    api::RespondActivityTaskCanceledByIdRequest => workflows.activity_canceled_by_id inner, WORK_OR_WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::PauseActivityRequest => workflows.operator_pause_activity inner, WRITE, writes short, |r| of_execution(r.namespace, r.execution);
    api::UnpauseActivityRequest => workflows.operator_unpause_activity inner, WRITE, writes short, |r| of_execution(r.namespace, r.execution);
    api::ResetActivityRequest => workflows.operator_reset_activity inner, WRITE, writes short, |r| of_execution(r.namespace, r.execution);
    api::UpdateActivityOptionsRequest => workflows.operator_update_activity_options inner, WRITE, writes short, |r| of_execution(r.namespace, r.execution);
    api::PauseActivityExecutionRequest => workflows.operator_pause_activity_execution inner, WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::UnpauseActivityExecutionRequest => workflows.operator_unpause_activity_execution inner, WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::ResetActivityExecutionRequest => workflows.operator_reset_activity_execution inner, WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::UpdateActivityExecutionOptionsRequest => workflows.operator_update_activity_execution_options inner, WRITE, writes short, |r| of_activity(r.namespace, r.workflow_id, r.activity_id);
    api::GetSystemInfoRequest => workflows.system_info constant, PUBLIC, reads short;
    api::GetClusterInfoRequest => workflows.cluster_info constant, KNOWN, reads short;
    api::DescribeNamespaceRequest => workflows.describe_namespace sync, READ, reads short;
    api::ListNamespacesRequest => workflows.list_namespaces sync, SERVER_READ, reads lists;
    api::RegisterNamespaceRequest => workflows.register_namespace inner, ADMIN, writes short, Route::Leader;
    api::UpdateNamespaceRequest => workflows.update_namespace inner, ADMIN, writes short, Route::Leader;
    api::DeprecateNamespaceRequest => workflows.deprecate_namespace inner, ADMIN, writes short, Route::Leader;
    api::GetSearchAttributesRequest => workflows.search_attributes infallible, KNOWN, reads short;
    api::ShutdownWorkerRequest => workflows.shut_down_worker sync_request, WORK, writes short, Route::AllNodes;
    api::RecordWorkerHeartbeatRequest => workflows.record_heartbeat sync_request, WORK, writes short, Route::AllNodes;
    api::ListWorkersRequest => workflows.list_workers sync, READ, reads lists;
    api::CountWorkersRequest => workflows.count_workers sync, READ, reads lists;
    api::DescribeWorkerRequest => workflows.describe_worker sync, READ, reads short;
    api::ListTaskQueuePartitionsRequest => workflows.list_partitions sync, READ, reads lists, |r| of_queue(r.namespace, r.task_queue);
    api::DescribeTaskQueueRequest => workflows.describe_queue sync, READ, reads short, |r| of_queue(r.namespace, r.task_queue);
    api::ListWorkflowExecutionsRequest => workflows.list request, READ, reads lists;
    api::ScanWorkflowExecutionsRequest => workflows.scan request, READ, reads short;
    api::ListOpenWorkflowExecutionsRequest => workflows.list_open request, READ, reads lists;
    api::ListClosedWorkflowExecutionsRequest => workflows.list_closed request, READ, reads lists;
    api::ListArchivedWorkflowExecutionsRequest => workflows.list_archived sync, READ, reads lists;
    api::CountWorkflowExecutionsRequest => workflows.count request, READ, reads lists;
    api::UpdateWorkflowExecutionRequest => workflows.update request, WRITE, writes waits, |r| of_execution(r.namespace, r.workflow_execution);
    api::PollWorkflowExecutionUpdateRequest => workflows.poll_update request, READ, reads waits, |r| of_execution(r.namespace, r.update_ref.and_then(|update| update.workflow_execution));
    api::ExecuteMultiOperationRequest => workflows.execute_multi_operation request, WRITE, writes waits, |r| of_operations(r.namespace, r.operations);
    api::ResetWorkflowExecutionRequest => workflows.reset inner, WRITE, writes short, |r| of_execution(r.namespace, r.workflow_execution);
    api::PollNexusTaskQueueRequest => workflows.poll_nexus_task direct, WORK, writes poll;
    api::RespondNexusTaskCompletedRequest => workflows.nexus_task_completed inner, WORK, writes short, |r| Route::NexusTask(r.namespace, r.task_token);
    api::RespondNexusTaskFailedRequest => workflows.nexus_task_failed inner, WORK, writes short, |r| Route::NexusTask(r.namespace, r.task_token);
    api::CountActivityExecutionsRequest => workflows.count_activities request, READ, reads lists;
    api::DeleteActivityExecutionRequest => workflows.delete_activity inner, WRITE, writes short, |r| Route::Activity(r.namespace, r.activity_id);
    api::DescribeActivityExecutionRequest => workflows.describe_activity request, READ, reads waits, |r| Route::Activity(r.namespace, r.activity_id);
    api::ListActivityExecutionsRequest => workflows.list_activities request, READ, reads lists;
    api::PollActivityExecutionRequest => workflows.poll_activity_outcome request, READ, reads waits, |r| Route::Activity(r.namespace, r.activity_id);
    api::RequestCancelActivityExecutionRequest => workflows.cancel_activity inner, WRITE, writes short, |r| Route::Activity(r.namespace, r.activity_id);
    api::StartActivityExecutionRequest => workflows.start_activity inner, WRITE, writes short, |r| Route::Activity(r.namespace, r.activity_id);
    api::TerminateActivityExecutionRequest => workflows.terminate_activity inner, WRITE, writes short, |r| Route::Activity(r.namespace, r.activity_id);
    api::StartNexusOperationExecutionRequest => workflows.start_operation inner, WRITE, writes short, |r| Route::Operation(r.namespace, r.operation_id);
    api::DescribeNexusOperationExecutionRequest => workflows.describe_operation request, READ, reads waits, |r| Route::Operation(r.namespace, r.operation_id);
    api::PollNexusOperationExecutionRequest => workflows.poll_operation request, READ, reads waits, |r| Route::Operation(r.namespace, r.operation_id);
    api::ListNexusOperationExecutionsRequest => workflows.list_operations request, READ, reads lists;
    api::CountNexusOperationExecutionsRequest => workflows.count_operations request, READ, reads lists;
    api::RequestCancelNexusOperationExecutionRequest => workflows.cancel_operation inner, WRITE, writes short, |r| Route::Operation(r.namespace, r.operation_id);
    api::TerminateNexusOperationExecutionRequest => workflows.terminate_operation inner, WRITE, writes short, |r| Route::Operation(r.namespace, r.operation_id);
    api::DeleteNexusOperationExecutionRequest => workflows.delete_operation inner, WRITE, writes short, |r| Route::Operation(r.namespace, r.operation_id);
    api::CreateScheduleRequest => workflows.create_schedule inner, WRITE, writes short, |r| Route::Schedule(r.namespace, r.schedule_id);
    api::DescribeScheduleRequest => workflows.describe_schedule inner, READ, reads short, |r| Route::Schedule(r.namespace, r.schedule_id);
    api::UpdateScheduleRequest => workflows.update_schedule inner, WRITE, writes short, |r| Route::Schedule(r.namespace, r.schedule_id);
    api::PatchScheduleRequest => workflows.patch_schedule inner, WRITE, writes short, |r| Route::Schedule(r.namespace, r.schedule_id);
    api::DeleteScheduleRequest => workflows.delete_schedule inner, WRITE, writes short, |r| Route::Schedule(r.namespace, r.schedule_id);
    api::ListScheduleMatchingTimesRequest => workflows.matching_times inner, READ, reads lists, |r| Route::Schedule(r.namespace, r.schedule_id);
    api::ListSchedulesRequest => workflows.list_schedules request, READ, reads lists;
    api::CountSchedulesRequest => workflows.count_schedules request, READ, reads lists;
    api::StartBatchOperationRequest => workflows.start_batch inner, WRITE, writes short, Route::Once;
    api::StopBatchOperationRequest => workflows.stop_batch inner, WRITE, writes short, Route::Once;
    api::DescribeBatchOperationRequest => workflows.describe_batch inner, READ, reads short, Route::Once;
    api::ListBatchOperationsRequest => workflows.list_batches sync, READ, reads lists, Route::Once;
    api::CreateWorkflowRuleRequest => workflows.create_rule inner, WRITE, writes short, Route::Leader;
    api::DescribeWorkflowRuleRequest => workflows.describe_rule inner, READ, reads short;
    api::DeleteWorkflowRuleRequest => workflows.delete_rule inner, WRITE, writes short, Route::Leader;
    api::ListWorkflowRulesRequest => workflows.list_rules inner, READ, reads lists;
    api::PauseWorkflowExecutionRequest => workflows.pause_workflow inner, WRITE, writes short, |r| Route::Workflow(r.namespace, r.workflow_id);
    api::UpdateWorkflowExecutionOptionsRequest => workflows.update_options inner, WRITE, writes short, |r| of_execution(r.namespace, r.workflow_execution);
    api::UnpauseWorkflowExecutionRequest => workflows.unpause_workflow inner, WRITE, writes short, |r| Route::Workflow(r.namespace, r.workflow_id);
    api::CreateWorkerDeploymentRequest => workflows.create_deployment inner, WRITE, writes short, Route::Leader;
    api::CreateWorkerDeploymentVersionRequest => workflows.create_deployment_version inner, WRITE, writes short, Route::Leader;
    api::DescribeWorkerDeploymentRequest => workflows.describe_deployment request, READ, reads short;
    api::DescribeWorkerDeploymentVersionRequest => workflows.describe_deployment_version request, READ, reads short;
    api::ListWorkerDeploymentsRequest => workflows.list_deployments request, READ, reads lists;
    api::SetWorkerDeploymentCurrentVersionRequest => workflows.set_current_version inner, WRITE, writes short, Route::Leader;
    api::SetWorkerDeploymentRampingVersionRequest => workflows.set_ramping_version inner, WRITE, writes short, Route::Leader;
    api::SetWorkerDeploymentManagerRequest => workflows.set_deployment_manager inner, WRITE, writes short, Route::Leader;
    api::UpdateWorkerDeploymentVersionMetadataRequest => workflows.update_version_metadata inner, WRITE, writes short, Route::Leader;
    api::DeleteWorkerDeploymentVersionRequest => workflows.delete_deployment_version inner, WRITE, writes short, Route::Leader;
    api::DeleteWorkerDeploymentRequest => workflows.delete_deployment inner, WRITE, writes short, Route::Leader;
    api::UpdateTaskQueueConfigRequest => workflows.update_queue_config inner, WRITE, writes short, Route::Leader;

    operator::AddSearchAttributesRequest => operator.add_attributes inner, ADMIN, writes short, Route::Leader;
    operator::RemoveSearchAttributesRequest => operator.remove_attributes inner, ADMIN, writes short, Route::Leader;
    operator::ListSearchAttributesRequest => operator.list_attributes sync, READ, reads lists;
    operator::ListClustersRequest => operator.list_clusters infallible, SERVER_READ, reads lists;
    operator::CreateNexusEndpointRequest => operator.create_nexus_endpoint inner, SERVER_ADMIN, writes short, Route::Leader;
    operator::UpdateNexusEndpointRequest => operator.update_nexus_endpoint inner, SERVER_ADMIN, writes short, Route::Leader;
    operator::DeleteNexusEndpointRequest => operator.delete_nexus_endpoint inner, SERVER_ADMIN, writes short, Route::Leader;
    operator::GetNexusEndpointRequest => operator.nexus_endpoint sync, KNOWN, reads short;
    operator::ListNexusEndpointsRequest => operator.list_nexus_endpoints sync, KNOWN, reads lists;
    operator::DeleteNamespaceRequest => operator.delete_namespace inner, ADMIN, writes short, Route::Leader;

    flow::CheckRequest => flows.check direct, READ, reads short;
    flow::ListRequest => flows.list direct, READ, reads waits;
    flow::DescribeRequest => flows.describe direct, READ, reads short;
    flow::GetSourceRequest => flows.get_source direct, READ, reads short;
    flow::DeployRequest => flows.deploy direct, WRITE, writes short, Route::Leader;
    flow::ActivateRequest => flows.activate direct, WRITE, writes short, Route::Leader;
    flow::RollbackRequest => flows.rollback direct, WRITE, writes short, Route::Leader;
    flow::DeleteRequest => flows.delete direct, WRITE, writes short, Route::Leader;
    flow::DescribeRunRequest => flows.describe_run direct, READ, reads short, |r| Route::Workflow(r.namespace, r.workflow_id);
    flow::MigrateRequest => flows.migrate direct, WRITE, writes short, |r| Route::Workflow(r.namespace, r.workflow_id);

    access::CreateKeyRequest => access.create_key direct, SERVER_ADMIN, writes short, Route::Leader;
    access::ListKeysRequest => access.list_keys direct, SERVER_ADMIN, reads lists;
    access::RevokeKeyRequest => access.revoke_key direct, SERVER_ADMIN, writes short, Route::Leader;
    access::WhoAmIRequest => access.who_am_i direct, KNOWN, reads short;

    cluster::DescribeRequest => cluster.describe direct, SERVER_READ, reads short;
    cluster::DrainRequest => cluster.drain direct, SERVER_ADMIN, writes short;
    cluster::FenceRequest => cluster.fence direct, SERVER_ADMIN, writes short;

    worker::HeartbeatRequest => leases.heartbeat direct, WORK, writes short, |r| Route::Home(r.namespace, r.worker_instance_key);
    worker::ListWorkersRequest => leases.list_workers direct, READ, reads lists;
    worker::DescribeWorkerRequest => leases.describe_worker direct, READ, reads short;

    verification::StartRequest => verifications.start direct, WRITE, writes short, Route::Once;
    verification::DescribeRequest => verifications.describe direct, READ, reads short, Route::Once;
    verification::ListRequest => verifications.list direct, READ, reads lists, Route::Once;
    verification::StopRequest => verifications.stop direct, WRITE, writes short, Route::Once;
    verification::TryRunRequest => verifications.try_run direct, WRITE, reads waits, |r| Route::Workflow(r.namespace, r.workflow_id);

    workflow::ExplainRequest => explanations.explain within, READ, reads short, |r| of_explained(r);
    workflow::DescribeQueueRequest => explanations.describe_queue direct, READ, reads short, |r| Route::Home(r.namespace, r.task_queue);
}

refusals! {
    api::TriggerWorkflowRuleRequest, WRITE, |service, r| service.disabled(&r.namespace, Disabled::Rules("TriggerWorkflowRule"));
    api::UpdateWorkerBuildIdCompatibilityRequest, WRITE, |service, r| service.disabled(&r.namespace, Disabled::VersionSets);
    api::GetWorkerBuildIdCompatibilityRequest, READ, |service, r| service.disabled(&r.namespace, Disabled::VersionSets);
    api::UpdateWorkerVersioningRulesRequest, WRITE, |service, r| service.disabled(&r.namespace, Disabled::VersionRules);
    api::GetWorkerVersioningRulesRequest, READ, |service, r| service.disabled(&r.namespace, Disabled::VersionRules);
    api::GetWorkerTaskReachabilityRequest, READ, |service, r| service.disabled(&r.namespace, Disabled::VersionRules);
    api::DescribeDeploymentRequest, READ, |service, r| service.disabled(&r.namespace, Disabled::Deployments);
    api::ListDeploymentsRequest, READ, |service, r| service.disabled(&r.namespace, Disabled::Deployments);
    api::GetDeploymentReachabilityRequest, READ, |service, r| service.disabled(&r.namespace, Disabled::Deployments);
    api::GetCurrentDeploymentRequest, READ, |service, r| service.disabled(&r.namespace, Disabled::Deployments);
    api::SetCurrentDeploymentRequest, WRITE, |service, r| service.disabled(&r.namespace, Disabled::Deployments);
    api::UpdateWorkerDeploymentVersionComputeConfigRequest, WRITE, |service, r| service.no_compute(&r.namespace);
    api::ValidateWorkerDeploymentVersionComputeConfigRequest, READ, |service, r| service.no_compute(&r.namespace);
    api::FetchWorkerConfigRequest, WORK, |service, r| service.disabled(&r.namespace, Disabled::WorkerConfig("FetchWorkerConfig"));
    api::UpdateWorkerConfigRequest, WRITE, |service, r| service.disabled(&r.namespace, Disabled::WorkerConfig("UpdateWorkerConfig"));
    api::PollWorkflowExecutionTimeSkippingRequest, READ, |service, r| service.workflow_time_skipping(r);
}

/// Temporal's service for workers and clients.
pub(crate) const WORKFLOW_SERVICE: &str = "temporal.api.workflowservice.v1.WorkflowService";
/// Temporal's service for operators.
pub(crate) const OPERATOR_SERVICE: &str = "temporal.api.operatorservice.v1.OperatorService";

/// Calls of Temporal's services that are not built.
const UNBUILT: &[(&str, &[(&str, Rule)])] =
    &[(OPERATOR_SERVICE, &[("AddOrUpdateRemoteCluster", SERVER_ADMIN), ("RemoveRemoteCluster", SERVER_ADMIN)])];

/// Calls that tonic's own services handle, and the test server's.
const OTHERS: &[(&str, &[(&str, Rule)])] = &[
    ("grpc.health.v1.Health", &[("Check", PUBLIC), ("List", PUBLIC), ("Watch", PUBLIC)]),
    ("grpc.reflection.v1.ServerReflection", &[("ServerReflectionInfo", KNOWN)]),
    ("grpc.reflection.v1alpha.ServerReflection", &[("ServerReflectionInfo", KNOWN)]),
    (
        "temporal.api.testservice.v1.TestService",
        &[
            ("GetCurrentTime", KNOWN),
            ("LockTimeSkipping", SERVER_WRITE),
            ("Sleep", SERVER_WRITE),
            ("SleepUntil", SERVER_WRITE),
            ("UnlockTimeSkipping", SERVER_WRITE),
            ("UnlockTimeSkippingWithSleep", SERVER_WRITE),
        ],
    ),
];

static METHODS: LazyLock<HashMap<&'static [u8], Method>> = LazyLock::new(|| {
    let fields = of_requests(|_, message| text_field(message, "namespace"));
    let methods = calls().into_iter().chain(refusals()).map(|mut method| {
        method.namespace_field = fields.get(method.path).copied().flatten();
        (method.path.as_bytes(), method)
    });
    methods.collect()
});

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let built = all().map(|method| (method.path.to_owned(), method.rule, method.wait == Wait::Poll));
    let others = UNBUILT.iter().chain(OTHERS).flat_map(|(service, calls)| {
        calls.iter().map(move |(name, rule)| (format!("/{service}/{name}"), *rule, false))
    });
    Rules::new(built.chain(others))
});

/// All calls that are built.
pub(crate) fn all() -> impl Iterator<Item = &'static Method> {
    METHODS.values()
}

/// The call that a path names, if it is built.
pub(crate) fn find(path: &[u8]) -> Option<&'static Method> {
    METHODS.get(path)
}

/// Who may make which call.
pub(crate) fn rules() -> &'static Rules {
    &RULES
}

/// Service and name of a path.
pub(crate) fn names(path: &str) -> (&str, &str) {
    path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default()
}

/// Makes a call where it belongs: on this node, or on another one.
pub(crate) fn call(
    handlers: &Arc<Handlers>,
    method: &'static Method,
    message: Bytes,
    extensions: Extensions,
) -> ReplyFuture {
    if handlers.node.cluster.is_none() {
        return (method.handle)(handlers.clone(), message, extensions);
    }
    let handlers = handlers.clone();
    Box::pin(async move {
        let (node, Some(cluster)) = (&handlers.node, handlers.node.cluster.as_ref()) else {
            return Err(Status::internal("the node is not in a cluster"));
        };
        let message = handlers.access.prepared(method.path, message, &extensions)?;
        let here = |message, extensions| (method.handle)(handlers.clone(), message, extensions);
        routing::routed(node, cluster, &method.forwarding, message, extensions, &here).await
    })
}

impl Handlers {
    /// Whether workflows may call operations of the server itself.
    pub(crate) fn allows_system_operations(&self) -> bool {
        self.node.runs.options.system_operations
    }

    /// Refuses a request to signal a workflow, and start it if it is not open, that this server refuses in every state of the workflow.
    pub(crate) fn check_signal_with_start(
        &self,
        request: api::SignalWithStartWorkflowExecutionRequest,
    ) -> Result<(), Status> {
        self.workflows.checked_signal_with_start(request).map(drop)
    }

    /// Makes a call with a request of its own type.
    pub(crate) async fn make<Q: Rpc>(self: &Arc<Self>, request: &Q) -> Result<Q::Response, Status> {
        let method = find(Q::PATH.as_bytes()).ok_or_else(|| Status::unimplemented(Q::PATH))?;
        let reply = call(self, method, request.encode_to_vec().into(), Extensions::default()).await?;
        Ok(decode(message_of(reply.into_inner()))?)
    }
}

fn request<Q: Rpc>(message: Bytes, extensions: Extensions) -> Result<Request<Q>, Status> {
    Ok(Request::from_parts(MetadataMap::new(), extensions, decode(message)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message;

    use super::*;

    /// The calls that the descriptors of the protocol have.
    fn described() -> BTreeSet<String> {
        let set = prost_types::FileDescriptorSet::decode(segno_proto::DESCRIPTORS).expect("descriptors");
        let mut paths = BTreeSet::new();
        for file in &set.file {
            for service in &file.service {
                let methods = service.method.iter();
                paths.extend(methods.map(|method| format!("/{}.{}/{}", file.package(), service.name(), method.name())));
            }
        }
        paths
    }

    #[test]
    fn every_call_of_the_protocol_is_in_the_table_once() {
        let listed = |table: &[(&str, &[(&str, Rule)])]| -> Vec<String> {
            let rows = table.iter().flat_map(|(service, calls)| calls.iter().map(move |(name, _)| (service, name)));
            rows.map(|(service, name)| format!("/{service}/{name}")).collect()
        };
        let mut paths: Vec<String> = calls().iter().chain(&refusals()).map(|method| method.path.to_owned()).collect();
        assert_eq!(paths.len(), METHODS.len());
        paths.extend(listed(UNBUILT));
        paths.extend(listed(OTHERS).into_iter().filter(|path| path.starts_with("/temporal.")));
        let known: BTreeSet<String> = paths.iter().cloned().collect();
        assert_eq!(known.len(), paths.len(), "a call is in the table twice");
        assert_eq!(known, described());
    }

    #[test]
    fn calls_within_a_namespace_name_it() {
        for path in described() {
            let call = rules().find(&path).expect("a rule");
            assert_eq!(call.is_in_namespace(), call.fields.name.is_some(), "{path}");
        }
    }

    #[test]
    fn calls_of_workers_and_polls_are_known() {
        let method = |name: &str| find(format!("/{WORKFLOW_SERVICE}/{name}").as_bytes()).expect("a call");
        let (poll, start) = (method("PollWorkflowTaskQueue"), method("StartWorkflowExecution"));
        assert!(poll.is_of_workers && poll.wait == Wait::Poll && poll.namespace_field.is_some());
        assert!(!start.is_of_workers && start.wait == Wait::Short && start.names().1 == "StartWorkflowExecution");
        assert!(method("RespondActivityTaskCompleted").is_of_workers && method("QueryWorkflow").wait == Wait::Event);
    }
}
