//! Events as spans of time: activities, timers, children, Nexus operations, updates and workflow tasks, each from its first to its last
//! event.

use segno_node::HashMap;
use segno_proto::{
    Nanos,
    common::RetryPolicy,
    duration_nanos,
    events::{HistoryEvent, history_event::Attributes},
};

use super::fields::event_time;

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SpanKind {
    /// Tasks of the workflow's own code.
    WorkflowTask,
    /// An activity with all its attempts.
    Activity,
    /// A timer.
    Timer,
    /// A child workflow.
    Child,
    /// A Nexus operation.
    Operation,
    /// An update, from its acceptance.
    Update,
    /// A point in time: a signal, or a request to cancel.
    Signal,
    /// A point in time: what SDKs note, such as local activities.
    Marker,
}

impl SpanKind {
    /// Its class in the style sheet, and name.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::WorkflowTask => "task",
            Self::Activity => "activity",
            Self::Timer => "timer",
            Self::Child => "child",
            Self::Operation => "operation",
            Self::Update => "update",
            Self::Signal => "signal",
            Self::Marker => "marker",
        }
    }
}

/// How a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanEnd {
    /// It has not.
    Open,
    /// Well.
    Good,
    /// With a failure or a time-out.
    Bad,
    /// Canceled or terminated.
    Canceled,
}

impl SpanEnd {
    /// Its class in the style sheet, and name.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Good => "done",
            Self::Bad => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// A part of a workflow that takes time.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) kind: SpanKind,
    /// Type, id or name: what shares a row.
    pub(super) name: String,
    /// The id that distinguishes it from others of that name.
    pub(super) id: String,
    /// The event that began it.
    pub(super) event_id: i64,
    /// The event that ended it.
    pub(super) last_event_id: i64,
    pub(super) from: Nanos,
    /// When work on it began, if that is later.
    pub(super) started: Option<Nanos>,
    /// When it ended.
    pub(super) to: Option<Nanos>,
    /// When it will end, if that is known.
    pub(super) due: Option<Nanos>,
    pub(super) end: SpanEnd,
    pub(super) attempt: i32,
    /// How an activity is retried, if its attempts are retried.
    pub(super) retry: Option<RetryPolicy>,
}

impl Span {
    /// The attempts that failed before the last one, as parts of the time from the beginning of the span until `until`, when the
    /// last attempt began. The history has only their number: the pauses follow from the retry policy, and the attempts share
    /// the rest of the time equally.
    pub(super) fn failed_attempts(&self, until: Nanos) -> Vec<(Nanos, Nanos)> {
        let Some(policy) = self.retry.as_ref().filter(|_| self.attempt > 1) else { return Vec::new() };
        let failed = usize::try_from(self.attempt - 1).unwrap_or(0).min(ATTEMPTS_MAX);
        let longest = duration_nanos(policy.maximum_interval.as_ref()) as f64;
        let mut pause = duration_nanos(policy.initial_interval.as_ref()) as f64;
        let mut pauses = Vec::with_capacity(failed);
        for _ in 0..failed {
            pauses.push(if longest > 0.0 { pause.min(longest) } else { pause });
            pause *= policy.backoff_coefficient.max(1.0);
        }
        let (total, paused) = ((until - self.from).max(0) as f64, pauses.iter().sum::<f64>());
        // An attempt that was reset, or took no time, leaves less time than the pauses: they shrink.
        let scale = if paused > total { total / paused } else { 1.0 };
        let work = (total - paused * scale) / failed as f64;
        let mut at = self.from as f64;
        let spans = pauses.iter().map(|pause| {
            let began = at;
            at += work + pause * scale;
            (began as Nanos, (began + work) as Nanos)
        });
        spans.collect()
    }
}

/// Most attempts of an activity that are drawn, the first ones.
const ATTEMPTS_MAX: usize = 50;

/// The spans of a history, in the order of their beginnings.
pub(super) fn spans(events: &[HistoryEvent]) -> Vec<Span> {
    let mut found = Spans::default();
    events.iter().for_each(|event| found.add(event));
    found.spans
}

#[derive(Default)]
struct Spans {
    spans: Vec<Span>,
    /// The place of the span that an event began.
    by_event: HashMap<i64, usize>,
}

impl Spans {
    fn begin(&mut self, event: &HistoryEvent, kind: SpanKind, name: &str, id: &str) -> &mut Span {
        self.by_event.insert(event.event_id, self.spans.len());
        self.spans.push(Span {
            kind,
            name: name.to_owned(),
            id: id.to_owned(),
            event_id: event.event_id,
            last_event_id: event.event_id,
            from: event_time(event),
            started: None,
            to: None,
            due: None,
            end: SpanEnd::Open,
            attempt: 1,
            retry: None,
        });
        let place = self.spans.len() - 1;
        &mut self.spans[place]
    }

    fn point(&mut self, event: &HistoryEvent, kind: SpanKind, name: &str) {
        let span = self.begin(event, kind, name, "");
        (span.to, span.end) = (Some(span.from), SpanEnd::Good);
    }

    fn start(&mut self, first: i64, event: &HistoryEvent, attempt: i32) {
        if let Some(span) = self.by_event.get(&first).and_then(|place| self.spans.get_mut(*place)) {
            span.started = Some(event_time(event));
            span.attempt = attempt.max(span.attempt);
            span.last_event_id = event.event_id;
        }
    }

    fn end(&mut self, first: i64, event: &HistoryEvent, end: SpanEnd) {
        if let Some(span) = self.by_event.get(&first).and_then(|place| self.spans.get_mut(*place)) {
            (span.to, span.end, span.last_event_id) = (Some(event_time(event)), end, event.event_id);
        }
    }

    fn add(&mut self, event: &HistoryEvent) {
        use Attributes as A;
        use SpanEnd::{Bad, Canceled, Good};
        let Some(attributes) = &event.attributes else { return };
        match attributes {
            A::WorkflowTaskScheduledEventAttributes(task) => {
                self.begin(event, SpanKind::WorkflowTask, "Workflow tasks", "").attempt = task.attempt;
            }
            A::WorkflowTaskStartedEventAttributes(task) => self.start(task.scheduled_event_id, event, 1),
            A::WorkflowTaskCompletedEventAttributes(task) => self.end(task.scheduled_event_id, event, Good),
            A::WorkflowTaskFailedEventAttributes(task) => self.end(task.scheduled_event_id, event, Bad),
            A::WorkflowTaskTimedOutEventAttributes(task) => self.end(task.scheduled_event_id, event, Bad),
            A::ActivityTaskScheduledEventAttributes(task) => {
                let name = task.activity_type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default();
                self.begin(event, SpanKind::Activity, name, &task.activity_id).retry = task.retry_policy.clone();
            }
            A::ActivityTaskStartedEventAttributes(task) => self.start(task.scheduled_event_id, event, task.attempt),
            A::ActivityTaskCompletedEventAttributes(task) => self.end(task.scheduled_event_id, event, Good),
            A::ActivityTaskFailedEventAttributes(task) => self.end(task.scheduled_event_id, event, Bad),
            A::ActivityTaskTimedOutEventAttributes(task) => self.end(task.scheduled_event_id, event, Bad),
            A::ActivityTaskCanceledEventAttributes(task) => self.end(task.scheduled_event_id, event, Canceled),
            A::TimerStartedEventAttributes(timer) => {
                let due = event_time(event) + duration_nanos(timer.start_to_fire_timeout.as_ref());
                self.begin(event, SpanKind::Timer, "Timers", &timer.timer_id).due = Some(due);
            }
            A::TimerFiredEventAttributes(timer) => self.end(timer.started_event_id, event, Good),
            A::TimerCanceledEventAttributes(timer) => self.end(timer.started_event_id, event, Canceled),
            A::StartChildWorkflowExecutionInitiatedEventAttributes(child) => {
                let name = child.workflow_type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default();
                self.begin(event, SpanKind::Child, name, &child.workflow_id);
            }
            A::StartChildWorkflowExecutionFailedEventAttributes(child) => {
                self.end(child.initiated_event_id, event, Bad)
            }
            A::ChildWorkflowExecutionStartedEventAttributes(child) => self.start(child.initiated_event_id, event, 1),
            A::ChildWorkflowExecutionCompletedEventAttributes(child) => self.end(child.initiated_event_id, event, Good),
            A::ChildWorkflowExecutionFailedEventAttributes(child) => self.end(child.initiated_event_id, event, Bad),
            A::ChildWorkflowExecutionTimedOutEventAttributes(child) => self.end(child.initiated_event_id, event, Bad),
            A::ChildWorkflowExecutionCanceledEventAttributes(child) => {
                self.end(child.initiated_event_id, event, Canceled)
            }
            A::ChildWorkflowExecutionTerminatedEventAttributes(child) => {
                self.end(child.initiated_event_id, event, Canceled);
            }
            A::NexusOperationScheduledEventAttributes(operation) => {
                let name = format!("{}.{}", operation.service, operation.operation);
                self.begin(event, SpanKind::Operation, &name, "");
            }
            A::NexusOperationStartedEventAttributes(operation) => self.start(operation.scheduled_event_id, event, 1),
            A::NexusOperationCompletedEventAttributes(operation) => self.end(operation.scheduled_event_id, event, Good),
            A::NexusOperationFailedEventAttributes(operation) => self.end(operation.scheduled_event_id, event, Bad),
            A::NexusOperationTimedOutEventAttributes(operation) => self.end(operation.scheduled_event_id, event, Bad),
            A::NexusOperationCanceledEventAttributes(operation) => {
                self.end(operation.scheduled_event_id, event, Canceled);
            }
            A::WorkflowExecutionUpdateAcceptedEventAttributes(update) => {
                let input = update.accepted_request.as_ref().and_then(|request| request.input.as_ref());
                let name = input.map(|input| input.name.as_str()).unwrap_or_default();
                self.begin(event, SpanKind::Update, name, &update.protocol_instance_id);
            }
            A::WorkflowExecutionUpdateCompletedEventAttributes(update) => {
                self.end(update.accepted_event_id, event, Good)
            }
            A::WorkflowExecutionSignaledEventAttributes(signal) => {
                self.point(event, SpanKind::Signal, &signal.signal_name);
            }
            A::WorkflowExecutionCancelRequestedEventAttributes(_) => {
                self.point(event, SpanKind::Signal, "cancel requested");
            }
            A::MarkerRecordedEventAttributes(marker) => self.point(event, SpanKind::Marker, &marker.marker_name),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        events::{
            NexusOperationCanceledEventAttributes, NexusOperationScheduledEventAttributes,
            NexusOperationStartedEventAttributes,
        },
        nanos_timestamp,
    };

    use super::*;

    #[test]
    fn failed_attempts_have_the_pauses_of_the_policy() {
        const SECOND: Nanos = 1_000_000_000;
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let policy = RetryPolicy {
            initial_interval: seconds(1),
            backoff_coefficient: 2.0,
            maximum_interval: seconds(3),
            ..Default::default()
        };
        let mut span = Span {
            kind: SpanKind::Activity,
            name: "pay".to_owned(),
            id: "1".to_owned(),
            event_id: 5,
            last_event_id: 6,
            from: 0,
            started: None,
            to: None,
            due: None,
            end: SpanEnd::Open,
            attempt: 4,
            retry: Some(policy),
        };
        // Pauses of 1, 2 and 3 seconds, and three attempts of 2 seconds.
        let at = |from: Nanos| (from * SECOND, (from + 2) * SECOND);
        assert_eq!(span.failed_attempts(12 * SECOND), [at(0), at(3), at(7)]);
        assert_eq!(span.failed_attempts(3 * SECOND).len(), 3);
        span.attempt = 1;
        assert_eq!(span.failed_attempts(12 * SECOND), []);
    }

    #[test]
    fn an_operation_is_a_span() {
        let event = |event_id: i64, attributes| HistoryEvent {
            event_id,
            event_time: Some(nanos_timestamp(event_id * 10_000_000_000)),
            attributes: Some(attributes),
            ..Default::default()
        };
        let scheduled = NexusOperationScheduledEventAttributes {
            service: "pay".to_owned(),
            operation: "charge".to_owned(),
            ..Default::default()
        };
        let started = NexusOperationStartedEventAttributes { scheduled_event_id: 5, ..Default::default() };
        let canceled = NexusOperationCanceledEventAttributes { scheduled_event_id: 5, ..Default::default() };
        let mut events = vec![
            event(5, Attributes::NexusOperationScheduledEventAttributes(scheduled)),
            event(6, Attributes::NexusOperationStartedEventAttributes(started)),
        ];
        let found = spans(&events);
        assert_eq!((found.len(), found[0].kind, found[0].name.as_str()), (1, SpanKind::Operation, "pay.charge"));
        assert_eq!((found[0].started, found[0].end), (Some(60_000_000_000), SpanEnd::Open));
        events.push(event(9, Attributes::NexusOperationCanceledEventAttributes(canceled)));
        let found = spans(&events);
        assert_eq!((found[0].to, found[0].end, found[0].last_event_id), (Some(90_000_000_000), SpanEnd::Canceled, 9));
    }
}
