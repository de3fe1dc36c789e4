//! The end of a standalone activity closes its run.

use segno_proto::{
    activity::{
        ActivityExecutionOutcome,
        activity_execution_outcome::Value::{Failure as Failed, Result as Succeeded},
    },
    events::{
        WorkflowExecutionCanceledEventAttributes, WorkflowExecutionCompletedEventAttributes,
        WorkflowExecutionFailedEventAttributes, WorkflowExecutionTimedOutEventAttributes, history_event::Attributes,
    },
    failure::{CanceledFailureInfo, Failure, failure::FailureInfo},
};

use crate::{
    parts::{close, standalone::outcome::settle},
    shared::Shared,
    state::activity::Activity,
    transition::draft::Draft,
};

/// Closes the run with what would be told to a workflow.
pub(crate) fn end(draft: &mut Draft, activity: Shared<Activity>, told: Attributes) {
    let now = draft.now();
    let mut activity = activity.into_inner();
    let canceller = draft.run.state.standalone.as_ref().and_then(|standalone| standalone.cancel.clone());
    let (outcome, closing) = match told {
        Attributes::ActivityTaskCompletedEventAttributes(told) => {
            activity.last_attempt_end = now;
            activity.last_identity = told.identity;
            let value = Some(Succeeded(told.result.unwrap_or_default()));
            let closing = WorkflowExecutionCompletedEventAttributes::default();
            (
                ActivityExecutionOutcome { value, ..Default::default() },
                Attributes::WorkflowExecutionCompletedEventAttributes(closing),
            )
        }
        Attributes::ActivityTaskFailedEventAttributes(told) => {
            activity.last_attempt_end = now;
            activity.last_identity = told.identity;
            let failure = told.failure.unwrap_or_else(|| Failure {
                message: "activity task failed without failure details".to_owned(),
                ..Default::default()
            });
            activity.last_failure = Some(failure.clone());
            let closing = WorkflowExecutionFailedEventAttributes::default();
            (
                ActivityExecutionOutcome { retry_state: told.retry_state, value: Some(Failed(failure)) },
                Attributes::WorkflowExecutionFailedEventAttributes(closing),
            )
        }
        Attributes::ActivityTaskTimedOutEventAttributes(told) => {
            let closing = WorkflowExecutionTimedOutEventAttributes::default();
            let value = told.failure.map(Failed);
            (
                ActivityExecutionOutcome { retry_state: told.retry_state, value },
                Attributes::WorkflowExecutionTimedOutEventAttributes(closing),
            )
        }
        Attributes::ActivityTaskCanceledEventAttributes(told) => {
            let info = CanceledFailureInfo {
                details: told.details,
                identity: canceller.map(|cancel| cancel.identity).unwrap_or_default(),
            };
            let failure = Failure {
                message: "Activity canceled".to_owned(),
                failure_info: Some(FailureInfo::CanceledFailureInfo(info)),
                ..Default::default()
            };
            let closing = WorkflowExecutionCanceledEventAttributes::default();
            (
                ActivityExecutionOutcome { value: Some(Failed(failure)), ..Default::default() },
                Attributes::WorkflowExecutionCanceledEventAttributes(closing),
            )
        }
        // Activities end in no other way.
        _ => return,
    };
    settle(draft, Some(activity), outcome);
    close::close(draft, closing, Vec::new());
}
