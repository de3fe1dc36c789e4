//! Ending updates that can no longer be answered: the answers to their callers, as a table.

use crate::{
    machine::update::Event,
    state::{run::Run, updates::UpdateEnd},
    transition::{draft::Draft, steps::UpdateMachine},
};

pub use crate::state::updates::Abort;

/// Why updates are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The run closed for good.
    WorkflowCompleted,
    /// The run closed and another follows.
    WorkflowContinuing,
    /// The server failed the workflow task although the worker had completed it.
    WorkflowTaskFailed,
    /// The run was paused.
    WorkflowPaused,
}

/// Where an update can be when it is ended. An accepted one needs no entry here: its failure follows from the closed run
/// and is the same for ever after ([`super::status::of`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Waits in memory.
    Admitted,
    /// A worker has it.
    Sent,
    /// Waits, and its admission is an event.
    AdmittedDurably,
}

/// Every case.
pub const TABLE: &[(Stage, Reason, Option<Abort>)] = &[
    (Stage::Admitted, Reason::WorkflowCompleted, Some(Abort::Closed)),
    (Stage::Admitted, Reason::WorkflowContinuing, Some(Abort::Continuing)),
    // Temporal tells the caller to try again; here it simply waits for the next task.
    (Stage::Admitted, Reason::WorkflowTaskFailed, None),
    (Stage::Sent, Reason::WorkflowCompleted, Some(Abort::Closed)),
    (Stage::Sent, Reason::WorkflowContinuing, Some(Abort::Continuing)),
    (Stage::Sent, Reason::WorkflowTaskFailed, Some(Abort::TaskFailed)),
    (Stage::AdmittedDurably, Reason::WorkflowCompleted, Some(Abort::Closed)),
    (Stage::AdmittedDurably, Reason::WorkflowContinuing, Some(Abort::Continuing)),
    // What is stored is not lost with a workflow task: it goes to the next worker.
    (Stage::AdmittedDurably, Reason::WorkflowTaskFailed, None),
    (Stage::Admitted, Reason::WorkflowPaused, Some(Abort::Paused)),
    // The worker that has it may answer it.
    (Stage::Sent, Reason::WorkflowPaused, None),
    (Stage::AdmittedDurably, Reason::WorkflowPaused, None),
];

/// The answer to waiting callers, if the update ends at all.
pub fn outcome(stage: Stage, reason: Reason) -> Option<Abort> {
    #[cfg(any(test, feature = "coverage"))]
    crate::machine::coverage::record("update_abort", stage as usize, reason as usize);
    TABLE.iter().find(|(at, why, _)| *at == stage && *why == reason).and_then(|(_, _, abort)| *abort)
}

/// Why the updates of a closed run ended.
pub fn end_of(run: &Run) -> Reason {
    match run.state.successor_run_id.is_empty() {
        true => Reason::WorkflowCompleted,
        false => Reason::WorkflowContinuing,
    }
}

/// The answer to waiting callers of an update whose admission outlived its run.
pub fn by_the_end(run: &Run) -> Abort {
    outcome(Stage::AdmittedDurably, end_of(run)).unwrap_or(Abort::Closed)
}

/// Takes updates back from a worker that will not answer them.
pub fn take_back(draft: &mut Draft) {
    let sent: Vec<_> = draft.run.updates.waiting().iter().filter(|update| update.sent).cloned().collect();
    for update in sent {
        draft.step(UpdateMachine(&update.id), Event::Unsend, |draft| draft.run.updates.unsend(&update.id));
    }
}

/// Ends every update that waits, as the table says.
pub fn all(draft: &mut Draft, reason: Reason) {
    let waiting = draft.run.updates.waiting().to_vec();
    for update in waiting {
        let stage = match (&update.request, update.sent) {
            (None, _) => Stage::AdmittedDurably,
            (Some(_), false) => Stage::Admitted,
            (Some(_), true) => Stage::Sent,
        };
        match outcome(stage, reason) {
            Some(abort) => {
                draft.step(UpdateMachine(&update.id), Event::Abort, |draft| {
                    draft.run.updates.remove(&update.id);
                    draft.run.updates.end(update.id.clone(), UpdateEnd::Aborted(abort));
                });
            }
            None if update.sent && reason != Reason::WorkflowPaused => {
                draft.step(UpdateMachine(&update.id), Event::Unsend, |draft| draft.run.updates.unsend(&update.id));
            }
            None => {}
        }
    }
    if matches!(reason, Reason::WorkflowCompleted | Reason::WorkflowContinuing) {
        // Accepted ones have their failure now.
        draft.run.updates.changed();
    }
}
