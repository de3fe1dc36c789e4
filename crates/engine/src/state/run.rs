//! A run in memory: its stored state, and the events and updates that are not stored yet.
//!
//! A call takes a run by reference and answers with a new one, so a refused call or a failed commit leaves nothing to undo.
//! Cloning is cheap: what never changes is shared.

use std::{borrow::Cow, collections::BTreeMap, mem, sync::Arc};

use bytes::{Buf, BufMut, Bytes};
use prost::{DecodeError, Message};
use segno_proto::{
    Nanos,
    common::Priority,
    enums::WorkflowExecutionStatus,
    events::{HistoryEvent, history_event::Attributes},
    scratch::encoded,
};

use crate::{
    error::Rejection,
    state::{
        RunInfo, RunState, TaskKind, UpdateRecord, activity::is_waiting, finished_updates::FinishedUpdates, signal_ids,
        updates::Updates,
    },
    uuid,
};

/// A run as the owner holds it: stored state plus the tail.
#[derive(Clone, Debug)]
pub struct Run {
    /// The part that never changes, but for the priority, see [`crate::calls::options`].
    pub info: Arc<RunInfo>,
    /// The same, encoded once.
    encoded_info: Bytes,
    /// The part that changes. In a box: a run is moved many times while a call is decided.
    pub(crate) state: Box<RunState>,
    /// The tail: events this run has but has not stored yet. The next durable transition stores them first.
    pub(crate) tail: Vec<HistoryEvent>,
    /// Event 1, kept for runs that may be followed by another (retry, cron).
    pub(crate) start_event: Option<Arc<HistoryEvent>>,
    /// Updates that are not in history yet, and how the last ones ended.
    pub(crate) updates: Updates,
    /// Updates that are over and left a trace; `state` has the records of the others.
    pub(crate) finished: FinishedUpdates,
}

impl Run {
    /// The stored form. The tail is not part of it, and neither is what memory alone knows.
    pub fn encode(&self) -> Bytes {
        let stored = self.as_stored();
        encoded(|buffer| {
            buffer.put_u32_le(stored.encoded_info.len() as u32);
            buffer.put_slice(&stored.encoded_info);
            stored.state.encode_raw(buffer);
            stored.finished.encode(buffer);
        })
    }

    /// The run as it is read from storage after a crash: without a speculative workflow task, and with no Nexus request at a worker.
    pub fn as_stored(&self) -> Cow<'_, Self> {
        let is_taken = self.state.operations.values().any(|operation| operation.is_taken());
        if !is_taken && !self.is_speculating() {
            return Cow::Borrowed(self);
        }
        let mut stored = self.clone();
        stored.state.task.take_if(|task| task.kind() == TaskKind::Speculative);
        for operation in stored.state.operations.values_mut().filter(|operation| operation.is_taken()) {
            if let Some((request, _)) = operation.open_request_mut() {
                request.taken_time = 0;
            }
        }
        Cow::Owned(stored)
    }

    /// A run with nothing unstored.
    pub(crate) fn new(info: RunInfo, state: RunState) -> Self {
        let encoded_info = info.encode_to_vec().into();
        Self::of(info, encoded_info, state)
    }

    /// Reads the stored form.
    pub fn decode(mut stored: Bytes) -> Result<Self, DecodeError> {
        if stored.len() < 4 {
            // An empty message is never a run; let prost say so.
            return Err(RunInfo::decode(&[0x0f_u8][..]).err().unwrap_or_else(unreachable_decode_error));
        }
        let info_length = (stored.get_u32_le() as usize).min(stored.len());
        let encoded_info = stored.split_to(info_length);
        let mut info = RunInfo::decode(encoded_info.clone())?;
        let mut state = RunState::decode(stored)?;
        signal_ids::upgrade(&mut state);
        let encoded_info =
            if upgrade_override(&mut info, &mut state) { info.encode_to_vec().into() } else { encoded_info };
        // Decoded from a larger buffer, which this would keep alive.
        state.result_digests = Bytes::copy_from_slice(&state.result_digests);
        Ok(Self::of(info, encoded_info, state))
    }

    /// Reads what changes from the stored form.
    pub fn decode_state(mut stored: Bytes) -> Result<RunState, DecodeError> {
        if stored.len() < 4 {
            return Err(unreachable_decode_error());
        }
        let info_length = (stored.get_u32_le() as usize).min(stored.len());
        stored.advance(info_length);
        RunState::decode(stored)
    }

    fn of(info: RunInfo, encoded_info: Bytes, mut state: RunState) -> Self {
        let finished = FinishedUpdates::split_off(&mut state.updates);
        let mut updates = Updates::of(&state);
        if info.retry_policy.is_some() {
            updates.set_admissions(state.buffered.iter());
        }
        Self {
            info: Arc::new(info),
            encoded_info,
            state: Box::new(state),
            tail: Vec::new(),
            start_event: None,
            updates,
            finished,
        }
    }

    /// Changes the priority of the run.
    pub(crate) fn set_priority(&mut self, priority: Option<Priority>) {
        let info = Arc::make_mut(&mut self.info);
        info.priority = priority;
        self.encoded_info = info.encode_to_vec().into();
    }

    /// The part that changes. Only the engine changes it: fields of a run are private to this crate, and a run comes from a call or
    /// from storage.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// The tail: events this run has but has not stored yet.
    pub fn tail(&self) -> &[HistoryEvent] {
        &self.tail
    }

    /// Updates that are not in history yet, and how the last ones ended.
    pub fn updates(&self) -> &Updates {
        &self.updates
    }

    /// Takes the updates of a run that is over, for the callers that still wait for them.
    pub fn take_updates(&mut self) -> Updates {
        mem::take(&mut self.updates)
    }

    /// A run that is over, with the updates that were taken from it.
    pub fn with_updates(&self, updates: Updates) -> Self {
        Self { updates, ..self.clone() }
    }

    /// The part that never changes, and the part that does, for callers that keep parts of them.
    pub fn into_parts(self) -> (Arc<RunInfo>, RunState) {
        (self.info, *self.state)
    }

    /// Whether [`Run::decode`] must be followed by [`Run::set_start_event`].
    pub fn needs_start_event(&self) -> bool {
        self.is_running() && self.info.may_repeat()
    }

    /// Completes a run from storage with its first event.
    pub fn set_start_event(&mut self, first: Option<HistoryEvent>) -> Result<(), StartEventMissing> {
        let is_start = |event: &HistoryEvent| {
            let start = matches!(event.attributes, Some(Attributes::WorkflowExecutionStartedEventAttributes(_)));
            event.event_id == 1 && start
        };
        self.start_event = Some(Arc::new(first.filter(is_start).ok_or(StartEventMissing)?));
        Ok(())
    }

    /// Events that admitted updates whose requests memory lacks: [`Run::decode`] must be followed by [`Run::set_admissions`] with
    /// them, if there are any.
    pub fn missing_admissions(&self) -> Vec<i64> {
        if !self.is_running() || self.info.retry_policy.is_none() {
            return Vec::new();
        }
        let lacking =
            self.updates.waiting().iter().filter(|update| update.request.is_none() && update.admitted.is_none());
        let records = lacking.filter_map(|update| self.state.updates.get(&update.id));
        records.map(|record| record.admitted_event_id).filter(|event_id| *event_id > 0).collect()
    }

    /// Completes a run from storage with the requests of updates that wait.
    pub fn set_admissions(&mut self, events: &[HistoryEvent]) {
        if self.info.retry_policy.is_some() {
            self.updates.set_admissions(events.iter());
        }
    }

    /// Where history speaks of updates, by their ids.
    pub fn update_records(&self) -> BTreeMap<String, UpdateRecord> {
        let mut records = self.state.updates.clone();
        records.extend(self.finished.iter().map(|(id, record)| (id.to_owned(), record.clone())));
        records
    }

    /// Where history speaks of an update, if it does.
    pub fn update_record(&self, id: &str) -> Option<&UpdateRecord> {
        self.state.updates.get(id).or_else(|| self.finished.get(id))
    }

    /// How many updates the run has had, rejected ones aside.
    pub fn updates_total(&self) -> usize {
        let unstored = self.updates.waiting().iter().filter(|update| !self.state.updates.contains_key(&update.id));
        self.state.updates.len() + self.finished.completed() + unstored.count()
    }

    /// Whether the run is open.
    pub fn is_running(&self) -> bool {
        self.state.is_running()
    }

    /// Refuses a call on a run that is closed.
    pub fn check_open(&self) -> Result<(), Rejection> {
        if self.is_running() { Ok(()) } else { Err(Rejection::Closed) }
    }

    /// Whether it is open, and nothing of it is handed to workers.
    pub fn is_paused(&self) -> bool {
        self.state.is_paused()
    }

    /// Whether its activities are carried out: it is open, or it is a script that has ended before them.
    pub fn has_work(&self) -> bool {
        self.is_running() || self.lingers()
    }

    /// Whether it is closed and its activities are carried out all the same.
    pub fn lingers(&self) -> bool {
        !self.is_running()
            && self.state.script.as_ref().is_some_and(|script| script.lingers)
            && !self.state.activities.is_empty()
    }

    /// How it stands.
    pub fn status(&self) -> WorkflowExecutionStatus {
        self.state.status()
    }

    /// Id of the first event that is not stored yet.
    pub fn next_stored_event_id(&self) -> i64 {
        self.tail.first().map_or(self.state.next_event_id, |event| event.event_id)
    }

    /// Whether memory knows more than storage, so that this copy must not be dropped.
    pub fn has_unstored(&self) -> bool {
        !self.tail.is_empty()
            || self.state.task_started()
            || self.is_speculating()
            || self.updates.are_unstored()
            || self.is_running() && self.state.operations.values().any(|operation| operation.is_taken())
    }

    /// Whether the pending workflow task is known in memory alone.
    pub fn is_speculating(&self) -> bool {
        self.state.task.as_ref().is_some_and(|task| task.kind() == TaskKind::Speculative)
    }

    /// Whether a task of this run waits for a worker.
    pub fn is_dispatchable(&self, now: Nanos) -> bool {
        if self.is_paused() {
            return false;
        }
        let task = self.state.task.as_ref();
        self.is_running() && task.is_some_and(|task| task.started_event_id == 0 && !self.is_speculating())
            || self.has_work() && self.state.activities.values().any(|activity| is_waiting(activity, now))
            || self.is_running() && self.state.operations.values().any(|operation| operation.is_waiting(now))
    }
}

/// Moves the override of a run of an older version to where it is now. Returns whether there is one.
fn upgrade_override(info: &mut RunInfo, state: &mut RunState) -> bool {
    let (known, was_overridden) = (info.old_versioning_override.take(), mem::take(&mut info.old_was_overridden));
    if known.is_none() && !was_overridden {
        return false;
    }
    state.versioning.get_or_insert_default().versioning_override = known;
    true
}

/// The history of a run does not begin with its start: storage is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("history does not begin with the start of the run")]
pub struct StartEventMissing;

fn unreachable_decode_error() -> DecodeError {
    DecodeError::new_unexpected_type_url("", "run")
}

/// A run id in UUID form: the run's key in front, random bits behind. It says version 7, as Temporal's run ids do: both
/// begin with a number that grows.
pub fn run_id(key: u64, seed: u64) -> String {
    // 48 bits of key, version nibble, 12 + 62 bits of seed mixed so that both halves look random.
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed >> 29);
    uuid(7, key << 16 | mixed & 0xfff, mixed >> 12 << 48 | seed & 0xffff_ffff_ffff)
}

/// The key inside a run id, or `None` if this server never made that id.
pub fn run_key_of(run_id: &str) -> Option<u64> {
    let bytes = run_id.as_bytes();
    if bytes.len() != 36 || bytes[8] != b'-' || bytes[13] != b'-' || !matches!(bytes[14], b'7' | b'8') {
        return None;
    }
    let high = u64::from_str_radix(run_id.get(..8)?, 16).ok()?;
    let low = u64::from_str_radix(run_id.get(9..13)?, 16).ok()?;
    Some(high << 16 | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_carry_their_key() {
        for key in [0, 1, 0xffff, 0x1_0000, 0x7ff_ffff_ffff] {
            assert_eq!(run_key_of(&run_id(key, 0x1234_5678_9abc_def0)), Some(key));
        }
        assert_eq!(run_key_of("b1e6f3a2-0000-4000-8000-000000000000"), None);
        assert_eq!(run_key_of("nonsense"), None);
    }
}
