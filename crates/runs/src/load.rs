//! Finding runs: the slot of a workflow id and its lock, the current run from memory or storage, older runs.

use std::{sync::Arc, time::Duration};

use segno_engine::{Rejection, Run, run_key_of};
use segno_environment::metrics::count;
use segno_proto::History;
use segno_store::{ReadError, RunKey, RunRecord, Store};
use tokio::sync::OwnedMutexGuard;

use crate::{
    error::CallError,
    history,
    runs::Runs,
    slots::{Current, RunSelector, Slot, SlotState, WorkflowKey},
    transact::{LockedSlot, progress_of},
};

/// The longest wait for the lock of a workflow.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);

impl Runs {
    /// Takes the lock of a workflow id and makes sure that its current run is known.
    pub async fn lock(&self, key: &WorkflowKey) -> Result<LockedSlot, CallError> {
        self.lock_slot(self.slots.get(key), key).await
    }

    /// Like [`Runs::lock`] for a slot that was looked up already.
    pub(crate) async fn lock_slot(&self, slot: Arc<Slot>, key: &WorkflowKey) -> Result<LockedSlot, CallError> {
        let state = match slot.state.clone().try_lock_owned() {
            Ok(state) => state,
            Err(_) => {
                let free = tokio::time::timeout(LOCK_WAIT_MAX, slot.state.clone().lock_owned());
                free.await.map_err(|_| CallError::Busy)?
            }
        };
        self.load_locked(slot, state, key).await
    }

    /// Makes sure that the current run of a locked slot is known.
    pub(crate) async fn load_locked(
        &self,
        slot: Arc<Slot>,
        state: OwnedMutexGuard<SlotState>,
        key: &WorkflowKey,
    ) -> Result<LockedSlot, CallError> {
        let mut locked = LockedSlot { slot, state };
        self.load_into(&mut locked, key).await?;
        Ok(locked)
    }

    /// Loads the current run of a locked slot, unless memory has it.
    pub(crate) async fn load_into(&self, locked: &mut LockedSlot, key: &WorkflowKey) -> Result<(), CallError> {
        if let Err(refused) = self.admit(key) {
            self.owner.admit_when_available(key, refused).await?;
        }
        let LockedSlot { slot, state } = locked;
        if !state.loaded {
            state.current = self.load_current(key).await?;
            state.loaded = true;
            if let Some(current) = &state.current {
                self.slots.note_run(current.key(), key);
                slot.progress.send_replace(progress_of(&current.run));
            }
            self.settle(state);
        }
        Ok(())
    }

    /// Accounts for a slot's weight.
    pub fn settle(&self, state: &mut SlotState) {
        let dropped = self.slots.settle(state);
        self.metrics.runs_evicted.fetch_add(dropped as u64, std::sync::atomic::Ordering::Relaxed);
    }

    async fn load_current(&self, key: &WorkflowKey) -> Result<Option<Arc<Current>>, CallError> {
        if let Some(run) = key.lingering {
            return Box::pin(self.load_stored(run)).await;
        }
        match self.store.current_run(key.namespace, &key.workflow_id).await? {
            Some(record) => Box::pin(self.current_of(record)).await.map(Some),
            None => Ok(None),
        }
    }

    async fn load_stored(&self, run: RunKey) -> Result<Option<Arc<Current>>, CallError> {
        let Some(record) = self.load_record(run).await? else { return Ok(None) };
        self.current_of(record).await.map(Some)
    }

    async fn current_of(&self, record: RunRecord) -> Result<Arc<Current>, CallError> {
        count(&self.metrics.runs_loaded);
        let (version, stored_bytes) = (record.version, record.state.len());
        let run = self.decode(record.state, record.key).await?;
        // A database on another machine is asked for the history itself alone.
        if run.is_running() && self.store.is_embedded() {
            self.check_newest(&run, record.key, version).await?;
        }
        Ok(Arc::new(Current { stored_bytes, ..Current::new(Arc::new(run), version) }))
    }

    /// Refuses an open run whose newest events are lost: nothing may be added to such a history, and no worker gets it.
    async fn check_newest(&self, run: &Run, key: RunKey, version: u64) -> Result<(), CallError> {
        let newest = self.store.history_reverse(key, i64::MAX, 1).await?;
        let next = newest.first().map_or(1, |batch| batch.last_event_id + 1);
        if next == run.next_stored_event_id() {
            return Ok(());
        }
        // Between the two reads the run may have gone on, or have been deleted.
        let now = self.store.load(key).await?;
        if now.is_none_or(|record| record.version != version) {
            return Ok(());
        }
        tracing::error!(run = key.0, event_id = next, "the stored history of a run has a gap");
        Err(history::gap(key, next))
    }

    /// A run as stored.
    pub async fn load_record(&self, run: RunKey) -> Result<Option<RunRecord>, CallError> {
        Ok(self.store.load(run).await?)
    }

    /// The run that a workflow id names.
    async fn current_key(&self, key: &WorkflowKey) -> Result<Option<RunKey>, CallError> {
        Ok(self.store.current(key.namespace, &key.workflow_id).await?)
    }

    /// Decodes a stored run, with its start event and the admissions of its updates if these may be needed.
    pub async fn decode(&self, state: bytes::Bytes, key: RunKey) -> Result<Run, CallError> {
        let mut run = Run::decode(state).map_err(|error| CallError::DataLoss(format!("run {}: {error}", key.0)))?;
        if run.needs_start_event() {
            add_start_event(&*self.store, &mut run, key).await?;
        }
        let admissions = run.missing_admissions();
        if !admissions.is_empty() {
            Box::pin(add_admissions(&*self.store, &mut run, key, admissions)).await?;
        }
        Ok(run)
    }

    /// Finds the slot a run belongs to: that of its workflow, or its own if it lingers and is no longer the current run.
    pub async fn workflow_of(&self, run: RunKey) -> Result<Option<WorkflowKey>, CallError> {
        if let Some(key) = self.slots.workflow_of(run) {
            return Ok(Some(key));
        }
        let Some(record) = Box::pin(self.load_record(run)).await? else { return Ok(None) };
        let key = run;
        let run = Run::decode(record.state).map_err(|error| CallError::DataLoss(format!("run {}: {error}", key.0)))?;
        let workflow = WorkflowKey::new(segno_store::NamespaceKey(run.info.namespace_key), &run.info.workflow_id);
        let is_older = run.lingers() && self.current_key(&workflow).await? != Some(key);
        Ok(Some(if is_older { workflow.of_lingering(key) } else { workflow }))
    }

    /// Locks the slot of the older run that a selector means, if its activities are still carried out. The lock of its
    /// workflow is held meanwhile.
    pub(crate) async fn lock_lingering(
        &self,
        locked: &LockedSlot,
        key: &WorkflowKey,
        selector: &RunSelector,
    ) -> Result<Option<LockedSlot>, CallError> {
        let current = locked.state.current.as_ref();
        let is_current = current.is_some_and(|current| current.run.info.run_id == selector.run_id);
        if selector.run_id.is_empty() || is_current || key.lingering.is_some() {
            return Ok(None);
        }
        // If it is damaged, the next call that looks for it gets the error.
        let Ok(older) = Box::pin(self.older_run(key, &selector.run_id)).await else { return Ok(None) };
        if !older.run.lingers() {
            return Ok(None);
        }
        self.lock(&key.of_lingering(older.key())).await.map(Some)
    }

    /// A snapshot of a run, open or closed, current or older.
    pub async fn snapshot(&self, key: &WorkflowKey, run_id: &str) -> Result<Arc<Current>, CallError> {
        let locked = self.lock(key).await?;
        if let Some(current) = &locked.state.current
            && (run_id.is_empty() || current.run.info.run_id == run_id)
        {
            return Ok(current.clone());
        }
        drop(locked);
        if run_id.is_empty() {
            return Err(CallError::WorkflowNotFound { workflow_id: key.workflow_id.to_string() });
        }
        self.older_run(key, run_id).await
    }

    /// A run as stored, open or closed.
    pub async fn load_run(&self, key: RunKey) -> Result<Option<Arc<Current>>, CallError> {
        let Some(record) = self.store.load(key).await? else { return Ok(None) };
        let version = record.version;
        let run = self.decode(record.state, key).await?;
        Ok(Some(Arc::new(Current::new(Arc::new(run), version))))
    }

    /// A run of a workflow by its id, as stored.
    pub(crate) async fn older_run(&self, key: &WorkflowKey, run_id: &str) -> Result<Arc<Current>, CallError> {
        let missing = || CallError::RunNotFound { workflow_id: key.workflow_id.to_string(), run_id: run_id.to_owned() };
        let run_key = RunKey(run_key_of(run_id).ok_or_else(missing)?);
        let record = self.load_record(run_key).await?.ok_or_else(missing)?;
        let version = record.version;
        let run = self.decode(record.state, run_key).await?;
        let same = run.info.run_id == run_id
            && run.info.workflow_id == *key.workflow_id
            && run.info.namespace_key == key.namespace.0;
        if !same {
            return Err(missing());
        }
        Ok(Arc::new(Current::new(Arc::new(run), version)))
    }

    /// The run a selector means. Only the current run can be open, so an older one is refused as closed.
    pub async fn select(
        &self,
        locked: &LockedSlot,
        key: &WorkflowKey,
        selector: &RunSelector,
    ) -> Result<Arc<Run>, CallError> {
        let current = locked.state.current.as_ref();
        if let Some(current) = current
            && (selector.run_id.is_empty() || current.run.info.run_id == selector.run_id)
        {
            if !selector.first_run_id.is_empty() && current.run.info.first_run_id != selector.first_run_id {
                return Err(Rejection::RunNotFound.into());
            }
            return Ok(current.run.clone());
        }
        if selector.run_id.is_empty() {
            return Err(CallError::WorkflowNotFound { workflow_id: key.workflow_id.to_string() });
        }
        Ok(Box::pin(self.older_run(key, &selector.run_id)).await?.run.clone())
    }
}

/// Adds the first event to a run from storage. A run whose history does not begin with it is damaged.
pub(crate) async fn add_start_event(store: &dyn Store, run: &mut Run, key: RunKey) -> Result<(), ReadError> {
    let damaged = |why: String| ReadError::Damaged(format!("history of run {}: {why}", key.0));
    let mut events = Vec::new();
    for batch in store.history(key, 1, 2, 1, usize::MAX).await? {
        History::decode_batch(&batch.events, &mut events).map_err(|error| damaged(error.to_string()))?;
    }
    run.set_start_event(events.into_iter().next()).map_err(|error| damaged(error.to_string()))
}

/// Adds the events that admitted updates to a run from storage: the run that follows it may have to admit them.
async fn add_admissions(store: &dyn Store, run: &mut Run, key: RunKey, event_ids: Vec<i64>) -> Result<(), ReadError> {
    let mut events = Vec::new();
    for event_id in event_ids {
        for batch in store.history(key, event_id, event_id + 1, 1, usize::MAX).await? {
            History::decode_batch(&batch.events, &mut events)
                .map_err(|error| ReadError::Damaged(format!("history of run {}: {error}", key.0)))?;
        }
    }
    run.set_admissions(&events);
    Ok(())
}
