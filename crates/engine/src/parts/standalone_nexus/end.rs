//! The end of a standalone Nexus operation closes its run.

use segno_proto::{
    events::{
        WorkflowExecutionCanceledEventAttributes, WorkflowExecutionCompletedEventAttributes,
        WorkflowExecutionFailedEventAttributes, WorkflowExecutionTimedOutEventAttributes, history_event::Attributes,
    },
    failure::{Failure, TerminatedFailureInfo, failure::FailureInfo},
};

use crate::{
    limits::ACTIVITY_FAILURE_BYTES_MAX,
    machine::nexus_operation::Event,
    parts::{close, nexus, standalone_nexus::SCHEDULED_EVENT_ID},
    payload, retry,
    state::{nexus::Operation, standalone_nexus::OperationOutcome},
    transition::{Effect, draft::Draft, steps::OperationMachine},
};

/// Closes the run with what a workflow would be told.
pub(crate) fn end(draft: &mut Draft, mut operation: Operation, told: Attributes) {
    let (failure, closing) = match told {
        Attributes::NexusOperationCompletedEventAttributes(told) => {
            let result = Some(told.result.unwrap_or_else(payload::no_value));
            settle(draft, operation, OperationOutcome { result, failure: None });
            let closing = WorkflowExecutionCompletedEventAttributes::default();
            let closing = Attributes::WorkflowExecutionCompletedEventAttributes(closing);
            return close::close(draft, closing, Vec::new());
        }
        Attributes::NexusOperationFailedEventAttributes(told) => {
            let closing = WorkflowExecutionFailedEventAttributes::default();
            (told.failure, Attributes::WorkflowExecutionFailedEventAttributes(closing))
        }
        Attributes::NexusOperationCanceledEventAttributes(told) => {
            let closing = WorkflowExecutionCanceledEventAttributes::default();
            (told.failure, Attributes::WorkflowExecutionCanceledEventAttributes(closing))
        }
        Attributes::NexusOperationTimedOutEventAttributes(told) => {
            let closing = WorkflowExecutionTimedOutEventAttributes::default();
            (told.failure, Attributes::WorkflowExecutionTimedOutEventAttributes(closing))
        }
        // Operations end in no other way.
        _ => return,
    };
    // The failure of a workflow's operation says which one failed; here that is known.
    let failure = failure.and_then(|failure| failure.cause).map(|cause| *cause).unwrap_or_default();
    if !operation.is_started() {
        operation.start.last_attempt_end = draft.now();
        operation.start.last_failure = Some(retry::kept(&failure, ACTIVITY_FAILURE_BYTES_MAX));
    }
    settle(draft, operation, OperationOutcome { result: None, failure: Some(failure) });
    close::close(draft, closing, Vec::new());
}

/// A run that is terminated has an outcome, too. The answer of a worker that has a request is accepted, and changes nothing.
pub(crate) fn note_terminated(draft: &mut Draft, reason: &str, identity: &str) {
    if draft.run.state.standalone_nexus.is_none() {
        return;
    }
    let id = SCHEDULED_EVENT_ID;
    if draft.run.state.operations.get(&id).is_some_and(|operation| operation.is_taken()) {
        nexus::overtake(draft, id);
    }
    let mut operation = None;
    draft.step(OperationMachine(id), Event::End, |draft| operation = draft.run.state.operations.remove(&id));
    draft.withdraw(&Effect::OfferNexusRequest(id));
    let failure = Failure {
        message: reason.to_owned(),
        failure_info: Some(FailureInfo::TerminatedFailureInfo(TerminatedFailureInfo { identity: identity.to_owned() })),
        ..Default::default()
    };
    let outcome = OperationOutcome { result: None, failure: Some(failure) };
    settle(draft, operation.map(|operation| operation.into_inner()).unwrap_or_default(), outcome);
}

/// Keeps the operation as it ends. The attempt that was under way counts.
fn settle(draft: &mut Draft, mut operation: Operation, outcome: OperationOutcome) {
    if !operation.is_started() && !operation.start.is_backing_off(draft.now()) {
        operation.start.attempts += 1;
    }
    operation.start.taken_time = 0;
    if let Some(alone) = &mut draft.run.state.standalone_nexus {
        alone.ended = Some(Box::new(operation));
        alone.outcome = Some(outcome);
    }
    draft.touch();
}
