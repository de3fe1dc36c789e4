//! What storage must hold at the end: valid histories, and everything that was acknowledged, once.

use segno_engine::Run;
use segno_proto::{
    enums::{EventType, WorkflowExecutionStatus},
    events::{HistoryEvent, history_event::Attributes as A},
};
use segno_store::{MemoryStore, NamespaceKey, RunKey, Store, Wait};

pub use super::stored::{history, stored};
use super::{story, updates, worker::Acknowledged};

/// A run that did not come to its end, in one line.
fn outline(run: &Run, events: &[HistoryEvent]) -> String {
    let names: Vec<_> = events
        .iter()
        .map(|event| format!("{} {}", event.event_id, event.event_type().as_str_name().replace("EVENT_TYPE_", "")))
        .collect();
    let state = run.state();
    let task = state.task.as_ref().map(|task| (task.scheduled_event_id, task.started_event_id, task.attempt));
    let activities: Vec<_> =
        state.activities.values().map(|a| (a.scheduled_event_id, a.attempt, a.started_time)).collect();
    let children: Vec<_> = state.children.values().map(|c| (c.initiated_event_id, c.started_event_id)).collect();
    format!(
        "{}; stored task {task:?}, activities {activities:?}, timers {:?}, children {children:?}, signals {:?}, buffered {}",
        names.join(", "),
        state.timers.keys(),
        state.external_signals.keys(),
        state.buffered.len()
    )
}

/// Everything at once; `Err` says what is wrong.
pub fn everything(store: &MemoryStore, acknowledged: &Acknowledged) -> Result<(), String> {
    if let Some(broken) = acknowledged.broken.first() {
        return Err(broken.clone());
    }
    let namespace = store.namespaces().wait().expect("memory can be read").first().map_or(NamespaceKey(1), |n| n.key);
    for id in story::ALL {
        let key =
            store.current(namespace, id).wait().expect("memory can be read").ok_or(format!("{id} does not exist"))?;
        let (run, events) = stored(store, key).ok_or(format!("{id} has no run"))?;
        history(&events).map_err(|error| format!("{id}: {error}"))?;
        if run.status() != WorkflowExecutionStatus::Completed {
            return Err(format!("{id} is {:?}: {}", run.status(), outline(&run, &events)));
        }
        if events.last().map(HistoryEvent::event_type) != Some(EventType::WorkflowExecutionCompleted) {
            return Err(format!("{id} does not end with its completion"));
        }
        let count = |kind: EventType| events.iter().filter(|event| event.event_type() == kind).count();
        let expected: &[(EventType, usize)] = match id {
            "parent" => &[
                (EventType::TimerFired, 1),
                (EventType::ActivityTaskCompleted, 1),
                (EventType::ChildWorkflowExecutionStarted, 1),
                (EventType::ChildWorkflowExecutionCompleted, 1),
                (EventType::ExternalWorkflowExecutionSignaled, 1),
                (EventType::WorkflowExecutionSignaled, 1),
            ],
            "child" => &[(EventType::ActivityTaskCompleted, 1)],
            "target" | "updates" | "sticky" => &[(EventType::WorkflowExecutionSignaled, 1)],
            _ => &[],
        };
        for (kind, times) in expected {
            if count(*kind) != *times {
                return Err(format!("{id} has {} {kind:?}", count(*kind)));
            }
        }
        if updates::UPDATED.contains(&id) {
            let answers = acknowledged.updates.iter().filter(|(workflow, ..)| workflow == id);
            let answers: Vec<_> = answers.map(|(_, update, answer)| (update.as_str(), answer.as_ref())).collect();
            updates::check(&events, &answers).map_err(|error| format!("{id}: {error}"))?;
        }
        if id == "chain" && run.info.first_run_id == run.info.run_id {
            return Err("the chain was not continued".to_owned());
        }
    }
    for (id, run_id) in &acknowledged.run_ids {
        let key = RunKey(segno_engine::run_key_of(run_id).ok_or("a run id without a key")?);
        stored(store, key).ok_or(format!("the acknowledged start of {id} is lost"))?;
    }
    for (run_id, scheduled) in &acknowledged.activities {
        let key = RunKey(segno_engine::run_key_of(run_id).ok_or("a run id without a key")?);
        let (_, events) = stored(store, key).ok_or("the run of an acknowledged activity is lost")?;
        let completed = events.iter().any(|event| {
            matches!(&event.attributes, Some(A::ActivityTaskCompletedEventAttributes(a)) if a.scheduled_event_id == *scheduled)
        });
        if !completed {
            return Err(format!("the acknowledged completion of activity {scheduled} is lost"));
        }
    }
    if !store.outbox(None, 1).wait().expect("memory can be read").is_empty() {
        return Err("messages are still under way".to_owned());
    }
    Ok(())
}
