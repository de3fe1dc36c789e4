//! Completes a workflow task: commands become events, in their order.

use segno_proto::{
    command::{Command, command::Attributes as Wire, *},
    common::{Payload, WorkflowExecution},
    duration_nanos,
    enums::{EventType, TimeoutType, WorkflowTaskFailedCause as Cause},
    events::*,
    protocol::Message,
};

use super::{
    Answer, Server, TimedEvent,
    event::{Event, IDENTITY},
    messages::{self, Reply},
    nexus,
    pending_task::{PendingTask, complete_retry_policy},
    run::{Inbound, NAMESPACE, PendingChild, WorkflowTask},
};

/// How many tasks, children, signals or requests to cancel a run may have open at a time: Temporal's default.
const PENDING_MAX: usize = 2000;

/// A timer of zero fires after this, as with Temporal's server, which has no timers of zero.
const SHORTEST: i64 = 1_000_000;

type Refusal = (Cause, String);

fn refuse<T>(cause: Cause, message: impl Into<String>) -> Result<T, Refusal> {
    Err((cause, message.into()))
}

impl Server {
    /// A worker completed the workflow task of a run. `more`: it wants another one, as local operations are under way.
    pub(crate) fn complete_workflow_task(
        &mut self,
        index: usize,
        commands: Vec<Command>,
        messages: &[Message],
        more: bool,
    ) -> Answer {
        let now = self.now;
        let WorkflowTask::Started { scheduled_event_id, event_id, speculative, .. } = self.runs[index].workflow_task
        else {
            return Answer::CommandError(Cause::Unspecified, "no workflow task is under way".to_owned());
        };
        let replies = match messages.iter().map(messages::read).collect::<Result<Vec<Reply>, String>>() {
            Ok(replies) => replies,
            Err(message) => return self.refuse_completion(index, Cause::BadUpdateWorkflowExecutionMessage, message),
        };
        if let Err((cause, message)) = self.check(index, &commands, messages) {
            return self.refuse_completion(index, cause, message);
        }
        let only_rejections = replies.iter().all(|reply| matches!(reply, Reply::Rejected { .. }));
        let run = &mut self.runs[index];
        let last = scheduled_event_id - 1;
        let before = usize::try_from(last).unwrap_or(0);
        // Events since the last completion reach the worker with this task: then servers keep it.
        let has_events =
            run.history[..before].last().is_none_or(|event| event.event_type() != EventType::WorkflowTaskCompleted);
        let leaves_no_trace = commands.is_empty() && only_rejections && !has_events && run.buffered.is_empty() && !more;
        if speculative && leaves_no_trace {
            run.history.truncate(before);
            run.workflow_task = WorkflowTask::None;
            for reply in replies {
                run.reply(now, reply);
            }
            return Answer::Dropped(last);
        }
        let event = WorkflowTaskCompletedEventAttributes {
            scheduled_event_id,
            started_event_id: event_id,
            identity: IDENTITY.to_owned(),
            ..Default::default()
        };
        let completed = run.write(now, Event::WorkflowTaskCompletedEventAttributes(event));
        run.workflow_task = WorkflowTask::None;
        let mut replies: Vec<(String, Option<Reply>)> =
            messages.iter().zip(replies).map(|(message, reply)| (message.id.clone(), Some(reply))).collect();
        for (_, reply) in &mut replies {
            if matches!(reply, Some(Reply::Rejected { .. })) {
                let reply = reply.take();
                reply.into_iter().for_each(|reply| run.reply(now, reply));
            }
        }
        for command in commands {
            let metadata = command.user_metadata.clone();
            let before = self.runs[index].history.len();
            self.command(index, completed, command.attributes, &mut replies);
            if let Some(event) = self.runs[index].history.get_mut(before) {
                event.user_metadata = metadata;
            }
        }
        for reply in replies.into_iter().filter_map(|(_, reply)| reply) {
            self.runs[index].reply(now, reply);
        }
        if self.runs[index].closed.is_none() {
            let any = self.runs[index].flush(now);
            if any || more || !self.runs[index].updates.is_empty() {
                self.schedule_workflow_task(index, 1, false);
            }
        }
        Answer::Stored
    }

    fn refuse_completion(&mut self, index: usize, cause: Cause, message: String) -> Answer {
        let failure = segno_proto::failure::Failure { message: message.clone(), ..Default::default() };
        self.fail_workflow_task(index, cause, Some(failure));
        Answer::CommandError(cause, message)
    }

    /// Refuses what cannot be written, before anything is.
    fn check(&self, index: usize, commands: &[Command], messages: &[Message]) -> Result<(), Refusal> {
        let run = &self.runs[index];
        let mut task_ids: std::collections::BTreeSet<&str> =
            run.tasks.values().map(|task| task.attributes.activity_id.as_str()).collect();
        let mut timer_ids: std::collections::BTreeSet<&str> = run.timers.keys().map(String::as_str).collect();
        let mut children = run.children.len();
        for (position, command) in commands.iter().enumerate() {
            let last = position + 1 == commands.len();
            match &command.attributes {
                None => return refuse(Cause::Unspecified, "a command without attributes"),
                Some(Wire::ScheduleActivityTaskCommandAttributes(task)) => {
                    if task.activity_id.is_empty()
                        || task.activity_type.as_ref().is_none_or(|kind| kind.name.is_empty())
                    {
                        return refuse(Cause::BadScheduleActivityAttributes, "a task without an id or a kind");
                    }
                    let spans = [&task.start_to_close_timeout, &task.schedule_to_close_timeout];
                    if spans.iter().all(|span| duration_nanos(span.as_ref()) <= 0) {
                        return refuse(
                            Cause::BadScheduleActivityAttributes,
                            "A valid StartToClose or ScheduleToCloseTimeout is not set on command.",
                        );
                    }
                    if !task_ids.insert(&task.activity_id) {
                        return refuse(
                            Cause::ScheduleActivityDuplicateId,
                            format!("a task with the id {} is open", task.activity_id),
                        );
                    }
                    if task_ids.len() > PENDING_MAX {
                        return refuse(
                            Cause::PendingActivitiesLimitExceeded,
                            format!(
                                "the number of pending activities, {PENDING_MAX}, has reached the limit of {PENDING_MAX}"
                            ),
                        );
                    }
                }
                Some(Wire::RequestCancelActivityTaskCommandAttributes(cancel)) => {
                    if !run.tasks.contains_key(&cancel.scheduled_event_id) {
                        return refuse(
                            Cause::BadRequestCancelActivityAttributes,
                            format!("no task that was scheduled by event {} is open", cancel.scheduled_event_id),
                        );
                    }
                }
                Some(Wire::RequestCancelNexusOperationCommandAttributes(cancel)) => {
                    if !nexus::takes_cancel(run, cancel.scheduled_event_id) {
                        return refuse(
                            Cause::BadRequestCancelNexusOperationAttributes,
                            format!("no Nexus operation of event {} is open", cancel.scheduled_event_id),
                        );
                    }
                }
                Some(Wire::StartTimerCommandAttributes(timer)) => {
                    if timer.timer_id.is_empty() || timer.start_to_fire_timeout.is_none() {
                        return refuse(Cause::BadStartTimerAttributes, "a timer without an id or a duration");
                    }
                    if !timer_ids.insert(&timer.timer_id) {
                        return refuse(
                            Cause::StartTimerDuplicateId,
                            format!("a timer with the id {} is open", timer.timer_id),
                        );
                    }
                }
                Some(Wire::CancelTimerCommandAttributes(timer)) => {
                    let fired = run.buffered.iter().any(|inbound| fired(inbound, &timer.timer_id));
                    if !timer_ids.remove(timer.timer_id.as_str()) && !fired {
                        return refuse(Cause::BadCancelTimerAttributes, format!("no timer {} is open", timer.timer_id));
                    }
                }
                Some(Wire::StartChildWorkflowExecutionCommandAttributes(child)) => {
                    if child.workflow_id.is_empty() || child.workflow_type.is_none() {
                        return refuse(Cause::BadStartChildExecutionAttributes, "a child without an id or a kind");
                    }
                    children += 1;
                    if children > PENDING_MAX {
                        return refuse(
                            Cause::PendingChildWorkflowsLimitExceeded,
                            format!(
                                "the number of pending child workflows, {PENDING_MAX}, has reached the limit of {PENDING_MAX}"
                            ),
                        );
                    }
                }
                Some(Wire::RecordMarkerCommandAttributes(marker)) if marker.marker_name.is_empty() => {
                    return refuse(Cause::BadRecordMarkerAttributes, "a marker without a name");
                }
                Some(Wire::ProtocolMessageCommandAttributes(command)) => {
                    if !messages.iter().any(|message| message.id == command.message_id) {
                        return refuse(
                            Cause::BadUpdateWorkflowExecutionMessage,
                            format!("the command names the message {}, which is not there", command.message_id),
                        );
                    }
                }
                Some(attributes) if closes(attributes) => {
                    if !last {
                        return refuse(Cause::UnhandledCommand, "a command after the closing one");
                    }
                    if !run.buffered.is_empty() {
                        return refuse(Cause::UnhandledCommand, "events arrived that the workflow has not seen");
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn command(
        &mut self,
        index: usize,
        completed: i64,
        attributes: Option<Wire>,
        replies: &mut [(String, Option<Reply>)],
    ) {
        let now = self.now;
        let Some(attributes) = attributes else { return };
        match attributes {
            Wire::ScheduleActivityTaskCommandAttributes(task) => self.schedule_task(index, completed, task),
            Wire::RequestCancelActivityTaskCommandAttributes(cancel) => {
                self.cancel_task(index, cancel.scheduled_event_id, completed);
            }
            Wire::StartTimerCommandAttributes(timer) => {
                let event = TimerStartedEventAttributes {
                    timer_id: timer.timer_id.clone(),
                    start_to_fire_timeout: timer.start_to_fire_timeout,
                    workflow_task_completed_event_id: completed,
                };
                let started_event_id = self.runs[index].write(now, Event::TimerStartedEventAttributes(event));
                self.runs[index].timers.insert(timer.timer_id.clone(), started_event_id);
                let span = duration_nanos(timer.start_to_fire_timeout.as_ref()).max(SHORTEST);
                self.plan(
                    now.saturating_add(span),
                    TimedEvent::Timer { run: index, timer_id: timer.timer_id, started_event_id },
                );
            }
            Wire::CancelTimerCommandAttributes(CancelTimerCommandAttributes { timer_id }) => {
                let run = &mut self.runs[index];
                // A timer that fired while the task was under way is cancelled all the same, and did not fire.
                let fired_event_id = run.buffered.iter().position(|inbound| fired(inbound, &timer_id)).and_then(|at| {
                    match run.buffered.remove(at) {
                        Inbound::Event(Event::TimerFiredEventAttributes(event)) => Some(event.started_event_id),
                        _ => None,
                    }
                });
                let started_event_id = run.timers.remove(&timer_id).or(fired_event_id).unwrap_or_default();
                let event = TimerCanceledEventAttributes {
                    timer_id,
                    started_event_id,
                    workflow_task_completed_event_id: completed,
                    identity: IDENTITY.to_owned(),
                };
                run.write(now, Event::TimerCanceledEventAttributes(event));
            }
            Wire::RecordMarkerCommandAttributes(marker) => {
                let event = MarkerRecordedEventAttributes {
                    marker_name: marker.marker_name,
                    details: marker.details,
                    workflow_task_completed_event_id: completed,
                    header: marker.header,
                    failure: marker.failure,
                };
                self.runs[index].write(now, Event::MarkerRecordedEventAttributes(event));
            }
            Wire::UpsertWorkflowSearchAttributesCommandAttributes(upsert) => {
                let fields = upsert.search_attributes.clone().unwrap_or_default().indexed_fields;
                let run = &mut self.runs[index];
                merge(&mut run.search_attributes, fields);
                let event = UpsertWorkflowSearchAttributesEventAttributes {
                    workflow_task_completed_event_id: completed,
                    search_attributes: upsert.search_attributes,
                };
                run.write(now, Event::UpsertWorkflowSearchAttributesEventAttributes(event));
            }
            Wire::ModifyWorkflowPropertiesCommandAttributes(modify) => {
                let fields = modify.upserted_memo.clone().unwrap_or_default().fields;
                let run = &mut self.runs[index];
                merge(&mut run.memo, fields);
                let event = WorkflowPropertiesModifiedEventAttributes {
                    workflow_task_completed_event_id: completed,
                    upserted_memo: modify.upserted_memo,
                };
                run.write(now, Event::WorkflowPropertiesModifiedEventAttributes(event));
            }
            Wire::StartChildWorkflowExecutionCommandAttributes(child) => self.initiate_child(index, completed, child),
            Wire::SignalExternalWorkflowExecutionCommandAttributes(signal) => {
                let event = SignalExternalWorkflowExecutionInitiatedEventAttributes {
                    workflow_task_completed_event_id: completed,
                    namespace: NAMESPACE.to_owned(),
                    workflow_execution: signal.execution,
                    signal_name: signal.signal_name,
                    input: signal.input,
                    child_workflow_only: signal.child_workflow_only,
                    header: signal.header,
                    ..Default::default()
                };
                let event = Event::SignalExternalWorkflowExecutionInitiatedEventAttributes(event);
                let initiated_event_id = self.runs[index].write(now, event);
                self.plan(now, TimedEvent::SignalExternal { run: index, initiated_event_id });
            }
            Wire::RequestCancelExternalWorkflowExecutionCommandAttributes(cancel) => {
                let event = RequestCancelExternalWorkflowExecutionInitiatedEventAttributes {
                    workflow_task_completed_event_id: completed,
                    namespace: NAMESPACE.to_owned(),
                    workflow_execution: Some(WorkflowExecution {
                        workflow_id: cancel.workflow_id,
                        run_id: cancel.run_id,
                    }),
                    child_workflow_only: cancel.child_workflow_only,
                    reason: cancel.reason,
                    ..Default::default()
                };
                let event = Event::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(event);
                let initiated_event_id = self.runs[index].write(now, event);
                self.plan(now, TimedEvent::CancelExternal { run: index, initiated_event_id });
            }
            Wire::ProtocolMessageCommandAttributes(command) => {
                let reply =
                    replies.iter_mut().find(|(id, _)| *id == command.message_id).and_then(|(_, reply)| reply.take());
                reply.into_iter().for_each(|reply| self.runs[index].reply(now, reply));
            }
            Wire::ScheduleNexusOperationCommandAttributes(operation) => {
                self.schedule_operation(index, completed, operation);
            }
            Wire::RequestCancelNexusOperationCommandAttributes(cancel) => {
                self.request_operation_cancel(index, completed, cancel.scheduled_event_id);
            }
            closing => self.close_by_command(index, completed, closing),
        }
    }

    fn schedule_task(&mut self, index: usize, completed: i64, task: ScheduleActivityTaskCommandAttributes) {
        let now = self.now;
        // Open fields are filled in as the server does it.
        let total = duration_nanos(task.schedule_to_close_timeout.as_ref());
        let fill = |span: Option<prost_types::Duration>| {
            if duration_nanos(span.as_ref()) == 0 && total > 0 { task.schedule_to_close_timeout } else { span }
        };
        let event = ActivityTaskScheduledEventAttributes {
            activity_id: task.activity_id.clone(),
            activity_type: task.activity_type.clone(),
            task_queue: task
                .task_queue
                .clone()
                .filter(|queue| !queue.name.is_empty())
                .or_else(|| Some(self.runs[index].task_queue())),
            header: task.header.clone(),
            input: task.input.clone(),
            schedule_to_close_timeout: Some(task.schedule_to_close_timeout.unwrap_or_default()),
            schedule_to_start_timeout: Some(fill(task.schedule_to_start_timeout).unwrap_or_default()),
            start_to_close_timeout: Some(fill(task.start_to_close_timeout).unwrap_or_default()),
            heartbeat_timeout: Some(task.heartbeat_timeout.unwrap_or_default()),
            workflow_task_completed_event_id: completed,
            retry_policy: Some(complete_retry_policy(task.retry_policy.clone())),
            priority: task.priority.clone(),
            ..Default::default()
        };
        let scheduled_event_id =
            self.runs[index].write(now, Event::ActivityTaskScheduledEventAttributes(event.clone()));
        self.runs[index].tasks.insert(scheduled_event_id, PendingTask::new(event, now));
        self.plan(now, TimedEvent::Attempt { run: index, scheduled_event_id, attempt: 1 });
        if total > 0 {
            let kind = TimeoutType::ScheduleToClose;
            self.plan(
                now.saturating_add(total),
                TimedEvent::TaskTimeout { run: index, scheduled_event_id, attempt: 0, kind },
            );
        }
    }

    fn initiate_child(&mut self, index: usize, completed: i64, child: StartChildWorkflowExecutionCommandAttributes) {
        let now = self.now;
        let event = StartChildWorkflowExecutionInitiatedEventAttributes {
            namespace: NAMESPACE.to_owned(),
            workflow_id: child.workflow_id,
            workflow_type: child.workflow_type,
            task_queue: child
                .task_queue
                .filter(|queue| !queue.name.is_empty())
                .or_else(|| Some(self.runs[index].task_queue())),
            input: child.input,
            workflow_execution_timeout: child.workflow_execution_timeout,
            workflow_run_timeout: child.workflow_run_timeout,
            workflow_task_timeout: child.workflow_task_timeout,
            parent_close_policy: child.parent_close_policy,
            workflow_task_completed_event_id: completed,
            workflow_id_reuse_policy: child.workflow_id_reuse_policy,
            retry_policy: child.retry_policy,
            cron_schedule: child.cron_schedule,
            header: child.header,
            memo: child.memo,
            search_attributes: child.search_attributes,
            priority: child.priority,
            ..Default::default()
        };
        let wire = Event::StartChildWorkflowExecutionInitiatedEventAttributes(Box::new(event.clone()));
        let initiated_event_id = self.runs[index].write(now, wire);
        let pending = PendingChild { attributes: event, run: None, started_event_id: 0 };
        self.runs[index].children.insert(initiated_event_id, pending);
        self.plan(now, TimedEvent::StartChild { parent: index, initiated_event_id });
    }
}

/// Whether this message is the firing of this timer.
fn fired(inbound: &Inbound, timer_id: &str) -> bool {
    matches!(inbound, Inbound::Event(Event::TimerFiredEventAttributes(event)) if event.timer_id == timer_id)
}

/// Whether a command ends the run.
fn closes(attributes: &Wire) -> bool {
    matches!(
        attributes,
        Wire::CompleteWorkflowExecutionCommandAttributes(_)
            | Wire::FailWorkflowExecutionCommandAttributes(_)
            | Wire::CancelWorkflowExecutionCommandAttributes(_)
            | Wire::ContinueAsNewWorkflowExecutionCommandAttributes(_)
    )
}

/// Adds fields to a memo or to search attributes. One with a null payload is taken out.
fn merge(into: &mut std::collections::BTreeMap<String, Payload>, fields: impl IntoIterator<Item = (String, Payload)>) {
    for (key, payload) in fields {
        let null = payload
            .metadata
            .get(crate::converter::ENCODING)
            .is_some_and(|encoding| encoding.as_ref() == b"binary/null");
        if null || payload.data.is_empty() && payload.metadata.is_empty() {
            into.remove(&key);
        } else {
            into.insert(key, payload);
        }
    }
}
