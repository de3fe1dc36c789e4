//! Runs as a store has them, and what holds for every history.

use segno_engine::Run;
use segno_proto::{History, enums::EventType, events::HistoryEvent};
use segno_store::{MemoryStore, RunKey, Store, Wait};

/// Ids without gaps and nothing after the end.
pub fn history(events: &[HistoryEvent]) -> Result<(), String> {
    for (index, event) in events.iter().enumerate() {
        if event.event_id != index as i64 + 1 {
            return Err(format!("event {} stands in place {}", event.event_id, index + 1));
        }
        if is_closing(event.event_type()) && index + 1 != events.len() {
            return Err(format!("events after the closing event {}", event.event_id));
        }
    }
    let count = |kind: EventType| events.iter().filter(|event| event.event_type() == kind).count();
    let open = count(EventType::WorkflowTaskScheduled) as i64
        - (count(EventType::WorkflowTaskCompleted)
            + count(EventType::WorkflowTaskFailed)
            + count(EventType::WorkflowTaskTimedOut)) as i64;
    if !(0..=1).contains(&open) {
        return Err(format!("{open} workflow tasks are open"));
    }
    Ok(())
}

fn is_closing(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::WorkflowExecutionCompleted
            | EventType::WorkflowExecutionFailed
            | EventType::WorkflowExecutionTimedOut
            | EventType::WorkflowExecutionCanceled
            | EventType::WorkflowExecutionTerminated
            | EventType::WorkflowExecutionContinuedAsNew
    )
}

/// A run as stored, with its history.
pub fn stored(store: &MemoryStore, key: RunKey) -> Option<(Run, Vec<HistoryEvent>)> {
    let record = store.load(key).wait().expect("memory can be read")?;
    let run = Run::decode(record.state).expect("a stored run can be read");
    let mut events = Vec::new();
    for batch in store.history(key, 1, i64::MAX, usize::MAX, usize::MAX).wait().expect("memory can be read") {
        History::decode_batch(&batch.events, &mut events).expect("stored history can be read");
    }
    Some((run, events))
}
