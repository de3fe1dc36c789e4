//! Resets a run to an earlier event.

use std::sync::Arc;

use segno_engine::{
    Applied, Context, Rejection, Run,
    reset::{self, Reset},
    state::ScriptCheckpoint,
};
use segno_environment::finish::finish;
use segno_proto::{History, events::HistoryEvent};
use segno_store::RunKey;

use crate::{
    error::CallError,
    history::check_page,
    ports::{Pending, ScriptAt},
    runs::Runs,
    slots::{Current, WorkflowKey},
    transact::{ExtraWrites, run_write},
};

/// Batches read at a time.
const BATCHES: usize = 256;
const BATCHES_BYTES: usize = 16 * 1024 * 1024;

/// Changes the run that a reset makes, before it is stored.
type ChangeMade = Box<dyn FnOnce(Applied<()>, Context) -> Pending<'static, Result<Applied<()>, CallError>> + Send>;

impl Runs {
    /// Resets a run, the current one if none is named. Gives back the id of the new run.
    pub async fn reset_workflow(
        self: &Arc<Self>,
        key: &WorkflowKey,
        run_id: &str,
        call: Reset,
    ) -> Result<String, CallError> {
        self.reset_and(key, run_id, call, None).await
    }

    /// Resets a run, and changes the run that the reset makes before it is stored.
    pub async fn reset_and_change(
        self: &Arc<Self>,
        key: &WorkflowKey,
        run_id: &str,
        call: Reset,
        change: ChangeMade,
    ) -> Result<String, CallError> {
        self.reset_and(key, run_id, call, Some(change)).await
    }

    async fn reset_and(
        self: &Arc<Self>,
        key: &WorkflowKey,
        run_id: &str,
        call: Reset,
        change: Option<ChangeMade>,
    ) -> Result<String, CallError> {
        let (runs, key, run_id) = (self.clone(), key.clone(), run_id.to_owned());
        finish(async move { runs.reset_under_lock(&key, &run_id, call, change).await }).await
    }

    async fn reset_under_lock(
        self: &Arc<Self>,
        key: &WorkflowKey,
        run_id: &str,
        call: Reset,
        change: Option<ChangeMade>,
    ) -> Result<String, CallError> {
        let mut locked = self.lock(key).await?;
        let current = locked.state.current.clone();
        let base = match &current {
            Some(current) if run_id.is_empty() || current.run.info.run_id == run_id => current.clone(),
            None if run_id.is_empty() => {
                return Err(CallError::WorkflowNotFound { workflow_id: key.workflow_id.to_string() });
            }
            _ => self.older_run(key, run_id).await?,
        };
        reset::check_point(&base.run, call.finish_event_id)?;
        if let Some(current) = &current
            && current.run.info.create_request_id == call.request_id
        {
            return Ok(current.run.info.run_id.clone());
        }
        let context = self.context_for(locked.slot.key.namespace, true).await?;
        let mut past = self.all_events(&base).await?;
        check_compaction(&base.run, &past, call.finish_event_id)?;
        let mut later = cut(&mut past, call.finish_event_id)?;
        let mut next = base.run.state().successor_run_id.clone();
        let mut last = base.key();
        while !next.is_empty() {
            let run = match &current {
                Some(current) if current.run.info.run_id == next => current.clone(),
                _ => match self.older_run(key, &next).await {
                    Ok(run) => run,
                    // A run that was deleted ends the chain.
                    Err(CallError::RunNotFound { .. }) => break,
                    Err(error) => return Err(error),
                },
            };
            later.extend(self.all_events(&run).await?.into_iter().flatten());
            last = run.key();
            next = run.run.state().successor_run_id.clone();
        }
        let running = current.as_ref().filter(|current| current.run.is_running());
        let ended = running.map(|current| (current.key(), reset::end_current(&current.run, context, &call.reason)));
        if let Some((current, ended)) = &ended
            && *current == last
        {
            later.extend(ended.transition.batches.iter().flatten().cloned());
        }
        let script = match &base.run.state().script {
            Some(_) => self.scripts.clone().script_at(self, &base, &past, call.finish_event_id).await?,
            None => None,
        };
        let (script, state, checkpoint) = match script {
            Some(ScriptAt { past, state, checkpoint }) => (Some(past), state, checkpoint),
            None => (None, None, None),
        };
        let is_member = |version: &_, queue: &str| self.polls_workflow_queue(key.namespace, version, queue);
        let mut made = reset::reset(&base.run, context, &call, past, &later, script, &is_member)?;
        made.transition.script_state = state;
        made.transition.script_checkpoint = checkpoint;
        if let Some(change) = change {
            made = change(made, context).await?;
        }
        let new_run_id = made.run.info.run_id.clone();
        let mark = reset::mark(&base.run, context, &new_run_id);
        let base_is_current = current.as_ref().is_some_and(|current| current.key() == base.key());
        let mut extra = ExtraWrites::default();
        if !base_is_current {
            extra.marked = Some(Box::new(run_write(&mark.run, base.version, &[], context.now)));
        }
        let applied = match ended {
            Some((_, ended)) => reset::replace(ended, &base.run, made),
            None if base_is_current => reset::replace(mark, &base.run, made),
            None => made,
        };
        self.commit(&mut locked, applied, extra).await?;
        Ok(new_run_id)
    }

    /// Every event of a run, in the batches in which it is stored, the tail last.
    pub async fn all_events(&self, current: &Current) -> Result<Vec<Vec<HistoryEvent>>, CallError> {
        let until = current.run.next_stored_event_id();
        let mut events = Vec::new();
        let mut from = 1;
        while from < until {
            let key: RunKey = current.key();
            let batches = self.store.history(key, from, until, BATCHES, BATCHES_BYTES).await?;
            if let Err(gap) = check_page(key, &batches, from, until) {
                return Err(self.gap_or_deleted(current, gap).await);
            }
            let Some(last) = batches.last() else { break };
            from = last.last_event_id + 1;
            for batch in &batches {
                let mut decoded = Vec::new();
                History::decode_batch(&batch.events, &mut decoded)
                    .map_err(|error| CallError::DataLoss(format!("history of run {}: {error}", key.0)))?;
                events.push(decoded);
            }
        }
        if !current.run.tail().is_empty() {
            events.push(current.run.tail().to_vec());
        }
        Ok(events)
    }
}

/// Refuses a point whose past was removed, unless a checkpoint stands for that. The first batch is always kept.
pub fn check_compaction(base: &Run, past: &[Vec<HistoryEvent>], point: i64) -> Result<(), CallError> {
    let begins_again = past.first().and_then(|first| first.last()).is_some_and(|last| point <= last.event_id + 1);
    if begins_again { Ok(()) } else { find_checkpoint(base, point).map(|_| ()) }
}

/// Where the newest checkpoint before an event is, if history was removed; without one, the event cannot be gone back to.
pub fn find_checkpoint(run: &Run, until: i64) -> Result<Option<ScriptCheckpoint>, CallError> {
    let Some(script) = run.state().script.as_ref().filter(|script| script.compacted_until > 0) else {
        return Ok(None);
    };
    let usable = |record: &&ScriptCheckpoint| record.has_run && record.event_id < until;
    if let Some(record) = script.checkpoints.iter().rev().find(usable) {
        return Ok(Some(record.clone()));
    }
    let oldest = script.checkpoints.iter().find(|record| record.has_run).map_or(0, |record| record.event_id);
    let first = oldest.max(script.compacted_until) + 1;
    Err(CallError::NotReady(format!("events before {first} were compacted")))
}

/// Takes off everything from an event on, which must begin a batch: what was written together belongs together.
pub fn cut(batches: &mut Vec<Vec<HistoryEvent>>, from: i64) -> Result<Vec<HistoryEvent>, CallError> {
    let whole = batches.iter().take_while(|batch| batch.last().is_some_and(|event| event.event_id < from)).count();
    let later: Vec<_> = batches.split_off(whole).into_iter().flatten().collect();
    if later.first().is_some_and(|event| event.event_id < from) {
        return Err(Rejection::InvalidArgument(format!(
            "StateRebuilder unable to Rebuild mutable state to event ID: {}, version: 0, this event must be at the \
             boundary",
            from - 1
        ))
        .into());
    }
    Ok(later)
}
