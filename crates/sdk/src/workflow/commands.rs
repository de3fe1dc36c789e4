//! The commands of a workflow task, and the data by which each is matched with its event in history.

use std::time::Duration;

use segno_proto::{
    command::{self as wire, Command, command::Attributes},
    common::{self, Payload},
    enums::CommandType,
    sdk::UserMetadata,
};

use super::{nexus_target::NexusTarget, operation::OpId};
use crate::{converter, options::wire_duration};

/// Names of markers.
pub(crate) const RUN_MARKER: &str = "segno.run";
pub(crate) const LOCAL_MARKER: &str = "segno.local";
pub(crate) const PATCH_MARKER: &str = "segno.patch";
/// The search attribute that lists the patches of a run.
pub(crate) const CHANGE_VERSION: &str = "TemporalChangeVersion";
/// In front of the keys of durable state, in the memo.
pub(crate) const STATE_PREFIX: &str = "state.";

/// A command that the code issued.
pub(crate) enum CommandRequest {
    Task {
        attributes: Box<wire::ScheduleActivityTaskCommandAttributes>,
        summary: Option<String>,
    },
    CancelTask {
        scheduled_event_id: i64,
    },
    Timer {
        id: String,
        duration: Duration,
        summary: Option<String>,
    },
    CancelTimer {
        id: String,
    },
    Child {
        attributes: Box<wire::StartChildWorkflowExecutionCommandAttributes>,
        summary: Option<String>,
    },
    CancelExternal {
        workflow_id: String,
        run_id: String,
        child_only: bool,
    },
    SignalExternal {
        execution: common::WorkflowExecution,
        name: String,
        input: Vec<Payload>,
        header: Option<common::Header>,
        child_only: bool,
    },
    Nexus {
        attributes: Box<wire::ScheduleNexusOperationCommandAttributes>,
        summary: Option<String>,
    },
    CancelNexus {
        scheduled_event_id: i64,
    },
    Marker(Box<wire::RecordMarkerCommandAttributes>),
    Memo(Vec<(String, Payload)>),
    SearchAttributes(Vec<(String, Payload)>),
    /// Where a message of an update takes effect.
    Message {
        id: String,
    },
    Complete(Vec<Payload>),
    Fail(Box<segno_proto::failure::Failure>),
    Cancel,
    ContinueAsNew(Box<wire::ContinueAsNewWorkflowExecutionCommandAttributes>),
}

impl CommandRequest {
    pub fn into_command(self) -> Command {
        let mut user_metadata = None;
        let mut summarise = |summary: Option<String>| {
            user_metadata = summary
                .and_then(|text| converter::encode_json(&text).ok())
                .map(|summary| UserMetadata { summary: Some(summary), details: None });
        };
        let (kind, attributes) = match self {
            Self::Task { attributes, summary } => {
                summarise(summary);
                (CommandType::ScheduleActivityTask, Attributes::ScheduleActivityTaskCommandAttributes(*attributes))
            }
            Self::CancelTask { scheduled_event_id } => (
                CommandType::RequestCancelActivityTask,
                Attributes::RequestCancelActivityTaskCommandAttributes(
                    wire::RequestCancelActivityTaskCommandAttributes { scheduled_event_id },
                ),
            ),
            Self::Timer { id, duration, summary } => {
                summarise(summary);
                let attributes =
                    wire::StartTimerCommandAttributes { timer_id: id, start_to_fire_timeout: wire_duration(duration) };
                (CommandType::StartTimer, Attributes::StartTimerCommandAttributes(attributes))
            }
            Self::CancelTimer { id } => (
                CommandType::CancelTimer,
                Attributes::CancelTimerCommandAttributes(wire::CancelTimerCommandAttributes { timer_id: id }),
            ),
            Self::Child { attributes, summary } => {
                summarise(summary);
                let attributes = Attributes::StartChildWorkflowExecutionCommandAttributes(*attributes);
                (CommandType::StartChildWorkflowExecution, attributes)
            }
            Self::CancelExternal { workflow_id, run_id, child_only } => (
                CommandType::RequestCancelExternalWorkflowExecution,
                Attributes::RequestCancelExternalWorkflowExecutionCommandAttributes(
                    wire::RequestCancelExternalWorkflowExecutionCommandAttributes {
                        workflow_id,
                        run_id,
                        child_workflow_only: child_only,
                        ..Default::default()
                    },
                ),
            ),
            Self::SignalExternal { execution, name, input, header, child_only } => (
                CommandType::SignalExternalWorkflowExecution,
                Attributes::SignalExternalWorkflowExecutionCommandAttributes(
                    wire::SignalExternalWorkflowExecutionCommandAttributes {
                        execution: Some(execution),
                        signal_name: name,
                        input: converter::list(input),
                        header,
                        child_workflow_only: child_only,
                        ..Default::default()
                    },
                ),
            ),
            Self::Nexus { attributes, summary } => {
                summarise(summary);
                (CommandType::ScheduleNexusOperation, Attributes::ScheduleNexusOperationCommandAttributes(*attributes))
            }
            Self::CancelNexus { scheduled_event_id } => (
                CommandType::RequestCancelNexusOperation,
                Attributes::RequestCancelNexusOperationCommandAttributes(
                    wire::RequestCancelNexusOperationCommandAttributes { scheduled_event_id },
                ),
            ),
            Self::Marker(attributes) => {
                (CommandType::RecordMarker, Attributes::RecordMarkerCommandAttributes(*attributes))
            }
            Self::Memo(fields) => (
                CommandType::ModifyWorkflowProperties,
                Attributes::ModifyWorkflowPropertiesCommandAttributes(
                    wire::ModifyWorkflowPropertiesCommandAttributes {
                        upserted_memo: Some(common::Memo { fields: fields.into_iter().collect() }),
                    },
                ),
            ),
            Self::SearchAttributes(fields) => {
                let fields = common::SearchAttributes { indexed_fields: fields.into_iter().collect() };
                let attributes =
                    wire::UpsertWorkflowSearchAttributesCommandAttributes { search_attributes: Some(fields) };
                (
                    CommandType::UpsertWorkflowSearchAttributes,
                    Attributes::UpsertWorkflowSearchAttributesCommandAttributes(attributes),
                )
            }
            Self::Message { id } => (
                CommandType::ProtocolMessage,
                Attributes::ProtocolMessageCommandAttributes(wire::ProtocolMessageCommandAttributes { message_id: id }),
            ),
            Self::Complete(result) => (
                CommandType::CompleteWorkflowExecution,
                Attributes::CompleteWorkflowExecutionCommandAttributes(
                    wire::CompleteWorkflowExecutionCommandAttributes { result: converter::list(result) },
                ),
            ),
            Self::Fail(failure) => (
                CommandType::FailWorkflowExecution,
                Attributes::FailWorkflowExecutionCommandAttributes(wire::FailWorkflowExecutionCommandAttributes {
                    failure: Some(*failure),
                }),
            ),
            Self::Cancel => (
                CommandType::CancelWorkflowExecution,
                Attributes::CancelWorkflowExecutionCommandAttributes(wire::CancelWorkflowExecutionCommandAttributes {
                    details: None,
                }),
            ),
            Self::ContinueAsNew(attributes) => {
                let attributes = Attributes::ContinueAsNewWorkflowExecutionCommandAttributes(*attributes);
                (CommandType::ContinueAsNewWorkflowExecution, attributes)
            }
        };
        Command { command_type: kind as i32, user_metadata, attributes: Some(attributes), ..Default::default() }
    }
}

/// How a run closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseKind {
    Completed,
    Failed,
    Canceled,
    ContinuedAsNew,
}

/// The event that history must have for a command that was sent.
#[derive(Clone, Debug)]
pub(crate) enum ExpectedEvent {
    /// `print` is there if queue and input count as well.
    Task {
        op: OpId,
        id: String,
        kind: String,
        sequence: u64,
        print: Option<u64>,
    },
    CancelTask {
        scheduled_event_id: i64,
    },
    Timer {
        op: OpId,
        id: String,
        duration: Duration,
        sequence: u64,
    },
    CancelTimer {
        id: String,
    },
    Child {
        op: OpId,
        workflow_id: String,
        kind: String,
        sequence: u64,
    },
    CancelExternal {
        op: OpId,
        workflow_id: String,
    },
    SignalExternal {
        op: OpId,
        workflow_id: String,
        name: String,
    },
    Nexus {
        op: OpId,
        target: Box<NexusTarget>,
        sequence: u64,
    },
    CancelNexus {
        scheduled_event_id: i64,
    },
    Run {
        name: String,
        index: u64,
    },
    Local {
        kind: String,
        id: String,
        index: u64,
    },
    Patch {
        id: String,
    },
    State {
        keys: Vec<String>,
    },
    SearchAttributes {
        keys: Vec<String>,
    },
    UpdateAccepted {
        id: String,
    },
    UpdateCompleted {
        id: String,
    },
    Close(CloseKind),
}

impl ExpectedEvent {
    /// The operation that it belongs to.
    pub fn op(&self) -> Option<OpId> {
        match self {
            Self::Task { op, .. }
            | Self::Timer { op, .. }
            | Self::Child { op, .. }
            | Self::CancelExternal { op, .. }
            | Self::SignalExternal { op, .. }
            | Self::Nexus { op, .. } => (*op != 0).then_some(*op),
            _ => None,
        }
    }

    /// Which one of its type it is, from 1.
    pub fn sequence(&self) -> u64 {
        match self {
            Self::Task { sequence, .. }
            | Self::Timer { sequence, .. }
            | Self::Child { sequence, .. }
            | Self::Nexus { sequence, .. } => sequence + 1,
            Self::Run { index, .. } | Self::Local { index, .. } => index + 1,
            _ => 0,
        }
    }

    /// For people: what the code asks for.
    pub fn describe(&self) -> String {
        match self {
            Self::Task { kind, .. } => format!("{kind:?}"),
            Self::CancelTask { scheduled_event_id } => format!("the end of the task of event {scheduled_event_id}"),
            Self::Timer { duration, .. } => format!("a timer of {duration:?}"),
            Self::CancelTimer { id } => format!("the end of timer {id}"),
            Self::Child { workflow_id, kind, .. } => format!("child {kind:?} with the id {workflow_id:?}"),
            Self::CancelExternal { workflow_id, .. } => format!("the cancellation of workflow {workflow_id:?}"),
            Self::SignalExternal { workflow_id, name, .. } => format!("signal {name:?} to workflow {workflow_id:?}"),
            Self::Nexus { target, .. } => target.to_string(),
            Self::CancelNexus { scheduled_event_id } => {
                format!("the cancellation of the Nexus operation of event {scheduled_event_id}")
            }
            Self::Run { name, .. } => format!("operation {name:?}"),
            Self::Local { kind, .. } => format!("local task {kind:?}"),
            Self::Patch { id } => format!("patch {id:?}"),
            Self::State { keys } => format!("a change of {}", keys.join(", ")),
            Self::SearchAttributes { keys } => format!("a change of the search attributes {}", keys.join(", ")),
            Self::UpdateAccepted { id } => format!("the acceptance of update {id}"),
            Self::UpdateCompleted { id } => format!("the completion of update {id}"),
            Self::Close(CloseKind::Completed) => "the end of the workflow".to_owned(),
            Self::Close(CloseKind::Failed) => "the failure of the workflow".to_owned(),
            Self::Close(CloseKind::Canceled) => "the end of the workflow as cancelled".to_owned(),
            Self::Close(CloseKind::ContinuedAsNew) => "a new run of the workflow".to_owned(),
        }
    }
}

/// The details of a marker: a payload each, so that user interfaces show them.
pub(crate) fn marker(
    name: &str,
    details: Vec<(&str, Vec<Payload>)>,
    failure: Option<segno_proto::failure::Failure>,
) -> CommandRequest {
    let details = details.into_iter().map(|(key, payloads)| (key.to_owned(), common::Payloads { payloads })).collect();
    CommandRequest::Marker(Box::new(wire::RecordMarkerCommandAttributes {
        marker_name: name.to_owned(),
        details,
        failure,
        ..Default::default()
    }))
}
