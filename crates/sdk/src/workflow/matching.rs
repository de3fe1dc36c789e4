//! Compares the commands of a workflow task with their events in history.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

use segno_proto::{
    common::Payload,
    enums::EventType,
    events::{
        ActivityTaskScheduledEventAttributes, HistoryEvent, MarkerRecordedEventAttributes, history_event::Attributes,
    },
};
use serde::de::DeserializeOwned;

use super::{
    commands::{CHANGE_VERSION, CloseKind, ExpectedEvent, LOCAL_MARKER, PATCH_MARKER, RUN_MARKER},
    last_call::Place,
    nexus_target::NexusTarget,
    operation::OpId,
    sabotage::{self, Sabotage},
    violation::ViolationKind,
};
use crate::converter;

/// A difference, before it is known whose.
#[derive(Debug)]
pub(crate) struct Difference {
    pub kind: ViolationKind,
    pub event_id: i64,
    pub sequence: u64,
    pub expected: String,
    pub actual: String,
    /// Where the code asks for it.
    pub place: Option<Place>,
}

/// A command that was sent, to be found in history.
#[derive(Debug)]
pub(crate) struct SentCommand {
    pub expected: ExpectedEvent,
    pub place: Option<Place>,
}

/// Whether a command makes this event. All such events of a workflow task follow its completion directly.
pub(crate) fn is_command_event(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::ActivityTaskScheduled
            | EventType::ActivityTaskCancelRequested
            | EventType::TimerStarted
            | EventType::TimerCanceled
            | EventType::StartChildWorkflowExecutionInitiated
            | EventType::RequestCancelExternalWorkflowExecutionInitiated
            | EventType::SignalExternalWorkflowExecutionInitiated
            | EventType::MarkerRecorded
            | EventType::UpsertWorkflowSearchAttributes
            | EventType::WorkflowPropertiesModified
            | EventType::WorkflowExecutionUpdateAccepted
            | EventType::WorkflowExecutionUpdateCompleted
            | EventType::WorkflowExecutionCompleted
            | EventType::WorkflowExecutionFailed
            | EventType::WorkflowExecutionCanceled
            | EventType::WorkflowExecutionContinuedAsNew
            | EventType::NexusOperationScheduled
            | EventType::NexusOperationCancelRequested
    )
}

/// Compares in order. Calls `bind` with each operation and the event that its command became.
pub(crate) fn compare(
    mut sent: VecDeque<SentCommand>,
    events: &[HistoryEvent],
    mut bind: impl FnMut(OpId, i64),
) -> Result<(), Difference> {
    let mut skipped_patch = false;
    for event in events {
        let event_id = event.event_id;
        let skip = skipped_patch && is_change_version(event) && !asks_for_change_version(front(&sent));
        skipped_patch = false;
        if skip {
            continue;
        }
        if let Some((id, true)) = patch_of(event)
            && !matches!(front(&sent), Some(ExpectedEvent::Patch { id: patch }) if *patch == id)
        {
            // The call of `deprecate_patch` was removed since, as it should be.
            skipped_patch = true;
            continue;
        }
        let Some(SentCommand { expected: command, place }) = sent.pop_front() else {
            if sabotage::is_on(Sabotage::SkipsTheLast) {
                continue;
            }
            let kind = match patch_of(event) {
                Some(_) => ViolationKind::PatchMismatch,
                None => ViolationKind::RemovedCommand,
            };
            let actual = "nothing".to_owned();
            return Err(Difference { kind, event_id, sequence: 0, expected: describe(event), actual, place: None });
        };
        if let Err(kind) = fits(&command, event).or_else(forgiven) {
            let (sequence, actual, mut expected) = (command.sequence(), command.describe(), describe(event));
            if differs_in_print_only(&command, event) {
                expected.push_str(" with another input or on another queue");
            }
            return Err(Difference { kind, event_id, sequence, expected, actual, place });
        }
        if let Some(op) = command.op() {
            bind(op, event_id);
        }
    }
    match sent.pop_front() {
        Some(_) if sabotage::is_on(Sabotage::IgnoresTheRest) => Ok(()),
        None => Ok(()),
        Some(SentCommand { expected: command, place }) => Err(Difference {
            kind: ViolationKind::ExtraCommand,
            event_id: 0,
            sequence: command.sequence(),
            expected: "nothing more in this workflow task".to_owned(),
            actual: command.describe(),
            place,
        }),
    }
}

fn front(sent: &VecDeque<SentCommand>) -> Option<&ExpectedEvent> {
    sent.front().map(|command| &command.expected)
}

/// For the tests of the tests: a comparison that lets things pass.
fn forgiven(kind: ViolationKind) -> Result<(), ViolationKind> {
    let same_type =
        !matches!(kind, ViolationKind::CommandTypeMismatch | ViolationKind::ClosedEarly | ViolationKind::ExtraCommand);
    match sabotage::is_on(Sabotage::ComparesWithItself) || same_type && sabotage::is_on(Sabotage::ComparesTypesOnly) {
        true => Ok(()),
        false => Err(kind),
    }
}

/// Whether nothing but queue and input are not the same.
fn differs_in_print_only(command: &ExpectedEvent, event: &HistoryEvent) -> bool {
    let mut lenient = command.clone();
    match &mut lenient {
        ExpectedEvent::Task { print: print @ Some(_), .. } => *print = None,
        _ => return false,
    }
    fits(&lenient, event).is_ok()
}

fn fits(command: &ExpectedEvent, event: &HistoryEvent) -> Result<(), ViolationKind> {
    use Attributes as A;
    let check = |fits: bool, kind| if fits { Ok(()) } else { Err(kind) };
    match (command, event.attributes.as_ref()) {
        (ExpectedEvent::Task { id, kind, print, .. }, Some(A::ActivityTaskScheduledEventAttributes(event))) => {
            let same_kind = event.activity_type.as_ref().is_some_and(|there| there.name == *kind);
            let same_print = print.is_none_or(|print| print == print_of(event));
            check(same_kind && event.activity_id == *id && same_print, ViolationKind::TaskTypeMismatch)
        }
        (
            ExpectedEvent::CancelTask { scheduled_event_id },
            Some(A::ActivityTaskCancelRequestedEventAttributes(event)),
        ) => check(event.scheduled_event_id == *scheduled_event_id, ViolationKind::CommandTypeMismatch),
        (ExpectedEvent::Timer { id, duration, .. }, Some(A::TimerStartedEventAttributes(event))) => {
            let there = event.start_to_fire_timeout.and_then(|there| std::time::Duration::try_from(there).ok());
            check(event.timer_id == *id && there == Some(*duration), ViolationKind::TimerDurationMismatch)
        }
        (ExpectedEvent::CancelTimer { id }, Some(A::TimerCanceledEventAttributes(event))) => {
            check(event.timer_id == *id, ViolationKind::CommandTypeMismatch)
        }
        (
            ExpectedEvent::Child { workflow_id, kind, .. },
            Some(A::StartChildWorkflowExecutionInitiatedEventAttributes(event)),
        ) => {
            let same_kind = event.workflow_type.as_ref().is_some_and(|there| there.name == *kind);
            check(same_kind && event.workflow_id == *workflow_id, ViolationKind::ChildWorkflowMismatch)
        }
        (
            ExpectedEvent::CancelExternal { workflow_id, .. },
            Some(A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(event)),
        ) => {
            let same = event.workflow_execution.as_ref().is_some_and(|there| there.workflow_id == *workflow_id);
            check(same, ViolationKind::ChildWorkflowMismatch)
        }
        (
            ExpectedEvent::SignalExternal { workflow_id, name, .. },
            Some(A::SignalExternalWorkflowExecutionInitiatedEventAttributes(event)),
        ) => {
            let same = event.workflow_execution.as_ref().is_some_and(|there| there.workflow_id == *workflow_id);
            check(same && event.signal_name == *name, ViolationKind::ChildWorkflowMismatch)
        }
        (ExpectedEvent::Nexus { target, .. }, Some(A::NexusOperationScheduledEventAttributes(event))) => {
            check(**target == NexusTarget::of(event), ViolationKind::NexusOperationMismatch)
        }
        (
            ExpectedEvent::CancelNexus { scheduled_event_id },
            Some(A::NexusOperationCancelRequestedEventAttributes(event)),
        ) => check(event.scheduled_event_id == *scheduled_event_id, ViolationKind::CommandTypeMismatch),
        (command, Some(A::MarkerRecordedEventAttributes(event))) => fits_marker(command, event),
        (ExpectedEvent::State { keys }, Some(A::WorkflowPropertiesModifiedEventAttributes(event))) => {
            let there = event.upserted_memo.as_ref().map(|memo| memo.fields.keys().collect::<Vec<_>>());
            check(
                there.unwrap_or_default().iter().eq(&keys.iter().collect::<Vec<_>>()),
                ViolationKind::StateKeyMismatch,
            )
        }
        (ExpectedEvent::SearchAttributes { keys }, Some(A::UpsertWorkflowSearchAttributesEventAttributes(event))) => {
            let there = event.search_attributes.as_ref().map(|there| there.indexed_fields.keys().collect::<Vec<_>>());
            check(
                there.unwrap_or_default().iter().eq(&keys.iter().collect::<Vec<_>>()),
                ViolationKind::StateKeyMismatch,
            )
        }
        (ExpectedEvent::UpdateAccepted { id }, Some(A::WorkflowExecutionUpdateAcceptedEventAttributes(event))) => {
            check(event.protocol_instance_id == *id, ViolationKind::CommandTypeMismatch)
        }
        (ExpectedEvent::UpdateCompleted { id }, Some(A::WorkflowExecutionUpdateCompletedEventAttributes(event))) => {
            check(event.meta.as_ref().is_some_and(|meta| meta.update_id == *id), ViolationKind::CommandTypeMismatch)
        }
        (ExpectedEvent::Close(close), Some(attributes)) => match close_kind(attributes) {
            Some(there) => check(there == *close, ViolationKind::CommandTypeMismatch),
            None => Err(ViolationKind::ClosedEarly),
        },
        // The code goes on where history ends.
        (_, Some(attributes)) if close_kind(attributes).is_some() => Err(ViolationKind::ExtraCommand),
        _ => Err(ViolationKind::CommandTypeMismatch),
    }
}

/// Queue and input of a task in a number, for strict comparisons.
pub(crate) fn print(queue: &str, input: &[Payload]) -> u64 {
    let mut hasher = DefaultHasher::new();
    queue.hash(&mut hasher);
    for payload in input {
        payload.data.hash(&mut hasher);
    }
    hasher.finish()
}

fn print_of(event: &ActivityTaskScheduledEventAttributes) -> u64 {
    let queue = event.task_queue.as_ref().map(|queue| queue.name.as_str()).unwrap_or_default();
    print(queue, converter::items(&event.input))
}

fn fits_marker(command: &ExpectedEvent, event: &MarkerRecordedEventAttributes) -> Result<(), ViolationKind> {
    if sabotage::is_on(Sabotage::MarkersNotMatched) {
        return Ok(());
    }
    let check = |fits: bool, kind| if fits { Ok(()) } else { Err(kind) };
    match (event.marker_name.as_str(), command) {
        (PATCH_MARKER, ExpectedEvent::Patch { id }) => {
            check(detail::<String>(event, "id").as_ref() == Some(id), ViolationKind::PatchMismatch)
        }
        (PATCH_MARKER, ExpectedEvent::Close(_)) => Err(ViolationKind::ClosedEarly),
        (PATCH_MARKER, _) | (_, ExpectedEvent::Patch { .. }) => Err(ViolationKind::PatchMismatch),
        (RUN_MARKER, ExpectedEvent::Run { name, index }) => {
            let same = detail::<String>(event, "name").as_ref() == Some(name);
            check(same && detail(event, "index") == Some(*index), ViolationKind::OperationNameMismatch)
        }
        (LOCAL_MARKER, ExpectedEvent::Local { kind, id, .. }) => {
            let same = detail::<String>(event, "kind").as_ref() == Some(kind);
            check(same && detail::<String>(event, "id").as_ref() == Some(id), ViolationKind::OperationNameMismatch)
        }
        (RUN_MARKER | LOCAL_MARKER, ExpectedEvent::Run { .. } | ExpectedEvent::Local { .. }) => {
            Err(ViolationKind::OperationNameMismatch)
        }
        (_, ExpectedEvent::Close(_)) => Err(ViolationKind::ClosedEarly),
        _ => Err(ViolationKind::CommandTypeMismatch),
    }
}

/// One of the details of a marker.
pub(crate) fn detail<T: DeserializeOwned>(event: &MarkerRecordedEventAttributes, key: &str) -> Option<T> {
    converter::decode_payload(event.details.get(key)?.payloads.first()?).ok()
}

/// The patch that a marker records, and whether it is deprecated.
pub(crate) fn patch_of(event: &HistoryEvent) -> Option<(String, bool)> {
    match event.attributes.as_ref()? {
        Attributes::MarkerRecordedEventAttributes(marker) if marker.marker_name == PATCH_MARKER => {
            Some((detail(marker, "id")?, detail(marker, "deprecated").unwrap_or(false)))
        }
        _ => None,
    }
}

fn is_change_version(event: &HistoryEvent) -> bool {
    match event.attributes.as_ref() {
        Some(Attributes::UpsertWorkflowSearchAttributesEventAttributes(event)) => {
            event.search_attributes.as_ref().is_some_and(|there| there.indexed_fields.keys().eq([CHANGE_VERSION]))
        }
        _ => false,
    }
}

fn asks_for_change_version(command: Option<&ExpectedEvent>) -> bool {
    matches!(command, Some(ExpectedEvent::SearchAttributes { keys }) if keys.iter().eq([CHANGE_VERSION]))
}

fn close_kind(attributes: &Attributes) -> Option<CloseKind> {
    match attributes {
        Attributes::WorkflowExecutionCompletedEventAttributes(_) => Some(CloseKind::Completed),
        Attributes::WorkflowExecutionFailedEventAttributes(_) => Some(CloseKind::Failed),
        Attributes::WorkflowExecutionCanceledEventAttributes(_) => Some(CloseKind::Canceled),
        Attributes::WorkflowExecutionContinuedAsNewEventAttributes(_) => Some(CloseKind::ContinuedAsNew),
        _ => None,
    }
}

/// For people: what history says.
fn describe(event: &HistoryEvent) -> String {
    use Attributes as A;
    match event.attributes.as_ref() {
        Some(A::ActivityTaskScheduledEventAttributes(event)) => {
            format!("scheduled {:?}", event.activity_type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default())
        }
        Some(A::TimerStartedEventAttributes(event)) => {
            let there = event.start_to_fire_timeout.and_then(|there| std::time::Duration::try_from(there).ok());
            format!("started a timer of {:?}", there.unwrap_or_default())
        }
        Some(A::StartChildWorkflowExecutionInitiatedEventAttributes(event)) => format!(
            "started child {:?} with the id {:?}",
            event.workflow_type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default(),
            event.workflow_id
        ),
        Some(A::NexusOperationScheduledEventAttributes(event)) => format!("scheduled {}", NexusTarget::of(event)),
        Some(A::MarkerRecordedEventAttributes(event)) => match event.marker_name.as_str() {
            PATCH_MARKER => format!("recorded patch {:?}", detail::<String>(event, "id").unwrap_or_default()),
            RUN_MARKER => format!("recorded operation {:?}", detail::<String>(event, "name").unwrap_or_default()),
            LOCAL_MARKER => format!("recorded local task {:?}", detail::<String>(event, "kind").unwrap_or_default()),
            other => format!("recorded marker {other:?}"),
        },
        Some(A::WorkflowPropertiesModifiedEventAttributes(event)) => {
            let keys: Vec<&str> =
                event.upserted_memo.iter().flat_map(|memo| memo.fields.keys().map(String::as_str)).collect();
            format!("changed {}", keys.join(", "))
        }
        _ => format!("is {:?}", event.event_type()),
    }
}
