//! Removing old history of scripts: no turn ever reads it, so that a script may loop for years.

use std::collections::BTreeMap;

use segno_engine::{Compaction, Run, Transition, script};
use segno_proto::{
    common::{Payload, Payloads},
    enums::EventType,
    events::{HistoryEvent, MarkerRecordedEventAttributes, history_event::Attributes},
    nanos_timestamp,
};
use segno_store::{NamespaceKey, RunKey};

use crate::{error::CallError, runs::Runs};

/// The name of the marker that stands for removed events.
const MARKER: &str = "segno.compacted";
/// Its details: the first and the last of them.
const FROM: &str = "from";
const TO: &str = "to";

impl Runs {
    /// Adds the removal of old history to a transition if there is much of it. The first batch, with the first event,
    /// stays.
    pub(super) async fn compact(&self, run: &mut Run, transition: &mut Transition) {
        let limits = self.context(NamespaceKey(run.info.namespace_key)).limits;
        let Some(until) = script::compactable(run, &limits) else { return };
        match self.first_removable(run).await {
            Ok(from) if from < until => {
                let marker = marker(run, from, until, self.now());
                transition.compaction = Some(Box::new(Compaction { from, until, marker }));
                script::compacted(run, until);
            }
            Ok(_) => {}
            // The next turn tries again.
            Err(error) => tracing::warn!(run = run.info.run_id, %error, "history was not compacted"),
        }
    }

    /// The first event after the first stored batch.
    async fn first_removable(&self, run: &Run) -> Result<i64, CallError> {
        let key = RunKey(run.info.run_key);
        let first = self.store.history(key, 1, 2, 1, usize::MAX).await?;
        first.first().map(|batch| batch.last_event_id + 1).ok_or_else(|| super::turn::damaged(run, "no first event"))
    }
}

/// The first event that a batch stands for: a marker that is alone in its batch stands for what it replaced. What workers
/// record is never alone.
pub(crate) fn first_event_id(batch: &[HistoryEvent]) -> i64 {
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

fn marker(run: &Run, from: i64, until: i64, now: i64) -> HistoryEvent {
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
