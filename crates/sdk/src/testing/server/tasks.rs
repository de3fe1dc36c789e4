//! Tasks of a run: the events of starts, ends and time-outs of attempts.

use segno_proto::{
    common::{self, Payload},
    duration_nanos,
    enums::{RetryState, TimeoutType},
    events::*,
    failure::{self as wire, failure::FailureInfo},
};

use super::{
    Order, Server, TimedEvent,
    event::{Event, IDENTITY},
    run::Inbound,
};
use crate::{
    converter,
    failure::{Failure, FailureKind},
};

impl Server {
    /// Begins the attempt of a task whose time has come.
    pub(super) fn start_attempt(&mut self, run: usize, scheduled_event_id: i64, attempt: u32) {
        let now = self.now;
        let Some(task) = self.runs[run].tasks.get_mut(&scheduled_event_id) else { return };
        if task.running || task.attempt != attempt {
            return;
        }
        task.running = true;
        task.heard_at = now;
        let kind = task.attributes.activity_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default();
        let timeout = duration_nanos(task.attributes.start_to_close_timeout.as_ref());
        let order = Order::Attempt {
            run,
            scheduled_event_id,
            attempt,
            kind,
            input: converter::items(&task.attributes.input).to_vec(),
            activity_id: task.attributes.activity_id.clone(),
            heartbeat_details: task.heartbeat.clone(),
            heartbeat_timeout: duration_nanos(task.attributes.heartbeat_timeout.as_ref()),
            start_to_close: timeout,
            scheduled_at: task.scheduled_at,
        };
        self.orders.push(order);
        if timeout > 0 {
            let kind = TimeoutType::StartToClose;
            self.plan(now.saturating_add(timeout), TimedEvent::TaskTimeout { run, scheduled_event_id, attempt, kind });
        }
    }

    /// An attempt ended. `None` as the attempt's number stands for the task as a whole.
    pub(crate) fn end_attempt(
        &mut self,
        run: usize,
        scheduled_event_id: i64,
        attempt: u32,
        result: Result<Vec<Payload>, Failure>,
    ) {
        let now = self.now;
        let Some(task) = self.runs[run].tasks.get_mut(&scheduled_event_id) else { return };
        if task.attempt != attempt || !task.running {
            return;
        }
        let end = match result {
            Ok(output) => Event::ActivityTaskCompletedEventAttributes(ActivityTaskCompletedEventAttributes {
                result: converter::list(output),
                scheduled_event_id,
                identity: IDENTITY.to_owned(),
                ..Default::default()
            }),
            Err(failure) if failure.kind() == &FailureKind::Cancelled && task.cancel_requested.is_some() => {
                Event::ActivityTaskCanceledEventAttributes(ActivityTaskCanceledEventAttributes {
                    details: details(&failure),
                    latest_cancel_requested_event_id: task.cancel_requested.unwrap_or_default(),
                    scheduled_event_id,
                    identity: IDENTITY.to_owned(),
                    ..Default::default()
                })
            }
            Err(failure) => match task.retry(&failure, now) {
                Ok(wait) => {
                    task.running = false;
                    task.attempt += 1;
                    task.last_failure = Some(failure);
                    let attempt = task.attempt;
                    self.plan(now.saturating_add(wait), TimedEvent::Attempt { run, scheduled_event_id, attempt });
                    return;
                }
                Err(state) => Event::ActivityTaskFailedEventAttributes(ActivityTaskFailedEventAttributes {
                    failure: Some(failure.to_wire()),
                    scheduled_event_id,
                    identity: IDENTITY.to_owned(),
                    retry_state: state as i32,
                    ..Default::default()
                }),
            },
        };
        self.end_task(run, scheduled_event_id, end);
    }

    /// A time-out of a task: of an attempt, or of all together.
    pub(super) fn time_out_task(&mut self, run: usize, scheduled_event_id: i64, attempt: u32, kind: TimeoutType) {
        let now = self.now;
        let Some(task) = self.runs[run].tasks.get_mut(&scheduled_event_id) else { return };
        let whole = kind == TimeoutType::ScheduleToClose;
        if !whole && (task.attempt != attempt || !task.running) {
            return;
        }
        let name = match kind {
            TimeoutType::ScheduleToClose => "ScheduleToClose",
            TimeoutType::Heartbeat => "Heartbeat",
            _ => "StartToClose",
        };
        let info = wire::TimeoutFailureInfo {
            timeout_type: kind as i32,
            last_heartbeat_details: converter::list(task.heartbeat.clone()),
        };
        let failure = Failure::with_info(
            format!("activity {name} timeout"),
            FailureInfo::TimeoutFailureInfo(info),
            if whole { task.last_failure.clone() } else { None },
        );
        self.orders.push(Order::Forget { run, scheduled_event_id });
        let retry = if whole { Err(RetryState::Timeout) } else { task.retry(&failure, now) };
        match retry {
            Ok(wait) => {
                task.running = false;
                task.attempt += 1;
                task.last_failure = Some(failure);
                let attempt = task.attempt;
                self.plan(now.saturating_add(wait), TimedEvent::Attempt { run, scheduled_event_id, attempt });
            }
            Err(state) => {
                let end = Event::ActivityTaskTimedOutEventAttributes(ActivityTaskTimedOutEventAttributes {
                    failure: Some(failure.to_wire()),
                    scheduled_event_id,
                    retry_state: state as i32,
                    ..Default::default()
                });
                self.end_task(run, scheduled_event_id, end);
            }
        }
    }

    /// A heartbeat of the attempt that is under way.
    pub(crate) fn heartbeat(&mut self, run: usize, scheduled_event_id: i64, details: Vec<Payload>) {
        if let Some(task) = self.runs[run].tasks.get_mut(&scheduled_event_id) {
            task.heartbeat = details;
            task.heard_at = self.now;
        }
    }

    /// Sees that the attempt which is under way is heard of in time.
    pub(crate) fn watch_heartbeats(&mut self, run: usize, scheduled_event_id: i64, attempt: u32) {
        let Some(task) = self.runs[run].tasks.get(&scheduled_event_id) else { return };
        let span = duration_nanos(task.attributes.heartbeat_timeout.as_ref());
        if span <= 0 || !task.running || task.attempt != attempt {
            return;
        }
        let until = task.heard_at.saturating_add(span);
        if until <= self.now {
            self.time_out_task(run, scheduled_event_id, attempt, TimeoutType::Heartbeat);
        } else {
            self.plan(until, TimedEvent::Heartbeat { run, scheduled_event_id, attempt });
        }
    }

    fn end_task(&mut self, run: usize, scheduled_event_id: i64, end: Event) {
        let Some(task) = self.runs[run].tasks.remove(&scheduled_event_id) else { return };
        // A task that ends between two attempts was not started again.
        let inbound = if task.running {
            Inbound::Task { started: ActivityTaskStartedEventAttributes { scheduled_event_id, ..task.started() }, end }
        } else {
            Inbound::Event(end)
        };
        self.receive(run, inbound);
    }

    /// The workflow asks for a task to be cancelled.
    pub(super) fn cancel_task(&mut self, run: usize, scheduled_event_id: i64, completed_event_id: i64) {
        let now = self.now;
        let event = ActivityTaskCancelRequestedEventAttributes {
            scheduled_event_id,
            workflow_task_completed_event_id: completed_event_id,
        };
        let event_id = self.runs[run].write(now, Event::ActivityTaskCancelRequestedEventAttributes(event));
        let Some(task) = self.runs[run].tasks.get_mut(&scheduled_event_id) else { return };
        task.cancel_requested = Some(event_id);
        if task.running {
            self.orders.push(Order::CancelAttempt { run, scheduled_event_id });
        } else {
            // No worker has it: it ends at once, as part of the same answer.
            self.runs[run].tasks.remove(&scheduled_event_id);
            let end = ActivityTaskCanceledEventAttributes {
                latest_cancel_requested_event_id: event_id,
                scheduled_event_id,
                identity: IDENTITY.to_owned(),
                ..Default::default()
            };
            let end = Event::ActivityTaskCanceledEventAttributes(end);
            self.runs[run].buffered.push(Inbound::Event(end));
        }
    }
}

fn details(failure: &Failure) -> Option<common::Payloads> {
    match failure.to_wire().failure_info {
        Some(FailureInfo::CanceledFailureInfo(info)) => info.details,
        _ => None,
    }
}
