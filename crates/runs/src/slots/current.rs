//! The content of a slot: the current run of a workflow, and data that belongs to it.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use segno_engine::{Run, update::Updates};
use segno_environment::hash::HashMap;
use segno_proto::events::HistoryEvent;
use segno_store::{HistoryBatch, NamespaceKey, RunKey};

use crate::queries::QueryRegistry;

/// History kept in memory per run, so that the next worker's turn needs no read.
const RECENT_BYTES_MAX: usize = 32 * 1024;
/// A slot's own weight besides its run.
pub(super) const SLOT_BYTES: usize = 1024;
/// Bytes that a schedule counts for besides: its specification and its search attributes are many small parts. Measured: 10 KiB of memory
/// for each schedule in the cache.
const SCHEDULE_BYTES: usize = 7 * 1024;

/// A workflow id within its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkflowKey {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The user's name.
    pub workflow_id: Arc<str>,
    /// Stands for this run alone: it is closed, another one is the current run, and its activities are carried out all the
    /// same. Such a run has a slot of its own, whose lock may be taken while that of the workflow is held.
    pub lingering: Option<RunKey>,
}

impl WorkflowKey {
    /// Names a workflow.
    pub fn new(namespace: NamespaceKey, workflow_id: &str) -> Self {
        Self { namespace, workflow_id: workflow_id.into(), lingering: None }
    }

    /// Names an older run of a workflow whose activities are carried out.
    pub(crate) fn of_lingering(&self, run: RunKey) -> Self {
        Self { lingering: Some(run), ..self.clone() }
    }
}

/// The current run of a workflow id, as stored and beyond.
#[derive(Clone, Debug)]
pub struct Current {
    /// The run.
    pub run: Arc<Run>,
    /// Its version in storage.
    pub version: u64,
    /// The newest stored batches, without a gap up to the newest.
    pub recent: VecDeque<HistoryBatch>,
    /// Until when the run has been woken: what became due since was not offered yet.
    pub woken: i64,
    /// Scheduled events of pending activities, for handing out their input.
    pub activity_events: HashMap<i64, Arc<HistoryEvent>>,
    /// Size of the stored form.
    pub stored_bytes: usize,
    /// The state of the script after its last turn, if memory has it.
    pub script_state: Option<Bytes>,
}

impl Current {
    /// A run just loaded or created.
    pub fn new(run: Arc<Run>, version: u64) -> Self {
        Self {
            run,
            version,
            recent: VecDeque::new(),
            woken: 0,
            activity_events: HashMap::default(),
            stored_bytes: 0,
            script_state: None,
        }
    }

    /// The number storage knows the run by.
    pub fn key(&self) -> RunKey {
        RunKey(self.run.info.run_key)
    }

    /// Remembers batches that were just stored.
    pub fn remember(&mut self, batches: &[HistoryBatch]) {
        self.recent.extend(batches.iter().cloned());
        let mut bytes: usize = self.recent.iter().map(|batch| batch.events.len()).sum();
        while bytes > RECENT_BYTES_MAX {
            let Some(dropped) = self.recent.pop_front() else { break };
            bytes -= dropped.events.len();
        }
    }

    /// Gives up what can be read from storage again.
    pub(super) fn shed(&mut self) {
        self.recent = VecDeque::new();
        self.activity_events = HashMap::default();
        self.script_state = None;
    }

    /// Bytes of the run, with its slot.
    pub(super) fn bytes(&self) -> usize {
        let recent: usize = self.recent.iter().map(|batch| batch.events.len() + 64).sum();
        let schedule = if self.run.state().schedule.is_some() { SCHEDULE_BYTES } else { 0 };
        // Decoded state takes about twice its encoded size.
        SLOT_BYTES + schedule + recent + 2 * self.stored_bytes + self.script_state.as_ref().map_or(0, Bytes::len)
    }
}

/// How far a workflow id has come; what long polls wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current run.
    pub run_key: u64,
    /// Its next event.
    pub next_event_id: i64,
    /// Whether it is closed.
    pub closed: bool,
    /// Completed workflow tasks, by the started event of the last one.
    pub last_completed_started_id: i64,
    /// Counts changes of updates.
    pub updates: u64,
    /// Durable transitions so far, of a standalone activity or a schedule.
    pub transitions: i64,
}

/// The state that the lock of a slot protects.
#[derive(Default)]
pub struct SlotState {
    /// Whether storage was asked.
    pub loaded: bool,
    /// The current run, if the workflow id has one.
    pub current: Option<Arc<Current>>,
    /// Queries that wait for a workflow task.
    pub queries: QueryRegistry,
    /// How the updates of the run before the current one ended, for those who still wait for them.
    pub previous_updates: Option<(RunKey, Updates)>,
    /// Whether several calls shared the last commit that was made for calls which waited.
    pub shared_commit: bool,
    /// Weight at the last look.
    pub(super) bytes: usize,
}
