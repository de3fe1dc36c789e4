//! Tasks of a run: attempts, time-outs and retries, as Temporal's server decides them.

use std::time::Duration;

use segno_proto::{
    Nanos,
    common::{self, Payload},
    duration_nanos,
    enums::{RetryState, TimeoutType},
    events::*,
    failure::{self as wire, failure::FailureInfo},
    nanos_duration,
};

use super::{
    Due, Order, Server,
    event::Event,
    run::{IDENTITY, Inbound},
};
use crate::{
    converter,
    failure::{Failure, FailureKind},
};

/// A task that has not ended.
pub(crate) struct PendingTask {
    pub(crate) attributes: ActivityTaskScheduledEventAttributes,
    pub(crate) scheduled_at: Nanos,
    pub(crate) attempt: u32,
    /// Whether the attempt is under way; if not, it waits for its time.
    pub(crate) running: bool,
    /// The event id of the last request to cancel it.
    pub(crate) cancel_requested: Option<i64>,
    pub(crate) last_failure: Option<Failure>,
    pub(crate) heartbeat: Vec<Payload>,
    /// When the attempt began, or was last heard of.
    heard_at: Nanos,
}

impl PendingTask {
    pub(crate) fn new(attributes: ActivityTaskScheduledEventAttributes, now: Nanos) -> Self {
        Self {
            attributes,
            scheduled_at: now,
            attempt: 1,
            running: false,
            cancel_requested: None,
            last_failure: None,
            heartbeat: Vec::new(),
            heard_at: now,
        }
    }

    /// When schedule-to-close ends.
    fn expires(&self) -> Option<Nanos> {
        let span = duration_nanos(self.attributes.schedule_to_close_timeout.as_ref());
        (span > 0).then(|| self.scheduled_at.saturating_add(span))
    }

    fn started(&self) -> ActivityTaskStartedEventAttributes {
        ActivityTaskStartedEventAttributes {
            scheduled_event_id: 0,
            identity: IDENTITY.to_owned(),
            request_id: String::new(),
            attempt: i32::try_from(self.attempt).unwrap_or(i32::MAX),
            last_failure: self.last_failure.as_ref().map(Failure::to_wire),
            ..Default::default()
        }
    }

    /// Whether there is another attempt, and after which wait.
    fn retry(&self, failure: &Failure, now: Nanos) -> Result<Nanos, RetryState> {
        if self.cancel_requested.is_some() {
            return Err(RetryState::CancelRequested);
        }
        let policy = self.attributes.retry_policy.clone().unwrap_or_else(default_retry_policy);
        let named = match failure.kind() {
            FailureKind::Application { kind, .. } => policy.non_retryable_error_types.contains(kind),
            _ => false,
        };
        if failure.is_non_retryable()
            || named
            || matches!(failure.kind(), FailureKind::Cancelled | FailureKind::Terminated)
        {
            return Err(RetryState::NonRetryableFailure);
        }
        if policy.maximum_attempts > 0 && i64::from(self.attempt) >= i64::from(policy.maximum_attempts) {
            return Err(RetryState::MaximumAttemptsReached);
        }
        let wait = match failure.next_retry_delay() {
            Some(delay) => i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX),
            None => backoff(&policy, self.attempt),
        };
        match self.expires() {
            Some(expires) if now.saturating_add(wait) >= expires => Err(RetryState::Timeout),
            _ => Ok(wait),
        }
    }
}

/// What the server takes if a task has no retry policy.
pub(crate) fn default_retry_policy() -> common::RetryPolicy {
    common::RetryPolicy {
        initial_interval: Some(nanos_duration(1_000_000_000)),
        backoff_coefficient: 2.0,
        maximum_interval: Some(nanos_duration(100_000_000_000)),
        maximum_attempts: 0,
        non_retryable_error_types: Vec::new(),
    }
}

/// The same policy with what it leaves open, as the server stores it.
pub(crate) fn complete_retry_policy(policy: Option<common::RetryPolicy>) -> common::RetryPolicy {
    let defaults = default_retry_policy();
    let Some(mut policy) = policy else { return defaults };
    if duration_nanos(policy.initial_interval.as_ref()) == 0 {
        policy.initial_interval = defaults.initial_interval;
    }
    if policy.backoff_coefficient == 0.0 {
        policy.backoff_coefficient = defaults.backoff_coefficient;
    }
    if duration_nanos(policy.maximum_interval.as_ref()) == 0 {
        let initial = duration_nanos(policy.initial_interval.as_ref());
        policy.maximum_interval = Some(nanos_duration(initial.saturating_mul(100)));
    }
    policy
}

fn backoff(policy: &common::RetryPolicy, attempt: u32) -> Nanos {
    let initial = Duration::from_nanos(u64::try_from(duration_nanos(policy.initial_interval.as_ref())).unwrap_or(0));
    let longest = duration_nanos(policy.maximum_interval.as_ref());
    let factor = policy.backoff_coefficient.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
    let wait = (initial.as_secs_f64() * factor * 1e9) as i64;
    if longest > 0 { wait.min(longest) } else { wait }
}

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
            self.plan(now.saturating_add(timeout), Due::TaskTimeout { run, scheduled_event_id, attempt, kind });
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
                    self.plan(now.saturating_add(wait), Due::Attempt { run, scheduled_event_id, attempt });
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
                self.plan(now.saturating_add(wait), Due::Attempt { run, scheduled_event_id, attempt });
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
            self.plan(until, Due::Heartbeat { run, scheduled_event_id, attempt });
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
