//! Updates of a run that are not in its history yet, and outcomes of the last ones. This part of a run is not stored.

use std::{collections::VecDeque, sync::Arc};

use segno_proto::{
    common::Callback,
    events::{HistoryEvent, history_event::Attributes},
    failure::Failure,
    update::{Outcome, Request},
};

use crate::state::{RunState, UpdateRecord};

/// How many ended updates a run remembers in memory, so that a repeated call or a late poll is answered with the end.
pub const ENDED_MAX: usize = 100;

/// An update that no worker has accepted.
#[derive(Clone, Debug)]
pub struct WaitingUpdate {
    /// Its id.
    pub id: String,
    /// The request; `None` if an event has it.
    pub request: Option<Arc<Request>>,
    /// The request that an event has, if the run may be retried: the next run admits what no worker was sent.
    pub admitted: Option<Arc<Request>>,
    /// Size of the request.
    pub bytes: usize,
    /// Whether a worker has it.
    pub sent: bool,
}

/// The request of the update that an event admits.
pub(crate) fn admitted_request(event: &HistoryEvent) -> Option<&Request> {
    match &event.attributes {
        Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(admitted)) => admitted.request.as_ref(),
        _ => None,
    }
}

/// How an update ended.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateEnd {
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
    waiting: Vec<WaitingUpdate>,
    /// How the last ones ended, oldest first.
    ended: Arc<VecDeque<(Arc<str>, UpdateEnd)>>,
    /// Counts changes, so that waiters notice them.
    version: u64,
}

impl Updates {
    /// The waiting updates of a stored state: those whose admission is an event.
    pub fn of(state: &RunState) -> Self {
        let waits = |record: &UpdateRecord| record.accepted_event_id == 0 && record.completed_event_id == 0;
        // A worker that holds a stored task has seen every event before its start.
        let started = state.task.as_ref().map_or(0, |task| task.started_event_id);
        let waiting = state.updates.iter().filter(|(_, record)| waits(record)).map(|(id, record)| WaitingUpdate {
            id: id.clone(),
            request: None,
            admitted: None,
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
    pub fn waiting(&self) -> &[WaitingUpdate] {
        &self.waiting
    }

    pub(crate) fn find(&self, id: &str) -> Option<&WaitingUpdate> {
        self.waiting.iter().find(|update| update.id == id)
    }

    pub(crate) fn ended(&self, id: &str) -> Option<&UpdateEnd> {
        self.ended.iter().find(|(ended, _)| **ended == *id).map(|(_, how)| how)
    }

    pub(crate) fn admit(&mut self, id: String, request: Option<Arc<Request>>, bytes: usize) {
        self.version += 1;
        self.forget_end(&id);
        self.waiting.push(WaitingUpdate { id, request, admitted: None, bytes, sent: false });
    }

    /// Admits an update whose admission is an event. `admitted` is the request if it is kept.
    pub(crate) fn admit_stored(&mut self, id: String, admitted: Option<Arc<Request>>) {
        self.admit(id, None, 0);
        if let Some(update) = self.waiting.last_mut() {
            update.admitted = admitted;
        }
    }

    /// Stored admissions of updates that no worker was sent, with their requests.
    pub(crate) fn unsent_admissions(&self) -> impl Iterator<Item = (&str, &Arc<Request>)> {
        let unsent = self.waiting.iter().filter(|update| !update.sent);
        unsent.filter_map(|update| Some((update.id.as_str(), update.admitted.as_ref()?)))
    }

    /// Notes the requests of stored admissions, from the events that have them.
    pub(crate) fn set_admissions<'a>(&mut self, events: impl Iterator<Item = &'a HistoryEvent>) {
        for request in events.filter_map(admitted_request) {
            let id = request.meta.as_ref().map_or("", |meta| &meta.update_id);
            let waiting = self.waiting.iter_mut().find(|update| update.id == id && update.request.is_none());
            if let Some(update) = waiting {
                update.admitted = Some(Arc::new(request.clone()));
            }
        }
    }

    /// A worker has it now.
    pub(crate) fn send(&mut self, id: &str) {
        if let Some(update) = self.waiting.iter_mut().find(|update| update.id == id) {
            update.sent = true;
        }
    }

    /// A worker that had it is out of the picture.
    pub(crate) fn unsend(&mut self, id: &str) {
        if let Some(update) = self.waiting.iter_mut().find(|update| update.id == id) {
            update.sent = false;
        }
    }

    /// Adds the callbacks of another request for an update that waits in memory. Says whether there were any.
    pub(crate) fn add_callbacks(&mut self, id: &str, callbacks: &[Callback]) -> bool {
        let waiting = self.waiting.iter_mut().find(|update| update.id == id);
        let Some(request) = waiting.and_then(|update| update.request.as_mut()) else { return false };
        let new: Vec<_> = callbacks.iter().filter(|one| !request.completion_callbacks.contains(one)).cloned().collect();
        let are_new = !new.is_empty();
        if are_new {
            Arc::make_mut(request).completion_callbacks.extend(new);
        }
        are_new
    }

    /// The admission of an update that waited in memory is an event now. Its request is kept if `keeps` says so.
    pub(crate) fn note_stored(&mut self, id: &str, keeps: bool) {
        if let Some(update) = self.waiting.iter_mut().find(|update| update.id == id) {
            update.admitted = update.request.take().filter(|_| keeps);
            update.bytes = 0;
        }
    }

    pub(crate) fn changed(&mut self) {
        self.version += 1;
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<WaitingUpdate> {
        let place = self.waiting.iter().position(|update| update.id == id)?;
        self.version += 1;
        Some(self.waiting.remove(place))
    }

    pub(crate) fn end(&mut self, id: String, how: UpdateEnd) {
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

/// The answer to waiting callers of an update that the worker will not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Abort {
    /// The workflow ended.
    Closed,
    /// The workflow goes on as another run; trying again reaches that one.
    Continuing,
    /// The workflow task that carried it failed.
    TaskFailed,
    /// The workflow was paused before a worker had it.
    Paused,
}
