//! Messages between runs on their way: at least once, recognised by the receiver, tried again until they arrive.
//!
//! Every message is a row in storage until it has arrived, so memory may forget it and read it again. What waits here is
//! bounded. A message that cannot be delivered yet waits for its next attempt and takes nothing from the others: only an
//! attempt counts towards [`ATTEMPTS_MAX`]. [`deliver`] says what each kind of message does.

mod deliver;
mod scheduled;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use prost::Message;
use segno_engine::outbox::OutboxMessage;
use segno_store::{Commit, OutboxKey, OutboxRow};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

pub(crate) use deliver::Arrived;

use crate::{cluster::Place, error::CallError, metrics::count, node::Node, sabotage, slots::lock};

/// Attempts of delivery at the same time.
const ATTEMPTS_MAX: usize = 64;
/// Messages kept in memory for their first attempt. Those beyond are read from storage when there is room again.
const WAITING_MAX: usize = 50_000;
/// Messages kept in memory for another attempt. Those beyond are read from storage later: however many cannot be
/// delivered, there is room for the others.
const DELAYED_MAX: usize = 50_000;
/// When storage is read again for messages that were left to it after a failed attempt.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// Rows read at a time.
const PAGE: usize = 4096;
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A message that failed before.
struct Delayed {
    row: OutboxRow,
    /// How long it waits after the next failure.
    pause: Duration,
}

#[derive(Default)]
struct Waiting {
    ready: VecDeque<OutboxRow>,
    /// By the moment of their next attempt; the number tells apart those of the same moment.
    delayed: BTreeMap<(Instant, u64), Delayed>,
    numbers: u64,
    /// Everything in memory, attempts under way included: nothing is attempted twice at the same time.
    known: HashSet<OutboxKey>,
    /// Storage has messages that memory does not.
    overflowed: bool,
    /// Storage has messages that were attempted and left to it; when to read them.
    left_until: Option<Instant>,
    /// Where the next read of storage goes on, so that messages which cannot be delivered do not keep others out.
    cursor: Option<OutboxKey>,
    /// Whether the last attempt was one of those that had not failed before; the two kinds take turns.
    last_was_ready: bool,
}

impl Waiting {
    /// Messages that did not fail yet, attempts under way included.
    fn fresh(&self) -> usize {
        self.known.len() - self.delayed.len()
    }

    fn next_delayed(&mut self, now: Instant) -> Option<Next> {
        let entry = self.delayed.first_entry().filter(|entry| entry.key().0 <= now)?;
        let Delayed { row, pause } = entry.remove();
        self.last_was_ready = false;
        Some(Next::Attempt(row, pause))
    }

    fn next_ready(&mut self) -> Option<Next> {
        let row = self.ready.pop_front()?;
        self.last_was_ready = true;
        Some(Next::Attempt(row, PAUSE_MIN))
    }
}

/// All messages of a node that have not arrived.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// What the loop does next.
enum Next {
    Attempt(OutboxRow, Duration),
    /// Storage has more, and there is room.
    Read,
    Wait(Option<Instant>),
}

impl Outbox {
    /// Takes a message that is stored.
    pub fn send(&self, row: OutboxRow) {
        let mut waiting = lock(&self.waiting);
        if waiting.fresh() >= WAITING_MAX {
            waiting.overflowed = true;
        } else if waiting.known.insert(row.key) {
            waiting.ready.push_back(row);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Tells the loop to look again: the node stops, or an attempt ended.
    pub fn look(&self) {
        self.changed.notify_one();
    }

    /// Messages in memory.
    pub fn len(&self) -> usize {
        lock(&self.waiting).known.len()
    }

    fn next(&self, now: Instant) -> Next {
        let mut waiting = lock(&self.waiting);
        let next = match waiting.last_was_ready {
            true => waiting.next_delayed(now).or_else(|| waiting.next_ready()),
            false => waiting.next_ready().or_else(|| waiting.next_delayed(now)),
        };
        if let Some(next) = next {
            return next;
        }
        let left = waiting.left_until.is_some_and(|at| at <= now);
        if (waiting.overflowed || left) && waiting.fresh() < WAITING_MAX / 2 {
            return Next::Read;
        }
        let delayed = waiting.delayed.first_key_value().map(|((at, _), _)| *at);
        Next::Wait(delayed.into_iter().chain(waiting.left_until).min())
    }

    /// An attempt failed.
    fn delay(&self, row: OutboxRow, pause: Duration) {
        let mut waiting = lock(&self.waiting);
        if waiting.delayed.len() >= DELAYED_MAX {
            waiting.known.remove(&row.key);
            waiting.left_until.get_or_insert_with(|| Instant::now() + READ_AGAIN);
            return;
        }
        waiting.numbers += 1;
        let at = (Instant::now() + pause, waiting.numbers);
        waiting.delayed.insert(at, Delayed { row, pause: (pause * 2).min(PAUSE_MAX) });
        drop(waiting);
        self.changed.notify_one();
    }

    /// A message has arrived.
    fn forget(&self, key: OutboxKey) {
        let mut waiting = lock(&self.waiting);
        waiting.known.remove(&key);
        let room = waiting.overflowed && waiting.fresh() < WAITING_MAX / 2;
        drop(waiting);
        if room {
            self.changed.notify_one();
        }
    }
}

/// Delivers messages until the node stops.
pub(crate) async fn run(node: Arc<Node>) {
    let permits = Arc::new(Semaphore::new(ATTEMPTS_MAX));
    while !node.is_stopping() {
        // Taken before the look, so that nothing that changes after it is missed.
        let changed = node.outbox.changed.notified();
        match node.outbox.next(Instant::now()) {
            Next::Attempt(row, pause) => {
                let Ok(permit) = permits.clone().acquire_owned().await else { return };
                let attempt = Attempt { node: node.clone(), row: Some(row), pause };
                tokio::spawn(async move {
                    attempt.carry_out().await;
                    drop(permit);
                });
            }
            Next::Read => {
                if let Err(error) = node.send_stored().await {
                    tracing::warn!(%error, "messages could not be read; trying again");
                    tokio::time::sleep(PAUSE_MAX / 10).await;
                }
            }
            Next::Wait(None) => changed.await,
            Next::Wait(Some(at)) => {
                let _ = tokio::time::timeout_at(at, changed).await;
            }
        }
    }
}

/// One attempt to deliver a message. However it ends, the message has arrived or waits for the next one.
struct Attempt {
    node: Arc<Node>,
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
        let sender_key = self.node.key_of(&message.sender_namespace, &message.sender.workflow_id).map(|(_, key)| key);
        let is_here = |node: &Node| sender_key.as_ref().is_none_or(|sender| node.place(sender) == Place::Here);
        if !is_here(&self.node) {
            // Its new owner has it.
            self.node.outbox.forget(key);
            self.row = None;
            return;
        }
        if sabotage::is_on("drop-on-send") {
            let _ = self.node.committer.commit(Commit { outbox_remove: vec![key], ..Default::default() }).await;
            let _ = self.node.deliver(&message, key).await;
            self.node.outbox.forget(key);
            self.row = None;
            return;
        }
        let normal = std::mem::replace(&mut self.pause, PAUSE_MAX);
        match self.node.deliver(&message, key).await {
            Ok(()) => {
                count(&self.node.metrics.messages_delivered);
                self.node.outbox.forget(key);
                if let Some(clock) = self.node.clock.skipping() {
                    clock.changed.notify_one();
                }
                self.row = None;
            }
            // Between runs order matters now and then: a child's end waits for the report of its start.
            Err(error @ CallError::NotReady(_)) => {
                tracing::debug!(sender, %error, "a message waits for another");
                self.pause = normal;
            }
            // It came back meanwhile.
            Err(CallError::Moved) if is_here(&self.node) => self.pause = normal,
            // Its new owner has it now.
            Err(CallError::Moved) => {
                self.node.outbox.forget(key);
                self.row = None;
            }
            Err(error @ CallError::DataLoss(_)) => {
                tracing::error!(sender, %error, "a message cannot be delivered: its receiver is damaged; delete it");
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
            self.node.outbox.delay(row, self.pause);
        }
    }
}

impl Node {
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
                self.outbox.send(row);
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

#[cfg(test)]
mod tests {
    use segno_store::RunKey;

    use super::*;

    fn row(sequence: u32) -> OutboxRow {
        OutboxRow { key: OutboxKey { sender: RunKey(1), sequence }, message: Default::default() }
    }

    fn attempted(outbox: &Outbox, now: Instant) -> Option<u32> {
        match outbox.next(now) {
            Next::Attempt(row, _) => Some(row.key.sequence),
            _ => None,
        }
    }

    #[test]
    fn a_delayed_message_lets_the_others_through() {
        let outbox = Outbox::default();
        let now = Instant::now();
        for sequence in 0..100 {
            outbox.send(row(sequence));
            assert_eq!(attempted(&outbox, now), Some(sequence));
            outbox.delay(row(sequence), PAUSE_MAX);
        }
        outbox.send(row(1000));
        assert_eq!(attempted(&outbox, now), Some(1000));
        assert_eq!(attempted(&outbox, now), None);
        assert_eq!(attempted(&outbox, now + 2 * PAUSE_MAX), Some(0));
    }

    #[test]
    fn a_message_is_known_once_and_until_it_arrived() {
        let outbox = Outbox::default();
        outbox.send(row(1));
        outbox.send(row(1));
        let now = Instant::now();
        assert_eq!(attempted(&outbox, now), Some(1));
        outbox.send(row(1));
        assert_eq!(attempted(&outbox, now), None, "its attempt is under way");
        outbox.forget(row(1).key);
        outbox.send(row(1));
        assert_eq!(attempted(&outbox, now), Some(1));
    }

    #[test]
    fn however_many_cannot_be_delivered_there_is_room_for_others() {
        let outbox = Outbox::default();
        let now = Instant::now();
        for sequence in 0..(DELAYED_MAX + 10) as u32 {
            outbox.send(row(sequence));
            assert_eq!(attempted(&outbox, now), Some(sequence));
            outbox.delay(row(sequence), PAUSE_MAX);
        }
        assert_eq!(outbox.len(), DELAYED_MAX);
        outbox.send(row(1_000_000));
        assert_eq!(attempted(&outbox, now), Some(1_000_000));
        outbox.forget(row(1_000_000).key);
        // Those that were left to storage are read again later.
        while let Some(sequence) = attempted(&outbox, now + READ_AGAIN + PAUSE_MAX) {
            outbox.forget(row(sequence).key);
        }
        assert!(matches!(outbox.next(now + READ_AGAIN + PAUSE_MAX), Next::Read));
    }

    #[test]
    fn too_many_messages_are_left_to_storage() {
        let outbox = Outbox::default();
        for sequence in 0..WAITING_MAX as u32 + 10 {
            outbox.send(row(sequence));
        }
        assert_eq!(outbox.len(), WAITING_MAX);
        let now = Instant::now();
        for _ in 0..WAITING_MAX {
            let sequence = attempted(&outbox, now).expect("they are ready");
            outbox.forget(row(sequence).key);
        }
        assert!(matches!(outbox.next(now), Next::Read));
    }
}
