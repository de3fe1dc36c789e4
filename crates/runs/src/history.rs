//! Reading history: stored batches, the tail, and the newest of both without a read where memory has it.

use bytes::Bytes;
use segno_proto::{
    History,
    events::{
        ActivityTaskScheduledEventAttributes, HistoryEvent, NexusOperationScheduledEventAttributes,
        history_event::Attributes,
    },
};
use segno_store::{HistoryBatch, RunKey};
use tokio::time::Instant;

use crate::{
    error::CallError,
    runs::Runs,
    slots::{Current, WorkflowKey},
};

/// Bytes of one page, well below the 4 MiB that clients accept by default.
const PAGE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A piece of history in encoded form.
#[derive(Clone, Debug, Default)]
pub struct HistoryView {
    /// Encoded batches, in order.
    pub batches: Vec<Bytes>,
    /// Where the rest begins; `None` at the end.
    pub next_event_id: Option<i64>,
}

impl HistoryView {
    /// Adds events that are not stored, as far as they are wanted.
    pub fn push_events(&mut self, events: &[HistoryEvent], from: i64) {
        let mut wanted = events.iter().filter(|event| event.event_id >= from).peekable();
        if wanted.peek().is_some() {
            self.batches.push(History::encode_batch(wanted));
        }
    }

    /// As it goes over the wire.
    pub fn into_history(self) -> History {
        History::from_batches(self.batches)
    }
}

/// A page of history read backwards.
#[derive(Clone, Debug, Default)]
pub struct HistoryPage {
    /// Events, newest first.
    pub events: Vec<HistoryEvent>,
    /// Where the rest ends; `None` at the beginning.
    pub before_event_id: Option<i64>,
}

impl Runs {
    /// Stored events from `from` on.
    pub async fn stored_history(
        &self,
        current: &Current,
        from: i64,
        batches_max: usize,
    ) -> Result<HistoryView, CallError> {
        let until = current.run.next_stored_event_id();
        if from >= until {
            return Ok(HistoryView::default());
        }
        let batches: Vec<HistoryBatch> = match current.recent.front() {
            Some(first) if first.first_event_id <= from => {
                take_page(current.recent.iter().filter(|batch| batch.last_event_id >= from).cloned(), batches_max)
            }
            _ => {
                let key = current.key();
                let batches = self.store.history(key, from, until, batches_max, PAGE_BYTES_MAX).await?;
                // Unless the page is full, the next batch did not fit or is not there.
                let end = batches.last().map_or(from, |batch| batch.last_event_id + 1);
                let is_short = end < until && batches.len() < batches_max;
                let goes_on = !is_short || !self.store.history(key, end, until, 1, usize::MAX).await?.is_empty();
                let is_whole = check_page(key, &batches, from, until);
                let is_whole = is_whole.and_then(|()| if goes_on { Ok(()) } else { Err(gap(key, end)) });
                if let Err(gap) = is_whole {
                    return Err(self.gap_or_deleted(current, gap).await);
                }
                batches
            }
        };
        let end = batches.last().map_or(until, |batch| batch.last_event_id + 1);
        let mut view = HistoryView { batches: Vec::with_capacity(batches.len() + 1), next_event_id: None };
        for batch in batches {
            if batch.first_event_id >= from {
                view.batches.push(batch.events);
            } else {
                view.push_events(&decode(&batch)?, from);
            }
        }
        view.next_event_id = (end < until).then_some(end);
        Ok(view)
    }

    /// Events from `from` on, stored or in the tail. `with_unwritten` adds those of a transient or speculative task.
    pub async fn history(
        &self,
        current: &Current,
        from: i64,
        batches_max: usize,
        with_unwritten: bool,
    ) -> Result<HistoryView, CallError> {
        let mut view = self.stored_history(current, from, batches_max).await?;
        if view.next_event_id.is_none() {
            if view.batches.len() >= batches_max {
                // A full page may be the last one; the next read tells, and brings what is not stored.
                view.next_event_id = Some(current.run.next_stored_event_id().max(from));
                return Ok(view);
            }
            view.push_events(current.run.tail(), from);
            if with_unwritten {
                view.push_events(&segno_engine::workflow_task::unwritten_events(&current.run, false), from);
            }
        }
        Ok(view)
    }

    /// Events before `until`, newest first.
    pub async fn history_reverse(
        &self,
        current: &Current,
        until: i64,
        batches_max: usize,
    ) -> Result<HistoryPage, CallError> {
        let mut page = HistoryPage::default();
        let tail = current.run.tail();
        let mut room = batches_max;
        if tail.first().is_some_and(|first| first.event_id < until) {
            page.events.extend(tail.iter().rev().filter(|event| event.event_id < until).cloned());
            room -= 1;
        }
        let stored_until = until.min(current.run.next_stored_event_id());
        let mut first = page.events.last().map_or(stored_until, |event| event.event_id);
        if room > 0 && stored_until > 1 {
            let batches = match recent_before(current, stored_until, room) {
                Some(batches) => batches,
                None => {
                    let key = current.key();
                    let batches = self.store.history_reverse(key, stored_until, room).await?;
                    if let Err(gap) = check_reverse_page(key, &batches, stored_until, room) {
                        return Err(self.gap_or_deleted(current, gap).await);
                    }
                    batches
                }
            };
            for batch in &batches {
                page.events.extend(decode(batch)?.into_iter().rev().filter(|event| event.event_id < until));
                first = batch.first_event_id;
            }
        }
        page.before_event_id = (first > 1).then_some(first);
        Ok(page)
    }

    /// Why events of a run are missing: they are lost, unless the run was deleted while they were read.
    pub(crate) async fn gap_or_deleted(&self, current: &Current, gap: CallError) -> CallError {
        let (key, info) = (current.key(), &current.run.info);
        match self.store.load(key).await {
            Ok(None) => CallError::RunNotFound { workflow_id: info.workflow_id.clone(), run_id: info.run_id.clone() },
            Ok(Some(_)) => {
                tracing::error!(run = key.0, error = %gap, "the stored history of a run has a gap");
                gap
            }
            Err(error) => error.into(),
        }
    }

    /// Waits until a run has an event from `from` on (or, with `closed_only`, is closed). False if time is up first.
    pub async fn wait_for_news(
        &self,
        key: &WorkflowKey,
        run_key: RunKey,
        from: i64,
        closed_only: bool,
        deadline: Instant,
    ) -> bool {
        let slot = self.slots.get(key);
        let mut progress = slot.progress.subscribe();
        let news = progress.wait_for(|progress| {
            progress.run_key != run_key.0 || progress.closed || (!closed_only && progress.next_event_id > from)
        });
        tokio::select! {
            biased;
            found = tokio::time::timeout_at(deadline, news) => found.is_ok(),
            () = self.lifecycle.stop.notified() => false,
        }
    }

    /// The event that closed a run, encoded: nothing is decoded if memory has it.
    pub async fn closing_event(&self, current: &Current) -> Result<History, CallError> {
        let newest = current.recent.back().filter(|batch| batch.last_event_id + 1 == current.run.state().next_event_id);
        if let Some(batch) = newest {
            return History::last_of_batch(&batch.events).map_err(|error| undecodable(batch, &error));
        }
        Ok(self.last_event(current).await?.map_or_else(History::default, |last| History::from_events(&[last])))
    }

    /// The newest event of a run.
    pub async fn last_event(&self, current: &Current) -> Result<Option<HistoryEvent>, CallError> {
        Ok(self.history_reverse(current, i64::MAX, 1).await?.events.into_iter().next())
    }
}

/// The newest `batches_max` batches with events before `until`, newest first, if memory has that many.
fn recent_before(current: &Current, until: i64, batches_max: usize) -> Option<Vec<HistoryBatch>> {
    let before = current.recent.iter().rev().filter(|batch| batch.first_event_id < until);
    let found: Vec<_> = before.take(batches_max).cloned().collect();
    let complete = found.len() == batches_max || found.last().is_some_and(|first| first.first_event_id == 1);
    complete.then_some(found)
}

/// Refuses stored batches that do not continue from `from` on without a gap: a row of the history is lost. `until` is the
/// first event that is not stored.
pub(crate) fn check_page(key: RunKey, batches: &[HistoryBatch], from: i64, until: i64) -> Result<(), CallError> {
    let mut next = from;
    for (place, batch) in batches.iter().enumerate() {
        // The first batch holds `from` and may begin before it.
        let joins = batch.first_event_id == next || (place == 0 && batch.first_event_id < next);
        if !joins || batch.last_event_id < next {
            return Err(gap(key, next));
        }
        next = batch.last_event_id + 1;
    }
    if next == from && from < until { Err(gap(key, from)) } else { Ok(()) }
}

/// The same for batches in reverse order, of which at most `batches_max` were asked for.
fn check_reverse_page(key: RunKey, batches: &[HistoryBatch], until: i64, batches_max: usize) -> Result<(), CallError> {
    let mut end = until;
    for (place, batch) in batches.iter().enumerate() {
        let joins = batch.last_event_id + 1 == end || (place == 0 && batch.last_event_id >= end);
        if !joins || batch.first_event_id >= end {
            return Err(gap(key, end - 1));
        }
        end = batch.first_event_id;
    }
    if end > 1 && batches.len() < batches_max { Err(gap(key, end - 1)) } else { Ok(()) }
}

/// Says that a stored history lacks an event.
pub fn gap(key: RunKey, event_id: i64) -> CallError {
    CallError::DataLoss(format!("history of run {}: event {event_id} is missing", key.0))
}

fn take_page(batches: impl Iterator<Item = HistoryBatch>, batches_max: usize) -> Vec<HistoryBatch> {
    let mut bytes = 0;
    batches
        .take(batches_max)
        .take_while(|batch| {
            let fits = bytes == 0 || bytes + batch.events.len() <= PAGE_BYTES_MAX;
            bytes += batch.events.len();
            fits
        })
        .collect()
}

fn decode(batch: &HistoryBatch) -> Result<Vec<HistoryEvent>, CallError> {
    let mut events = Vec::new();
    History::decode_batch(&batch.events, &mut events).map_err(|error| undecodable(batch, &error))?;
    Ok(events)
}

fn undecodable(batch: &HistoryBatch, error: &prost::DecodeError) -> CallError {
    CallError::DataLoss(format!("history batch {}: {error}", batch.first_event_id))
}

impl Runs {
    /// An event of a run that is stored: from memory, else from storage.
    pub async fn stored_event(&self, current: &Current, id: i64) -> Result<HistoryEvent, CallError> {
        let run = current.key();
        let recent = current.recent.iter().find(|batch| (batch.first_event_id..=batch.last_event_id).contains(&id));
        let events = match recent {
            Some(batch) => decode(batch)?,
            None => {
                let batches = self.store.history(run, id, id + 1, 1, usize::MAX).await?;
                batches.iter().map(decode).collect::<Result<Vec<_>, _>>()?.concat()
            }
        };
        let event = events.into_iter().find(|event| event.event_id == id);
        event.ok_or_else(|| CallError::DataLoss(format!("event {id} of run {} is missing", run.0)))
    }

    /// The attributes with which an activity was scheduled: from memory, else from history.
    pub async fn scheduled_attributes(
        &self,
        current: &Current,
        id: i64,
    ) -> Result<ActivityTaskScheduledEventAttributes, CallError> {
        if let Some(event) = current.activity_events.get(&id) {
            return attributes_of(event);
        }
        attributes_of(&self.stored_event(current, id).await?)
    }

    /// The attributes with which a Nexus operation was scheduled.
    pub async fn scheduled_operation(
        &self,
        current: &Current,
        id: i64,
    ) -> Result<NexusOperationScheduledEventAttributes, CallError> {
        match self.stored_event(current, id).await?.attributes {
            Some(Attributes::NexusOperationScheduledEventAttributes(attributes)) => Ok(attributes),
            _ => Err(CallError::DataLoss(format!("event {id} does not schedule a Nexus operation"))),
        }
    }
}

fn attributes_of(event: &HistoryEvent) -> Result<ActivityTaskScheduledEventAttributes, CallError> {
    match event.attributes.clone() {
        Some(Attributes::ActivityTaskScheduledEventAttributes(attributes)) => Ok(attributes),
        _ => Err(CallError::DataLoss(format!("event {} does not schedule an activity", event.event_id))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunKey = RunKey(1);

    fn batches(ranges: &[(i64, i64)]) -> Vec<HistoryBatch> {
        let batch = |(first_event_id, last_event_id): &(i64, i64)| HistoryBatch {
            first_event_id: *first_event_id,
            last_event_id: *last_event_id,
            events: Bytes::new(),
        };
        ranges.iter().map(batch).collect()
    }

    #[test]
    fn a_lost_row_is_noticed_wherever_it_stood() {
        let whole = [(1, 3), (4, 4), (5, 9), (10, 10)];
        for from in 1..=10 {
            let found: Vec<_> = whole.iter().copied().filter(|(_, last)| *last >= from).collect();
            assert_eq!(check_page(RUN, &batches(&found), from, 11), Ok(()));
            // A page may end early; the next one begins where it ended.
            assert_eq!(check_page(RUN, &batches(&found[..1]), from, 11), Ok(()));
            for lost in 0..found.len() - 1 {
                let mut left = found.clone();
                left.remove(lost);
                assert!(check_page(RUN, &batches(&left), from, 11).is_err(), "{left:?} from {from}");
            }
        }
        assert!(check_page(RUN, &[], 10, 11).is_err(), "the last row");
        assert_eq!(check_page(RUN, &[], 11, 11), Ok(()));
    }

    #[test]
    fn a_lost_row_is_noticed_backwards() {
        let whole = [(10, 10), (5, 9), (4, 4), (1, 3)];
        for until in 2..=11 {
            let found: Vec<_> = whole.iter().copied().filter(|(first, _)| *first < until).collect();
            assert_eq!(check_reverse_page(RUN, &batches(&found), until, 9), Ok(()));
            assert_eq!(check_reverse_page(RUN, &batches(&found[..1]), until, 1), Ok(()));
            for lost in 0..found.len() {
                let mut left = found.clone();
                left.remove(lost);
                assert!(check_reverse_page(RUN, &batches(&left), until, 9).is_err(), "{left:?} until {until}");
            }
        }
    }
}
