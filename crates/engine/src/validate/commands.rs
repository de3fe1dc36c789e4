//! Checks of the commands about timers, activities, markers and other workflows, and of the order of commands.
//!
//! Each takes the attributes as they came, so that their absence is found here too, and answers with the cause under
//! which the workflow task fails. Checks against the state of the run (is this timer known?) belong to the commands.

use std::collections::BTreeSet;

use segno_proto::Nanos;
use segno_proto::command::{self, Command};
use segno_proto::enums::{CommandType, WorkflowTaskFailedCause as Cause};

use super::{ID_LENGTH_MAX, Invalid, duration, is_uuid, schedule_activity, text};

/// The result of a check of a command: fine, or why the workflow task fails.
pub type CheckResult = Result<(), (Cause, Invalid)>;

/// Builds the refusals of one command.
pub(super) fn refuse<T>(cause: Cause, text: impl Into<String>) -> Result<T, (Cause, Invalid)> {
    Err((cause, Invalid(text.into())))
}

/// Refuses commands after one that closes the workflow, and types of command that are not known.
pub fn command_sequence(commands: &[Command]) -> Result<(), Invalid> {
    let mut close = None;
    for command in commands {
        if let Some(close) = close {
            let all: Vec<String> = commands.iter().map(|command| text::command_type(command.command_type)).collect();
            return Err(Invalid(format!(
                "invalid command sequence: [{}], command {} must be the last command.",
                all.join(", "),
                text::command_type(close)
            )));
        }
        match CommandType::try_from(command.command_type) {
            Ok(
                CommandType::ContinueAsNewWorkflowExecution
                | CommandType::CompleteWorkflowExecution
                | CommandType::FailWorkflowExecution
                | CommandType::CancelWorkflowExecution,
            ) => close = Some(command.command_type),
            Ok(CommandType::Unspecified) | Err(_) => {
                return Err(Invalid(format!("unknown command type: {}", text::command_type(command.command_type))));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// An activity to schedule; see [`schedule_activity`] for what is filled in.
pub fn schedule_activity_task(
    attributes: Option<&mut command::ScheduleActivityTaskCommandAttributes>,
    run_timeout: Nanos,
    workflow_task_queue: &str,
) -> CheckResult {
    const CAUSE: Cause = Cause::BadScheduleActivityAttributes;
    let Some(attributes) = attributes else {
        return refuse(CAUSE, "ScheduleActivityTaskCommandAttributes is not set on ScheduleActivityTaskCommand.");
    };
    schedule_activity(attributes, run_timeout, workflow_task_queue).map_err(|why| (CAUSE, why))
}

/// An activity to cancel.
pub fn request_cancel_activity(
    attributes: Option<&mut command::RequestCancelActivityTaskCommandAttributes>,
) -> CheckResult {
    const CAUSE: Cause = Cause::BadRequestCancelActivityAttributes;
    let Some(attributes) = attributes else {
        return refuse(
            CAUSE,
            "RequestCancelActivityTaskCommandAttributes is not set on RequestCancelActivityTaskCommand.",
        );
    };
    if attributes.scheduled_event_id <= 0 {
        return refuse(CAUSE, "ScheduledEventId is not set on RequestCancelActivityTaskCommand.");
    }
    Ok(())
}

/// A timer to start.
pub fn start_timer(attributes: Option<&mut command::StartTimerCommandAttributes>) -> CheckResult {
    const CAUSE: Cause = Cause::BadStartTimerAttributes;
    let Some(attributes) = attributes else {
        return refuse(CAUSE, "StartTimerCommandAttributes is not set on StartTimerCommand.");
    };
    name(CAUSE, "TimerId", "StartTimerCommand", &attributes.timer_id)?;
    if let Err(why) = duration(attributes.start_to_fire_timeout.as_mut()) {
        return refuse(
            CAUSE,
            format!(
                "An invalid StartToFireTimeout is set on StartTimerCommand: {why}. TimerId={}",
                attributes.timer_id
            ),
        );
    }
    Ok(())
}

/// A timer to cancel.
pub fn cancel_timer(attributes: Option<&mut command::CancelTimerCommandAttributes>) -> CheckResult {
    const CAUSE: Cause = Cause::BadCancelTimerAttributes;
    let Some(attributes) = attributes else {
        return refuse(CAUSE, "CancelTimerCommandAttributes is not set on CancelTimerCommand.");
    };
    name(CAUSE, "TimerId", "CancelTimerCommand", &attributes.timer_id)
}

/// A marker to record.
pub fn record_marker(attributes: Option<&mut command::RecordMarkerCommandAttributes>) -> CheckResult {
    const CAUSE: Cause = Cause::BadRecordMarkerAttributes;
    let Some(attributes) = attributes else {
        return refuse(CAUSE, "RecordMarkerCommandAttributes is not set on RecordMarkerCommand.");
    };
    name(CAUSE, "MarkerName", "RecordMarkerCommand", &attributes.marker_name)
}

/// A message of the update protocol that takes its place among the commands.
pub fn protocol_message(attributes: Option<&mut command::ProtocolMessageCommandAttributes>) -> CheckResult {
    const CAUSE: Cause = Cause::BadUpdateWorkflowExecutionMessage;
    let Some(attributes) = attributes else {
        return refuse(CAUSE, "ProtocolMessageCommandAttributes is not set on ProtocolMessageCommand.");
    };
    if attributes.message_id.is_empty() {
        return refuse(CAUSE, "MessageID is not set on ProtocolMessageCommand.");
    }
    Ok(())
}

/// Another workflow to cancel. `initiated_children` are the workflow ids of children started by the same workflow task:
/// they cannot be cancelled yet. `target_namespace` is the attributes' namespace resolved, `namespace` if empty.
#[expect(deprecated, reason = "the namespace is deprecated on the wire, yet still sent and still in the texts")]
pub fn request_cancel_external(
    attributes: Option<&mut command::RequestCancelExternalWorkflowExecutionCommandAttributes>,
    namespace: &str,
    target_namespace: &str,
    initiated_children: &BTreeSet<String>,
) -> CheckResult {
    const CAUSE: Cause = Cause::BadRequestCancelExternalWorkflowExecutionAttributes;
    const COMMAND: &str = "RequestCancelExternalWorkflowExecutionCommand";
    let Some(attributes) = attributes else {
        return refuse(CAUSE, format!("{COMMAND}Attributes is not set on {COMMAND}."));
    };
    cross_namespace(CAUSE, namespace, target_namespace)?;
    let (id, run, ns) = (&attributes.workflow_id, &attributes.run_id, &attributes.namespace);
    if id.is_empty() {
        return refuse(CAUSE, format!("WorkflowId is not set on {COMMAND}. Namespace={ns} RunId={run}"));
    }
    if ns.len() > ID_LENGTH_MAX {
        return refuse(
            CAUSE,
            format!(
                "Namespace on {COMMAND} exceeds length limit. WorkflowId={id} RunId={run} Namespace={ns} \
                 Length={} Limit={ID_LENGTH_MAX}",
                ns.len()
            ),
        );
    }
    if id.len() > ID_LENGTH_MAX {
        return refuse(
            CAUSE,
            format!(
                "WorkflowId on {COMMAND} exceeds length limit. WorkflowId={id} Length={} Limit={ID_LENGTH_MAX} \
                 RunId={run} Namespace={ns}",
                id.len()
            ),
        );
    }
    if !run.is_empty() && !is_uuid(run) {
        return refuse(CAUSE, format!("Invalid RunId set on {COMMAND}. WorkflowId={id} RunId={run} Namespace={ns}"));
    }
    if initiated_children.contains(id) {
        return refuse(
            CAUSE,
            format!(
                "Start and RequestCancel for child workflow is not allowed in same workflow task. \
                 WorkflowId={id} RunId={run} Namespace={ns}"
            ),
        );
    }
    Ok(())
}

/// Another workflow to signal. `target_namespace` is the attributes' namespace resolved, `namespace` if empty.
#[expect(deprecated, reason = "the namespace is deprecated on the wire, yet still sent and still in the texts")]
pub fn signal_external(
    attributes: Option<&mut command::SignalExternalWorkflowExecutionCommandAttributes>,
    namespace: &str,
    target_namespace: &str,
) -> CheckResult {
    const CAUSE: Cause = Cause::BadSignalWorkflowExecutionAttributes;
    const COMMAND: &str = "SignalExternalWorkflowExecutionCommand";
    let Some(attributes) = attributes else {
        return refuse(CAUSE, format!("{COMMAND}Attributes is not set on {COMMAND}."));
    };
    let Some(execution) = &attributes.execution else {
        return refuse(CAUSE, format!("Execution is not set on {COMMAND}."));
    };
    cross_namespace(CAUSE, namespace, target_namespace)?;
    let (id, run, ns) = (&execution.workflow_id, &execution.run_id, &attributes.namespace);
    let signal = &attributes.signal_name;
    if id.is_empty() {
        return refuse(
            CAUSE,
            format!("WorkflowId is not set on {COMMAND}. Namespace={ns} RunId={run} SignalName={signal}"),
        );
    }
    if ns.len() > ID_LENGTH_MAX {
        return refuse(
            CAUSE,
            format!(
                "Namespace on {COMMAND} exceeds length limit. WorkflowId={id} Namespace={ns} Length={} \
                 Limit={ID_LENGTH_MAX} RunId={run} SignalName={signal}",
                ns.len()
            ),
        );
    }
    if id.len() > ID_LENGTH_MAX {
        return refuse(
            CAUSE,
            format!(
                "WorkflowId on {COMMAND} exceeds length limit. WorkflowId={id} Length={} Limit={ID_LENGTH_MAX} \
                 Namespace={ns} RunId={run} SignalName={signal}",
                id.len()
            ),
        );
    }
    if !run.is_empty() && !is_uuid(run) {
        return refuse(
            CAUSE,
            format!("Invalid RunId set on {COMMAND}. WorkflowId={id} Namespace={ns} RunId={run} SignalName={signal}"),
        );
    }
    if signal.is_empty() {
        return refuse(
            CAUSE,
            format!("SignalName is not set on {COMMAND}. WorkflowId={id} Namespace={ns} RunId={run}"),
        );
    }
    Ok(())
}

/// Commands reach only the workflow's own namespace, as in a Temporal server left at its defaults.
pub(super) fn cross_namespace(cause: Cause, namespace: &str, target: &str) -> CheckResult {
    if namespace == target { Ok(()) } else { refuse(cause, "cross namespace commands are not allowed") }
}

/// A name that must be there and not be too long.
fn name(cause: Cause, what: &str, command: &str, name: &str) -> CheckResult {
    if name.is_empty() {
        return refuse(cause, format!("{what} is not set on {command}."));
    }
    if name.len() > ID_LENGTH_MAX {
        let length = name.len();
        return refuse(
            cause,
            format!("{what} on {command} exceeds length limit. {what}={name} Length={length} Limit={ID_LENGTH_MAX}"),
        );
    }
    Ok(())
}
