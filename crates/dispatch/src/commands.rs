//! Polls for commands, which SDKs make as polls for Nexus tasks.

use std::{sync::Arc, time::Duration};

use segno_environment::metrics::count;
use segno_matching::{COMMAND_AGE_MAX, TaskOffer, WorkerCommandTask};
use segno_workers::CONTROL_QUEUES;
use tokio::time::Instant;

use super::{Dispatch, delivery::Delivery, polls::Poll};

/// A poll for commands is answered after this long at the latest. SDKs wait longer and longer before they repeat a poll
/// that was cut off, up to 12 s, and only an answer makes them quick again.
const COMMAND_WAIT_MAX: Duration = Duration::from_secs(10);

impl Dispatch {
    /// Waits for a command. On other queues of this kind nothing ever comes.
    pub async fn poll_command(self: &Arc<Self>, poll: &Poll) -> Option<(WorkerCommandTask, Delivery)> {
        let mut poll = poll.clone();
        if poll.queue.name.starts_with(CONTROL_QUEUES) {
            poll.deadline = poll.deadline.min(Instant::now() + COMMAND_WAIT_MAX);
            // This poll serves all workers of its process, and ends apart from them.
            poll.caller.worker.clone_from(&poll.queue.name);
        }
        self.workers.claim_commands(&poll.queue);
        loop {
            let (task, delivery) = self.wait_for_task(&poll).await?;
            if let TaskOffer::Command(command) = task
                && self.runs.clock.now() - command.given <= COMMAND_AGE_MAX
            {
                count(&self.runs.metrics.commands_sent);
                return Some((*command, delivery));
            }
            delivery.delivered();
            count(&self.runs.metrics.commands_dropped);
        }
    }
}
