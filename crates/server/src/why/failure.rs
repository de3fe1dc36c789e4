//! Failures as people read them: one line for each cause, and where it happened.

use segno_engine::state::RunState;
use segno_proto::{
    enums::WorkflowTaskFailedCause,
    failure::{Failure, failure::FailureInfo},
    nanos_timestamp,
    segno_workflow::TaskFailure,
};

use super::words;

/// Lines of a stack trace that are shown.
const STACK_LINES_MAX: usize = 100;
/// Causes of causes that are shown.
const CAUSES_MAX: usize = 20;

/// The type of a failure; empty if it has none.
pub(super) fn type_of(failure: &Failure) -> String {
    match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => info.r#type.clone(),
        Some(FailureInfo::TimeoutFailureInfo(info)) => {
            let name = info.timeout_type().as_str_name().trim_start_matches("TIMEOUT_TYPE_");
            format!("{} timeout", name.to_lowercase().replace('_', "-"))
        }
        Some(FailureInfo::CanceledFailureInfo(_)) => "canceled".to_owned(),
        Some(FailureInfo::TerminatedFailureInfo(_)) => "terminated".to_owned(),
        Some(FailureInfo::ServerFailureInfo(_)) => "server failure".to_owned(),
        Some(FailureInfo::ActivityFailureInfo(info)) => {
            format!("activity {}", info.activity_type.as_ref().map_or("", |kind| &kind.name))
        }
        Some(FailureInfo::ChildWorkflowExecutionFailureInfo(info)) => {
            format!("child workflow {}", info.workflow_execution.as_ref().map_or("", |child| &child.workflow_id))
        }
        _ => String::new(),
    }
}

/// Message and type on one line.
pub(super) fn line(failure: &Failure) -> String {
    let message = match failure.message.is_empty() {
        true => "(no message)".to_owned(),
        false => words::text(&failure.message),
    };
    match type_of(failure) {
        kind if kind.is_empty() => message,
        kind => format!("{message} ({kind})"),
    }
}

/// The failure and its causes, one line each.
pub(super) fn chain(failure: &Failure) -> Vec<String> {
    let causes = std::iter::successors(Some(failure), |failure| failure.cause.as_deref());
    let line = |(place, failure): (usize, &Failure)| match place {
        0 => line(failure),
        _ => format!("caused by: {}", line(failure)),
    };
    causes.take(CAUSES_MAX).enumerate().map(line).collect()
}

/// How SDKs say that a worker does not have the type of a workflow or an activity.
const NOT_REGISTERED: [&str; 6] = [
    "is not registered on this worker",
    "is not registered with a worker",
    "unable to find workflow type",
    "unable to find activitytype",
    "unknown workflow type",
    "no such function is exported by the workflow bundle",
];

/// Whether a worker says that it does not have the type.
pub(super) fn is_not_registered(failure: &Failure) -> bool {
    let message = failure.message.to_lowercase();
    matches!(type_of(failure).as_str(), "UnknownWorkflow" | "UnknownTask")
        || NOT_REGISTERED.iter().any(|text| message.contains(text))
}

/// The failure, its causes and where the innermost of them that says so happened.
pub(super) fn details(failure: &Failure) -> Vec<String> {
    let mut lines = chain(failure);
    let causes = std::iter::successors(Some(failure), |failure| failure.cause.as_deref());
    if let Some(origin) = causes.take(CAUSES_MAX).filter(|cause| !cause.stack_trace.is_empty()).last() {
        lines.extend(origin.stack_trace.lines().take(STACK_LINES_MAX).map(|line| line.trim_end().to_owned()));
    }
    lines
}

/// The cause as people write it: `WORKFLOW_WORKER_UNHANDLED_FAILURE`.
pub(super) fn cause_name(cause: WorkflowTaskFailedCause) -> &'static str {
    cause.as_str_name().trim_start_matches("WORKFLOW_TASK_FAILED_CAUSE_")
}

/// The last failure of a workflow task that was reported, if none succeeded since.
pub(crate) fn last_task_failure(state: &RunState) -> Option<TaskFailure> {
    let reported = state.reported_failure.as_deref()?;
    let failure = reported.failure.clone().unwrap_or_default();
    Some(TaskFailure {
        cause: cause_name(reported.cause()).to_owned(),
        r#type: type_of(&failure),
        time: Some(nanos_timestamp(reported.time)),
        identity: reported.identity.clone(),
        failures: state.failures_since_success,
        chain: if reported.failure.is_some() { chain(&failure) } else { Vec::new() },
        message: failure.message,
        stack_trace: failure.stack_trace,
    })
}
