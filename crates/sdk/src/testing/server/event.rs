//! Events of histories: their types, and short names for what the server of [`WorkflowTest`](super::super::WorkflowTest)
//! writes.

use segno_proto::enums::EventType;

pub(crate) use segno_proto::events::{HistoryEvent, history_event::Attributes as Event};

/// Who appears as the sender of everything.
pub(crate) const IDENTITY: &str = "workflow-test";

macro_rules! types {
    ($($attributes:ident => $kind:ident,)*) => {
        /// The type that belongs to an event's attributes; `Unspecified` for those that this server never writes.
        pub(crate) fn event_type(event: &Event) -> EventType {
            match event {
                $(Event::$attributes(_) => EventType::$kind,)*
                _ => EventType::Unspecified,
            }
        }
    };
}

types! {
    WorkflowExecutionStartedEventAttributes => WorkflowExecutionStarted,
    WorkflowExecutionCompletedEventAttributes => WorkflowExecutionCompleted,
    WorkflowExecutionFailedEventAttributes => WorkflowExecutionFailed,
    WorkflowExecutionTimedOutEventAttributes => WorkflowExecutionTimedOut,
    WorkflowExecutionCanceledEventAttributes => WorkflowExecutionCanceled,
    WorkflowExecutionTerminatedEventAttributes => WorkflowExecutionTerminated,
    WorkflowExecutionContinuedAsNewEventAttributes => WorkflowExecutionContinuedAsNew,
    WorkflowExecutionCancelRequestedEventAttributes => WorkflowExecutionCancelRequested,
    WorkflowExecutionSignaledEventAttributes => WorkflowExecutionSignaled,
    WorkflowTaskScheduledEventAttributes => WorkflowTaskScheduled,
    WorkflowTaskStartedEventAttributes => WorkflowTaskStarted,
    WorkflowTaskCompletedEventAttributes => WorkflowTaskCompleted,
    WorkflowTaskFailedEventAttributes => WorkflowTaskFailed,
    ActivityTaskScheduledEventAttributes => ActivityTaskScheduled,
    ActivityTaskStartedEventAttributes => ActivityTaskStarted,
    ActivityTaskCompletedEventAttributes => ActivityTaskCompleted,
    ActivityTaskFailedEventAttributes => ActivityTaskFailed,
    ActivityTaskTimedOutEventAttributes => ActivityTaskTimedOut,
    ActivityTaskCancelRequestedEventAttributes => ActivityTaskCancelRequested,
    ActivityTaskCanceledEventAttributes => ActivityTaskCanceled,
    TimerStartedEventAttributes => TimerStarted,
    TimerFiredEventAttributes => TimerFired,
    TimerCanceledEventAttributes => TimerCanceled,
    MarkerRecordedEventAttributes => MarkerRecorded,
    StartChildWorkflowExecutionInitiatedEventAttributes => StartChildWorkflowExecutionInitiated,
    StartChildWorkflowExecutionFailedEventAttributes => StartChildWorkflowExecutionFailed,
    ChildWorkflowExecutionStartedEventAttributes => ChildWorkflowExecutionStarted,
    ChildWorkflowExecutionCompletedEventAttributes => ChildWorkflowExecutionCompleted,
    ChildWorkflowExecutionFailedEventAttributes => ChildWorkflowExecutionFailed,
    ChildWorkflowExecutionCanceledEventAttributes => ChildWorkflowExecutionCanceled,
    ChildWorkflowExecutionTimedOutEventAttributes => ChildWorkflowExecutionTimedOut,
    ChildWorkflowExecutionTerminatedEventAttributes => ChildWorkflowExecutionTerminated,
    SignalExternalWorkflowExecutionInitiatedEventAttributes => SignalExternalWorkflowExecutionInitiated,
    SignalExternalWorkflowExecutionFailedEventAttributes => SignalExternalWorkflowExecutionFailed,
    ExternalWorkflowExecutionSignaledEventAttributes => ExternalWorkflowExecutionSignaled,
    RequestCancelExternalWorkflowExecutionInitiatedEventAttributes => RequestCancelExternalWorkflowExecutionInitiated,
    RequestCancelExternalWorkflowExecutionFailedEventAttributes => RequestCancelExternalWorkflowExecutionFailed,
    ExternalWorkflowExecutionCancelRequestedEventAttributes => ExternalWorkflowExecutionCancelRequested,
    NexusOperationScheduledEventAttributes => NexusOperationScheduled,
    NexusOperationStartedEventAttributes => NexusOperationStarted,
    NexusOperationCompletedEventAttributes => NexusOperationCompleted,
    NexusOperationFailedEventAttributes => NexusOperationFailed,
    NexusOperationCanceledEventAttributes => NexusOperationCanceled,
    NexusOperationTimedOutEventAttributes => NexusOperationTimedOut,
    NexusOperationCancelRequestedEventAttributes => NexusOperationCancelRequested,
    NexusOperationCancelRequestCompletedEventAttributes => NexusOperationCancelRequestCompleted,
    UpsertWorkflowSearchAttributesEventAttributes => UpsertWorkflowSearchAttributes,
    WorkflowPropertiesModifiedEventAttributes => WorkflowPropertiesModified,
    WorkflowExecutionUpdateAcceptedEventAttributes => WorkflowExecutionUpdateAccepted,
    WorkflowExecutionUpdateCompletedEventAttributes => WorkflowExecutionUpdateCompleted,
}
