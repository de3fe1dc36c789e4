//! Tasks whose ids the code chose: scheduled once, however often the code asks for them.

use super::{
    core::{Core, Poison},
    matching::Difference,
    operation::{OpId, OpKind, Outcome},
    sorted::Sorted,
    violation::ViolationKind,
};
use crate::failure::Failure;

/// A task that was scheduled with an id of the code's.
struct ChosenTask {
    op: OpId,
    kind: String,
    sequence: u64,
    /// Its place among the outcomes of the run, and the outcome.
    outcome: Option<(u64, Outcome)>,
}

/// The tasks of a run by the ids that the code chose for them. The ended ones stay: their ids are used, too.
#[derive(Default)]
pub(crate) struct ChosenTasks(Sorted<String, ChosenTask>);

impl ChosenTasks {
    pub fn contains(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// The task is about to be scheduled.
    pub fn add(&mut self, id: String, op: OpId, kind: String, sequence: u64) {
        self.0.insert(id, ChosenTask { op, kind, sequence, outcome: None });
    }
}

impl Core {
    /// An operation that waits for the task with its id. The code may ask for it under one kind only.
    pub fn join_task(&mut self, op: OpId, id: &str, kind: &str) {
        let Some(task) = self.chosen_tasks.0.get(id) else { return };
        if task.kind == kind {
            if let Some((at, outcome)) = task.outcome.clone() {
                self.resolve_at(op, at, outcome);
            }
            return;
        }
        let event_id = self.ops.get(&task.op).map_or(0, |first| first.event_id);
        let expected = match event_id {
            0 => format!("{:?} with the id {id:?}", task.kind),
            _ => format!("scheduled {:?} with the id {id:?}", task.kind),
        };
        let actual = format!("{kind:?} with the same id");
        let sequence = task.sequence + 1;
        let (kind, place) = (ViolationKind::TaskTypeMismatch, self.last_call);
        let difference = Difference { kind, event_id, sequence, expected, actual, place };
        self.poison.get_or_insert(Poison::Violation(Box::new(difference)));
    }

    /// The operation of a task has an outcome: what joined it gets it, too.
    pub fn end_chosen_task(&mut self, op: OpId, id: &str, at: u64, outcome: &Outcome) {
        match self.chosen_tasks.0.get_mut(id) {
            Some(task) if task.op == op && task.outcome.is_none() => task.outcome = Some((at, outcome.clone())),
            _ => return,
        }
        let joined: Vec<OpId> = self
            .ops
            .iter()
            .filter(|(_, op)| matches!(&op.kind, OpKind::SameTask { id: there } if there == id))
            .map(|(op, _)| *op)
            .collect();
        for op in joined {
            self.resolve_at(op, at, outcome.clone());
        }
    }

    /// The future of a task was dropped, which cancels the task also for those that joined it.
    pub fn drop_chosen_task(&mut self, op: OpId, id: &str) {
        if self.chosen_tasks.contains(id) {
            let at = self.next_resolution();
            self.end_chosen_task(op, id, at, &Err(Failure::cancelled()));
        }
    }

    /// The command of a task is not sent: its id is free again.
    pub fn withdraw_chosen_task(&mut self, op: OpId, id: &str) {
        self.drop_chosen_task(op, id);
        if self.chosen_tasks.0.get(id).is_some_and(|task| task.op == op) {
            self.chosen_tasks.0.remove(id);
        }
    }
}
