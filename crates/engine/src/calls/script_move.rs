//! Moving a run of a script to another version.
//!
//! The node translates the state; the run learns its new version, and history gets a marker. The marker is an event that
//! a turn must take, so that the new version goes on at once: with what has happened since the last turn.

use std::collections::BTreeMap;

use bytes::Bytes;
use segno_proto::{
    common::Payloads,
    events::{MarkerRecordedEventAttributes, TimerCanceledEventAttributes, history_event::Attributes},
};

use crate::{
    error::Rejection,
    parts::{script, workflow_task},
    payload,
    state::{
        run::Run,
        script::{ScriptMove, Version},
    },
    transition::{Applied, Context, draft::Draft},
};

/// The name of the marker.
pub const MARKER: &str = "segno.migrated";

/// A call that moves a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The version to move to.
    pub version: Version,
    /// Timers that no variable of the new version holds.
    pub timers: Vec<String>,
}

/// Gives an open run of a script another version. No turn of it may be under way.
pub fn apply(run: &Run, context: Context, call: Move) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    let Some(script) = &run.state.script else {
        return Err(Rejection::InvalidArgument("the run is not a script".to_owned()));
    };
    if run.state.task_started() {
        return Err(Rejection::NotReady("a turn of the run is under way".to_owned()));
    }
    let from = script.version.clone();
    let to = Bytes::copy_from_slice(&call.version);
    let completed = run.state.last_completed_started_id + 1;
    let mut draft = Draft::new(run, context);
    let details = [("from", &from), ("to", &to)].map(|(name, version)| (name.to_owned(), digits(version)));
    let marker = draft.add(Attributes::MarkerRecordedEventAttributes(MarkerRecordedEventAttributes {
        marker_name: MARKER.to_owned(),
        details: BTreeMap::from(details),
        workflow_task_completed_event_id: completed,
        ..Default::default()
    }));
    for timer_id in call.timers {
        // One that has fired since the last turn is gone; its event is ignored.
        let Some(timer) = draft.run.state.timers.remove(&timer_id) else { continue };
        draft.add(Attributes::TimerCanceledEventAttributes(TimerCanceledEventAttributes {
            timer_id,
            started_event_id: timer.started_event_id,
            workflow_task_completed_event_id: completed,
            identity: script::IDENTITY.to_owned(),
        }));
    }
    let state = &mut draft.run.state;
    state.search_attributes.insert(script::VERSION_ATTRIBUTE.to_owned(), script::attribute(&to));
    if let Some(script) = &mut state.script {
        script.version = to;
        // What compaction has removed is not executed again.
        let removed = script.compacted_until;
        script.moves.retain(|known| known.event_id > removed);
        script.moves.push(ScriptMove { event_id: marker, from });
        script.awake = true;
    }
    // What the old version took too long for is tried again.
    draft.run.state.reported_failure = None;
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// The version that a run had when this was the last event.
pub fn version_at(run: &Run, event_id: i64) -> Option<Version> {
    let script = run.state.script.as_ref()?;
    let next = script.moves.iter().find(|known| known.event_id > event_id);
    next.map_or(&script.version, |known| &known.from).as_ref().try_into().ok()
}

fn digits(version: &[u8]) -> Payloads {
    Payloads { payloads: vec![payload::json(format!("\"{}\"", script::hex(version)))] }
}
