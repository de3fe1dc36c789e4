//! Commands for workers, delivered by the queue that a worker polls for commands.
//!
//! Best effort, in memory, bounded: a command that no worker takes in time is dropped. Correctness does not depend on
//! it: the report of a worker about an attempt that is over is refused.

use std::{collections::VecDeque, sync::Mutex};

use segno_engine::{ActivityStop, Run};
use segno_environment::{hash::HashMap, lock::lock, metrics::add};
use segno_matching::{
    COMMAND_AGE_MAX, PRIORITY_DEFAULT, QueueKey, QueueKind, QueuePlace, TaskOffer, WorkerCommandTask,
};
use segno_proto::Nanos;
use segno_runs::{
    ports::owner::Place,
    tokens::{ActivityToken, Token},
};
use segno_store::{NamespaceKey, cluster::Shard};

use super::HomeOffer;
use super::Workers;

/// Commands that are kept for queues without polls.
const UNCLAIMED_MAX: usize = 1000;

/// Commands for queues without polls. A queue exists only where workers poll, so that these are kept apart, bounded over all of
/// them.
#[derive(Default)]
pub(crate) struct UnclaimedCommands {
    kept: Mutex<CommandsByQueue>,
}

#[derive(Default)]
struct CommandsByQueue {
    by_queue: HashMap<QueueKey, VecDeque<WorkerCommandTask>>,
    /// All of them in the order in which they were given, those that were claimed since included.
    order: VecDeque<(Nanos, QueueKey)>,
}

impl UnclaimedCommands {
    /// Keeps a command for a later poll. Returns how many are dropped for it: those that are too old, and the oldest if
    /// there are too many.
    fn keep(&self, queue: QueueKey, command: WorkerCommandTask, now: Nanos) -> usize {
        let mut kept = lock(&self.kept);
        let mut dropped = 0;
        while let Some((given, _)) = kept.order.front() {
            if kept.order.len() < UNCLAIMED_MAX && now - given <= COMMAND_AGE_MAX {
                break;
            }
            dropped += usize::from(kept.drop_oldest());
        }
        kept.order.push_back((command.given, queue.clone()));
        kept.by_queue.entry(queue).or_default().push_back(command);
        dropped
    }

    /// The commands for a queue that a worker polls now.
    fn claim(&self, queue: &QueueKey) -> VecDeque<WorkerCommandTask> {
        lock(&self.kept).by_queue.remove(queue).unwrap_or_default()
    }
}

impl CommandsByQueue {
    /// Forgets the oldest command. Returns whether it was still there.
    fn drop_oldest(&mut self) -> bool {
        let Some((given, queue)) = self.order.pop_front() else { return false };
        let Some(commands) = self.by_queue.get_mut(&queue) else { return false };
        let there = commands.front().is_some_and(|command| command.given == given);
        if there {
            commands.pop_front();
        }
        if commands.is_empty() {
            self.by_queue.remove(&queue);
        }
        there
    }
}

impl Workers {
    /// Tells the worker of an attempt to stop.
    pub fn send_stop(&self, run: &Run, stop: ActivityStop) {
        let namespace = NamespaceKey(run.info.namespace_key);
        let Some(found) = self.runs.namespaces.by_key(namespace) else { return };
        let token = ActivityToken {
            workflow_id: run.info.workflow_id.clone(),
            run_id: stop.run_id,
            scheduled_event_id: stop.scheduled_event_id,
            attempt: stop.attempt,
            started_time: stop.started_time,
            activity_id: stop.activity_id,
        };
        let now = self.runs.clock.now();
        let command = WorkerCommandTask { id: self.runs.ids.uuid(), stop: token.seal(&found.token_key), given: now };
        let queue = QueueKey { namespace, kind: QueueKind::WorkerCommand, name: stop.control_queue };
        if self.runs.home(queue.namespace, queue.client_name()) == Place::Here {
            self.offer_command_here(queue, command);
        } else {
            let shard = Shard::of(namespace, &run.info.workflow_id);
            let (task, place) = (TaskOffer::Command(Box::new(command)), QueuePlace::of(PRIORITY_DEFAULT));
            if let Some(other_nodes) = self.other_nodes() {
                other_nodes.offer_at_home(HomeOffer { queue, task, place, shard, fallback: None });
            }
        }
    }

    /// Offers a command on a queue whose home is here.
    pub fn offer_command_here(&self, queue: QueueKey, command: WorkerCommandTask) {
        if let Some(unclaimed) = self.matching.offer_command(&queue, command) {
            // Its worker may not have polled there yet.
            let dropped = self.unclaimed.keep(queue, unclaimed, self.runs.clock.now());
            add(&self.runs.metrics.commands_dropped, dropped as u64);
        }
    }

    /// A worker polls a queue for commands: those that were kept for it are offered.
    pub fn claim_commands(&self, queue: &QueueKey) {
        for command in self.unclaimed.claim(queue) {
            let task = TaskOffer::Command(Box::new(command));
            self.matching.offer(queue, task, QueuePlace::of(PRIORITY_DEFAULT));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn queue(name: &str) -> QueueKey {
        QueueKey { namespace: NamespaceKey(1), kind: QueueKind::WorkerCommand, name: name.to_owned() }
    }

    fn command(number: usize, given: Nanos) -> WorkerCommandTask {
        WorkerCommandTask { id: number.to_string(), stop: Bytes::new(), given }
    }

    fn ids(commands: VecDeque<WorkerCommandTask>) -> Vec<String> {
        commands.into_iter().map(|command| command.id).collect()
    }

    #[test]
    fn unclaimed_commands_wait_in_order_and_are_claimed_once() {
        let unclaimed = UnclaimedCommands::default();
        assert_eq!(unclaimed.keep(queue("a"), command(1, 1), 1), 0);
        assert_eq!(unclaimed.keep(queue("b"), command(2, 2), 2), 0);
        assert_eq!(unclaimed.keep(queue("a"), command(3, 3), 3), 0);
        assert_eq!(ids(unclaimed.claim(&queue("a"))), ["1", "3"]);
        assert_eq!(ids(unclaimed.claim(&queue("a"))), Vec::<String>::new());
        assert_eq!(ids(unclaimed.claim(&queue("b"))), ["2"]);
    }

    #[test]
    fn unclaimed_commands_are_bounded_by_age_and_number() {
        let unclaimed = UnclaimedCommands::default();
        unclaimed.keep(queue("old"), command(0, 0), 0);
        unclaimed.keep(queue("claimed"), command(1, 0), 0);
        unclaimed.claim(&queue("claimed"));
        let later = COMMAND_AGE_MAX + 1;
        assert_eq!(unclaimed.keep(queue("new"), command(2, later), later), 1, "one is too old, one was claimed");
        for number in 0..UNCLAIMED_MAX - 1 {
            assert_eq!(unclaimed.keep(queue("full"), command(number, later), later), 0);
        }
        assert_eq!(unclaimed.keep(queue("full"), command(0, later), later), 1);
        assert_eq!(ids(unclaimed.claim(&queue("new"))), Vec::<String>::new(), "the oldest made room");
        assert_eq!(unclaimed.claim(&queue("full")).len(), UNCLAIMED_MAX);
        assert!(lock(&unclaimed.kept).by_queue.is_empty());
    }
}
