//! Events: their types by their attributes, and how one is made.

use segno_proto::{
    Nanos,
    enums::EventType,
    events::{HistoryEvent, history_event::Attributes},
    nanos_timestamp,
};

/// An event without an id.
pub fn event(now: Nanos, attributes: Attributes) -> HistoryEvent {
    HistoryEvent {
        event_time: Some(nanos_timestamp(now)),
        event_type: event_type(&attributes) as i32,
        attributes: Some(attributes),
        ..Default::default()
    }
}

/// The type of the event that carries these attributes.
pub fn event_type(attributes: &Attributes) -> EventType {
    use Attributes::*;
    use EventType::*;
    match attributes {
        WorkflowExecutionStartedEventAttributes(_) => WorkflowExecutionStarted,
        WorkflowExecutionCompletedEventAttributes(_) => WorkflowExecutionCompleted,
        WorkflowExecutionFailedEventAttributes(_) => WorkflowExecutionFailed,
        WorkflowExecutionTimedOutEventAttributes(_) => WorkflowExecutionTimedOut,
        WorkflowTaskScheduledEventAttributes(_) => WorkflowTaskScheduled,
        WorkflowTaskStartedEventAttributes(_) => WorkflowTaskStarted,
        WorkflowTaskCompletedEventAttributes(_) => WorkflowTaskCompleted,
        WorkflowTaskTimedOutEventAttributes(_) => WorkflowTaskTimedOut,
        WorkflowTaskFailedEventAttributes(_) => WorkflowTaskFailed,
        ActivityTaskScheduledEventAttributes(_) => ActivityTaskScheduled,
        ActivityTaskStartedEventAttributes(_) => ActivityTaskStarted,
        ActivityTaskCompletedEventAttributes(_) => ActivityTaskCompleted,
        ActivityTaskFailedEventAttributes(_) => ActivityTaskFailed,
        ActivityTaskTimedOutEventAttributes(_) => ActivityTaskTimedOut,
        TimerStartedEventAttributes(_) => TimerStarted,
        TimerFiredEventAttributes(_) => TimerFired,
        ActivityTaskCancelRequestedEventAttributes(_) => ActivityTaskCancelRequested,
        ActivityTaskCanceledEventAttributes(_) => ActivityTaskCanceled,
        TimerCanceledEventAttributes(_) => TimerCanceled,
        MarkerRecordedEventAttributes(_) => MarkerRecorded,
        WorkflowExecutionSignaledEventAttributes(_) => WorkflowExecutionSignaled,
        WorkflowExecutionTerminatedEventAttributes(_) => WorkflowExecutionTerminated,
        WorkflowExecutionCancelRequestedEventAttributes(_) => WorkflowExecutionCancelRequested,
        WorkflowExecutionCanceledEventAttributes(_) => WorkflowExecutionCanceled,
        RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(_) => {
            RequestCancelExternalWorkflowExecutionInitiated
        }
        RequestCancelExternalWorkflowExecutionFailedEventAttributes(_) => RequestCancelExternalWorkflowExecutionFailed,
        ExternalWorkflowExecutionCancelRequestedEventAttributes(_) => ExternalWorkflowExecutionCancelRequested,
        WorkflowExecutionContinuedAsNewEventAttributes(_) => WorkflowExecutionContinuedAsNew,
        StartChildWorkflowExecutionInitiatedEventAttributes(_) => StartChildWorkflowExecutionInitiated,
        StartChildWorkflowExecutionFailedEventAttributes(_) => StartChildWorkflowExecutionFailed,
        ChildWorkflowExecutionStartedEventAttributes(_) => ChildWorkflowExecutionStarted,
        ChildWorkflowExecutionCompletedEventAttributes(_) => ChildWorkflowExecutionCompleted,
        ChildWorkflowExecutionFailedEventAttributes(_) => ChildWorkflowExecutionFailed,
        ChildWorkflowExecutionCanceledEventAttributes(_) => ChildWorkflowExecutionCanceled,
        ChildWorkflowExecutionTimedOutEventAttributes(_) => ChildWorkflowExecutionTimedOut,
        ChildWorkflowExecutionTerminatedEventAttributes(_) => ChildWorkflowExecutionTerminated,
        SignalExternalWorkflowExecutionInitiatedEventAttributes(_) => SignalExternalWorkflowExecutionInitiated,
        SignalExternalWorkflowExecutionFailedEventAttributes(_) => SignalExternalWorkflowExecutionFailed,
        ExternalWorkflowExecutionSignaledEventAttributes(_) => ExternalWorkflowExecutionSignaled,
        UpsertWorkflowSearchAttributesEventAttributes(_) => UpsertWorkflowSearchAttributes,
        WorkflowExecutionUpdateAcceptedEventAttributes(_) => WorkflowExecutionUpdateAccepted,
        WorkflowExecutionUpdateRejectedEventAttributes(_) => WorkflowExecutionUpdateRejected,
        WorkflowExecutionUpdateCompletedEventAttributes(_) => WorkflowExecutionUpdateCompleted,
        WorkflowPropertiesModifiedExternallyEventAttributes(_) => WorkflowPropertiesModifiedExternally,
        ActivityPropertiesModifiedExternallyEventAttributes(_) => ActivityPropertiesModifiedExternally,
        WorkflowPropertiesModifiedEventAttributes(_) => WorkflowPropertiesModified,
        WorkflowExecutionUpdateAdmittedEventAttributes(_) => WorkflowExecutionUpdateAdmitted,
        NexusOperationScheduledEventAttributes(_) => NexusOperationScheduled,
        NexusOperationStartedEventAttributes(_) => NexusOperationStarted,
        NexusOperationCompletedEventAttributes(_) => NexusOperationCompleted,
        NexusOperationFailedEventAttributes(_) => NexusOperationFailed,
        NexusOperationCanceledEventAttributes(_) => NexusOperationCanceled,
        NexusOperationTimedOutEventAttributes(_) => NexusOperationTimedOut,
        NexusOperationCancelRequestedEventAttributes(_) => NexusOperationCancelRequested,
        WorkflowExecutionOptionsUpdatedEventAttributes(_) => WorkflowExecutionOptionsUpdated,
        NexusOperationCancelRequestCompletedEventAttributes(_) => NexusOperationCancelRequestCompleted,
        NexusOperationCancelRequestFailedEventAttributes(_) => NexusOperationCancelRequestFailed,
        WorkflowExecutionPausedEventAttributes(_) => WorkflowExecutionPaused,
        WorkflowExecutionUnpausedEventAttributes(_) => WorkflowExecutionUnpaused,
        WorkflowExecutionTimeSkippingTransitionedEventAttributes(_) => WorkflowExecutionTimeSkippingTransitioned,
    }
}
