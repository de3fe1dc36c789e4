//! Polls for workflow tasks, executes workflow tasks, sends completions.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use segno_proto::{
    History,
    command::{Command, FailWorkflowExecutionCommandAttributes, command::Attributes},
    common::WorkflowExecution,
    enums::{CommandType, TaskQueueKind, WorkflowTaskFailedCause},
    events::HistoryEvent,
    protocol::Message,
    query::WorkflowQuery,
    sdk::WorkflowTaskCompletedMetadata,
    taskqueue::{StickyExecutionAttributes, TaskQueue},
    workflowservice::{
        GetWorkflowExecutionHistoryRequest, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        RespondQueryTaskCompletedRequest, RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskFailedRequest,
    },
};
use tonic::{Code, Status};

use super::{
    cache::Cache,
    codec, local,
    meter::PolledKind,
    pages,
    pollers::{POLL, PollAnswer, PollStop, Scaling},
    shared::Shared,
    slots::{Slot, Slots},
    threads::WorkflowThreads,
    workflow_task::{self, SlowTask, TaskProgress, WorkflowTaskCompletion, answer, refused},
};
use crate::lock::lock;
use crate::{
    client::{EagerOffer, EagerPlace, unary},
    failure::Failure,
    options::wire_duration,
    task::TaskInfo,
    workflow::{
        execution::{Execution, Step, TaskFailed, WorkflowTaskAnswer},
        local::{LocalRequest, LocalResult, LocalWork},
    },
};

/// A workflow task's time-out if the run does not say.
const DEFAULT_TASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Tasks that one answer may ask to have handed over at once.
const EAGER_MAX: usize = 3;

/// Everything that workflow tasks need.
struct Workflows {
    shared: Arc<Shared>,
    threads: WorkflowThreads,
    cache: Mutex<Cache>,
}

/// Polls and answers workflow tasks until the worker shuts down, then drains.
pub(crate) async fn run(shared: Arc<Shared>, ending: PollStop) {
    let options = &shared.options;
    let threads = match WorkflowThreads::start(options.workflow_threads) {
        Ok(threads) => threads,
        Err(error) => {
            tracing::error!(%error, "no threads for workflows: this worker executes none");
            return;
        }
    };
    let slots = Arc::new(Slots::new(options.workflow_tuner.clone()));
    // A single slot is for the polls of the queue itself: those for cached runs would wait with it for a minute.
    let cached = if slots.max() > 1 { options.max_cached_workflows } else { 0 };
    let cache = Cache::new(cached, options.max_cache_bytes);
    let is_sticky = cache.is_enabled();
    let grace = options.shutdown_grace;
    let pollers = options.workflow_pollers;
    let scaling = shared.pollers_workflow();
    let workflows = Arc::new(Workflows { shared, threads, cache: Mutex::new(cache) });
    let offer = offer_eager(&workflows, &slots);
    let normal = poll(workflows.clone(), false, scaling, slots.clone(), ending.clone());
    if is_sticky {
        tokio::join!(normal, poll(workflows.clone(), true, Scaling::new(pollers), slots.clone(), ending));
    } else {
        normal.await;
    }
    drop(offer);
    // Polled tasks are answered before the worker ends.
    let _ = tokio::time::timeout(grace, slots.drained()).await;
}

/// Takes the first workflow tasks of workflows that the same client starts.
fn offer_eager(workflows: &Arc<Workflows>, slots: &Arc<Slots>) -> Option<EagerOffer> {
    let shared = &workflows.shared;
    if !shared.takes_eager_starts() {
        return None;
    }
    let deployment_options = shared.deployment_options();
    let (workflows, slots) = (Arc::downgrade(workflows), slots.clone());
    let runtime = tokio::runtime::Handle::current();
    Some(shared.client.offer_eager(&shared.queue, move |kind| {
        let workflows = workflows.upgrade().filter(|workflows| workflows.shared.workflows.get(kind).is_some())?;
        let (slot, runtime) = (slots.try_reserve(1).pop()?, runtime.clone());
        let take = Box::new(move |task| {
            runtime.spawn(async move {
                workflows.handle(task).await;
                drop(slot);
            });
        });
        Some(EagerPlace { take, deployment_options: deployment_options.clone() })
    }))
}

async fn poll(workflows: Arc<Workflows>, sticky: bool, scaling: Arc<Scaling>, slots: Arc<Slots>, ending: PollStop) {
    let reserve = move || {
        let slots = slots.clone();
        async move { slots.reserve().await }
    };
    let polls = workflows.clone();
    let poll = move || {
        let workflows = polls.clone();
        async move { workflows.poll(sticky).await }
    };
    let take = move |task: PollWorkflowTaskQueueResponse, slot: Slot| {
        let workflows = workflows.clone();
        tokio::spawn(async move {
            workflows.handle(task).await;
            drop(slot);
        });
    };
    scaling.poll(ending, reserve, poll, take).await;
}

fn normal(name: &str) -> TaskQueue {
    TaskQueue { name: name.to_owned(), kind: TaskQueueKind::Normal as i32, ..Default::default() }
}

/// The input of a workflow task, to begin it again.
struct TaskInput {
    history: Option<History>,
    messages: Vec<Message>,
    queries: workflow_task::Queries,
    query: Option<WorkflowQuery>,
}

impl TaskInput {
    fn of(self, task: PollWorkflowTaskQueueResponse) -> PollWorkflowTaskQueueResponse {
        let Self { history, messages, queries, query } = self;
        PollWorkflowTaskQueueResponse { history, messages, queries, query, ..task }
    }
}

/// The outcome of one workflow task.
enum TaskOutcome {
    /// It is answered; perhaps the next one came with the answer.
    Next(Box<Execution>, Option<Box<PollWorkflowTaskQueueResponse>>),
    /// The run is closed, or what memory has of it is of no use.
    Dropped,
}

/// Logs why an answer was not taken, unless its task was given to another worker or the run is closed.
fn warn_unless_gone<T>(answered: Result<T, Status>, what: &'static str) {
    if let Err(status) = answered
        && status.code() != Code::NotFound
    {
        tracing::warn!(message = status.message(), "{what}");
    }
}

impl Workflows {
    async fn poll(&self, sticky: bool) -> Result<PollAnswer<PollWorkflowTaskQueueResponse>, Status> {
        let shared = &self.shared;
        let request = PollWorkflowTaskQueueRequest {
            namespace: shared.client.namespace().to_owned(),
            task_queue: Some(if sticky { self.sticky() } else { normal(&shared.queue) }),
            identity: shared.identity.clone(),
            worker_instance_key: shared.instance_key(),
            worker_control_task_queue: shared.control_queue(),
            deployment_options: shared.deployment_options(),
            ..Default::default()
        };
        // Servers refuse polls without a limit.
        let task = shared.client.once(&unary::POLL_WORKFLOW_TASK, &request, POLL).await?;
        let delta = task.poller_scaling_decision.as_ref().map(|decision| decision.poll_request_delta_suggestion);
        let found = !task.task_token.is_empty();
        shared.meter_poll(if sticky { PolledKind::Sticky } else { PolledKind::Workflow }, found);
        Ok(PollAnswer { task: found.then_some(task), delta })
    }

    fn sticky(&self) -> TaskQueue {
        TaskQueue {
            name: self.shared.sticky_queue(),
            kind: TaskQueueKind::Sticky as i32,
            normal_name: self.shared.queue.clone(),
        }
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        lock(&self.cache)
    }

    /// Throws a run away, on its own thread: dropping it drops what the user wrote.
    async fn discard(&self, run_id: &str, execution: impl Into<Option<Box<Execution>>>) {
        if let Some(execution) = execution.into() {
            self.threads.run(run_id, move || drop(execution)).await;
        }
    }

    async fn keep(&self, run_id: &str, execution: Box<Execution>) {
        let (evicted, size) = {
            let mut cache = self.cache();
            (cache.put(run_id.to_owned(), execution), cache.len())
        };
        self.shared.meter_cache(size, evicted.len());
        for (run_id, execution) in evicted {
            self.discard(&run_id, execution).await;
        }
    }

    /// One workflow task, and those that come with its answer.
    async fn handle(&self, task: PollWorkflowTaskQueueResponse) {
        let mut next = Some(Box::new(task));
        let mut kept: Option<Box<Execution>> = None;
        let mut locals = Locals::default();
        let mut run_id = String::new();
        while let Some(task) = next.take() {
            run_id = task.workflow_execution.as_ref().map(|run| run.run_id.clone()).unwrap_or_default();
            let execution = kept.take().or_else(|| self.cache().take(&run_id));
            match self.one(&run_id, *task, execution, &mut locals).await {
                TaskOutcome::Next(execution, more) => {
                    kept = Some(execution);
                    next = more;
                }
                TaskOutcome::Dropped => return,
            }
        }
        if let Some(execution) = kept {
            if locals.is_empty() {
                self.keep(&run_id, execution).await;
            } else {
                // Nothing would deliver what still runs: the next task replays, and begins it again.
                self.discard(&run_id, execution).await;
            }
        }
    }

    /// The events that an execution still needs, and the execution to feed them to.
    async fn events(
        &self,
        run_id: &str,
        task: &mut PollWorkflowTaskQueueResponse,
        execution: Option<Box<Execution>>,
    ) -> Result<(Box<Execution>, Vec<HistoryEvent>), Status> {
        let history = task.history.take().unwrap_or_default();
        let mut events = decode(&history)?;
        let first = events.first().map_or(0, |event| event.event_id);
        let run = task.workflow_execution.clone().unwrap_or_default();
        let fits = |execution: &Execution| first <= execution.last_event() + 1;
        let mut token = std::mem::take(&mut task.next_page_token);
        let mut tail = Vec::new();
        let execution = match execution {
            Some(execution) if fits(&execution) => execution,
            other => {
                if let Some(old) = other {
                    self.discard(run_id, old).await;
                }
                if first != 1 {
                    // The stored history does not have the events of a task that may be dropped yet; they came with it.
                    tail = std::mem::take(&mut events);
                    token = bytes::Bytes::new();
                    Box::pin(self.page(&run, &mut token, &mut events)).await?;
                }
                Box::new(Execution::new(self.shared.workflows.clone(), self.shared.client.shared_namespace(), run_id))
            }
        };
        while !token.is_empty() {
            Box::pin(self.page(&run, &mut token, &mut events)).await?;
        }
        let last = events.last().map_or(0, |event| event.event_id);
        events.extend(tail.into_iter().filter(|event| event.event_id > last));
        if task.started_event_id > 0 {
            // Pages may go beyond the task that is to be answered.
            events.retain(|event| event.event_id <= task.started_event_id);
        }
        Ok((execution, events))
    }

    async fn page(
        &self,
        run: &WorkflowExecution,
        token: &mut bytes::Bytes,
        events: &mut Vec<HistoryEvent>,
    ) -> Result<(), Status> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: self.shared.client.namespace().to_owned(),
            execution: Some(run.clone()),
            next_page_token: std::mem::take(token),
            ..Default::default()
        };
        let page = self
            .shared
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.get_workflow_execution_history(request).await }
            })
            .await?;
        events.extend(decode(&page.history.unwrap_or_default())?);
        *token = page.next_page_token;
        Ok(())
    }

    async fn one(
        &self,
        run_id: &str,
        mut task: PollWorkflowTaskQueueResponse,
        execution: Option<Box<Execution>>,
        locals: &mut Locals,
    ) -> TaskOutcome {
        let was_cached = execution.is_some();
        self.shared.meter_workflow_task_start(&task, was_cached);
        // Needed only if memory turns out to be stale. The events of a task that may be dropped are nowhere else.
        let again = was_cached.then(|| TaskInput {
            history: task.history.clone(),
            messages: task.messages.clone(),
            queries: task.queries.clone(),
            query: task.query.clone(),
        });
        let (execution, mut events) = match self.events(run_id, &mut task, execution).await {
            Ok(found) => found,
            Err(status) => {
                tracing::warn!(run_id, message = status.message(), "the history of a run cannot be read");
                return TaskOutcome::Dropped;
            }
        };
        let mut messages = std::mem::take(&mut task.messages);
        let mut queries = std::mem::take(&mut task.queries);
        let codecs = self.shared.client.codecs();
        if let Err(error) = codec::decode_task(codecs, &mut events, &mut messages).await {
            self.discard(run_id, execution).await;
            Box::pin(self.fail(task, unreadable(error))).await;
            return TaskOutcome::Dropped;
        }
        if let Some(query) = task.query.take() {
            let answered = Box::pin(self.legacy_query(run_id, &task, execution, events, query, again.is_some())).await;
            return match (answered, again) {
                (None, Some(again)) => Box::pin(self.one(run_id, again.of(task), None, locals)).await,
                (answered, _) => answered.unwrap_or(TaskOutcome::Dropped),
            };
        }
        for query in queries.values_mut() {
            // The handler refuses a query that cannot be decoded.
            let _ = codec::decode_query(codecs, query).await;
        }
        let began = Instant::now();
        let mut deadline = None;
        let mut progress =
            self.on_thread(run_id, &task, move || workflow_task::begin(execution, events, messages, queries)).await;
        loop {
            match progress {
                Some(TaskProgress::Completed(mut ended)) => {
                    locals.begin(&self.shared, &task, std::mem::take(&mut ended.step));
                    self.shared.meter_workflow_task_end(&task, began.elapsed(), &ended.finished.commands);
                    return self.complete(run_id, task, *ended, false).await;
                }
                Some(TaskProgress::Waits(execution, step, queries)) => {
                    locals.begin(&self.shared, &task, step);
                    let deadline = *deadline.get_or_insert_with(|| {
                        began + execution.task_timeout().unwrap_or(DEFAULT_TASK_TIMEOUT).mul_f64(0.8)
                    });
                    let Some(result) = locals.next(deadline).await else {
                        // The server hears that the worker still works on it.
                        let end = move || workflow_task::end(execution, Step::default(), queries);
                        let Some(ended) = self.threads.run(run_id, end).await else { return TaskOutcome::Dropped };
                        self.shared.meter_workflow_task_end(&task, began.elapsed(), &ended.finished.commands);
                        return self.complete(run_id, task, ended, true).await;
                    };
                    progress = self
                        .on_thread(run_id, &task, move || workflow_task::local_done(execution, result, queries))
                        .await;
                }
                Some(TaskProgress::Failed(failed)) => {
                    if let (true, Some(again)) = (failed.stale, again) {
                        // Memory and history differ: begin again from the first event.
                        return Box::pin(self.one(run_id, again.of(task), None, locals)).await;
                    }
                    Box::pin(self.fail(task, *failed)).await;
                    return TaskOutcome::Dropped;
                }
                None => return TaskOutcome::Dropped,
            }
        }
    }

    /// Does a part of a workflow task on the thread of its run, and says so when that takes long. One that sleeps has failed.
    async fn on_thread(
        &self,
        run_id: &str,
        task: &PollWorkflowTaskQueueResponse,
        job: impl FnOnce() -> (TaskProgress, Option<SlowTask>) + Send + 'static,
    ) -> Option<TaskProgress> {
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let mut running = std::pin::pin!(self.threads.run(run_id, move || {
            begins.store(true, Ordering::Relaxed);
            job()
        }));
        let workflow_id = || task.workflow_execution.as_ref().map(|run| run.workflow_id.as_str());
        let kind = || task.workflow_type.as_ref().map(|kind| kind.name.as_str());
        let progress = loop {
            match tokio::time::timeout(workflow_task::SLOW_WORKFLOW_TASK, &mut running).await {
                Ok(progress) => break progress,
                // It waits for the workflow tasks of other runs on its thread.
                Err(_) if !begun.load(Ordering::Relaxed) => {}
                Err(_) => {
                    let last_call = self.threads.last_call(run_id);
                    if self.threads.sleeps(run_id) {
                        // It answers too late, and sleeps again in every replay. The thread drops the run when it wakes up.
                        return Some(TaskProgress::Failed(Box::new(workflow_task::sleeps(last_call))));
                    }
                    tracing::warn!(
                        workflow_id = workflow_id(),
                        kind = kind(),
                        run_id,
                        last_call = last_call.map(tracing::field::display),
                        "a workflow task has not ended after {:?}: does workflow code block?",
                        workflow_task::SLOW_WORKFLOW_TASK
                    );
                    break running.await;
                }
            }
        };
        let (progress, slow) = progress?;
        if let Some(SlowTask { took, waits_for }) = slow {
            tracing::warn!(
                workflow_id = workflow_id(),
                kind = kind(),
                run_id,
                ?took,
                waits_for,
                "a workflow task took long: workflow code must not block; use tasks or `ctx.run`"
            );
        }
        Some(progress)
    }

    async fn complete(
        &self,
        run_id: &str,
        task: PollWorkflowTaskQueueResponse,
        ended: WorkflowTaskCompletion,
        heartbeat: bool,
    ) -> TaskOutcome {
        let WorkflowTaskCompletion { execution, mut finished, mut query_results, versioning, .. } = ended;
        let shared = &self.shared;
        let codecs = shared.client.codecs();
        let mut encoded = codec::encode_answer(codecs, &mut finished.commands, &mut finished.messages).await;
        for result in query_results.values_mut() {
            encoded = encoded.and(codec::encode_result(codecs, result).await);
        }
        if let Err(error) = encoded {
            self.discard(run_id, execution).await;
            Box::pin(self.fail(task, unreadable(error))).await;
            return TaskOutcome::Dropped;
        }
        let sticky = self.cache().is_enabled().then(|| StickyExecutionAttributes {
            worker_task_queue: Some(self.sticky()),
            schedule_to_start_timeout: wire_duration(shared.options.sticky_timeout),
        });
        let mut slots = self.reserve_eager(&mut finished);
        let request = RespondWorkflowTaskCompletedRequest {
            task_token: task.task_token.clone(),
            commands: finished.commands,
            identity: shared.identity.clone(),
            sticky_attributes: sticky,
            return_new_workflow_task: true,
            force_create_new_workflow_task: heartbeat,
            query_results,
            namespace: shared.client.namespace().to_owned(),
            messages: finished.messages,
            sdk_metadata: Some(WorkflowTaskCompletedMetadata {
                sdk_name: "segno-rust".to_owned(),
                sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Default::default()
            }),
            worker_instance_key: shared.instance_key(),
            worker_control_task_queue: shared.control_queue(),
            deployment_options: shared.deployment_options(),
            versioning_behavior: shared.versioning_behavior(versioning),
            ..Default::default()
        };
        let answered = pages::send(&shared.client, request, shared.paged_bytes_max()).await;
        match answered {
            Ok(response) => {
                for activity in response.activity_tasks {
                    if let Some(slot) = slots.pop() {
                        shared.start_task(activity, slot);
                    }
                }
                let Some(mut execution) = execution else { return TaskOutcome::Dropped };
                if response.reset_history_event_id > 0 {
                    execution.reset_to(response.reset_history_event_id);
                }
                TaskOutcome::Next(execution, response.workflow_task.map(Box::new))
            }
            Err(error) => {
                match error {
                    pages::SendError::TooLarge(message) => Box::pin(self.fail(task, too_large(message))).await,
                    // Perhaps it was taken and the answer was lost; perhaps the task was given to another worker.
                    pages::SendError::Rpc(status) if status.code() == Code::NotFound => {}
                    pages::SendError::Rpc(status) => {
                        let (code, message) = (status.code(), status.message());
                        tracing::warn!(run_id, ?code, message, "an answer was refused");
                    }
                }
                self.discard(run_id, execution).await;
                TaskOutcome::Dropped
            }
        }
    }

    /// Asks for some of the scheduled tasks at once, as far as there is room for them.
    fn reserve_eager(&self, finished: &mut WorkflowTaskAnswer) -> Vec<Slot> {
        let wanted = finished.commands.iter().filter(|command| asks_eagerly(command)).count();
        let slots = if wanted == 0 { Vec::new() } else { self.shared.try_reserve_tasks(wanted.min(EAGER_MAX)) };
        let mut left = slots.len();
        for command in &mut finished.commands {
            if let Some(Attributes::ScheduleActivityTaskCommandAttributes(schedule)) = &mut command.attributes
                && schedule.request_eager_execution
            {
                let known =
                    schedule.activity_type.as_ref().is_some_and(|kind| self.shared.tasks.get(&kind.name).is_some());
                schedule.request_eager_execution = known && left > 0;
                left -= usize::from(schedule.request_eager_execution);
            }
        }
        slots
    }

    /// Says that a workflow task failed; once, as otherwise it would be repeated as fast as the network allows. Kinds that
    /// `fail_workflow_on` names fail the run instead.
    async fn fail(&self, task: PollWorkflowTaskQueueResponse, failed: TaskFailed) {
        self.shared.meter_workflow_task_failed(&task);
        let kind = failed.failure.application_kind();
        if kind.is_some_and(|kind| self.shared.options.fail_workflow_on.iter().any(|chosen| chosen == kind)) {
            return self.fail_run(task, &failed.failure).await;
        }
        let run = task.workflow_execution.unwrap_or_default();
        let then = match failed.cause {
            WorkflowTaskFailedCause::GrpcMessageTooLarge => "the server ends the run",
            _ => "the run waits for a fix",
        };
        tracing::error!(
            workflow_id = run.workflow_id,
            run_id = run.run_id,
            attempt = task.attempt,
            failure = %failed.failure,
            "a workflow task failed; {then}"
        );
        // An answer that is too large is reported in every attempt: the server ends the run.
        if task.attempt > 1 && failed.cause != WorkflowTaskFailedCause::GrpcMessageTooLarge {
            return;
        }
        let encoded = self.shared.client.codecs().encode_failure(failed.failure.to_wire()).await;
        let request = RespondWorkflowTaskFailedRequest {
            task_token: task.task_token,
            cause: failed.cause as i32,
            failure: Some(encoded.unwrap_or_else(|error| {
                let failure: Failure = Failure::application("Conversion", error.to_string()).into();
                failure.to_wire()
            })),
            identity: self.shared.identity.clone(),
            namespace: self.shared.client.namespace().to_owned(),
            deployment_options: self.shared.deployment_options(),
            ..Default::default()
        };
        let answered = self
            .shared
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.respond_workflow_task_failed(request).await }
            })
            .await;
        warn_unless_gone(answered, "the failure of a workflow task was not taken");
    }

    /// Fails the run whose workflow task failed.
    async fn fail_run(&self, task: PollWorkflowTaskQueueResponse, failure: &Failure) {
        let wire = match self.shared.client.codecs().encode_failure(failure.to_wire()).await {
            Ok(wire) => wire,
            // Sent as it is, it might show what the codec is to hide; the server gives the task again.
            Err(error) => return tracing::error!(%error, "the failure of a workflow was not encoded"),
        };
        let attributes = FailWorkflowExecutionCommandAttributes { failure: Some(wire) };
        let command = Command {
            command_type: CommandType::FailWorkflowExecution as i32,
            attributes: Some(Attributes::FailWorkflowExecutionCommandAttributes(attributes)),
            ..Default::default()
        };
        let kind = task.workflow_type.unwrap_or_default().name;
        let versioning = self.shared.workflows.versioning(&kind);
        let request = RespondWorkflowTaskCompletedRequest {
            task_token: task.task_token,
            commands: vec![command],
            identity: self.shared.identity.clone(),
            namespace: self.shared.client.namespace().to_owned(),
            deployment_options: self.shared.deployment_options(),
            versioning_behavior: self.shared.versioning_behavior(versioning),
            ..Default::default()
        };
        let answered = self.shared.client.send(&unary::WORKFLOW_TASK_COMPLETED, &request).await;
        warn_unless_gone(answered, "the failure of a workflow was not taken");
    }

    /// `None`: memory and history differ, so that it has to begin again from the first event.
    async fn legacy_query(
        &self,
        run_id: &str,
        task: &PollWorkflowTaskQueueResponse,
        mut execution: Box<Execution>,
        events: Vec<HistoryEvent>,
        mut query: WorkflowQuery,
        was_cached: bool,
    ) -> Option<TaskOutcome> {
        let codecs = self.shared.client.codecs();
        let _ = codec::decode_query(codecs, &mut query).await;
        let answered = self
            .threads
            .run(run_id, move || {
                let replayed = execution.replay(events);
                let result = replayed.map(|()| answer(&mut execution, query));
                (execution, result)
            })
            .await;
        let Some((execution, result)) = answered else { return Some(TaskOutcome::Dropped) };
        let (execution, mut result) = match result {
            Ok(result) => (Some(execution), result),
            Err(failed) => {
                self.discard(run_id, execution).await;
                if failed.stale && was_cached {
                    return None;
                }
                (None, refused(failed.failure))
            }
        };
        if let Err(error) = codec::encode_result(codecs, &mut result).await {
            result = refused(Failure::application("Conversion", error).into());
        }
        pages::refuse_too_large(&mut result);
        let request = RespondQueryTaskCompletedRequest {
            task_token: task.task_token.clone(),
            completed_type: result.result_type,
            query_result: result.answer,
            error_message: result.error_message,
            namespace: self.shared.client.namespace().to_owned(),
            failure: result.failure,
            ..Default::default()
        };
        let sent = self
            .shared
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.respond_query_task_completed(request).await }
            })
            .await;
        if let Err(status) = sent {
            tracing::debug!(message = status.message(), "the answer to a query was not taken");
        }
        Some(execution.map_or(TaskOutcome::Dropped, |execution| TaskOutcome::Next(execution, None)))
    }
}

fn decode(history: &History) -> Result<Vec<HistoryEvent>, Status> {
    history.events().map_err(|error| Status::data_loss(error.to_string()))
}

/// A payload that a codec cannot handle.
fn unreadable(error: String) -> TaskFailed {
    TaskFailed {
        cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
        failure: Failure::application("Conversion", error).into(),
        violation: None,
        stale: false,
    }
}

/// An answer that cannot be sent.
fn too_large(message: String) -> TaskFailed {
    TaskFailed {
        cause: WorkflowTaskFailedCause::GrpcMessageTooLarge,
        failure: Failure::application("MessageTooLarge", message).into(),
        violation: None,
        stale: false,
    }
}

fn asks_eagerly(command: &segno_proto::command::Command) -> bool {
    matches!(&command.attributes, Some(Attributes::ScheduleActivityTaskCommandAttributes(schedule))
        if schedule.request_eager_execution)
}

fn local_info(shared: &Shared, task: &PollWorkflowTaskQueueResponse, request: &LocalRequest) -> TaskInfo {
    let kind = match &request.work {
        LocalWork::Task { kind, .. } => kind.clone(),
        LocalWork::Run(_) | LocalWork::Async(_) => String::new(),
    };
    let headers = match &request.work {
        LocalWork::Task { header: Some(header), .. } => header.fields.clone(),
        _ => Default::default(),
    };
    let run = task.workflow_execution.clone().unwrap_or_default();
    let mut info = TaskInfo::new(kind, request.id.clone());
    info.workflow_id = run.workflow_id;
    info.run_id = run.run_id;
    info.workflow_kind = task.workflow_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default();
    info.namespace = shared.client.namespace().to_owned();
    info.queue.clone_from(&shared.queue);
    info.headers = headers;
    info
}

/// Local operations that run.
#[derive(Default)]
struct Locals {
    running: FuturesUnordered<tokio::task::JoinHandle<LocalResult>>,
    abort: HashMap<String, tokio::task::AbortHandle>,
    open: usize,
}

impl Locals {
    fn is_empty(&self) -> bool {
        self.abort.is_empty()
    }

    fn begin(&mut self, shared: &Arc<Shared>, task: &PollWorkflowTaskQueueResponse, step: Step) {
        self.open = step.open_locals;
        for id in step.cancel {
            if let Some(running) = self.abort.remove(&id) {
                running.abort();
            }
        }
        for request in step.start {
            let info = local_info(shared, task, &request);
            let (id, shared) = (request.id.clone(), shared.clone());
            let running = tokio::spawn(async move {
                // Closures and futures of the workflow itself need no slot.
                let _slot = match &request.work {
                    LocalWork::Task { .. } => Some(shared.local_slots.reserve().await),
                    LocalWork::Run(_) | LocalWork::Async(_) => None,
                };
                local::execute(&shared, info, request).await
            });
            self.abort.insert(id, running.abort_handle());
            self.running.push(running);
        }
    }

    /// The next result, or `None` when it is time to say that the worker still works on it.
    async fn next(&mut self, deadline: Instant) -> Option<LocalResult> {
        loop {
            match tokio::time::timeout_at(deadline.into(), self.running.next()).await {
                Ok(Some(Ok(result))) if self.abort.remove(&result.id).is_some() => return Some(result),
                // Aborted ones.
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        for running in self.abort.values() {
            running.abort();
        }
    }
}
