//! Implements [`WorkflowContext`] for [`Context`], with further scheduling methods.

use std::time::Duration;

use segno_proto::{
    command::{ScheduleActivityTaskCommandAttributes, StartChildWorkflowExecutionCommandAttributes},
    common::{self, Payload},
    enums,
    taskqueue::TaskQueue,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Context, WorkflowContext,
    commands::{CommandRequest, ExpectedEvent},
    context::decode_first,
    core::Counter,
    futures::{ChildWorkflowFuture, Decode, OperationFuture, PromiseFuture, TaskFuture, TimerFuture},
    interceptor::OutboundKind,
    local::{LocalOutcome, LocalWork},
    matching,
    operation::{BoxFuture, OpKind},
};
use crate::{
    converter::{self, ConversionError},
    definition::{TaskDefinition, WorkflowDefinition},
    failure::{Error, Failure, Result},
    options::{
        ChildOptions, IdReusePolicy, LocalOptions, ParentClosePolicy, RetryPolicy, ScheduleTaskOptions, wire_duration,
    },
    panics,
    priority::Priority,
    versioning::VersioningOverride,
};

/// The operation that [`Context::run_async`] executes: every `FnOnce` that gives a future.
pub trait AsyncOperation<T>: Send + 'static {
    /// Calls it.
    fn begin(self) -> impl Future<Output = T> + Send;
}

impl<F, R, T> AsyncOperation<T> for F
where
    F: FnOnce() -> R + Send + 'static,
    R: Future<Output = T> + Send,
{
    fn begin(self) -> impl Future<Output = T> + Send {
        self()
    }
}

type Encoded = std::result::Result<Vec<Payload>, ConversionError>;

impl<S: Send + Sync + 'static> Context<S> {
    #[track_caller]
    fn schedule_task<T>(
        &self,
        kind: &str,
        mut input: Encoded,
        options: ScheduleTaskOptions,
        decode: Decode<T>,
    ) -> TaskFuture<T> {
        let mut core = self.shared.core();
        let sequence = core.count(Counter::Task);
        let is_known = options.id.as_ref().is_some_and(|id| core.chosen_tasks.contains(id));
        let id = options.id.clone().unwrap_or_else(|| core.seed.id("task", sequence).to_string());
        let queue = options.queue.clone().unwrap_or_else(|| core.info.queue.clone());
        drop(core);
        if is_known {
            let same = OpKind::SameTask { id: id.clone() };
            let operation = self.operation(same, |core, op| core.join_task(op, &id, kind));
            return TaskFuture::new(operation, id, decode);
        }
        let header = input.as_mut().ok().and_then(|input| self.shared.outbound(OutboundKind::Task, kind, input));
        let strict = self.shared.rules.strict;
        let op = OpKind::Task { id: id.clone(), kind: kind.to_owned(), cancellation: options.cancellation };
        let operation = self.operation(op, |core, op| match input {
            Err(error) => core.fail_task(Failure::application("Conversion", error.to_string())),
            Ok(input) => {
                let summary = options.summary.clone();
                let print = strict.then(|| matching::print(&queue, &input));
                let mut attributes = Box::new(task_attributes(id.clone(), kind, queue, input, &options));
                attributes.header = header;
                if options.id.is_some() {
                    core.chosen_tasks.add(id.clone(), op, kind.to_owned(), sequence);
                }
                let expected = ExpectedEvent::Task { op, id: id.clone(), kind: kind.to_owned(), sequence, print };
                core.push_for(op, CommandRequest::Task { attributes, summary }, expected);
            }
        });
        TaskFuture::new(operation, id, decode)
    }

    /// A timer with a line for people, which user interfaces show beside it.
    #[track_caller]
    pub fn sleep_with_summary(&self, duration: Duration, summary: impl Into<String>) -> TimerFuture {
        self.timer(duration, Some(summary.into()))
    }

    #[track_caller]
    fn timer(&self, duration: Duration, summary: Option<String>) -> TimerFuture {
        let mut core = self.shared.core();
        let sequence = core.count(Counter::Timer);
        let id = core.seed.id("timer", sequence).to_string();
        drop(core);
        // The server knows milliseconds at least, and no timers of no length.
        let duration = duration.max(Duration::from_millis(1));
        let operation = self.operation(OpKind::Timer { id: id.clone() }, |core, op| {
            let expected = ExpectedEvent::Timer { op, id: id.clone(), duration, sequence };
            core.push_for(op, CommandRequest::Timer { id: id.clone(), duration, summary }, expected);
        });
        TimerFuture { operation, id }
    }

    #[track_caller]
    fn start_child<T>(
        &self,
        kind: &str,
        mut input: Encoded,
        options: ChildOptions,
        decode: Decode<T>,
    ) -> ChildWorkflowFuture<T> {
        let mut core = self.shared.core();
        let sequence = core.count(Counter::Child);
        let workflow_id = match (&options.workflow_id, options.name.as_str()) {
            (Some(id), _) => id.clone(),
            (None, "") => core.seed.id("child", sequence).to_string(),
            (None, name) => format!("{}/{name}", core.info.workflow_id),
        };
        let queue = options.queue.clone().unwrap_or_else(|| core.info.queue.clone());
        let taken = core.open_children.insert(workflow_id.clone(), ()).is_some();
        drop(core);
        let header = input.as_mut().ok().and_then(|input| self.shared.outbound(OutboundKind::Child, kind, input));
        let op = OpKind::Child {
            workflow_id: workflow_id.clone(),
            kind: kind.to_owned(),
            run_id: String::new(),
            cancellation: options.cancellation,
            abandon: options.parent_close_policy == ParentClosePolicy::Abandon,
        };
        let operation = self.operation(op, |core, op| match input {
            Err(error) => core.fail_task(Failure::application("Conversion", error.to_string())),
            Ok(_) if taken => core.resolve(op, Err(already_started(&workflow_id))),
            Ok(input) => {
                let summary = options.summary.clone();
                let mut attributes = Box::new(child_attributes(workflow_id.clone(), kind, queue, input, &options));
                attributes.header = header;
                let expected =
                    ExpectedEvent::Child { op, workflow_id: workflow_id.clone(), kind: kind.to_owned(), sequence };
                core.push_for(op, CommandRequest::Child { attributes, summary }, expected);
            }
        });
        if !taken && self.is_cancelled() {
            self.shared.core().open_children.remove(&workflow_id);
        }
        ChildWorkflowFuture::new(operation, workflow_id, decode)
    }

    #[track_caller]
    fn local<T>(&self, name: &str, work: LocalWork, decode: Decode<T>) -> OperationFuture<T> {
        let (operation, id) = self.local_operation(name, work);
        OperationFuture::new(operation, id, decode)
    }

    #[track_caller]
    fn local_operation(&self, name: &str, work: LocalWork) -> (super::futures::Operation, String) {
        let mut core = self.shared.core();
        let index = core.count(Counter::Local);
        let id = core.seed.id("local", index).to_string();
        drop(core);
        let is_task = matches!(work, LocalWork::Task { .. });
        let op = OpKind::Local {
            id: id.clone(),
            name: name.to_owned(),
            index,
            is_task,
            work: Some(Box::new(work)),
            running: false,
        };
        (self.operation(op, |_, _| {}), id)
    }

    /// Has the workflow's own worker execute a task, without a task queue.
    #[track_caller]
    pub fn schedule_local<T: TaskDefinition>(&self, input: T::Input) -> TaskFuture<T::Output> {
        let defaults = T::options();
        let retry_policy = defaults.attempts();
        let (timeout, schedule_to_close) = (defaults.timeout, defaults.schedule_to_close);
        self.schedule_local_with_options::<T>(input, LocalOptions { timeout, schedule_to_close, retry_policy })
    }

    /// The same with options.
    #[track_caller]
    pub fn schedule_local_with_options<T: TaskDefinition>(
        &self,
        input: T::Input,
        options: LocalOptions,
    ) -> TaskFuture<T::Output> {
        let mut input = match converter::encode(&input, T::ARGUMENTS) {
            Ok(input) => input,
            Err(error) => {
                self.shared.core().fail_task(Failure::application("Conversion", error.to_string()));
                Vec::new()
            }
        };
        let header = self.shared.outbound(OutboundKind::LocalTask, T::KIND, &mut input);
        let work = LocalWork::Task { kind: T::KIND.to_owned(), input, options, header };
        let (operation, id) = self.local_operation(T::KIND, work);
        TaskFuture::new(operation, id, |payloads| converter::decode(payloads, 1))
    }

    /// Executes an asynchronous closure that replay must not repeat. Its result is recorded.
    #[track_caller]
    pub fn run_async<F, T>(&self, name: &str, f: F) -> OperationFuture<T>
    where
        F: AsyncOperation<T>,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let work = LocalWork::Async(Box::new(move || {
            Box::pin(async move { encode_local(&f.begin().await) }) as BoxFuture<LocalOutcome>
        }));
        self.local(name, work, |payloads| converter::decode(payloads, 1))
    }

    /// Starts a child workflow with options.
    #[track_caller]
    pub fn schedule_workflow_with_options<W: WorkflowDefinition>(
        &self,
        options: ChildOptions,
        input: W::Input,
    ) -> ChildWorkflowFuture<W::Output> {
        let input = converter::encode(&input, W::ARGUMENTS);
        self.start_child(W::KIND, input, options, |payloads| converter::decode(payloads, 1))
    }
}

pub(crate) fn already_started(workflow_id: &str) -> Failure {
    let message = format!("a workflow with the id {workflow_id:?} is running");
    Failure::application("AlreadyStarted", message).non_retryable().into()
}

fn encode_local<T: Serialize + 'static>(value: &T) -> LocalOutcome {
    converter::encode(value, 1).map_err(|error| Failure::application("Conversion", error.to_string()).into())
}

impl<S: Send + Sync + 'static> WorkflowContext for Context<S> {
    #[track_caller]
    fn schedule<T: TaskDefinition>(&self, input: T::Input) -> TaskFuture<T::Output> {
        let input = converter::encode(&input, T::ARGUMENTS);
        self.schedule_task(T::KIND, input, T::options(), |payloads| converter::decode(payloads, 1))
    }

    #[track_caller]
    fn schedule_raw(&self, task_type: &str, input: Value) -> TaskFuture<Value> {
        self.schedule_with_options_raw(task_type, input, ScheduleTaskOptions::default())
    }

    #[track_caller]
    fn schedule_with_options<T: TaskDefinition>(
        &self,
        input: T::Input,
        options: ScheduleTaskOptions,
    ) -> TaskFuture<T::Output> {
        let input = converter::encode(&input, T::ARGUMENTS);
        let options = options.over(T::options());
        self.schedule_task(T::KIND, input, options, |payloads| converter::decode(payloads, 1))
    }

    #[track_caller]
    fn schedule_with_options_raw(
        &self,
        task_type: &str,
        input: Value,
        options: ScheduleTaskOptions,
    ) -> TaskFuture<Value> {
        self.schedule_task(task_type, raw_input(&input), options, decode_first)
    }

    #[track_caller]
    fn sleep(&self, duration: Duration) -> TimerFuture {
        self.timer(duration, None)
    }

    #[track_caller]
    fn schedule_workflow<W: WorkflowDefinition>(&self, name: &str, input: W::Input) -> ChildWorkflowFuture<W::Output> {
        let options = ChildOptions { name: name.to_owned(), ..ChildOptions::default() };
        self.schedule_workflow_with_options::<W>(options, input)
    }

    #[track_caller]
    fn schedule_workflow_raw(&self, name: &str, kind: &str, input: Value) -> ChildWorkflowFuture<Value> {
        let options = ChildOptions { name: name.to_owned(), ..ChildOptions::default() };
        self.start_child(kind, raw_input(&input), options, decode_first)
    }

    #[track_caller]
    fn promise<T: DeserializeOwned>(&self, name: &str) -> PromiseFuture<T> {
        let operation = self.operation(OpKind::Promise { name: name.to_owned() }, |core, op| {
            if let Some((at, outcome)) = core.promises.get(name).cloned() {
                core.resolve_at(op, at, outcome);
            }
        });
        PromiseFuture::new(operation, name.to_owned(), decode_first)
    }

    #[track_caller]
    fn promise_raw(&self, name: &str) -> PromiseFuture<Value> {
        self.promise(name)
    }

    #[track_caller]
    fn run<F, T>(&self, name: &str, f: F) -> OperationFuture<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let work = LocalWork::Run(Box::new(move || {
            panics::catch(f).map_err(|panic| panic.failure()).and_then(|value| encode_local(&value))
        }));
        self.local(name, work, |payloads| converter::decode(payloads, 1))
    }

    fn current_time_millis(&self) -> i64 {
        self.shared.core().time() / 1_000_000
    }

    fn random_uuid(&self) -> Uuid {
        self.shared.core().user_random.uuid4()
    }

    fn random(&self) -> f64 {
        self.shared.core().user_random.next_f64()
    }

    fn get_state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let payload = self.shared.core().state(key);
        payload.map(|payload| converter::decode_payload(&payload)).transpose().map_err(Error::from)
    }

    fn set_state<T: Serialize>(&self, key: &str, value: &T) -> Result<()> {
        let payload = converter::encode_json(value)?;
        let mut core = self.shared.core();
        core.changed_state.insert(key.to_owned(), Some(payload));
        Ok(())
    }

    fn clear_state(&self, key: &str) -> Result<()> {
        let mut core = self.shared.core();
        core.changed_state.insert(key.to_owned(), None);
        Ok(())
    }
}

/// An input by its JSON: `null` is none.
fn raw_input(input: &Value) -> Encoded {
    if input.is_null() { Ok(Vec::new()) } else { Ok(vec![converter::encode_json(input)?]) }
}

fn task_queue(name: String) -> Option<TaskQueue> {
    Some(TaskQueue { name, kind: enums::TaskQueueKind::Normal as i32, ..Default::default() })
}

fn task_attributes(
    activity_id: String,
    kind: &str,
    queue: String,
    input: Vec<Payload>,
    options: &ScheduleTaskOptions,
) -> ScheduleActivityTaskCommandAttributes {
    let retry_policy = options.attempts().as_ref().map(RetryPolicy::to_wire);
    ScheduleActivityTaskCommandAttributes {
        activity_id,
        activity_type: Some(common::ActivityType { name: kind.to_owned() }),
        request_eager_execution: !options.disable_eager && options.queue.is_none(),
        task_queue: task_queue(queue),
        input: converter::list(input),
        schedule_to_close_timeout: options.schedule_to_close.and_then(wire_duration),
        schedule_to_start_timeout: options.schedule_to_start.and_then(wire_duration),
        start_to_close_timeout: options.start_to_close().and_then(wire_duration),
        heartbeat_timeout: options.heartbeat_timeout.and_then(wire_duration),
        retry_policy,
        priority: options.wire_priority(),
        ..Default::default()
    }
}

fn child_attributes(
    workflow_id: String,
    kind: &str,
    queue: String,
    input: Vec<Payload>,
    options: &ChildOptions,
) -> StartChildWorkflowExecutionCommandAttributes {
    let fields = |values: &[(String, Value)]| {
        values.iter().filter_map(|(key, value)| Some((key.clone(), converter::encode_json(value).ok()?))).collect()
    };
    let policy = match options.parent_close_policy {
        ParentClosePolicy::Terminate => enums::ParentClosePolicy::Terminate,
        ParentClosePolicy::Abandon => enums::ParentClosePolicy::Abandon,
        ParentClosePolicy::RequestCancel => enums::ParentClosePolicy::RequestCancel,
    };
    StartChildWorkflowExecutionCommandAttributes {
        workflow_id,
        workflow_type: Some(common::WorkflowType { name: kind.to_owned() }),
        task_queue: task_queue(queue),
        input: converter::list(input),
        workflow_execution_timeout: options.execution_timeout.and_then(wire_duration),
        workflow_run_timeout: options.run_timeout.and_then(wire_duration),
        workflow_task_timeout: options.task_timeout.and_then(wire_duration),
        parent_close_policy: policy as i32,
        workflow_id_reuse_policy: IdReusePolicy::to_wire(options.id_reuse_policy),
        retry_policy: options.retry_policy.as_ref().map(RetryPolicy::to_wire),
        cron_schedule: options.cron.clone().unwrap_or_default(),
        memo: (!options.memo.is_empty()).then(|| common::Memo { fields: fields(&options.memo) }),
        search_attributes: (!options.search_attributes.is_empty())
            .then(|| common::SearchAttributes { indexed_fields: fields(&options.search_attributes) }),
        priority: options.priority.as_ref().map(Priority::to_wire),
        versioning_override: options.versioning.as_ref().map(VersioningOverride::to_wire),
        ..Default::default()
    }
}
