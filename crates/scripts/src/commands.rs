//! Translates commands of a script to those of a workflow task.

// `control` carries the id by which the script knows what it sent, and `inherit_build_id` that the version stays.
#![allow(deprecated)]

use std::collections::BTreeMap;

use prost::Message as _;
use segno_engine::{
    Run,
    script::{self, AfterTurn, OperationKind},
    search_attributes::PREDEFINED,
    signal::Signal,
    state::{ScriptGroup, ScriptOperation, TaskKind},
};
use segno_flow::interface::{
    self, Command, ContinueAsNew, GroupEffect, IdReuse, ParentClose, ScheduleNexus, ScheduleTask, StartChild,
    TurnResult, Wake,
};
use segno_proto::{
    command::{
        CancelTimerCommandAttributes, CancelWorkflowExecutionCommandAttributes, Command as WireCommand,
        CompleteWorkflowExecutionCommandAttributes, ContinueAsNewWorkflowExecutionCommandAttributes,
        FailWorkflowExecutionCommandAttributes, ModifyWorkflowPropertiesCommandAttributes,
        ProtocolMessageCommandAttributes, RequestCancelActivityTaskCommandAttributes,
        RequestCancelExternalWorkflowExecutionCommandAttributes, RequestCancelNexusOperationCommandAttributes,
        ScheduleActivityTaskCommandAttributes, ScheduleNexusOperationCommandAttributes,
        SignalExternalWorkflowExecutionCommandAttributes, StartChildWorkflowExecutionCommandAttributes,
        StartTimerCommandAttributes, UpsertWorkflowSearchAttributesCommandAttributes, command::Attributes as A,
    },
    common::{
        ActivityType, Memo, Payload as WirePayload, Priority, RetryPolicy, SearchAttributes, WorkflowExecution,
        WorkflowType,
    },
    enums::{CommandType as T, ParentClosePolicy, TaskQueueKind, WorkflowIdReusePolicy},
    nanos_duration,
    protocol::Message,
    sdk::UserMetadata,
    taskqueue::TaskQueue,
    update::{Acceptance, Outcome, Rejection, Response, outcome},
};

use super::values::{wire_failure, wire_payload, wire_payloads};

/// The queue of tasks whose run names none.
const DEFAULT_QUEUE: &str = "default";

/// How a turn answers its workflow task.
#[derive(Default)]
pub(super) struct TaskAnswer {
    pub commands: Vec<WireCommand>,
    pub messages: Vec<Message>,
    pub turn: AfterTurn,
}

/// Translates what a turn gives. `run` has the workflow task started; `flushed` buffered events become history before
/// the turn ends.
pub(super) fn task_answer(run: &Run, turned: &mut TurnResult, flushed: usize) -> TaskAnswer {
    let mut translation = Translation {
        run,
        next_event_id: first_command_event(run) + flushed as i64,
        scheduled: BTreeMap::new(),
        operations: BTreeMap::new(),
        answer: TaskAnswer::default(),
    };
    for command in std::mem::take(&mut turned.commands) {
        translation.add(command);
    }
    let wake = &turned.wake;
    let operations = wake.operations.iter().map(|operation| translation.operation(operation)).collect();
    let mut answer = translation.answer;
    answer.turn.signals.clone_from(&wake.signals);
    answer.turn.operations = operations;
    answer.turn.groups = wake.groups.iter().map(|group| (effects(group), group.missing)).collect();
    answer.turn.signals_waiting = wake.signals_waiting.try_into().unwrap_or(u32::MAX);
    answer.turn.took_buffered = flushed > 0;
    answer
}

/// The id of the event of the first command: that of the completed event comes before it, and a transient or speculative
/// task owes history two more.
fn first_command_event(run: &Run) -> i64 {
    let owed =
        run.state().task.as_ref().is_some_and(|task| task.is_transient() || task.kind() == TaskKind::Speculative);
    run.state().next_event_id + if owed { 3 } else { 1 }
}

fn effects(group: &interface::Group) -> ScriptGroup {
    ScriptGroup {
        completion_satisfies: group.completion == GroupEffect::Satisfies,
        failure_satisfies: group.failure == GroupEffect::Satisfies,
    }
}

struct Translation<'a> {
    run: &'a Run,
    /// The id that the event of the next command will have.
    next_event_id: i64,
    /// Tasks of this turn by their ids.
    scheduled: BTreeMap<String, i64>,
    /// Nexus operations of this turn by their ids: the event, and the name.
    operations: BTreeMap<String, (i64, String)>,
    answer: TaskAnswer,
}

impl Translation<'_> {
    fn add(&mut self, command: Command) {
        match command {
            Command::ScheduleTask(task) => {
                self.scheduled.insert(task.id.clone(), self.next_event_id);
                let summary = task.summary.clone();
                let attributes = A::ScheduleActivityTaskCommandAttributes(self.schedule(*task));
                self.push_with(T::ScheduleActivityTask, attributes, &summary);
            }
            Command::CancelTask { id } => {
                let Some(scheduled_event_id) = self.scheduled_event(&id) else { return };
                let attributes = RequestCancelActivityTaskCommandAttributes { scheduled_event_id };
                self.push(T::RequestCancelActivityTask, A::RequestCancelActivityTaskCommandAttributes(attributes));
            }
            Command::ScheduleNexus(order) => {
                let name = format!("{}.{}", order.service, order.operation);
                self.operations.insert(order.id.clone(), (self.next_event_id, name));
                let summary = order.summary.clone();
                let attributes = A::ScheduleNexusOperationCommandAttributes(schedule_operation(*order));
                self.push_with(T::ScheduleNexusOperation, attributes, &summary);
            }
            Command::CancelNexus { id } => {
                let Some(scheduled_event_id) = self.operation_event(&id) else { return };
                let attributes = RequestCancelNexusOperationCommandAttributes { scheduled_event_id };
                let attributes = A::RequestCancelNexusOperationCommandAttributes(attributes);
                self.push(T::RequestCancelNexusOperation, attributes);
            }
            Command::StartTimer { id, duration } => {
                let start_to_fire_timeout = Some(nanos_duration(duration.max(1).saturating_mul(1_000_000)));
                let attributes = StartTimerCommandAttributes { timer_id: id, start_to_fire_timeout };
                self.push(T::StartTimer, A::StartTimerCommandAttributes(attributes));
            }
            Command::CancelTimer { id } => {
                let attributes = CancelTimerCommandAttributes { timer_id: id };
                self.push(T::CancelTimer, A::CancelTimerCommandAttributes(attributes));
            }
            Command::StartChild(child) => {
                let summary = child.summary.clone();
                let attributes = A::StartChildWorkflowExecutionCommandAttributes(self.start_child(*child));
                self.push_with(T::StartChildWorkflowExecution, attributes, &summary);
            }
            Command::CancelChild { workflow_id, reason } => {
                let attributes = RequestCancelExternalWorkflowExecutionCommandAttributes {
                    workflow_id,
                    reason,
                    child_workflow_only: true,
                    ..Default::default()
                };
                let attributes = A::RequestCancelExternalWorkflowExecutionCommandAttributes(attributes);
                self.push(T::RequestCancelExternalWorkflowExecution, attributes);
            }
            Command::Signal { id, workflow_id, run_id, name, input } => {
                let attributes = SignalExternalWorkflowExecutionCommandAttributes {
                    execution: Some(WorkflowExecution { workflow_id, run_id }),
                    signal_name: name,
                    input: wire_payloads(input),
                    control: id,
                    ..Default::default()
                };
                let attributes = A::SignalExternalWorkflowExecutionCommandAttributes(attributes);
                self.push(T::SignalExternalWorkflowExecution, attributes);
            }
            Command::CancelWorkflow { id, workflow_id, run_id, reason } => {
                let attributes = RequestCancelExternalWorkflowExecutionCommandAttributes {
                    workflow_id,
                    run_id,
                    reason,
                    control: id,
                    ..Default::default()
                };
                let attributes = A::RequestCancelExternalWorkflowExecutionCommandAttributes(attributes);
                self.push(T::RequestCancelExternalWorkflowExecution, attributes);
            }
            Command::SetMemo(fields) => {
                let fields = fields.into_iter().map(|(key, value)| (key, value.map_or_else(null, wire_payload)));
                let upserted_memo = Some(Memo { fields: fields.collect() });
                let attributes = ModifyWorkflowPropertiesCommandAttributes { upserted_memo };
                self.push(T::ModifyWorkflowProperties, A::ModifyWorkflowPropertiesCommandAttributes(attributes));
            }
            Command::SetSearchAttributes(fields) => {
                let fields = fields.into_iter().map(|(key, value)| (key, value.map_or_else(null, wire_payload)));
                let search_attributes = Some(SearchAttributes { indexed_fields: fields.collect() });
                let attributes = UpsertWorkflowSearchAttributesCommandAttributes { search_attributes };
                let attributes = A::UpsertWorkflowSearchAttributesCommandAttributes(attributes);
                self.push(T::UpsertWorkflowSearchAttributes, attributes);
            }
            Command::AcceptUpdate { id } => {
                let sequencing = self.run.state().task.as_ref().map_or(1, |task| task.scheduled_event_id.max(1));
                let acceptance = Acceptance {
                    accepted_request_message_id: format!("{id}/request"),
                    accepted_request_sequencing_event_id: sequencing,
                    accepted_request: None,
                };
                self.message(&id, "accept", "Acceptance", acceptance.encode_to_vec(), true);
            }
            Command::RejectUpdate { id, failure } => {
                let rejection = Rejection {
                    rejected_request_message_id: format!("{id}/request"),
                    failure: Some(wire_failure(failure)),
                    ..Default::default()
                };
                self.message(&id, "reject", "Rejection", rejection.encode_to_vec(), false);
            }
            Command::EndUpdate { id, end } => {
                let value = match end {
                    Ok(result) => outcome::Value::Success(wire_payloads(result).unwrap_or_default()),
                    Err(failure) => outcome::Value::Failure(wire_failure(failure)),
                };
                let response = Response {
                    meta: Some(segno_proto::update::Meta { update_id: id.clone(), ..Default::default() }),
                    outcome: Some(Outcome { value: Some(value) }),
                };
                self.message(&id, "complete", "Response", response.encode_to_vec(), true);
            }
            Command::Complete { result } => {
                let attributes = CompleteWorkflowExecutionCommandAttributes { result: wire_payloads(result) };
                self.push(T::CompleteWorkflowExecution, A::CompleteWorkflowExecutionCommandAttributes(attributes));
            }
            Command::Fail { failure } => {
                let attributes = FailWorkflowExecutionCommandAttributes { failure: Some(wire_failure(failure)) };
                self.push(T::FailWorkflowExecution, A::FailWorkflowExecutionCommandAttributes(attributes));
            }
            Command::Cancel { details } => {
                let attributes = CancelWorkflowExecutionCommandAttributes { details: wire_payloads(details) };
                self.push(T::CancelWorkflowExecution, A::CancelWorkflowExecutionCommandAttributes(attributes));
            }
            Command::ContinueAsNew(next) => {
                let attributes = self.continue_as_new(*next);
                let attributes = A::ContinueAsNewWorkflowExecutionCommandAttributes(attributes);
                self.push(T::ContinueAsNewWorkflowExecution, attributes);
            }
        }
    }

    fn push(&mut self, kind: T, attributes: A) {
        self.push_with(kind, attributes, "");
    }

    fn push_with(&mut self, kind: T, attributes: A, summary: &str) {
        let user_metadata = (!summary.is_empty()).then(|| UserMetadata {
            summary: Some(json(&serde_json::Value::from(summary).to_string())),
            ..Default::default()
        });
        self.answer.commands.push(WireCommand {
            command_type: kind as i32,
            attributes: Some(attributes),
            user_metadata,
            ..Default::default()
        });
        self.next_event_id += 1;
    }

    fn message(&mut self, update: &str, verb: &str, kind: &str, value: Vec<u8>, with_command: bool) {
        let id = format!("{update}/{verb}");
        let type_url = format!("type.googleapis.com/temporal.api.update.v1.{kind}");
        self.answer.messages.push(Message {
            id: id.clone(),
            protocol_instance_id: update.to_owned(),
            body: Some(prost_types::Any { type_url, value }),
            ..Default::default()
        });
        if with_command {
            let attributes = ProtocolMessageCommandAttributes { message_id: id };
            self.push(T::ProtocolMessage, A::ProtocolMessageCommandAttributes(attributes));
        }
    }

    /// The event that scheduled a task: of this turn, or of an earlier one. `None` if it has ended.
    fn scheduled_event(&self, id: &str) -> Option<i64> {
        if let Some(event) = self.scheduled.get(id) {
            return Some(*event);
        }
        let activities = &self.run.state().activities;
        activities.iter().find(|(_, activity)| activity.activity_id == id).map(|(event, _)| *event)
    }

    /// The same of a Nexus operation.
    fn operation_event(&self, id: &str) -> Option<i64> {
        if let Some((event, _)) = self.operations.get(id) {
            return Some(*event);
        }
        let state = self.run.state();
        let known = state.script.iter().flat_map(|script| &script.wake.operations);
        let mut events = known
            .filter(|operation| operation.kind() == OperationKind::Nexus && operation.id == id)
            .map(|operation| operation.event_id);
        events.find(|event| state.operations.contains_key(event))
    }

    fn operation(&self, operation: &interface::Operation) -> ScriptOperation {
        let kind = match operation.kind {
            interface::OperationKind::Task => OperationKind::Task,
            interface::OperationKind::Timer => OperationKind::Timer,
            interface::OperationKind::Child => OperationKind::Child,
            interface::OperationKind::Send => OperationKind::Send,
            interface::OperationKind::Nexus => OperationKind::Nexus,
        };
        let begun = self.operations.get(&operation.id).filter(|_| kind == OperationKind::Nexus);
        let (event_id, name) = begun.cloned().unwrap_or_default();
        ScriptOperation {
            event_id,
            kind: kind as i32,
            id: operation.id.clone(),
            wake: match operation.wake {
                Wake::Ignored => script::IGNORED,
                Wake::Wakes => script::WAKES,
                Wake::Group(group) => script::FIRST_GROUP + group,
            },
            wakes_on_start: operation.wakes_on_start,
            name,
        }
    }

    fn queue(&self, name: String) -> TaskQueue {
        let name = match name.is_empty() {
            false => name,
            true if self.run.info.task_queue == script::QUEUE => DEFAULT_QUEUE.to_owned(),
            true => self.run.info.task_queue.clone(),
        };
        TaskQueue { name, kind: TaskQueueKind::Normal as i32, normal_name: String::new() }
    }

    fn schedule(&self, task: ScheduleTask) -> ScheduleActivityTaskCommandAttributes {
        ScheduleActivityTaskCommandAttributes {
            activity_id: task.id,
            activity_type: Some(ActivityType { name: task.name }),
            task_queue: Some(self.queue(task.queue)),
            // An absent argument and no argument are the same to workers.
            input: wire_payloads(task.input),
            schedule_to_close_timeout: duration(task.schedule_to_close),
            schedule_to_start_timeout: duration(task.schedule_to_start),
            start_to_close_timeout: duration(task.start_to_close),
            heartbeat_timeout: duration(task.heartbeat),
            retry_policy: task.retry.map(retry_policy),
            priority: priority(task.priority),
            ..Default::default()
        }
    }

    fn start_child(&self, child: StartChild) -> StartChildWorkflowExecutionCommandAttributes {
        let queue = if child.queue.is_empty() { self.run.info.task_queue.clone() } else { child.queue };
        let fields = |fields: Vec<(String, interface::Payload)>| -> BTreeMap<String, WirePayload> {
            fields.into_iter().map(|(key, value)| (key, wire_payload(value))).collect()
        };
        StartChildWorkflowExecutionCommandAttributes {
            workflow_id: child.workflow_id,
            workflow_type: Some(WorkflowType { name: child.name }),
            task_queue: Some(TaskQueue { name: queue, kind: TaskQueueKind::Normal as i32, ..Default::default() }),
            input: wire_payloads(child.input),
            workflow_execution_timeout: duration(child.execution_timeout),
            workflow_run_timeout: duration(child.run_timeout),
            parent_close_policy: match child.parent_close {
                ParentClose::Terminate => ParentClosePolicy::Terminate,
                ParentClose::Abandon => ParentClosePolicy::Abandon,
                ParentClose::Cancel => ParentClosePolicy::RequestCancel,
            } as i32,
            workflow_id_reuse_policy: match child.id_reuse {
                IdReuse::Allow => WorkflowIdReusePolicy::AllowDuplicate,
                IdReuse::AllowFailed => WorkflowIdReusePolicy::AllowDuplicateFailedOnly,
                IdReuse::Reject => WorkflowIdReusePolicy::RejectDuplicate,
            } as i32,
            retry_policy: child.retry.map(retry_policy),
            cron_schedule: child.cron,
            memo: (!child.memo.is_empty()).then(|| Memo { fields: fields(child.memo) }),
            search_attributes: (!child.search_attributes.is_empty())
                .then(|| SearchAttributes { indexed_fields: fields(child.search_attributes) }),
            priority: priority(child.priority),
            ..Default::default()
        }
    }

    fn continue_as_new(&mut self, next: ContinueAsNew) -> ContinueAsNewWorkflowExecutionCommandAttributes {
        let (info, state) = (&self.run.info, self.run.state());
        let carried = next.signals.into_iter().map(|(name, input)| Signal {
            name,
            input: wire_payloads(input),
            identity: script::IDENTITY.to_owned(),
            ..Default::default()
        });
        self.answer.turn.carried = carried.collect();
        let queue = if next.queue.is_empty() { info.task_queue.clone() } else { next.queue };
        // What the server fills in belongs to the run that it was filled in for.
        let kept =
            |name: &str| !PREDEFINED.iter().any(|(known, ..)| *known == name) || name.starts_with("TemporalSchedule");
        let mut attributes: BTreeMap<_, _> = state
            .search_attributes
            .iter()
            .filter(|(name, _)| kept(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut memo = state.memo.clone();
        // What this turn has changed is not in the state yet.
        for command in &self.answer.commands {
            match &command.attributes {
                Some(A::ModifyWorkflowPropertiesCommandAttributes(a)) => {
                    merge(&mut memo, a.upserted_memo.iter().flat_map(|memo| &memo.fields));
                }
                Some(A::UpsertWorkflowSearchAttributesCommandAttributes(a)) => {
                    merge(
                        &mut attributes,
                        a.search_attributes.iter().flat_map(|attributes| &attributes.indexed_fields),
                    );
                }
                _ => {}
            }
        }
        ContinueAsNewWorkflowExecutionCommandAttributes {
            workflow_type: Some(WorkflowType { name: info.workflow_type.clone() }),
            task_queue: Some(TaskQueue { name: queue, kind: TaskQueueKind::Normal as i32, ..Default::default() }),
            input: wire_payloads(next.input),
            workflow_run_timeout: match next.run_timeout {
                0 => (info.run_timeout > 0).then(|| nanos_duration(info.run_timeout)),
                timeout => duration(timeout),
            },
            workflow_task_timeout: Some(nanos_duration(info.task_timeout)),
            retry_policy: info.retry_policy.clone(),
            cron_schedule: info.cron_schedule.clone(),
            memo: (!memo.is_empty()).then_some(Memo { fields: memo }),
            search_attributes: (!attributes.is_empty()).then_some(SearchAttributes { indexed_fields: attributes }),
            inherit_build_id: next.same_version,
            ..Default::default()
        }
    }
}

fn schedule_operation(order: ScheduleNexus) -> ScheduleNexusOperationCommandAttributes {
    ScheduleNexusOperationCommandAttributes {
        endpoint: order.endpoint,
        service: order.service,
        operation: order.operation,
        input: order.input.map(wire_payload),
        schedule_to_close_timeout: duration(order.schedule_to_close),
        nexus_header: order.headers.into_iter().collect(),
        schedule_to_start_timeout: duration(order.schedule_to_start),
        start_to_close_timeout: duration(order.start_to_close),
    }
}

fn duration(milliseconds: i64) -> Option<prost_types::Duration> {
    (milliseconds > 0).then(|| nanos_duration(milliseconds.saturating_mul(1_000_000)))
}

fn retry_policy(policy: interface::RetryPolicy) -> RetryPolicy {
    RetryPolicy {
        initial_interval: duration(policy.initial_interval),
        backoff_coefficient: policy.backoff,
        maximum_interval: duration(policy.max_interval),
        maximum_attempts: policy.max_attempts,
        non_retryable_error_types: policy.non_retryable,
    }
}

fn priority(key: i32) -> Option<Priority> {
    (key > 0).then(|| Priority { priority_key: key, ..Default::default() })
}

fn json(text: &str) -> WirePayload {
    WirePayload {
        metadata: BTreeMap::from([("encoding".to_owned(), "json/plain".into())]),
        data: text.to_owned().into(),
        ..Default::default()
    }
}

/// Changes fields; [`null`] removes one.
fn merge<'a>(fields: &mut BTreeMap<String, WirePayload>, changes: impl Iterator<Item = (&'a String, &'a WirePayload)>) {
    for (name, value) in changes {
        if *value == null() {
            fields.remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// The payload that removes a field of the memo or a search attribute.
fn null() -> WirePayload {
    WirePayload { metadata: BTreeMap::from([("encoding".to_owned(), "binary/null".into())]), ..Default::default() }
}
