//! Commands for workers: what the server tells them by the queue on which they take commands.
//!
//! Best effort, in memory, bounded: a command that nobody takes in time is dropped. Nothing depends on it, because
//! whoever works on something that is over is refused when it reports.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use segno_engine::{ActivityStop, Effect, Run};
use segno_proto::Nanos;
use segno_store::NamespaceKey;
use tokio::time::Instant;

use crate::{
    metrics::count,
    node::Node,
    polls::{Poll, PollResult},
    queues::{QueueKey, QueueKind, TaskOffer},
    tokens::{ActivityToken, Token},
    workers::CONTROL_QUEUES,
};

/// Commands that wait on one queue.
pub const COMMANDS_MAX: usize = 1000;
/// A command that waited this long is not worth taking. Long enough for a worker that was cut off and taken for lost to
/// come back and hear that it must stop.
pub const COMMAND_AGE_MAX: Nanos = 120 * 1_000_000_000;
/// A poll for commands is answered after this long at the latest. SDKs wait longer and longer before they repeat a poll
/// that was cut off, up to 12 s, and only an answer makes them quick again.
pub const COMMAND_WAIT_MAX: Duration = Duration::from_secs(10);

/// A command for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCommandTask {
    /// Recognises it.
    pub id: String,
    /// The token of the attempt that is to stop.
    pub stop: Bytes,
    /// When it was given.
    pub given: Nanos,
}

impl Node {
    /// Tells the worker of an attempt to stop.
    pub(crate) fn send_stop(&self, run: &Run, stop: ActivityStop) {
        let namespace = NamespaceKey(run.info.namespace_key);
        let Some(found) = self.namespaces.by_key(namespace) else { return };
        let token = ActivityToken {
            workflow_id: run.info.workflow_id.clone(),
            run_id: stop.run_id,
            scheduled_event_id: stop.scheduled_event_id,
            attempt: stop.attempt,
            started_time: stop.started_time,
            activity_id: stop.activity_id,
        };
        let now = self.clock.now();
        let command = WorkerCommandTask { id: self.ids.uuid(), stop: token.seal(&found.token_key), given: now };
        let queue = QueueKey { namespace, kind: QueueKind::Nexus, name: stop.control_queue };
        if !self.queues.offer_command(&queue, command, now) {
            count(&self.metrics.commands_dropped);
        }
    }

    /// Sends what a run that ended has to say to workers.
    pub(crate) fn send_commands(&self, run: &Run, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::StopActivity(stop) = effect {
                self.send_stop(run, *stop);
            }
        }
    }

    /// Waits for a command. On other queues of this kind nothing ever comes.
    pub async fn poll_command(self: &Arc<Self>, poll: &Poll) -> Option<WorkerCommandTask> {
        let mut poll = poll.clone();
        if poll.queue.name.starts_with(CONTROL_QUEUES) {
            poll.deadline = poll.deadline.min(Instant::now() + COMMAND_WAIT_MAX);
        }
        loop {
            match self.wait_for_task(&poll).await {
                PollResult::Empty => return None,
                PollResult::Task(TaskOffer::Command(command))
                    if self.clock.now() - command.given <= COMMAND_AGE_MAX =>
                {
                    count(&self.metrics.commands_sent);
                    return Some(*command);
                }
                PollResult::Task(_) => count(&self.metrics.commands_dropped),
            }
        }
    }
}
