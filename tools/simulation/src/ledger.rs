//! What clients and workers were told. What was acknowledged must be found again; what was not acknowledged may have happened once.

use std::collections::BTreeMap;

use segno_proto::update::Outcome;

use crate::Millis;

/// An answer of a worker, under an identity that no other answer has.
#[derive(Clone, Debug)]
pub struct WorkerAnswer {
    /// The run.
    pub run_id: String,
    /// Whether it completed an activity; otherwise a workflow task.
    pub is_activity: bool,
    /// The server said that it took it.
    pub is_acknowledged: bool,
    /// A task that only brought updates which were rejected leaves no trace.
    pub may_leave_no_trace: bool,
}

/// What is known of an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateFacts {
    /// Its acceptance was acknowledged.
    pub is_accepted: bool,
    /// Its outcome, if that was acknowledged.
    pub outcome: Option<Outcome>,
}

/// What is known of a workflow.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The run of the acknowledged start.
    pub run_id: Option<String>,
    /// A start was sent.
    pub is_asked: bool,
    /// Signals by name, and whether they were acknowledged.
    pub signals: BTreeMap<String, bool>,
    /// Updates by id.
    pub updates: BTreeMap<String, UpdateFacts>,
    /// When a request to cancel was acknowledged first.
    pub cancelled_at: Option<Millis>,
    /// A termination was acknowledged, at this time.
    pub terminated_at: Option<Millis>,
    /// The run and the closing event that a client read.
    pub result: Option<(String, u64)>,
}

/// What is known of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleFacts {
    /// When its creation was acknowledged.
    pub created_at: Millis,
    /// When its deletion was first asked for.
    pub deleted_at: Option<Millis>,
    /// The interval.
    pub interval_seconds: u64,
}

/// Everything that clients and workers were told.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By workflow id.
    pub workflows: BTreeMap<String, Facts>,
    /// By identity.
    pub answers: BTreeMap<String, WorkerAnswer>,
    /// Hashes of events that workers saw and that an acknowledged answer made durable, by run and id.
    pub settled: BTreeMap<String, BTreeMap<i64, u64>>,
    /// By schedule id.
    pub schedules: BTreeMap<String, ScheduleFacts>,
    identities: u64,
}

impl Ledger {
    /// An identity for one answer.
    pub fn identity(&mut self, worker: &str) -> String {
        self.identities += 1;
        format!("{worker}#{}", self.identities)
    }

    /// The facts of a workflow.
    pub fn of(&mut self, workflow_id: &str) -> &mut Facts {
        self.workflows.entry(workflow_id.to_owned()).or_default()
    }
}
