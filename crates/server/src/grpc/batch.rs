//! Batch operations: starting, describing, listing and stopping jobs. What a job does to one execution is in
//! [`super::batch_steps`].

use bytes::Bytes;
use prost::Message;
use segno_node::{BatchInfo, NewBatch, Token};
use segno_proto::{
    Nanos,
    batch::BatchOperationInfo,
    common::Execution,
    enums::{BatchOperationType, ExecutionType},
    nanos_timestamp,
    workflowservice::{
        DescribeBatchOperationRequest, DescribeBatchOperationResponse, ListBatchOperationsRequest,
        ListBatchOperationsResponse, StartBatchOperationRequest, StartBatchOperationResponse,
        StopBatchOperationRequest, StopBatchOperationResponse, start_batch_operation_request::Operation,
    },
};
use tonic::Status;

use super::{Workflows, failed, refused};
use crate::validate::batch as checks;

/// Most jobs on a page, and the default page size.
const PAGE_MAX: usize = 1000;

/// The last job of a page.
#[derive(Clone, PartialEq, Message)]
struct BatchPageToken {
    #[prost(int64, tag = "1")]
    close_time: Nanos,
    #[prost(int64, tag = "2")]
    start_time: Nanos,
    #[prost(string, tag = "3")]
    run_id: String,
}

impl Token for BatchPageToken {
    const KIND: u8 = 8;
}

impl BatchPageToken {
    fn of(info: &BatchInfo) -> Self {
        let close_time = if info.is_open() { Nanos::MAX } else { info.close_time };
        Self { close_time, start_time: info.start_time, run_id: info.run_id.clone() }
    }

    fn place(&self) -> (Nanos, Nanos, &str) {
        (self.close_time, self.start_time, &self.run_id)
    }
}

impl Workflows {
    pub(crate) async fn start_batch(
        &self,
        request: StartBatchOperationRequest,
    ) -> Result<StartBatchOperationResponse, Status> {
        let namespace = self.open_namespace(&request.namespace)?;
        checks::start(&request).map_err(refused)?;
        let Some(operation) = &request.operation else { return Ok(StartBatchOperationResponse::default()) };
        let (kind, identity) = kind_and_identity(operation);
        let new = NewBatch {
            job_id: request.job_id.clone(),
            operation_type: kind as i32,
            identity: identity.to_owned(),
            reason: request.reason.clone(),
            query: request.visibility_query.clone(),
            request: request.encode_to_vec().into(),
        };
        self.node.batches.start(namespace, new).await.map_err(failed)?;
        Ok(StartBatchOperationResponse::default())
    }

    pub(crate) async fn describe_batch(
        &self,
        request: DescribeBatchOperationRequest,
    ) -> Result<DescribeBatchOperationResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        checks::describe(&request).map_err(refused)?;
        let (info, started) = self.node.batches.describe(&namespace, &request.job_id).await.map_err(failed)?;
        let started =
            StartBatchOperationRequest::decode(started).map_err(|error| Status::data_loss(error.to_string()))?;
        Ok(DescribeBatchOperationResponse {
            operation_type: info.operation_type,
            job_id: info.job_id,
            state: info.state,
            start_time: Some(nanos_timestamp(info.start_time)),
            close_time: (info.close_time > 0).then(|| nanos_timestamp(info.close_time)),
            total_operation_count: info.total,
            complete_operation_count: info.complete,
            failure_operation_count: info.failed,
            identity: info.identity,
            reason: info.reason,
            query: info.query,
            executions: targets(&started),
        })
    }

    pub(crate) fn list_batches(
        &self,
        request: ListBatchOperationsRequest,
    ) -> Result<ListBatchOperationsResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let after = match request.next_page_token.is_empty() {
            true => None,
            false => Some(
                BatchPageToken::open(&request.next_page_token, &namespace.token_key)
                    .map_err(|_| Status::invalid_argument("Invalid NextPageToken."))?,
            ),
        };
        let size = usize::try_from(request.page_size).ok().filter(|size| (1..=PAGE_MAX).contains(size));
        let size = size.unwrap_or(PAGE_MAX);
        let all = self.node.batches.list(&namespace);
        let behind =
            |info: &&BatchInfo| after.as_ref().is_none_or(|after| BatchPageToken::of(info).place() < after.place());
        let page: Vec<&BatchInfo> = all.iter().filter(behind).take(size).collect();
        let next = page.last().filter(|_| page.len() == size).map(|last| BatchPageToken::of(last));
        let operation_info = page.into_iter().map(|info| BatchOperationInfo {
            job_id: info.job_id.clone(),
            state: info.state,
            start_time: Some(nanos_timestamp(info.start_time)),
            close_time: (info.close_time > 0).then(|| nanos_timestamp(info.close_time)),
            operation_type: info.operation_type,
        });
        Ok(ListBatchOperationsResponse {
            operation_info: operation_info.collect(),
            next_page_token: next.map_or_else(Bytes::new, |next| next.seal(&namespace.token_key)),
        })
    }

    pub(crate) async fn stop_batch(
        &self,
        request: StopBatchOperationRequest,
    ) -> Result<StopBatchOperationResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        checks::stop(&request).map_err(refused)?;
        self.node.batches.stop(&namespace, &request.job_id).await.map_err(failed)?;
        Ok(StopBatchOperationResponse::default())
    }
}

/// The executions in the request of a job, in the newer spelling.
pub(crate) fn targets(request: &StartBatchOperationRequest) -> Vec<Execution> {
    let of_activities = request.operation.as_ref().is_some_and(checks::is_of_activities);
    let kind = if of_activities { ExecutionType::Activity } else { ExecutionType::Workflow };
    let older = checks::executions(request).iter().map(|execution| Execution {
        r#type: kind as i32,
        business_id: execution.workflow_id.clone(),
        run_id: execution.run_id.clone(),
    });
    request.target_executions.iter().cloned().chain(older).collect()
}

fn kind_and_identity(operation: &Operation) -> (BatchOperationType, &str) {
    use BatchOperationType as Kind;
    match operation {
        Operation::TerminationOperation(of) => (Kind::TerminateWorkflow, &of.identity),
        Operation::SignalOperation(of) => (Kind::SignalWorkflow, &of.identity),
        Operation::CancellationOperation(of) => (Kind::CancelWorkflow, &of.identity),
        Operation::DeletionOperation(of) => (Kind::DeleteWorkflow, &of.identity),
        Operation::ResetOperation(of) => (Kind::ResetWorkflow, &of.identity),
        Operation::UpdateWorkflowOptionsOperation(of) => (Kind::UpdateWorkflowExecutionOptions, &of.identity),
        Operation::UnpauseActivitiesOperation(of) => (Kind::UnpauseActivity, &of.identity),
        Operation::ResetActivitiesOperation(of) => (Kind::ResetActivity, &of.identity),
        Operation::UpdateActivityOptionsOperation(of) => (Kind::UpdateActivityOptions, &of.identity),
        Operation::CancelActivitiesOperation(of) => (Kind::CancelActivity, &of.identity),
        Operation::TerminateActivitiesOperation(of) => (Kind::TerminateActivity, &of.identity),
        Operation::DeleteActivitiesOperation(_) => (Kind::DeleteActivity, ""),
    }
}
