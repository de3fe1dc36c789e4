//! Attempts to deliver messages, and messages that wait for their first one.

use std::{sync::Arc, time::Duration};

use prost::Message;
use segno_engine::outbox::OutboxMessage;
use segno_environment::{lock::lock, metrics::count};
use segno_store::{Commit, NamespaceKey, OutboxRow, sabotage};
use tokio::{sync::Semaphore, time::Instant};

use super::deliver::DeliveryStep;
use super::queue::{OutboxStep, PAUSE_MAX, WAITING_MAX};
use crate::{
    error::CallError,
    ports::{DueCallback, owner::Place},
    runs::Runs,
};

/// Attempts of delivery at the same time.
pub(super) const ATTEMPTS_MAX: usize = 64;
/// Of one namespace while others are at work.
pub(super) const SHARE_MAX: usize = 4;
/// Rows read at a time.
const PAGE: usize = 4096;
/// The first pause of a start for which its namespace has no room.
const START_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Delivers messages until the node stops.
pub async fn run(runs: Arc<Runs>) {
    let permits = Arc::new(Semaphore::new(ATTEMPTS_MAX));
    while !runs.is_stopping() {
        // Taken before the look, so that nothing that changes after it is missed.
        let changed = runs.outbox.changed.notified();
        let most = if runs.committer.is_shared() { SHARE_MAX } else { ATTEMPTS_MAX };
        match runs.outbox.next(most, Instant::now()) {
            OutboxStep::Attempt(namespace, row, pause) => {
                let attempt = Attempt { runs: runs.clone(), namespace, row: Some(row), pause };
                let Ok(permit) = permits.clone().acquire_owned().await else { return };
                tokio::spawn(async move {
                    attempt.carry_out().await;
                    drop(permit);
                });
            }
            OutboxStep::Read => {
                if let Err(error) = runs.send_stored().await {
                    tracing::warn!(%error, "messages could not be read; trying again");
                    tokio::time::sleep(PAUSE_MAX / 10).await;
                }
            }
            OutboxStep::Wait(None) => changed.await,
            OutboxStep::Wait(Some(at)) => {
                let _ = tokio::time::timeout_at(at, changed).await;
            }
        }
    }
}

/// One attempt to deliver a message. However it ends, the message has arrived or waits for the next one.
struct Attempt {
    runs: Arc<Runs>,
    /// The namespace of the sender.
    namespace: NamespaceKey,
    /// `None` once it has arrived, or never will.
    row: Option<OutboxRow>,
    /// How long the message waits if this attempt fails.
    pause: Duration,
}

impl Attempt {
    async fn carry_out(mut self) {
        let Some(row) = &self.row else { return };
        let (key, sender) = (row.key, row.key.sender.0);
        let Ok(message) = OutboxMessage::decode(row.message.clone()) else {
            tracing::error!(sender, sequence = key.sequence, "a stored message cannot be read; it stays where it is");
            self.row = None;
            return;
        };
        let sender_key = self.runs.key_of(&message.sender_namespace, &message.sender.workflow_id).map(|(_, key)| key);
        let is_here = |runs: &Runs| sender_key.as_ref().is_none_or(|sender| runs.place(sender) == Place::Here);
        if !is_here(&self.runs) {
            // Its new owner has it.
            self.runs.outbox.forget(key);
            self.row = None;
            return;
        }
        if sabotage::is_on("drop-on-send") {
            let _ = self.runs.committer.commit(Commit { outbox_remove: vec![key], ..Default::default() }).await;
            let _ = self.runs.deliver(&message, key).await;
            self.runs.outbox.forget(key);
            self.row = None;
            return;
        }
        let normal = std::mem::replace(&mut self.pause, PAUSE_MAX);
        match self.runs.deliver(&message, key).await {
            Ok(DeliveryStep::HandOver { index, url }) => {
                self.pause = normal;
                let Some(sender) = self.runs.http_sender.get() else { return };
                let Some(row) = self.row.take() else { return };
                sender.send_callback(DueCallback { namespace: self.namespace, row, message, index, url });
            }
            Ok(DeliveryStep::Later(pause)) => self.pause = pause,
            Ok(DeliveryStep::Delivered) => {
                count(&self.runs.metrics.messages_delivered);
                self.runs.outbox.forget(key);
                if let Some(clock) = self.runs.clock.skipping() {
                    clock.changed.notify_one();
                }
                self.row = None;
            }
            // Between runs order matters now and then: a child's end waits for the report of its start.
            Err(error @ CallError::NotReady(_)) => {
                tracing::debug!(sender, %error, "a message waits for another");
                self.pause = normal;
            }
            Err(CallError::StartRefused(refusal)) => {
                if self.runs.start_limits.is_to_be_logged(self.namespace, Instant::now()) {
                    tracing::warn!(sender, %refusal, "workflows that runs or schedules start have to wait");
                }
                self.pause = normal.max(refusal.after).max(START_PAUSE_MIN);
            }
            // It came back meanwhile.
            Err(CallError::Moved) if is_here(&self.runs) => self.pause = normal,
            // Its new owner has it now.
            Err(CallError::Moved) => {
                self.runs.outbox.forget(key);
                self.row = None;
            }
            Err(error @ CallError::DataLoss(_)) => {
                tracing::error!(sender, %error, "a message cannot be delivered: its receiver is damaged; delete it");
            }
            Err(_) if sabotage::is_on("one-attempt") => {
                self.runs.outbox.forget(key);
                self.row = None;
            }
            Err(error) => {
                tracing::warn!(sender, %error, "a message was not delivered and is tried again");
                self.pause = normal;
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(row) = self.row.take() {
            self.runs.outbox.delay(self.namespace, row, self.pause);
        }
        self.runs.outbox.end(self.namespace);
    }
}

impl Runs {
    /// Sends a message that is stored. Its sender is known from what is in it.
    pub fn send_message(&self, row: OutboxRow) {
        let message = OutboxMessage::decode(row.message.clone());
        let namespace = message.ok().and_then(|message| self.namespaces.get(&message.sender_namespace));
        // What cannot be read fails in its attempt.
        self.outbox.send(namespace.map_or(NamespaceKey(0), |namespace| namespace.key), row);
    }

    /// Reads messages from storage that memory does not have, as far as there is room.
    pub(crate) async fn send_stored(&self) -> Result<usize, CallError> {
        let began = {
            let mut waiting = lock(&self.outbox.waiting);
            waiting.overflowed = false;
            waiting.left_until = None;
            waiting.cursor.take()
        };
        let mut after = began;
        let mut messages = 0_usize;
        loop {
            let page = self.own_outbox(after, PAGE).await;
            let page = page.inspect_err(|_| lock(&self.outbox.waiting).overflowed = true)?;
            let Some(last) = page.last() else {
                if began.is_some() {
                    // What comes before the cursor is read next.
                    lock(&self.outbox.waiting).overflowed = true;
                }
                return Ok(messages);
            };
            after = Some(last.key);
            messages += page.len();
            for row in page {
                self.send_message(row);
            }
            let mut waiting = lock(&self.outbox.waiting);
            if waiting.fresh() >= WAITING_MAX {
                waiting.overflowed = true;
                waiting.cursor = after;
                return Ok(messages);
            }
        }
    }
}
