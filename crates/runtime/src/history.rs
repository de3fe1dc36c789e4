//! Reading history: stored batches, the tail, and the newest of both without a read where memory has it.

use bytes::Bytes;
use segno_proto::{History, events::HistoryEvent};
use segno_store::{HistoryBatch, RunKey};
use tokio::time::Instant;

use crate::{
    error::CallError,
    node::Node,
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
        let wanted: Vec<_> = events.iter().filter(|event| event.event_id >= from).collect();
        if !wanted.is_empty() {
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

impl Node {
    /// Stored events from `from` on.
    pub(crate) async fn stored_history(
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
                self.read(move |store| store.history(key, from, until, batches_max, PAGE_BYTES_MAX)).await?
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
            view.push_events(&current.run.tail, from);
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
        let tail = &current.run.tail;
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
                    self.read(move |store| store.history_reverse(key, stored_until, room)).await?
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
            found = tokio::time::timeout_at(deadline, news) => found.is_ok(),
            () = self.stop.notified() => false,
        }
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
    History::decode_batch(&batch.events, &mut events)
        .map_err(|error| CallError::DataLoss(format!("history batch {}: {error}", batch.first_event_id)))?;
    Ok(events)
}
