//! Tasks without a workflow: a client starts one on a queue, and the server retries it until it has succeeded or failed.
//! Temporal calls them standalone activities.

use std::{fmt, marker::PhantomData, time::Duration};

use segno_proto::{
    activity::activity_execution_outcome::Value as Outcome,
    common::{ActivityType, Payload},
    enums::{ActivityIdConflictPolicy, ActivityIdReusePolicy},
    taskqueue::TaskQueue,
    workflowservice::{
        DeleteActivityExecutionRequest, DescribeActivityExecutionRequest, PollActivityExecutionRequest,
        RequestCancelActivityExecutionRequest, StartActivityExecutionRequest, TerminateActivityExecutionRequest,
    },
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Client, ClientCallKind, ClientError, Queue, TaskDescription,
    error::of_task_start,
    interceptor::OutgoingArguments,
    start::{search_attributes, user_metadata},
};
use crate::{
    converter,
    definition::TaskDefinition,
    options::{IdConflictPolicy, IdReusePolicy, RetryPolicy, ScheduleTaskOptions, wire_duration},
    priority::Priority,
};

/// A task of which no type is known: values are JSON.
pub struct RawTask;

impl TaskDefinition for RawTask {
    type Input = Value;
    type Output = Value;
    const KIND: &'static str = "";
}

/// How a task is started without a workflow. An id alone can stand for it. What is `None` comes from the task's definition; its queue
/// is the one on which it is started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartTaskOptions {
    /// The task's id; empty: a generated one.
    pub id: String,
    /// Whether an id that was used may be used again.
    pub id_reuse_policy: IdReusePolicy,
    /// The effect of a start while a task with the id is open. `TerminateExisting` is not possible for tasks.
    pub id_conflict_policy: IdConflictPolicy,
    /// From the start of an attempt to its end (start-to-close); 5 minutes if no time-out is given at all.
    pub timeout: Option<Duration>,
    /// From the start of the task to the final end, all attempts included.
    pub schedule_to_close: Option<Duration>,
    /// From scheduling until a worker takes it.
    pub schedule_to_start: Option<Duration>,
    /// Between two heartbeats.
    pub heartbeat_timeout: Option<Duration>,
    /// Attempts after the first.
    pub max_retries: Option<u32>,
    /// How attempts are repeated; `max_retries` goes before its number of attempts.
    pub retry_policy: Option<RetryPolicy>,
    /// When it is given to a worker, counted from now.
    pub start_delay: Option<Duration>,
    /// Values to search by.
    pub search_attributes: Vec<(String, Value)>,
    /// How urgent it is.
    pub priority: Option<Priority>,
    /// A line for people, shown by user interfaces.
    pub summary: Option<String>,
    /// More for people, shown by user interfaces.
    pub details: Option<String>,
}

impl StartTaskOptions {
    /// Only with an id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// The request without input.
    async fn request(
        self,
        queue: &Queue,
        kind: &str,
        definition: ScheduleTaskOptions,
    ) -> Result<StartActivityExecutionRequest, ClientError> {
        let client = queue.client();
        let options = ScheduleTaskOptions {
            timeout: self.timeout,
            schedule_to_close: self.schedule_to_close,
            schedule_to_start: self.schedule_to_start,
            heartbeat_timeout: self.heartbeat_timeout,
            max_retries: self.max_retries,
            retry_policy: self.retry_policy,
            priority: self.priority,
            summary: self.summary,
            ..ScheduleTaskOptions::default()
        };
        let options = options.over(definition);
        Ok(StartActivityExecutionRequest {
            namespace: client.namespace().to_owned(),
            identity: client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            activity_id: if self.id.is_empty() { Uuid::new_v4().to_string() } else { self.id },
            activity_type: Some(ActivityType { name: kind.to_owned() }),
            task_queue: Some(TaskQueue { name: queue.name().to_owned(), ..Default::default() }),
            schedule_to_close_timeout: options.schedule_to_close.and_then(wire_duration),
            schedule_to_start_timeout: options.schedule_to_start.and_then(wire_duration),
            start_to_close_timeout: options.start_to_close().and_then(wire_duration),
            heartbeat_timeout: options.heartbeat_timeout.and_then(wire_duration),
            retry_policy: options.attempts().as_ref().map(RetryPolicy::to_wire),
            id_reuse_policy: reuse(self.id_reuse_policy) as i32,
            id_conflict_policy: conflict(self.id_conflict_policy)? as i32,
            search_attributes: search_attributes(&self.search_attributes)?,
            user_metadata: user_metadata(client, &options.summary, &self.details).await?,
            priority: options.wire_priority(),
            start_delay: self.start_delay.and_then(wire_duration),
            ..Default::default()
        })
    }
}

fn reuse(policy: IdReusePolicy) -> ActivityIdReusePolicy {
    match policy {
        IdReusePolicy::AllowDuplicate => ActivityIdReusePolicy::AllowDuplicate,
        IdReusePolicy::AllowDuplicateFailedOnly => ActivityIdReusePolicy::AllowDuplicateFailedOnly,
        IdReusePolicy::RejectDuplicate => ActivityIdReusePolicy::RejectDuplicate,
    }
}

fn conflict(policy: IdConflictPolicy) -> Result<ActivityIdConflictPolicy, ClientError> {
    match policy {
        IdConflictPolicy::Fail => Ok(ActivityIdConflictPolicy::Fail),
        IdConflictPolicy::UseExisting => Ok(ActivityIdConflictPolicy::UseExisting),
        IdConflictPolicy::TerminateExisting => {
            let message = "a start of a task cannot terminate another: `IdConflictPolicy::TerminateExisting`";
            Err(ClientError::Configuration(message.to_owned()))
        }
    }
}

impl From<&str> for StartTaskOptions {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for StartTaskOptions {
    fn from(id: String) -> Self {
        Self::new(id)
    }
}

impl Queue {
    /// Starts a task without a workflow.
    pub async fn start_task<T: TaskDefinition>(
        &self,
        id: impl Into<StartTaskOptions> + Send,
        input: T::Input,
    ) -> Result<TaskHandle<T>, ClientError> {
        let input = converter::encode(&input, T::ARGUMENTS)?;
        let request = id.into().request(self, T::KIND, T::options()).await?;
        self.send_task(request, input).await
    }

    /// Starts a task without a workflow by its name.
    pub async fn start_task_raw(
        &self,
        kind: &str,
        id: impl Into<StartTaskOptions> + Send,
        input: Value,
    ) -> Result<TaskHandle<RawTask>, ClientError> {
        let input = vec![converter::encode_json(&input)?];
        let request = id.into().request(self, kind, ScheduleTaskOptions::default()).await?;
        self.send_task(request, input).await
    }

    /// Starts a task without a workflow and waits for its result.
    pub async fn execute_task<T: TaskDefinition>(
        &self,
        id: impl Into<StartTaskOptions> + Send,
        input: T::Input,
    ) -> Result<T::Output, ClientError> {
        self.start_task::<T>(id, input).await?.result().await
    }

    async fn send_task<T: TaskDefinition>(
        &self,
        request: StartActivityExecutionRequest,
        input: Vec<Payload>,
    ) -> Result<TaskHandle<T>, ClientError> {
        let client = self.client();
        let id = request.activity_id.clone();
        let kind = request.activity_type.clone().unwrap_or_default().name;
        let call = async |OutgoingArguments { header, arguments, .. }| {
            let input = client.outgoing(arguments).await?;
            let request = StartActivityExecutionRequest { header, input, ..request };
            let started = client.call(|mut service| {
                let request = request.clone();
                async move { service.start_activity_execution(request).await }
            });
            started.await.map_err(|status| of_task_start(status, &request.activity_id))
        };
        let sent = OutgoingArguments::new(input);
        let started = client.intercepted(ClientCallKind::StartTask, &id, &kind, sent, call).await?;
        Ok(TaskHandle::of_run(client.clone(), id, started.run_id))
    }
}

/// A task without a workflow. After a start it is for the run that was started.
pub struct TaskHandle<T> {
    client: Client,
    task_id: String,
    /// Empty: whichever run is current.
    run_id: String,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for TaskHandle<T> {
    fn clone(&self) -> Self {
        Self::of_run(self.client.clone(), self.task_id.clone(), self.run_id.clone())
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("task_id", &self.task_id).field("run_id", &self.run_id).finish()
    }
}

impl<T> TaskHandle<T> {
    pub(super) fn of_run(client: Client, task_id: String, run_id: String) -> Self {
        Self { client, task_id, run_id, marker: PhantomData }
    }

    /// The task's id.
    pub fn task_id(&self) -> &str {
        &self.task_id
    }

    /// The run, if the handle is for one.
    pub fn run_id(&self) -> Option<&str> {
        Some(self.run_id.as_str()).filter(|run_id| !run_id.is_empty())
    }

    /// The server's description of it.
    pub async fn describe(&self) -> Result<TaskDescription, ClientError> {
        let request = DescribeActivityExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            activity_id: self.task_id.clone(),
            run_id: self.run_id.clone(),
            include_heartbeat_details: true,
            include_last_failure: true,
            ..Default::default()
        };
        let answer = self
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.describe_activity_execution(request).await }
            })
            .await?;
        TaskDescription::new(&self.client, answer.info.unwrap_or_default()).await
    }

    /// Requests its cancellation: the attempt that runs finds out as it does in a workflow.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.cancel_with_reason("").await
    }

    /// The same, and says why.
    pub async fn cancel_with_reason(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        let request = RequestCancelActivityExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            activity_id: self.task_id.clone(),
            run_id: self.run_id.clone(),
            identity: self.client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            reason: reason.into(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.request_cancel_activity_execution(request).await }
            })
            .await?;
        Ok(())
    }

    /// Ends it at once, without asking it.
    pub async fn terminate(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        let request = TerminateActivityExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            activity_id: self.task_id.clone(),
            run_id: self.run_id.clone(),
            identity: self.client.identity().to_owned(),
            request_id: Uuid::new_v4().to_string(),
            reason: reason.into(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.terminate_activity_execution(request).await }
            })
            .await?;
        Ok(())
    }

    /// Removes it, and ends it if it is open.
    pub async fn delete(&self) -> Result<(), ClientError> {
        let request = DeleteActivityExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            activity_id: self.task_id.clone(),
            run_id: self.run_id.clone(),
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.delete_activity_execution(request).await }
            })
            .await?;
        Ok(())
    }
}

impl<T: TaskDefinition> TaskHandle<T> {
    /// Waits for the result, over all attempts.
    pub async fn result(&self) -> Result<T::Output, ClientError> {
        let mut request = PollActivityExecutionRequest {
            namespace: self.client.namespace().to_owned(),
            activity_id: self.task_id.clone(),
            run_id: self.run_id.clone(),
        };
        loop {
            let answer = self
                .client
                .long_poll(|mut service| {
                    let request = request.clone();
                    async move { service.poll_activity_execution(request).await }
                })
                .await?;
            match answer.outcome.and_then(|outcome| outcome.value) {
                Some(Outcome::Result(result)) => {
                    let result = self.client.incoming(Some(result)).await?;
                    return Ok(converter::decode(&result, 1)?);
                }
                Some(Outcome::Failure(failure)) => {
                    return Err(ClientError::TaskFailed(self.client.incoming_failure(Some(failure)).await?));
                }
                // No outcome yet: on with the same run.
                None => request.run_id = answer.run_id,
            }
        }
    }
}
