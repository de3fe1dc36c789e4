//! The marker event that replaces removed history of a run.

use std::collections::BTreeMap;

use segno_engine::Run;
use segno_proto::{
    common::{Payload, Payloads},
    enums::EventType,
    events::{HistoryEvent, MarkerRecordedEventAttributes, history_event::Attributes},
    nanos_timestamp,
};

/// The name of the marker.
const MARKER: &str = "segno.compacted";
/// Its details: the first and the last of the removed events.
const FROM: &str = "from";
const TO: &str = "to";

/// The first event that a batch stands for: a marker that is alone in its batch stands for what it replaced. What workers
/// record is never alone.
pub fn first_event_id(batch: &[HistoryEvent]) -> i64 {
    let Some(first) = batch.first() else { return 0 };
    if batch.len() > 1 || first.event_type != EventType::MarkerRecorded as i32 {
        return first.event_id;
    }
    let replaced = match &first.attributes {
        Some(Attributes::MarkerRecordedEventAttributes(marker)) if marker.marker_name == MARKER => {
            let from = marker.details.get(FROM).and_then(|details| details.payloads.first());
            from.and_then(|from| serde_json::from_slice::<i64>(&from.data).ok())
        }
        _ => None,
    };
    replaced.unwrap_or(first.event_id)
}

/// The marker for the events of a run from one to another.
pub fn marker(run: &Run, from: i64, until: i64, now: i64) -> HistoryEvent {
    let number = |number: i64| Payload {
        metadata: BTreeMap::from([("encoding".to_owned(), "json/plain".into())]),
        data: number.to_string().into(),
        ..Default::default()
    };
    let details =
        [(FROM, from), (TO, until)].map(|(name, id)| (name.to_owned(), Payloads { payloads: vec![number(id)] }));
    let attributes = MarkerRecordedEventAttributes {
        marker_name: MARKER.to_owned(),
        details: BTreeMap::from(details),
        workflow_task_completed_event_id: run.state().last_completed_started_id + 1,
        ..Default::default()
    };
    HistoryEvent {
        event_id: until,
        task_id: until,
        event_time: Some(nanos_timestamp(now)),
        event_type: EventType::MarkerRecorded as i32,
        attributes: Some(Attributes::MarkerRecordedEventAttributes(attributes)),
        ..Default::default()
    }
}
