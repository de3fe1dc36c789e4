//! A failure with its causes, one line each.

use segno_proto::failure::{Failure, failure::FailureInfo};

use super::{dynamic::short_name, payload, plain};

/// What names itself as the source of failures of scripts.
const SCRIPT: &str = "segno-flow";

/// What kind of failure it is, beyond its message.
fn kind(failure: &Failure) -> String {
    match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => {
            let ending = if info.non_retryable { ", not retryable" } else { "" };
            let kind = if info.r#type.is_empty() { "application failure" } else { &info.r#type };
            let details = payload::texts(info.details.as_ref());
            let details = if details.is_empty() { String::new() } else { format!(", details: {}", details.join(", ")) };
            format!("{kind}{ending}{details}")
        }
        Some(FailureInfo::TimeoutFailureInfo(info)) => {
            format!("{} timeout", short_name("TimeoutType", info.timeout_type().as_str_name()))
        }
        Some(FailureInfo::ActivityFailureInfo(info)) => {
            let name = info.activity_type.as_ref().map_or("", |kind| kind.name.as_str());
            format!("activity {} {name}", info.activity_id).trim_end().to_owned()
        }
        Some(FailureInfo::ChildWorkflowExecutionFailureInfo(info)) => {
            let id = info.workflow_execution.as_ref().map_or("", |execution| execution.workflow_id.as_str());
            format!("child workflow {id}")
        }
        Some(FailureInfo::CanceledFailureInfo(_)) => "canceled".to_owned(),
        Some(FailureInfo::TerminatedFailureInfo(_)) => "terminated".to_owned(),
        Some(FailureInfo::ServerFailureInfo(_)) => "server failure".to_owned(),
        _ => String::new(),
    }
}

fn line(failure: &Failure) -> String {
    let message = if failure.message.is_empty() { "(no message)" } else { &failure.message };
    let text = match kind(failure) {
        kind if kind.is_empty() => message.to_owned(),
        kind => format!("{message} ({kind})"),
    };
    plain(&text).into_owned()
}

/// The failure, then `caused by` and its cause, and so on.
pub fn chain(failure: &Failure) -> Vec<String> {
    let mut lines = vec![line(failure)];
    let mut cause = failure.cause.as_deref();
    while let Some(failure) = cause {
        lines.push(format!("caused by: {}", line(failure)));
        cause = failure.cause.as_deref();
    }
    lines
}

/// Where a script failed, innermost first, if it was one. Stacks of other workers can be very long; JSON has them.
pub fn script_stack(failure: &Failure) -> Vec<String> {
    if failure.source != SCRIPT {
        return Vec::new();
    }
    failure.stack_trace.lines().map(|line| plain(line).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use segno_proto::failure::{ActivityFailureInfo, ApplicationFailureInfo};

    use super::*;

    #[test]
    fn a_script_says_where_it_failed() {
        let stack_trace = "at f (w.flow:3:5)\nat w (w.flow:7:3)".to_owned();
        let failure = Failure { source: SCRIPT.to_owned(), stack_trace, ..Default::default() };
        assert_eq!(script_stack(&failure), ["at f (w.flow:3:5)", "at w (w.flow:7:3)"]);
        assert!(script_stack(&Failure { source: "PythonSDK".to_owned(), ..failure }).is_empty());
    }

    #[test]
    fn causes_follow() {
        let cause = Failure {
            message: "no\x1b[31m money".to_owned(),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
                r#type: "Broke".to_owned(),
                non_retryable: true,
                details: payload::of_arguments(&["7".to_owned()]),
                ..Default::default()
            })),
            ..Default::default()
        };
        let failure = Failure {
            message: "activity error".to_owned(),
            failure_info: Some(FailureInfo::ActivityFailureInfo(ActivityFailureInfo {
                activity_id: "3".to_owned(),
                ..Default::default()
            })),
            cause: Some(Box::new(cause)),
            ..Default::default()
        };
        assert_eq!(
            chain(&failure),
            ["activity error (activity 3)", "caused by: no\\u{1b}[31m money (Broke, not retryable, details: 7)"]
        );
    }
}
