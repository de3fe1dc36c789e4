//! [`Execution`]: executes one run from its history. Synchronous and without a runtime, so that worker, replayer and
//! tests use the same code.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use prost::Message;
use segno_proto::{
    command::{Command, ContinueAsNewWorkflowExecutionCommandAttributes},
    common::{self, Payload},
    enums::{self, WorkflowTaskFailedCause},
    events::{HistoryEvent, history_event::Attributes},
    protocol::{self, message::SequencingId},
    taskqueue::TaskQueue,
    timestamp_nanos, update,
};

use super::{
    ContinueAsNew,
    commands::{CloseKind, CommandRequest, ExpectedEvent, LOCAL_MARKER, RUN_MARKER, STATE_PREFIX, marker},
    core::{Closing, ReplayedTask, Shared},
    events,
    history::{Batch, Gap, HistoryTask, Part, Splitter},
    info::{StartInfo, StoredPayload, UpdateInfo},
    instance::{Instance, Stop},
    interceptor::InboundKind,
    local::{LocalRequest, LocalResult},
    matching::{self, Difference, SentCommand},
    operation::OpKind,
    random::Seed,
    registry::WorkflowRegistry,
    sorted::Sorted,
    violation::DeterminismViolation,
};
use crate::{
    converter,
    failure::{Error, Failure},
    options::{RetryPolicy, wire_duration},
    panics,
    versioning::{DeploymentVersion, InitialVersioning, VersioningBehavior},
};

/// Why a workflow task cannot be answered.
#[derive(Debug)]
pub(crate) struct TaskFailed {
    pub cause: WorkflowTaskFailedCause,
    pub failure: Failure,
    pub violation: Option<Box<DeterminismViolation>>,
    /// The cache holds events that history does not have: begin again with the whole history.
    pub stale: bool,
}

/// The local operations that a workflow task needs before it can be answered.
#[derive(Default)]
pub(crate) struct Step {
    pub start: Vec<LocalRequest>,
    pub cancel: Vec<String>,
    pub open_locals: usize,
}

/// The answer of a workflow task.
#[derive(Default)]
pub(crate) struct WorkflowTaskAnswer {
    pub commands: Vec<Command>,
    pub messages: Vec<protocol::Message>,
    pub closed: bool,
}

/// An update that is to be answered.
struct UpdateRequest {
    request: update::Request,
    message_id: String,
    sequencing_event_id: i64,
}

/// One run.
pub(crate) struct Execution {
    registry: Arc<WorkflowRegistry>,
    namespace: Arc<str>,
    splitter: Splitter,
    instance: Option<Instance>,
    /// Commands that were sent, to be found in history.
    sent: VecDeque<SentCommand>,
    /// Updates that history admitted and the code has not accepted yet.
    admitted: Sorted<String, Box<update::Request>>,
    live: bool,
    closed: bool,
    run_id: String,
    /// When the live workflow task's workflow task was started.
    task_time: i64,
}

impl Execution {
    /// A run that nothing is known of yet. `run_id` is empty if the history is to say it.
    pub fn new(registry: Arc<WorkflowRegistry>, namespace: impl Into<Arc<str>>, run_id: &str) -> Self {
        Self {
            registry,
            namespace: namespace.into(),
            splitter: Splitter::default(),
            instance: None,
            sent: VecDeque::new(),
            admitted: Sorted::default(),
            live: false,
            closed: false,
            run_id: run_id.to_owned(),
            task_time: 0,
        }
    }

    /// Feeds the next events, up to the start of the workflow task that is to be answered: the whole history the first
    /// time. What was completed is replayed, then the live workflow task begins.
    pub fn begin(&mut self, events: Vec<HistoryEvent>, messages: Vec<protocol::Message>) -> Result<Step, TaskFailed> {
        self.feed(events, messages, true)?;
        self.step()
    }

    /// Feeds events of which none is to be answered.
    pub fn replay(&mut self, events: impl IntoIterator<Item = HistoryEvent>) -> Result<(), TaskFailed> {
        self.feed(events, Vec::new(), false)
    }

    /// The last event that it has seen.
    pub fn last_event(&self) -> i64 {
        self.splitter.last_event()
    }

    /// The server dropped the last workflow task, of which nothing was left.
    pub fn reset_to(&mut self, event_id: i64) {
        self.splitter.reset_to(event_id);
    }

    /// Whether the run has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn feed(
        &mut self,
        events: impl IntoIterator<Item = HistoryEvent>,
        mut messages: Vec<protocol::Message>,
        answer: bool,
    ) -> Result<(), TaskFailed> {
        let mut events = events.into_iter().peekable();
        let gap = |gap: Gap| TaskFailed {
            cause: WorkflowTaskFailedCause::Unspecified,
            failure: Failure::application(
                "HistoryGap",
                format!("event {} was expected, event {} came", gap.expected, gap.found),
            )
            .into(),
            violation: None,
            stale: true,
        };
        while let Some(part) = self.splitter.next(&mut events, answer).map_err(gap)? {
            match part {
                Part::Batch(batch) => {
                    self.note_close(&batch);
                    let sent = std::mem::take(&mut self.sent);
                    self.compare(sent, &batch)?;
                }
                Part::NotTaken => {
                    return Err(TaskFailed {
                        cause: WorkflowTaskFailedCause::Unspecified,
                        failure: Failure::new("the answer before this one was not taken").into(),
                        violation: None,
                        stale: true,
                    });
                }
                Part::HistoryTask(task) => {
                    let live = task.batch.is_none();
                    let messages = if live { std::mem::take(&mut messages) } else { Vec::new() };
                    self.workflow_task(task, messages)?;
                    self.live = live;
                }
            }
        }
        Ok(())
    }

    fn workflow_task(&mut self, mut task: HistoryTask, messages: Vec<protocol::Message>) -> Result<(), TaskFailed> {
        let mut batch = task.batch.take();
        let first = self.instance.is_none();
        if first {
            self.make_instance(&task, batch.is_some())?;
        }
        let replayed = batch
            .as_ref()
            .map(|batch| ReplayedTask { patches: batch.events.iter().filter_map(matching::patch_of).collect() });
        let updates = match &batch {
            Some(batch) => self.accepted_updates(batch),
            None => update_requests(&messages),
        };
        self.note_admitted(&task.inbound);
        let delivers = first
            || !updates.is_empty()
            || task.inbound.iter().any(events::concerns_workflow)
            || batch.as_ref().is_some_and(|batch| batch.events.iter().any(is_local_marker));
        let version = match &mut batch {
            Some(batch) => batch.version.take().map(DeploymentVersion::from_wire).map(Arc::new),
            None => self.registry.version(),
        };
        let Some(instance) = self.instance.as_mut() else { return Ok(()) };
        instance.begin_polling();
        let _replaying = crate::telemetry::ReplayMark::begin(batch.is_some());
        let _span = instance.span().entered();
        {
            let mut core = instance.shared.core();
            core.replayed = replayed;
            core.suggest_continue_as_new = task.suggest_continue_as_new;
            core.target_version_changed = task.target_version_changed;
            core.version = version;
            if delivers || batch.is_none() {
                // A workflow task without anything in it cannot be seen, nor can its time. A live one may get results yet.
                if delivers {
                    core.time = task.time;
                }
                core.info.history_length = task.started_event_id;
                core.info.history_size = task.history_size;
            }
        }
        let time = task.time;
        let result = Self::execute_task(instance, task.inbound, &updates, batch.as_ref(), first);
        if let Some(instance) = self.instance.as_ref() {
            instance.end_polling();
        }
        result.map_err(|stop| self.failed(stop))?;
        self.task_time = time;
        if let Some(batch) = batch {
            let finished = self.end_of_task();
            self.note_close(&batch);
            let sent = std::mem::take(&mut self.sent);
            self.compare(sent, &batch)?;
            self.closed |= finished.closed;
        }
        Ok(())
    }

    fn execute_task(
        instance: &mut Instance,
        inbound: Vec<HistoryEvent>,
        updates: &[UpdateRequest],
        batch: Option<&Batch>,
        first: bool,
    ) -> Result<(), Stop> {
        instance.check_foreign()?;
        // A reset comes last in history, but all that this workflow task asks for is new.
        for event in inbound.iter().filter(|event| events::is_reset(event)) {
            events::deliver(instance, event.clone())?;
        }
        let mut inbound = inbound.into_iter().filter(|event| !events::is_reset(event));
        while let Some(event) = inbound.next() {
            events::deliver(instance, event)?;
            instance.settle()?;
            if instance.is_closing() {
                // The run does not see the rest, but must not ask for the end of what has ended.
                let mut core = instance.shared.core();
                for attributes in inbound.filter_map(|event| event.attributes) {
                    events::withdraw_request(&mut core, &attributes);
                }
                return Ok(());
            }
        }
        let live = batch.is_none();
        // In the first workflow task a function has registered no handler yet: its updates wait until it has run.
        let mut waiting = Vec::new();
        for update in updates {
            if first && instance.validate(&update.info(), update.input(), update.header()).is_none() {
                waiting.push(update);
                continue;
            }
            Self::deliver_update(instance, update, live)?;
            if instance.is_closing() {
                return Ok(());
            }
        }
        if first {
            instance.begin_run();
            instance.settle()?;
        }
        for update in waiting {
            if instance.is_closing() {
                return Ok(());
            }
            Self::deliver_update(instance, update, live)?;
        }
        for event in batch.iter().flat_map(|batch| &batch.events).filter(|event| is_local_marker(event)) {
            if instance.is_closing() {
                return Ok(());
            }
            if let Some(Attributes::MarkerRecordedEventAttributes(marker)) = &event.attributes {
                deliver_marker(instance, marker);
                instance.settle()?;
            }
        }
        Ok(())
    }

    fn deliver_update(instance: &mut Instance, update: &UpdateRequest, live: bool) -> Result<(), Stop> {
        let meta = update.request.meta.clone().unwrap_or_default();
        let (id, info) = (meta.update_id.clone(), update.info());
        if live {
            let verdict = instance.validate(&info, update.input(), update.header()).unwrap_or_else(|| {
                let [_, _, known] = instance.handlers.names();
                Err(super::handlers::unknown("update", &info.name, known))
            });
            if let Err(failure) = verdict {
                let rejection = update::Rejection {
                    rejected_request_message_id: update.message_id.clone(),
                    rejected_request_sequencing_event_id: update.sequencing_event_id,
                    rejected_request: Some(update.request.clone()),
                    failure: Some(failure.to_wire()),
                };
                let message = message(&id, "reject", "temporal.api.update.v1.Rejection", &rejection);
                instance.shared.core().messages.push(message);
                return Ok(());
            }
        }
        {
            let mut core = instance.shared.core();
            let acceptance = update::Acceptance {
                accepted_request_message_id: update.message_id.clone(),
                accepted_request_sequencing_event_id: update.sequencing_event_id,
                accepted_request: Some(update.request.clone()),
            };
            let message = message(&id, "accept", "temporal.api.update.v1.Acceptance", &acceptance);
            let expected = ExpectedEvent::UpdateAccepted { id: id.clone() };
            core.push(CommandRequest::Message { id: message.id.clone() }, expected);
            core.messages.push(message);
        }
        instance.update(info, update.input(), update.header(), move |shared, result| {
            let value = match result {
                Ok(payloads) => update::outcome::Value::Success(common::Payloads { payloads }),
                Err(error) => update::outcome::Value::Failure(error.failure().to_wire()),
            };
            let outcome = Some(update::Outcome { value: Some(value) });
            let response = update::Response { meta: Some(meta), outcome };
            let message = message(&id, "complete", "temporal.api.update.v1.Response", &response);
            let mut core = shared.core();
            core.push(CommandRequest::Message { id: message.id.clone() }, ExpectedEvent::UpdateCompleted { id });
            core.messages.push(message);
        })?;
        instance.settle()
    }

    fn make_instance(&mut self, task: &HistoryTask, replaying: bool) -> Result<(), TaskFailed> {
        let unhandled = |failure: Failure| TaskFailed {
            cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            failure,
            violation: None,
            stale: false,
        };
        let start = task.inbound.iter().find_map(|event| match &event.attributes {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => Some((event, started)),
            _ => None,
        });
        let Some((event, started)) = start else {
            let failure = Failure::application("HistoryGap", "the history does not begin with its first event");
            return Err(TaskFailed { stale: true, ..unhandled(failure.into()) });
        };
        let time = event.event_time.as_ref().map(timestamp_nanos).and_then(|nanos| u64::try_from(nanos).ok());
        let start_time = time.map(|nanos| UNIX_EPOCH + Duration::from_nanos(nanos));
        if self.run_id.is_empty() {
            // Otherwise it is known: after a reset the first event names the run that it was copied from.
            self.run_id.clone_from(&started.original_execution_run_id);
        }
        let info = StartInfo::of(started, start_time, self.namespace.clone(), &self.run_id);
        let Some(factory) = self.registry.get(&info.kind) else {
            let message = format!(
                "this worker does not know the workflow {:?}; it knows {}",
                info.kind,
                self.registry.kinds().join(", ")
            );
            return Err(unhandled(Failure::application("UnknownWorkflow", message).into()));
        };
        let seed = Seed::of(&started.original_execution_run_id);
        let memo = started.memo.as_ref().map(|memo| StoredPayload::all(&memo.fields)).unwrap_or_default();
        let search = started.search_attributes.as_ref().map(|there| StoredPayload::all(&there.indexed_fields));
        let shared = Shared::new(info, seed, memo, search.unwrap_or_default(), self.registry.rules().clone());
        shared.core().replayed = replaying.then(ReplayedTask::default);
        let input = converter::items(&started.input).to_vec();
        let kind = started.workflow_type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default();
        let made = panics::catch(|| {
            let input = shared.inbound(InboundKind::Run, kind, started.header.as_ref(), Cow::Owned(input));
            factory.make(shared.clone(), &input)
        });
        let made = match made {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => return Err(unhandled(Failure::application("Conversion", error.to_string()).into())),
            Err(panic) => return Err(unhandled(panic.in_workflow())),
        };
        self.instance = Some(Instance::new(shared, made));
        Ok(())
    }

    fn note_admitted(&mut self, inbound: &[HistoryEvent]) {
        for event in inbound {
            if let Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(admitted)) = &event.attributes
                && let Some(request) = &admitted.request
            {
                let id = request.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default();
                self.admitted.insert(id, Box::new(request.clone()));
            }
        }
    }

    fn accepted_updates(&mut self, batch: &Batch) -> Vec<UpdateRequest> {
        let mut updates = Vec::new();
        for event in &batch.events {
            if let Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)) = &event.attributes {
                let id = &accepted.protocol_instance_id;
                let request =
                    accepted.accepted_request.clone().or_else(|| self.admitted.remove(id).map(|request| *request));
                updates.extend(request.map(|request| UpdateRequest {
                    request,
                    message_id: accepted.accepted_request_message_id.clone(),
                    sequencing_event_id: accepted.accepted_request_sequencing_event_id,
                }));
            }
        }
        updates
    }

    fn note_close(&mut self, batch: &Batch) {
        let closes = |event: &HistoryEvent| {
            use Attributes as A;
            matches!(
                event.attributes,
                Some(
                    A::WorkflowExecutionCompletedEventAttributes(_)
                        | A::WorkflowExecutionFailedEventAttributes(_)
                        | A::WorkflowExecutionCanceledEventAttributes(_)
                        | A::WorkflowExecutionContinuedAsNewEventAttributes(_)
                )
            )
        };
        self.closed |= batch.events.iter().any(closes);
    }

    fn compare(&mut self, sent: VecDeque<SentCommand>, batch: &Batch) -> Result<(), TaskFailed> {
        let Some(instance) = &self.instance else { return Ok(()) };
        let shared = instance.shared.clone();
        let mut core = shared.core();
        let result = matching::compare(sent, &batch.events, |op, event_id| {
            if let Some(there) = core.ops.get_mut(&op) {
                there.event_id = event_id;
                core.by_event.insert(event_id, op);
            }
        });
        drop(core);
        result.map_err(|difference| self.violated(difference, batch.completed_event_id))
    }

    /// One result of a local operation, in the live workflow task.
    pub fn local_done(&mut self, result: LocalResult) -> Result<Step, TaskFailed> {
        let time = self.task_time;
        if let Some(instance) = self.instance.as_mut() {
            let _span = instance.span().entered();
            instance.begin_polling();
            instance.shared.core().time = time;
            let settled = match deliver_local(instance, &result) {
                true => instance.settle(),
                false => Ok(()),
            };
            instance.end_polling();
            settled.map_err(|stop| self.failed(stop))?;
        }
        self.step()
    }

    /// Local operations that are to begin or end now.
    fn step(&mut self) -> Result<Step, TaskFailed> {
        let mut step = Step::default();
        let Some(instance) = &self.instance else { return Ok(step) };
        let mut core = instance.shared.core();
        step.cancel = std::mem::take(&mut core.cancelled_locals);
        if core.closing.is_some() || !self.live {
            return Ok(step);
        }
        for op in core.ops.values_mut().filter(|op| op.outcome.is_none()) {
            if let OpKind::Local { id, work, running, .. } = &mut op.kind {
                step.open_locals += 1;
                if !*running && let Some(work) = work.take() {
                    *running = true;
                    step.start.push(LocalRequest { id: id.clone(), work: *work });
                }
            }
        }
        Ok(step)
    }

    /// The answer of the live workflow task. If local operations are open, more workflow tasks follow.
    pub fn finish(&mut self) -> WorkflowTaskAnswer {
        let finished = self.end_of_task();
        self.splitter.answered();
        self.live = false;
        self.closed |= finished.closed;
        finished
    }

    fn end_of_task(&mut self) -> WorkflowTaskAnswer {
        let Some(instance) = self.instance.as_mut() else { return WorkflowTaskAnswer::default() };
        let shared = instance.shared.clone();
        let mut core = shared.core();
        let changed = std::mem::take(&mut core.changed_state);
        if !changed.is_empty() {
            let mut fields = Vec::new();
            for (key, value) in changed {
                let key = format!("{STATE_PREFIX}{key}");
                match &value {
                    Some(value) => core.memo.insert(key.clone(), StoredPayload::of(value)),
                    None => core.memo.remove(&key),
                };
                let null = || converter::encode_json(&()).unwrap_or_default();
                fields.push((key, value.unwrap_or_else(null)));
            }
            let keys = fields.iter().map(|(key, _)| key.clone()).collect();
            core.push(CommandRequest::Memo(fields), ExpectedEvent::State { keys });
        }
        let closing = core.closing.take();
        let closed = closing.is_some();
        if let Some(Closing::Returned(result)) = closing {
            let unfinished = core.unfinished.all - core.unfinished.abandoned;
            if unfinished > 0 && !core.is_replaying() {
                tracing::warn!(
                    workflow_id = core.info.workflow_id,
                    kind = core.info.kind,
                    handlers = unfinished,
                    "the workflow ends while handlers of signals or updates run; wait for `all_handlers_finished`"
                );
            }
            let cancelled = core.scopes.reason(super::scope_tree::ROOT).is_some();
            let (ask, kind) = closing_command(result, cancelled, &core);
            core.push(ask, ExpectedEvent::Close(kind));
        }
        core.replayed = None;
        let messages = std::mem::take(&mut core.messages);
        let (commands, sent) = core.take_commands();
        self.sent = sent;
        WorkflowTaskAnswer { commands, messages, closed }
    }

    /// Answers a query. Nothing that the workflow can see is changed.
    pub fn query(
        &mut self,
        name: &str,
        input: &[Payload],
        header: Option<&common::Header>,
    ) -> Result<Vec<Payload>, Failure> {
        let Some(instance) = self.instance.as_mut() else {
            return Err(Failure::new("the workflow has not begun").into());
        };
        super::query::answer(instance, name, input, header)
    }

    fn failed(&mut self, stop: Stop) -> TaskFailed {
        match stop {
            Stop::Failure(failure) => TaskFailed {
                cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
                failure,
                violation: None,
                stale: false,
            },
            Stop::Violation(difference) => self.violated(*difference, 0),
        }
    }

    fn violated(&self, difference: Difference, task_completed_event_id: i64) -> TaskFailed {
        let Difference { kind, event_id, sequence, expected, actual, place } = difference;
        let workflow_id = self.instance.as_ref().map(|instance| instance.shared.core().info.workflow_id.clone());
        let (workflow_id, run_id) = (workflow_id.unwrap_or_default(), self.run_id.clone());
        let violation = DeterminismViolation {
            kind,
            workflow_id,
            run_id,
            event_id,
            task_completed_event_id,
            sequence,
            expected,
            actual,
            place: place.map(ToString::to_string),
        };
        let failure = Failure::application("DeterminismViolation", violation.to_string())
            .details(&violation.to_json())
            .non_retryable();
        let cause = WorkflowTaskFailedCause::NonDeterministicError;
        TaskFailed { cause, failure: failure.into(), violation: Some(Box::new(violation)), stale: false }
    }
}

impl UpdateRequest {
    fn name(&self) -> &str {
        self.request.input.as_ref().map(|input| input.name.as_str()).unwrap_or_default()
    }

    fn info(&self) -> Arc<UpdateInfo> {
        let id = self.request.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default();
        Arc::new(UpdateInfo { id, name: self.name().to_owned() })
    }

    fn header(&self) -> Option<&common::Header> {
        self.request.input.as_ref().and_then(|input| input.header.as_ref())
    }

    fn input(&self) -> &[Payload] {
        self.request.input.as_ref().map(|input| converter::items(&input.args)).unwrap_or_default()
    }
}

/// The updates among the messages of a workflow task.
fn update_requests(messages: &[protocol::Message]) -> Vec<UpdateRequest> {
    messages
        .iter()
        .filter_map(|message| {
            let body = message.body.as_ref()?;
            if !body.type_url.ends_with("temporal.api.update.v1.Request") {
                return None;
            }
            let mut request = update::Request::decode(body.value.as_slice()).ok()?;
            let meta = request.meta.get_or_insert_default();
            if meta.update_id.is_empty() {
                meta.update_id.clone_from(&message.protocol_instance_id);
            }
            let sequencing_event_id = match message.sequencing_id {
                Some(SequencingId::EventId(event_id)) => event_id,
                _ => 0,
            };
            Some(UpdateRequest { request, message_id: message.id.clone(), sequencing_event_id })
        })
        .collect()
}

fn message(update: &str, what: &str, kind: &str, body: &impl Message) -> protocol::Message {
    protocol::Message {
        id: format!("{update}/{what}"),
        protocol_instance_id: update.to_owned(),
        body: Some(prost_types::Any { type_url: format!("type.googleapis.com/{kind}"), value: body.encode_to_vec() }),
        sequencing_id: None,
    }
}

fn is_local_marker(event: &HistoryEvent) -> bool {
    matches!(&event.attributes, Some(Attributes::MarkerRecordedEventAttributes(marker))
        if marker.marker_name == RUN_MARKER || marker.marker_name == LOCAL_MARKER)
}

/// A result that history has.
fn deliver_marker(instance: &mut Instance, event: &segno_proto::events::MarkerRecordedEventAttributes) {
    let id: Option<String> = matching::detail(event, "id");
    let outcome = match &event.failure {
        Some(failure) => Err(Failure::from_wire(failure.clone())),
        None => Ok(event.details.get("result").map(|result| result.payloads.clone()).unwrap_or_default()),
    };
    let attempt = matching::detail(event, "attempt").unwrap_or(1);
    let known = id.is_some_and(|id| deliver_local(instance, &LocalResult { id, attempt, outcome }));
    if !known {
        // The code has no such operation: the comparison of the workflow task will say so.
        tracing::debug!("a marker belongs to no operation");
    }
}

/// Records a result and gives it to the future that waits. Says whether there is one.
fn deliver_local(instance: &mut Instance, result: &LocalResult) -> bool {
    let mut core = instance.shared.core();
    let found = core.ops.iter().find_map(|(op, there)| match &there.kind {
        OpKind::Local { id, name, index, is_task, .. } if *id == result.id && there.outcome.is_none() => {
            Some((*op, name.clone(), *index, *is_task))
        }
        _ => None,
    });
    let Some((op, name, index, is_task)) = found else { return false };
    let json = |value: serde_json::Value| converter::encode_json(&value).into_iter().collect::<Vec<Payload>>();
    let (failure, payloads) = match &result.outcome {
        Ok(payloads) => (None, payloads.clone()),
        Err(failure) => (Some(failure.to_wire()), Vec::new()),
    };
    let task = is_task.then(|| name.clone());
    let (ask, expected) = if is_task {
        let details = vec![
            ("kind", json(name.clone().into())),
            ("id", json(result.id.clone().into())),
            ("attempt", json(result.attempt.into())),
            ("result", payloads),
        ];
        (marker(LOCAL_MARKER, details, failure), ExpectedEvent::Local { kind: name, id: result.id.clone(), index })
    } else {
        let details = vec![
            ("name", json(name.clone().into())),
            ("index", json(index.into())),
            ("id", json(result.id.clone().into())),
            ("result", payloads),
        ];
        (marker(RUN_MARKER, details, failure), ExpectedEvent::Run { name, index })
    };
    let place = core.ops.get(&op).and_then(|op| op.place);
    core.push_at(place, ask, expected);
    let outcome = result.outcome.clone().map_err(|failure| match task {
        Some(kind) => events::task_failed(kind, result.id.clone(), failure),
        None => failure,
    });
    core.resolve(op, outcome);
    true
}

fn closing_command(
    result: Result<Vec<Payload>, Error>,
    cancelled: bool,
    core: &super::core::Core,
) -> (CommandRequest, CloseKind) {
    match result.map_err(Error::into_outcome) {
        Ok(payloads) => (CommandRequest::Complete(payloads), CloseKind::Completed),
        Err(Err(failure)) if cancelled && failure.is_cancelled() => (CommandRequest::Cancel, CloseKind::Canceled),
        Err(Err(failure)) => (CommandRequest::Fail(Box::new(failure.to_wire())), CloseKind::Failed),
        Err(Ok(continued)) => {
            let ContinueAsNew { kind, input, options, header } = continued;
            let options = *options;
            let changed = |values: Vec<(String, serde_json::Value)>, there: &Sorted<String, StoredPayload>| {
                let mut fields = StoredPayload::payloads(there);
                let encoded =
                    values.into_iter().filter_map(|(key, value)| Some((key, converter::encode_json(&value).ok()?)));
                fields.extend(encoded);
                fields
            };
            let memo = Some(common::Memo { fields: changed(options.memo, &core.memo) });
            let indexed_fields = changed(options.search_attributes, &core.search);
            let search_attributes = Some(common::SearchAttributes { indexed_fields });
            let attributes = ContinueAsNewWorkflowExecutionCommandAttributes {
                workflow_type: Some(common::WorkflowType { name: kind }),
                task_queue: Some(TaskQueue {
                    name: options.queue.unwrap_or_else(|| core.info.queue.clone()),
                    kind: enums::TaskQueueKind::Normal as i32,
                    ..Default::default()
                }),
                input: converter::list(input),
                header,
                workflow_run_timeout: options.run_timeout.and_then(wire_duration),
                workflow_task_timeout: options.task_timeout.and_then(wire_duration),
                // Servers take no policy for "none", not for "as before".
                retry_policy: options
                    .retry_policy
                    .as_ref()
                    .map(RetryPolicy::to_wire)
                    .or_else(|| core.info.retry_policy()),
                initiator: enums::ContinueAsNewInitiator::Workflow as i32,
                initial_versioning_behavior: options.initial_versioning.map_or(0, InitialVersioning::to_wire),
                memo: memo.filter(|memo| !memo.fields.is_empty()),
                search_attributes: search_attributes.filter(|search| !search.indexed_fields.is_empty()),
                ..Default::default()
            };
            (CommandRequest::ContinueAsNew(Box::new(attributes)), CloseKind::ContinuedAsNew)
        }
    }
}

impl Execution {
    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        let Some(instance) = &self.instance else { return 1024 };
        let core = instance.shared.core();
        let waiting = core.signals.waiting_bytes();
        let stored: usize = core.memo.values().chain(core.search.values()).map(|stored| stored.len() + 64).sum();
        2560 + core.ops.len() * 320 + stored + waiting
    }

    /// The versioning behaviour that the workflow's attribute names.
    pub fn versioning(&self) -> VersioningBehavior {
        let Some(instance) = &self.instance else { return VersioningBehavior::Unspecified };
        self.registry.versioning(&instance.shared.core().info.kind)
    }

    /// How long the server waits for the answer to a workflow task.
    pub fn task_timeout(&self) -> Option<Duration> {
        self.instance.as_ref().and_then(|instance| instance.shared.core().info.task_timeout)
    }

    /// Where the code asked for one of the commands of the last answer.
    #[cfg(feature = "testing")]
    pub fn place_of_command(&self, position: usize) -> Option<super::last_call::Place> {
        self.sent.get(position)?.place
    }

    /// For people: what the workflow waits for.
    pub fn waits_for(&self) -> String {
        let Some(instance) = &self.instance else { return String::new() };
        let core = instance.shared.core();
        let waiting: Vec<String> = core.ops.values().take(10).map(|op| op.kind.describe()).collect();
        waiting.join(", ")
    }
}
