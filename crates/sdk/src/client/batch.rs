//! Batch operations on many workflows.

use segno_proto::{
    batch::{
        BatchOperationCancellation, BatchOperationDeletion, BatchOperationSignal, BatchOperationTermination,
        BatchOperationUpdateWorkflowExecutionOptions,
    },
    enums::BatchOperationState,
    workflowservice::{
        DescribeBatchOperationRequest, StartBatchOperationRequest, StopBatchOperationRequest,
        start_batch_operation_request::Operation,
    },
};
use uuid::Uuid;

use super::{Client, ClientError};
use crate::{
    converter,
    definition::{Data, Signal},
    versioning::VersioningOverride,
};

/// All workflows that a filter matches: [`Client::batch`].
#[must_use = "nothing is done until one of its methods is called"]
pub struct Batch {
    client: Client,
    query: String,
    reason: String,
    rate: f32,
}

impl Batch {
    /// Why, for people.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// At most so many workflows per second; the server's limit if not given.
    pub fn max_per_second(mut self, rate: f32) -> Self {
        self.rate = rate;
        self
    }

    async fn start(self, operation: Operation) -> Result<BatchJob, ClientError> {
        let id = Uuid::new_v4().to_string();
        let request = StartBatchOperationRequest {
            namespace: self.client.namespace().to_owned(),
            visibility_query: self.query,
            job_id: id.clone(),
            reason: self.reason,
            max_operations_per_second: self.rate,
            operation: Some(operation),
            ..Default::default()
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.start_batch_operation(request).await }
            })
            .await?;
        Ok(BatchJob { client: self.client, id })
    }

    fn identity(&self) -> String {
        self.client.identity().to_owned()
    }

    /// Ends them at once, without asking them.
    pub async fn terminate(self) -> Result<BatchJob, ClientError> {
        let identity = self.identity();
        let operation = BatchOperationTermination { identity, ..Default::default() };
        self.start(Operation::TerminationOperation(operation)).await
    }

    /// Asks them to cancel themselves.
    pub async fn cancel(self) -> Result<BatchJob, ClientError> {
        let identity = self.identity();
        self.start(Operation::CancellationOperation(BatchOperationCancellation { identity })).await
    }

    /// Sets which version executes them.
    pub async fn set_versioning_override(self, versioning: VersioningOverride) -> Result<BatchJob, ClientError> {
        self.update_versioning(Some(&versioning)).await
    }

    /// Removes their overrides.
    pub async fn remove_versioning_override(self) -> Result<BatchJob, ClientError> {
        self.update_versioning(None).await
    }

    async fn update_versioning(self, versioning: Option<&VersioningOverride>) -> Result<BatchJob, ClientError> {
        let (options, mask) = VersioningOverride::update(versioning);
        let operation = BatchOperationUpdateWorkflowExecutionOptions {
            identity: self.identity(),
            workflow_execution_options: Some(options),
            update_mask: Some(mask),
        };
        self.start(Operation::UpdateWorkflowOptionsOperation(operation)).await
    }

    /// Deletes them with their histories.
    pub async fn delete(self) -> Result<BatchJob, ClientError> {
        let identity = self.identity();
        self.start(Operation::DeletionOperation(BatchOperationDeletion { identity })).await
    }

    /// Sends each of them a signal.
    pub async fn signal<T: Data>(self, signal: Signal<T>, value: T) -> Result<BatchJob, ClientError> {
        let input = self.client.outgoing(converter::encode(&value, signal.arguments())?).await?;
        let (signal, identity) = (signal.name().to_owned(), self.identity());
        self.start(Operation::SignalOperation(BatchOperationSignal { signal, input, identity, ..Default::default() }))
            .await
    }
}

/// A job of the server that works through a batch.
#[derive(Clone, Debug)]
pub struct BatchJob {
    client: Client,
    id: String,
}

/// How far a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchProgress {
    /// Whether it still works.
    pub is_running: bool,
    /// Whether it ended by itself, and not because it was stopped or failed.
    pub is_completed: bool,
    /// Workflows that the filter matched.
    pub total: u64,
    /// Those that are done.
    pub completed: u64,
    /// Those for which it failed.
    pub failed: u64,
}

impl BatchJob {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far it is.
    pub async fn progress(&self) -> Result<BatchProgress, ClientError> {
        let request =
            DescribeBatchOperationRequest { namespace: self.client.namespace().to_owned(), job_id: self.id.clone() };
        let answer = self
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.describe_batch_operation(request).await }
            })
            .await?;
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        Ok(BatchProgress {
            is_running: answer.state() == BatchOperationState::Running,
            is_completed: answer.state() == BatchOperationState::Completed,
            total: count(answer.total_operation_count),
            completed: count(answer.complete_operation_count),
            failed: count(answer.failure_operation_count),
        })
    }

    /// Ends it; what is done stays done.
    pub async fn stop(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        let request = StopBatchOperationRequest {
            namespace: self.client.namespace().to_owned(),
            job_id: self.id.clone(),
            reason: reason.into(),
            identity: self.client.identity().to_owned(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.stop_batch_operation(request).await }
            })
            .await?;
        Ok(())
    }
}

impl Client {
    /// All workflows that a filter matches, such as `WorkflowType = 'Cart' AND ExecutionStatus = 'Running'`, to do one
    /// thing to all of them.
    pub fn batch(&self, query: impl Into<String>) -> Batch {
        Batch { client: self.clone(), query: query.into(), reason: String::new(), rate: 0.0 }
    }
}
