//! Updates: calls into a running workflow that can be refused without a trace, or accepted and answered.
//!
//! An update is *admitted* and waits for a workflow task, is *sent* to the worker as a message, and is then *accepted*
//! (an event), *completed* (another one) or *rejected* (nothing at all). Until it is accepted it lives in memory, in
//! [`Updates`], a part of the run that is not stored; what is accepted is in the run's state.
//!
//! A transition that is not committed is thrown away with the run it made ([`crate::run::Applied`]), and nobody is told
//! before the commit. So there are no provisional states to take back: an update has one state, and waiters look at it.
//!
//! [`admit`] takes an update in, [`deliver`] sends it, [`messages`] takes the worker's answers, [`abort`] ends what can
//! no longer be answered, [`status`] says how one stands, [`finished`] keeps those that are over.

pub mod abort;
pub mod admit;
pub mod deliver;
mod finished;
pub mod messages;
pub mod status;

use std::{collections::VecDeque, sync::Arc};

use segno_proto::{
    enums::UpdateAdmittedEventOrigin,
    events::{HistoryEvent, WorkflowExecutionUpdateAdmittedEventAttributes, history_event::Attributes},
    failure::Failure,
    update::{Outcome, Request, outcome},
};

use crate::{
    draft::{BUFFERED_EVENT_ID, Draft},
    machine::update::{Event, State},
    run::Run,
    state::{RunState, UpdateRecord},
    steps::OfUpdate,
};
use abort::Abort;
pub use finished::FinishedUpdates;

/// How many ended updates a run remembers in memory, so that a repeated call or a late poll hears how it ended.
pub const ENDED_MAX: usize = 100;

/// What a namespace allows; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateLimits {
    /// Updates of one run that are not completed.
    pub in_flight: usize,
    /// Bytes of their requests.
    pub in_flight_bytes: usize,
    /// Updates of one run, rejected ones aside.
    pub total: usize,
}

impl Default for UpdateLimits {
    fn default() -> Self {
        // Temporal allows 10 in flight: its registry is cleared by any error and every entry is paid for then. Here
        // one that waits costs its bytes and nothing else.
        Self { in_flight: 100, in_flight_bytes: 20 * 1024 * 1024, total: 2000 }
    }
}

impl UpdateLimits {
    /// How many updates a run may have had before its worker is told to continue as new: nine tenths of the limit.
    pub fn suggest(&self) -> usize {
        match self.total {
            0 => usize::MAX,
            total => total - total / 10,
        }
    }
}

/// An update that no worker has accepted.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its id.
    pub id: String,
    /// What is asked; `None` if an event says it.
    pub request: Option<Arc<Request>>,
    /// Size of the request.
    pub bytes: usize,
    /// Whether a worker has it.
    pub sent: bool,
}

impl Waiting {
    /// Where the machine stands.
    fn state(&self) -> State {
        if self.sent { State::Sent } else { State::Admitted }
    }
}

/// How an update ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It was accepted and this came out.
    Completed(Arc<Outcome>),
    /// It was refused.
    Rejected(Arc<Failure>),
    /// It will not be answered.
    Aborted(Abort),
}

/// Updates of a run beyond its stored state.
#[derive(Clone, Debug, Default)]
pub struct Updates {
    /// Not accepted yet, in the order in which they were admitted.
    waiting: Vec<Waiting>,
    /// How the last ones ended, oldest first.
    ended: Arc<VecDeque<(Arc<str>, Ended)>>,
    /// Counts changes, so that waiters notice them.
    version: u64,
}

impl Updates {
    /// What stored state says of updates that wait: those whose admission is an event.
    pub fn of(state: &RunState) -> Self {
        let waits = |record: &UpdateRecord| record.accepted_event_id == 0 && record.completed_event_id == 0;
        // A worker that holds a stored task has seen every event before its start.
        let started = state.task.as_ref().map_or(0, |task| task.started_event_id);
        let waiting = state.updates.iter().filter(|(_, record)| waits(record)).map(|(id, record)| Waiting {
            id: id.clone(),
            request: None,
            bytes: 0,
            sent: (1..started).contains(&record.admitted_event_id),
        });
        Self { waiting: waiting.collect(), ..Self::default() }
    }

    /// Counts changes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether some wait in memory alone, so that this copy of the run must not be dropped.
    pub fn are_unstored(&self) -> bool {
        self.waiting.iter().any(|update| update.request.is_some())
    }

    /// Whether a worker has yet to hear of one.
    pub fn have_unsent(&self) -> bool {
        self.waiting.iter().any(|update| !update.sent)
    }

    /// Whether storage knows one that a worker has yet to hear of: only a stored task may bring it.
    pub fn have_stored_unsent(&self) -> bool {
        self.waiting.iter().any(|update| !update.sent && update.request.is_none())
    }

    /// Those that wait.
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    fn find(&self, id: &str) -> Option<&Waiting> {
        self.waiting.iter().find(|update| update.id == id)
    }

    fn ended(&self, id: &str) -> Option<&Ended> {
        self.ended.iter().find(|(ended, _)| **ended == *id).map(|(_, how)| how)
    }

    fn admit(&mut self, id: String, request: Option<Arc<Request>>, bytes: usize) {
        self.version += 1;
        self.forget_end(&id);
        self.waiting.push(Waiting { id, request, bytes, sent: false });
    }

    /// A worker has it now.
    fn send(&mut self, id: &str) {
        if let Some(update) = self.waiting.iter_mut().find(|update| update.id == id) {
            update.sent = true;
        }
    }

    /// A worker that had it is out of the picture.
    fn unsend(&mut self, id: &str) {
        if let Some(update) = self.waiting.iter_mut().find(|update| update.id == id) {
            update.sent = false;
        }
    }

    /// An event says what is asked; memory need not.
    fn forget_request(&mut self, id: &str) {
        if let Some(update) = self.waiting.iter_mut().find(|update| update.id == id) {
            update.request = None;
            update.bytes = 0;
        }
    }

    fn changed(&mut self) {
        self.version += 1;
    }

    fn remove(&mut self, id: &str) -> Option<Waiting> {
        let place = self.waiting.iter().position(|update| update.id == id)?;
        self.version += 1;
        Some(self.waiting.remove(place))
    }

    fn end(&mut self, id: String, how: Ended) {
        self.version += 1;
        self.forget_end(&id);
        let ended = Arc::make_mut(&mut self.ended);
        if ended.len() >= ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back((id.into(), how));
    }

    fn forget_end(&mut self, id: &str) {
        if self.ended(id).is_some() {
            Arc::make_mut(&mut self.ended).retain(|(ended, _)| **ended != *id);
        }
    }
}

/// Where the machine of an update stands.
pub(crate) fn state_of(run: &Run, id: &str) -> State {
    match run.updates.ended(id) {
        Some(Ended::Completed(_)) => return State::Completed,
        Some(Ended::Rejected(_)) => return State::Rejected,
        Some(Ended::Aborted(_)) => return State::Aborted,
        None => {}
    }
    match (run.updates.find(id), run.update_record(id)) {
        (Some(waiting), _) => waiting.state(),
        (None, Some(record)) if record.completed_event_id > 0 => State::Completed,
        (None, Some(record)) if record.rejection.is_some() => State::Rejected,
        (None, Some(record)) if record.is_accepted() => State::Accepted,
        (None, Some(_)) => State::Aborted,
        (None, None) => State::Unknown,
    }
}

/// How many updates of a run are not completed.
fn in_flight(draft: &Draft) -> usize {
    let accepted = draft.run.state.updates.values().filter(|record| record.is_accepted()).count();
    draft.run.updates.waiting.len() + accepted
}

/// How many updates a run has had, rejected ones aside.
pub fn total(run: &Run) -> usize {
    let unstored = run.updates.waiting.iter().filter(|update| !run.state.updates.contains_key(&update.id));
    run.state.updates.len() + run.finished.completed() + unstored.count()
}

/// Writes the event that makes an admission durable.
pub fn write_admission(draft: &mut Draft, id: &str, request: Request, origin: UpdateAdmittedEventOrigin) {
    let attributes = WorkflowExecutionUpdateAdmittedEventAttributes { request: Some(request), origin: origin as i32 };
    let event_id = draft.add_external(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(attributes));
    debug_assert!(event_id > 0 || event_id == BUFFERED_EVENT_ID);
    let record = UpdateRecord { admitted_event_id: event_id, ..Default::default() };
    draft.run.state.updates.insert(id.to_owned(), record);
}

/// Admits an update again that another run had, with an event of its own.
pub fn readmit(draft: &mut Draft, id: String, request: Request, origin: UpdateAdmittedEventOrigin) {
    draft.step(OfUpdate(&id), Event::Admit, |draft| {
        write_admission(draft, &id, request, origin);
        draft.run.updates.admit(id.clone(), None, 0);
    });
}

/// Takes an admission back that waits to become history: a worker that was asked before a crash answers first, and
/// nothing may speak of an update that is not admitted yet.
fn take_buffered_admission(draft: &mut Draft, id: &str) -> Option<Request> {
    let record = draft.run.state.updates.get_mut(id).filter(|record| record.admitted_event_id == BUFFERED_EVENT_ID)?;
    record.admitted_event_id = 0;
    let place = draft.run.state.buffered.iter().position(|event| admits(event) == Some(id))?;
    match draft.run.state.buffered.remove(place).attributes {
        Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(a)) => a.request,
        _ => None,
    }
}

/// The update that an event admits.
fn admits(event: &HistoryEvent) -> Option<&str> {
    match &event.attributes {
        Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(a)) => {
            a.request.as_ref()?.meta.as_ref().map(|meta| meta.update_id.as_str())
        }
        _ => None,
    }
}

/// An outcome that is a failure.
pub fn failed(failure: Failure) -> Outcome {
    Outcome { value: Some(outcome::Value::Failure(failure)) }
}
