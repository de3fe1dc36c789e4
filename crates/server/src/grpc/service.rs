//! The generated trait, tied to the methods of this module: one line of thought per call, none of logic.

use segno_proto::workflowservice::{self as api, workflow_service_server::WorkflowService};
use tonic::{Request, Response, Status};

use super::{Workflows, call::call, disabled::Disabled, routing::routed};

#[tonic::async_trait]
impl WorkflowService for Workflows {
    async fn start_workflow_execution(
        &self,
        request: Request<api::StartWorkflowExecutionRequest>,
    ) -> Result<Response<api::StartWorkflowExecutionResponse>, Status> {
        call!(direct self request start)
    }

    async fn signal_with_start_workflow_execution(
        &self,
        request: Request<api::SignalWithStartWorkflowExecutionRequest>,
    ) -> Result<Response<api::SignalWithStartWorkflowExecutionResponse>, Status> {
        call!(inner self request signal_with_start)
    }

    async fn signal_workflow_execution(
        &self,
        request: Request<api::SignalWorkflowExecutionRequest>,
    ) -> Result<Response<api::SignalWorkflowExecutionResponse>, Status> {
        call!(inner self request signal)
    }

    async fn request_cancel_workflow_execution(
        &self,
        request: Request<api::RequestCancelWorkflowExecutionRequest>,
    ) -> Result<Response<api::RequestCancelWorkflowExecutionResponse>, Status> {
        call!(inner self request request_cancel)
    }

    async fn terminate_workflow_execution(
        &self,
        request: Request<api::TerminateWorkflowExecutionRequest>,
    ) -> Result<Response<api::TerminateWorkflowExecutionResponse>, Status> {
        call!(inner self request terminate)
    }

    async fn delete_workflow_execution(
        &self,
        request: Request<api::DeleteWorkflowExecutionRequest>,
    ) -> Result<Response<api::DeleteWorkflowExecutionResponse>, Status> {
        call!(inner self request delete)
    }

    async fn describe_workflow_execution(
        &self,
        request: Request<api::DescribeWorkflowExecutionRequest>,
    ) -> Result<Response<api::DescribeWorkflowExecutionResponse>, Status> {
        call!(inner self request describe)
    }

    async fn query_workflow(
        &self,
        request: Request<api::QueryWorkflowRequest>,
    ) -> Result<Response<api::QueryWorkflowResponse>, Status> {
        call!(request self request query)
    }

    async fn respond_query_task_completed(
        &self,
        request: Request<api::RespondQueryTaskCompletedRequest>,
    ) -> Result<Response<api::RespondQueryTaskCompletedResponse>, Status> {
        call!(inner self request answer_query)
    }

    async fn get_workflow_execution_history(
        &self,
        request: Request<api::GetWorkflowExecutionHistoryRequest>,
    ) -> Result<Response<api::GetWorkflowExecutionHistoryResponse>, Status> {
        call!(request self request history)
    }

    async fn get_workflow_execution_history_reverse(
        &self,
        request: Request<api::GetWorkflowExecutionHistoryReverseRequest>,
    ) -> Result<Response<api::GetWorkflowExecutionHistoryReverseResponse>, Status> {
        call!(inner self request history_reverse)
    }

    async fn poll_workflow_task_queue(
        &self,
        request: Request<api::PollWorkflowTaskQueueRequest>,
    ) -> Result<Response<api::PollWorkflowTaskQueueResponse>, Status> {
        call!(direct self request poll_workflow_task)
    }

    async fn respond_workflow_task_completed(
        &self,
        request: Request<api::RespondWorkflowTaskCompletedRequest>,
    ) -> Result<Response<api::RespondWorkflowTaskCompletedResponse>, Status> {
        call!(direct self request complete_workflow_task)
    }

    async fn respond_workflow_task_failed(
        &self,
        request: Request<api::RespondWorkflowTaskFailedRequest>,
    ) -> Result<Response<api::RespondWorkflowTaskFailedResponse>, Status> {
        call!(inner self request fail_workflow_task)
    }

    async fn reset_sticky_task_queue(
        &self,
        request: Request<api::ResetStickyTaskQueueRequest>,
    ) -> Result<Response<api::ResetStickyTaskQueueResponse>, Status> {
        call!(inner self request reset_sticky)
    }

    async fn poll_activity_task_queue(
        &self,
        request: Request<api::PollActivityTaskQueueRequest>,
    ) -> Result<Response<api::PollActivityTaskQueueResponse>, Status> {
        call!(direct self request poll_activity)
    }

    async fn record_activity_task_heartbeat(
        &self,
        request: Request<api::RecordActivityTaskHeartbeatRequest>,
    ) -> Result<Response<api::RecordActivityTaskHeartbeatResponse>, Status> {
        call!(request self request heartbeat)
    }

    async fn record_activity_task_heartbeat_by_id(
        &self,
        request: Request<api::RecordActivityTaskHeartbeatByIdRequest>,
    ) -> Result<Response<api::RecordActivityTaskHeartbeatByIdResponse>, Status> {
        call!(inner self request heartbeat_by_id)
    }

    async fn respond_activity_task_completed(
        &self,
        request: Request<api::RespondActivityTaskCompletedRequest>,
    ) -> Result<Response<api::RespondActivityTaskCompletedResponse>, Status> {
        call!(inner self request activity_completed)
    }

    async fn respond_activity_task_completed_by_id(
        &self,
        request: Request<api::RespondActivityTaskCompletedByIdRequest>,
    ) -> Result<Response<api::RespondActivityTaskCompletedByIdResponse>, Status> {
        call!(inner self request activity_completed_by_id)
    }

    async fn respond_activity_task_failed(
        &self,
        request: Request<api::RespondActivityTaskFailedRequest>,
    ) -> Result<Response<api::RespondActivityTaskFailedResponse>, Status> {
        call!(inner self request activity_failed)
    }

    async fn respond_activity_task_failed_by_id(
        &self,
        request: Request<api::RespondActivityTaskFailedByIdRequest>,
    ) -> Result<Response<api::RespondActivityTaskFailedByIdResponse>, Status> {
        call!(inner self request activity_failed_by_id)
    }

    async fn respond_activity_task_canceled(
        &self,
        request: Request<api::RespondActivityTaskCanceledRequest>,
    ) -> Result<Response<api::RespondActivityTaskCanceledResponse>, Status> {
        call!(inner self request activity_canceled)
    }

    async fn respond_activity_task_canceled_by_id(
        &self,
        request: Request<api::RespondActivityTaskCanceledByIdRequest>,
    ) -> Result<Response<api::RespondActivityTaskCanceledByIdResponse>, Status> {
        call!(inner self request activity_canceled_by_id)
    }

    async fn pause_activity(
        &self,
        request: Request<api::PauseActivityRequest>,
    ) -> Result<Response<api::PauseActivityResponse>, Status> {
        call!(inner self request operator_pause_activity)
    }

    async fn unpause_activity(
        &self,
        request: Request<api::UnpauseActivityRequest>,
    ) -> Result<Response<api::UnpauseActivityResponse>, Status> {
        call!(inner self request operator_unpause_activity)
    }

    async fn reset_activity(
        &self,
        request: Request<api::ResetActivityRequest>,
    ) -> Result<Response<api::ResetActivityResponse>, Status> {
        call!(inner self request operator_reset_activity)
    }

    async fn update_activity_options(
        &self,
        request: Request<api::UpdateActivityOptionsRequest>,
    ) -> Result<Response<api::UpdateActivityOptionsResponse>, Status> {
        call!(inner self request operator_update_activity_options)
    }

    async fn pause_activity_execution(
        &self,
        request: Request<api::PauseActivityExecutionRequest>,
    ) -> Result<Response<api::PauseActivityExecutionResponse>, Status> {
        call!(inner self request operator_pause_activity_execution)
    }

    async fn unpause_activity_execution(
        &self,
        request: Request<api::UnpauseActivityExecutionRequest>,
    ) -> Result<Response<api::UnpauseActivityExecutionResponse>, Status> {
        call!(inner self request operator_unpause_activity_execution)
    }

    async fn reset_activity_execution(
        &self,
        request: Request<api::ResetActivityExecutionRequest>,
    ) -> Result<Response<api::ResetActivityExecutionResponse>, Status> {
        call!(inner self request operator_reset_activity_execution)
    }

    async fn update_activity_execution_options(
        &self,
        request: Request<api::UpdateActivityExecutionOptionsRequest>,
    ) -> Result<Response<api::UpdateActivityExecutionOptionsResponse>, Status> {
        call!(inner self request operator_update_activity_execution_options)
    }

    async fn get_system_info(
        &self,
        request: Request<api::GetSystemInfoRequest>,
    ) -> Result<Response<api::GetSystemInfoResponse>, Status> {
        call!(plain self request system_info)
    }

    async fn get_cluster_info(
        &self,
        request: Request<api::GetClusterInfoRequest>,
    ) -> Result<Response<api::GetClusterInfoResponse>, Status> {
        call!(plain self request cluster_info)
    }

    async fn describe_namespace(
        &self,
        request: Request<api::DescribeNamespaceRequest>,
    ) -> Result<Response<api::DescribeNamespaceResponse>, Status> {
        call!(sync self request describe_namespace)
    }

    async fn list_namespaces(
        &self,
        request: Request<api::ListNamespacesRequest>,
    ) -> Result<Response<api::ListNamespacesResponse>, Status> {
        call!(sync self request list_namespaces)
    }

    async fn register_namespace(
        &self,
        request: Request<api::RegisterNamespaceRequest>,
    ) -> Result<Response<api::RegisterNamespaceResponse>, Status> {
        call!(inner self request register_namespace)
    }

    async fn update_namespace(
        &self,
        request: Request<api::UpdateNamespaceRequest>,
    ) -> Result<Response<api::UpdateNamespaceResponse>, Status> {
        call!(inner self request update_namespace)
    }

    async fn deprecate_namespace(
        &self,
        request: Request<api::DeprecateNamespaceRequest>,
    ) -> Result<Response<api::DeprecateNamespaceResponse>, Status> {
        call!(inner self request deprecate_namespace)
    }

    async fn get_search_attributes(
        &self,
        request: Request<api::GetSearchAttributesRequest>,
    ) -> Result<Response<api::GetSearchAttributesResponse>, Status> {
        call!(syncok self request search_attributes)
    }

    async fn shutdown_worker(
        &self,
        request: Request<api::ShutdownWorkerRequest>,
    ) -> Result<Response<api::ShutdownWorkerResponse>, Status> {
        call!(heard self request shut_down_worker)
    }

    async fn record_worker_heartbeat(
        &self,
        request: Request<api::RecordWorkerHeartbeatRequest>,
    ) -> Result<Response<api::RecordWorkerHeartbeatResponse>, Status> {
        call!(heard self request record_heartbeat)
    }

    async fn list_workers(
        &self,
        request: Request<api::ListWorkersRequest>,
    ) -> Result<Response<api::ListWorkersResponse>, Status> {
        call!(sync self request list_workers)
    }

    async fn count_workers(
        &self,
        request: Request<api::CountWorkersRequest>,
    ) -> Result<Response<api::CountWorkersResponse>, Status> {
        call!(sync self request count_workers)
    }

    async fn describe_worker(
        &self,
        request: Request<api::DescribeWorkerRequest>,
    ) -> Result<Response<api::DescribeWorkerResponse>, Status> {
        call!(sync self request describe_worker)
    }

    async fn list_task_queue_partitions(
        &self,
        request: Request<api::ListTaskQueuePartitionsRequest>,
    ) -> Result<Response<api::ListTaskQueuePartitionsResponse>, Status> {
        call!(sync self request list_partitions)
    }

    async fn describe_task_queue(
        &self,
        request: Request<api::DescribeTaskQueueRequest>,
    ) -> Result<Response<api::DescribeTaskQueueResponse>, Status> {
        call!(sync self request describe_queue)
    }

    async fn list_workflow_executions(
        &self,
        request: Request<api::ListWorkflowExecutionsRequest>,
    ) -> Result<Response<api::ListWorkflowExecutionsResponse>, Status> {
        call!(request self request list)
    }

    async fn scan_workflow_executions(
        &self,
        request: Request<api::ScanWorkflowExecutionsRequest>,
    ) -> Result<Response<api::ScanWorkflowExecutionsResponse>, Status> {
        call!(request self request scan)
    }

    async fn list_open_workflow_executions(
        &self,
        request: Request<api::ListOpenWorkflowExecutionsRequest>,
    ) -> Result<Response<api::ListOpenWorkflowExecutionsResponse>, Status> {
        call!(request self request list_open)
    }

    async fn list_closed_workflow_executions(
        &self,
        request: Request<api::ListClosedWorkflowExecutionsRequest>,
    ) -> Result<Response<api::ListClosedWorkflowExecutionsResponse>, Status> {
        call!(request self request list_closed)
    }

    async fn list_archived_workflow_executions(
        &self,
        request: Request<api::ListArchivedWorkflowExecutionsRequest>,
    ) -> Result<Response<api::ListArchivedWorkflowExecutionsResponse>, Status> {
        call!(sync self request list_archived)
    }

    async fn count_workflow_executions(
        &self,
        request: Request<api::CountWorkflowExecutionsRequest>,
    ) -> Result<Response<api::CountWorkflowExecutionsResponse>, Status> {
        call!(request self request count)
    }

    async fn update_workflow_execution(
        &self,
        request: Request<api::UpdateWorkflowExecutionRequest>,
    ) -> Result<Response<api::UpdateWorkflowExecutionResponse>, Status> {
        call!(request self request update)
    }

    async fn poll_workflow_execution_update(
        &self,
        request: Request<api::PollWorkflowExecutionUpdateRequest>,
    ) -> Result<Response<api::PollWorkflowExecutionUpdateResponse>, Status> {
        call!(request self request poll_update)
    }

    async fn execute_multi_operation(
        &self,
        request: Request<api::ExecuteMultiOperationRequest>,
    ) -> Result<Response<api::ExecuteMultiOperationResponse>, Status> {
        call!(request self request execute_multi_operation)
    }

    async fn reset_workflow_execution(
        &self,
        request: Request<api::ResetWorkflowExecutionRequest>,
    ) -> Result<Response<api::ResetWorkflowExecutionResponse>, Status> {
        call!(inner self request reset)
    }

    async fn poll_nexus_task_queue(
        &self,
        request: Request<api::PollNexusTaskQueueRequest>,
    ) -> Result<Response<api::PollNexusTaskQueueResponse>, Status> {
        call!(direct self request poll_nexus_task)
    }

    async fn respond_nexus_task_completed(
        &self,
        request: Request<api::RespondNexusTaskCompletedRequest>,
    ) -> Result<Response<api::RespondNexusTaskCompletedResponse>, Status> {
        call!(sync self request nexus_task_completed)
    }

    async fn respond_nexus_task_failed(
        &self,
        request: Request<api::RespondNexusTaskFailedRequest>,
    ) -> Result<Response<api::RespondNexusTaskFailedResponse>, Status> {
        call!(sync self request nexus_task_failed)
    }

    async fn count_activity_executions(
        &self,
        request: Request<api::CountActivityExecutionsRequest>,
    ) -> Result<Response<api::CountActivityExecutionsResponse>, Status> {
        call!(request self request count_activities)
    }

    async fn delete_activity_execution(
        &self,
        request: Request<api::DeleteActivityExecutionRequest>,
    ) -> Result<Response<api::DeleteActivityExecutionResponse>, Status> {
        call!(inner self request delete_activity)
    }

    async fn describe_activity_execution(
        &self,
        request: Request<api::DescribeActivityExecutionRequest>,
    ) -> Result<Response<api::DescribeActivityExecutionResponse>, Status> {
        call!(request self request describe_activity)
    }

    async fn list_activity_executions(
        &self,
        request: Request<api::ListActivityExecutionsRequest>,
    ) -> Result<Response<api::ListActivityExecutionsResponse>, Status> {
        call!(request self request list_activities)
    }

    async fn poll_activity_execution(
        &self,
        request: Request<api::PollActivityExecutionRequest>,
    ) -> Result<Response<api::PollActivityExecutionResponse>, Status> {
        call!(request self request poll_activity_outcome)
    }

    async fn request_cancel_activity_execution(
        &self,
        request: Request<api::RequestCancelActivityExecutionRequest>,
    ) -> Result<Response<api::RequestCancelActivityExecutionResponse>, Status> {
        call!(inner self request cancel_activity)
    }

    async fn start_activity_execution(
        &self,
        request: Request<api::StartActivityExecutionRequest>,
    ) -> Result<Response<api::StartActivityExecutionResponse>, Status> {
        call!(inner self request start_activity)
    }

    async fn terminate_activity_execution(
        &self,
        request: Request<api::TerminateActivityExecutionRequest>,
    ) -> Result<Response<api::TerminateActivityExecutionResponse>, Status> {
        call!(inner self request terminate_activity)
    }

    async fn create_schedule(
        &self,
        request: Request<api::CreateScheduleRequest>,
    ) -> Result<Response<api::CreateScheduleResponse>, Status> {
        call!(inner self request create_schedule)
    }

    async fn describe_schedule(
        &self,
        request: Request<api::DescribeScheduleRequest>,
    ) -> Result<Response<api::DescribeScheduleResponse>, Status> {
        call!(inner self request describe_schedule)
    }

    async fn update_schedule(
        &self,
        request: Request<api::UpdateScheduleRequest>,
    ) -> Result<Response<api::UpdateScheduleResponse>, Status> {
        call!(inner self request update_schedule)
    }

    async fn patch_schedule(
        &self,
        request: Request<api::PatchScheduleRequest>,
    ) -> Result<Response<api::PatchScheduleResponse>, Status> {
        call!(inner self request patch_schedule)
    }

    async fn delete_schedule(
        &self,
        request: Request<api::DeleteScheduleRequest>,
    ) -> Result<Response<api::DeleteScheduleResponse>, Status> {
        call!(inner self request delete_schedule)
    }

    async fn list_schedule_matching_times(
        &self,
        request: Request<api::ListScheduleMatchingTimesRequest>,
    ) -> Result<Response<api::ListScheduleMatchingTimesResponse>, Status> {
        call!(inner self request matching_times)
    }

    async fn list_schedules(
        &self,
        request: Request<api::ListSchedulesRequest>,
    ) -> Result<Response<api::ListSchedulesResponse>, Status> {
        call!(request self request list_schedules)
    }

    async fn count_schedules(
        &self,
        request: Request<api::CountSchedulesRequest>,
    ) -> Result<Response<api::CountSchedulesResponse>, Status> {
        call!(request self request count_schedules)
    }

    async fn start_batch_operation(
        &self,
        request: Request<api::StartBatchOperationRequest>,
    ) -> Result<Response<api::StartBatchOperationResponse>, Status> {
        call!(inner self request start_batch)
    }

    async fn stop_batch_operation(
        &self,
        request: Request<api::StopBatchOperationRequest>,
    ) -> Result<Response<api::StopBatchOperationResponse>, Status> {
        call!(inner self request stop_batch)
    }

    async fn describe_batch_operation(
        &self,
        request: Request<api::DescribeBatchOperationRequest>,
    ) -> Result<Response<api::DescribeBatchOperationResponse>, Status> {
        call!(inner self request describe_batch)
    }

    async fn list_batch_operations(
        &self,
        request: Request<api::ListBatchOperationsRequest>,
    ) -> Result<Response<api::ListBatchOperationsResponse>, Status> {
        call!(sync self request list_batches)
    }

    async fn create_workflow_rule(
        &self,
        request: Request<api::CreateWorkflowRuleRequest>,
    ) -> Result<Response<api::CreateWorkflowRuleResponse>, Status> {
        call!(inner self request create_rule)
    }

    async fn describe_workflow_rule(
        &self,
        request: Request<api::DescribeWorkflowRuleRequest>,
    ) -> Result<Response<api::DescribeWorkflowRuleResponse>, Status> {
        call!(inner self request describe_rule)
    }

    async fn delete_workflow_rule(
        &self,
        request: Request<api::DeleteWorkflowRuleRequest>,
    ) -> Result<Response<api::DeleteWorkflowRuleResponse>, Status> {
        call!(inner self request delete_rule)
    }

    async fn list_workflow_rules(
        &self,
        request: Request<api::ListWorkflowRulesRequest>,
    ) -> Result<Response<api::ListWorkflowRulesResponse>, Status> {
        call!(inner self request list_rules)
    }

    async fn trigger_workflow_rule(
        &self,
        request: Request<api::TriggerWorkflowRuleRequest>,
    ) -> Result<Response<api::TriggerWorkflowRuleResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::Rules("TriggerWorkflowRule")))
    }

    async fn update_worker_build_id_compatibility(
        &self,
        request: Request<api::UpdateWorkerBuildIdCompatibilityRequest>,
    ) -> Result<Response<api::UpdateWorkerBuildIdCompatibilityResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::VersionSets))
    }

    async fn get_worker_build_id_compatibility(
        &self,
        request: Request<api::GetWorkerBuildIdCompatibilityRequest>,
    ) -> Result<Response<api::GetWorkerBuildIdCompatibilityResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::VersionSets))
    }

    async fn update_worker_versioning_rules(
        &self,
        request: Request<api::UpdateWorkerVersioningRulesRequest>,
    ) -> Result<Response<api::UpdateWorkerVersioningRulesResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::VersionRules))
    }

    async fn get_worker_versioning_rules(
        &self,
        request: Request<api::GetWorkerVersioningRulesRequest>,
    ) -> Result<Response<api::GetWorkerVersioningRulesResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::VersionRules))
    }

    async fn get_worker_task_reachability(
        &self,
        request: Request<api::GetWorkerTaskReachabilityRequest>,
    ) -> Result<Response<api::GetWorkerTaskReachabilityResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::VersionRules))
    }

    async fn describe_deployment(
        &self,
        request: Request<api::DescribeDeploymentRequest>,
    ) -> Result<Response<api::DescribeDeploymentResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::Deployments))
    }

    async fn list_deployments(
        &self,
        request: Request<api::ListDeploymentsRequest>,
    ) -> Result<Response<api::ListDeploymentsResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::Deployments))
    }

    async fn get_deployment_reachability(
        &self,
        request: Request<api::GetDeploymentReachabilityRequest>,
    ) -> Result<Response<api::GetDeploymentReachabilityResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::Deployments))
    }

    async fn get_current_deployment(
        &self,
        request: Request<api::GetCurrentDeploymentRequest>,
    ) -> Result<Response<api::GetCurrentDeploymentResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::Deployments))
    }

    async fn set_current_deployment(
        &self,
        request: Request<api::SetCurrentDeploymentRequest>,
    ) -> Result<Response<api::SetCurrentDeploymentResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::Deployments))
    }

    async fn fetch_worker_config(
        &self,
        request: Request<api::FetchWorkerConfigRequest>,
    ) -> Result<Response<api::FetchWorkerConfigResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::WorkerConfig("FetchWorkerConfig")))
    }

    async fn update_worker_config(
        &self,
        request: Request<api::UpdateWorkerConfigRequest>,
    ) -> Result<Response<api::UpdateWorkerConfigResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::WorkerConfig("UpdateWorkerConfig")))
    }

    async fn pause_workflow_execution(
        &self,
        request: Request<api::PauseWorkflowExecutionRequest>,
    ) -> Result<Response<api::PauseWorkflowExecutionResponse>, Status> {
        call!(inner self request pause_workflow)
    }

    async fn poll_workflow_execution_time_skipping(
        &self,
        request: Request<api::PollWorkflowExecutionTimeSkippingRequest>,
    ) -> Result<Response<api::PollWorkflowExecutionTimeSkippingResponse>, Status> {
        Err(self.workflow_time_skipping(request.get_ref()))
    }

    async fn start_nexus_operation_execution(
        &self,
        request: Request<api::StartNexusOperationExecutionRequest>,
    ) -> Result<Response<api::StartNexusOperationExecutionResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn describe_nexus_operation_execution(
        &self,
        request: Request<api::DescribeNexusOperationExecutionRequest>,
    ) -> Result<Response<api::DescribeNexusOperationExecutionResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn poll_nexus_operation_execution(
        &self,
        request: Request<api::PollNexusOperationExecutionRequest>,
    ) -> Result<Response<api::PollNexusOperationExecutionResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn request_cancel_nexus_operation_execution(
        &self,
        request: Request<api::RequestCancelNexusOperationExecutionRequest>,
    ) -> Result<Response<api::RequestCancelNexusOperationExecutionResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn terminate_nexus_operation_execution(
        &self,
        request: Request<api::TerminateNexusOperationExecutionRequest>,
    ) -> Result<Response<api::TerminateNexusOperationExecutionResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn delete_nexus_operation_execution(
        &self,
        request: Request<api::DeleteNexusOperationExecutionRequest>,
    ) -> Result<Response<api::DeleteNexusOperationExecutionResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn list_nexus_operation_executions(
        &self,
        request: Request<api::ListNexusOperationExecutionsRequest>,
    ) -> Result<Response<api::ListNexusOperationExecutionsResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn count_nexus_operation_executions(
        &self,
        request: Request<api::CountNexusOperationExecutionsRequest>,
    ) -> Result<Response<api::CountNexusOperationExecutionsResponse>, Status> {
        Err(self.disabled(&request.get_ref().namespace, Disabled::NexusOperations))
    }

    async fn update_workflow_execution_options(
        &self,
        request: Request<api::UpdateWorkflowExecutionOptionsRequest>,
    ) -> Result<Response<api::UpdateWorkflowExecutionOptionsResponse>, Status> {
        call!(inner self request update_options)
    }

    async fn unpause_workflow_execution(
        &self,
        request: Request<api::UnpauseWorkflowExecutionRequest>,
    ) -> Result<Response<api::UnpauseWorkflowExecutionResponse>, Status> {
        call!(inner self request unpause_workflow)
    }

    async fn update_task_queue_config(
        &self,
        request: Request<api::UpdateTaskQueueConfigRequest>,
    ) -> Result<Response<api::UpdateTaskQueueConfigResponse>, Status> {
        call!(inner self request update_queue_config)
    }
}
