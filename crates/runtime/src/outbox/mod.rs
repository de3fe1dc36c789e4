//! Messages between runs on their way: at least once, recognised by the receiver, tried again until they arrive.
//!
//! Every message is a row in storage until it has arrived, so memory may forget it and read it again. What waits here is
//! bounded. A message that cannot be delivered yet waits for its next attempt and takes nothing from the others: only an
//! attempt counts towards [`ATTEMPTS_MAX`]. Namespaces of senders take turns, and while several namespaces are at work each has
//! [a few](SHARE_MAX) attempts at a time: a run that starts thousands of others does not hold up their messages or their calls.
//! [`deliver`] says what each kind of message does.

mod deliver;
mod scheduled;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use prost::Message;
use segno_engine::outbox::OutboxMessage;
use segno_store::{Commit, NamespaceKey, OutboxKey, OutboxRow};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

pub(crate) use deliver::Arrived;

use crate::{
    error::CallError,
    lanes::{Lanes, UnderWay},
    metrics::count,
    ports::owner::Place,
    runs::Runs,
    sabotage,
    slots::lock,
};

/// Attempts of delivery at the same time.
const ATTEMPTS_MAX: usize = 64;
/// Of one namespace while others are at work.
const SHARE_MAX: usize = 4;
/// Messages kept in memory for their first attempt. Those beyond are read from storage when there is room again.
const WAITING_MAX: usize = 50_000;
/// So many of one namespace are kept even then: the messages of another one do not push them out.
const WAITING_OF_NAMESPACE_MIN: usize = 1000;
/// Messages kept in memory for another attempt. Those beyond are read from storage later: however many cannot be
/// delivered, there is room for the others.
const DELAYED_MAX: usize = 50_000;
/// When storage is read again for messages that were left to it after a failed attempt.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// Rows read at a time.
const PAGE: usize = 4096;
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The first pause of a start for which its namespace has no room.
const START_PAUSE_MIN: Duration = Duration::from_millis(100);

/// A message of a namespace that failed before.
struct Delayed {
    namespace: NamespaceKey,
    row: OutboxRow,
    /// How long it waits after the next failure.
    pause: Duration,
}

#[derive(Default)]
struct Waiting {
    ready: Lanes<OutboxRow>,
    /// Those that failed before and whose moment has come.
    due: Lanes<(OutboxRow, Duration)>,
    under_way: UnderWay,
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
        self.known.len() - self.failed()
    }

    /// Messages that failed and wait.
    fn failed(&self) -> usize {
        self.delayed.len() + self.due.len()
    }

    fn next_due(&mut self, most: usize) -> Option<Next> {
        let (namespace, (row, pause)) = self.due.take(|namespace| self.under_way.of(namespace) < most)?;
        self.last_was_ready = false;
        self.under_way.begin(namespace);
        Some(Next::Attempt(namespace, row, pause))
    }

    fn next_ready(&mut self, most: usize) -> Option<Next> {
        let (namespace, row) = self.ready.take(|namespace| self.under_way.of(namespace) < most)?;
        self.last_was_ready = true;
        self.under_way.begin(namespace);
        Some(Next::Attempt(namespace, row, PAUSE_MIN))
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
    Attempt(NamespaceKey, OutboxRow, Duration),
    /// Storage has more, and there is room.
    Read,
    Wait(Option<Instant>),
}

impl Outbox {
    /// Takes a message that is stored, of a sender in this namespace.
    pub fn send(&self, namespace: NamespaceKey, row: OutboxRow) {
        let mut waiting = lock(&self.waiting);
        if waiting.fresh() >= WAITING_MAX && waiting.ready.of(namespace) >= WAITING_OF_NAMESPACE_MIN {
            waiting.overflowed = true;
        } else if waiting.known.insert(row.key) {
            waiting.ready.push(namespace, row);
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

    /// `most` attempts of a namespace may be under way.
    fn next(&self, most: usize, now: Instant) -> Next {
        let mut waiting = lock(&self.waiting);
        while let Some(entry) = waiting.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let Delayed { namespace, row, pause } = entry.remove();
            waiting.due.push(namespace, (row, pause));
        }
        let next = match waiting.last_was_ready {
            true => waiting.next_due(most).or_else(|| waiting.next_ready(most)),
            false => waiting.next_ready(most).or_else(|| waiting.next_due(most)),
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

    /// An attempt has ended.
    fn end(&self, namespace: NamespaceKey) {
        lock(&self.waiting).under_way.end(namespace);
        self.changed.notify_one();
    }

    /// An attempt failed.
    fn delay(&self, namespace: NamespaceKey, row: OutboxRow, pause: Duration) {
        let mut waiting = lock(&self.waiting);
        if waiting.failed() >= DELAYED_MAX {
            waiting.known.remove(&row.key);
            waiting.left_until.get_or_insert_with(|| Instant::now() + READ_AGAIN);
            return;
        }
        waiting.numbers += 1;
        let at = (Instant::now() + pause, waiting.numbers);
        waiting.delayed.insert(at, Delayed { namespace, row, pause: (pause * 2).min(PAUSE_MAX) });
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
pub(crate) async fn run(node: Arc<Runs>) {
    let permits = Arc::new(Semaphore::new(ATTEMPTS_MAX));
    while !node.is_stopping() {
        // Taken before the look, so that nothing that changes after it is missed.
        let changed = node.outbox.changed.notified();
        let most = if node.committer.is_shared() { SHARE_MAX } else { ATTEMPTS_MAX };
        match node.outbox.next(most, Instant::now()) {
            Next::Attempt(namespace, row, pause) => {
                let attempt = Attempt { node: node.clone(), namespace, row: Some(row), pause };
                let Ok(permit) = permits.clone().acquire_owned().await else { return };
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
    node: Arc<Runs>,
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
        let sender_key = self.node.key_of(&message.sender_namespace, &message.sender.workflow_id).map(|(_, key)| key);
        let is_here = |node: &Runs| sender_key.as_ref().is_none_or(|sender| node.place(sender) == Place::Here);
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
            Err(CallError::StartRefused(refusal)) => {
                if self.node.start_limits.is_to_be_logged(self.namespace, std::time::Instant::now()) {
                    tracing::warn!(sender, %refusal, "workflows that runs or schedules start have to wait");
                }
                self.pause = normal.max(refusal.after).max(START_PAUSE_MIN);
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
            self.node.outbox.delay(self.namespace, row, self.pause);
        }
        self.node.outbox.end(self.namespace);
    }
}

impl Runs {
    /// Sends a message that is stored. Its sender is known from what is in it.
    pub(crate) fn send_message(&self, row: OutboxRow) {
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

#[cfg(test)]
mod tests {
    use segno_store::RunKey;

    use super::*;

    const A: NamespaceKey = NamespaceKey(1);

    fn row(sequence: u32) -> OutboxRow {
        OutboxRow { key: OutboxKey { sender: RunKey(1), sequence }, message: Default::default() }
    }

    fn attempted(outbox: &Outbox, now: Instant) -> Option<u32> {
        match outbox.next(ATTEMPTS_MAX, now) {
            Next::Attempt(namespace, row, _) => {
                outbox.end(namespace);
                Some(row.key.sequence)
            }
            _ => None,
        }
    }

    #[test]
    fn namespaces_take_turns_and_have_a_share() {
        let (outbox, now) = (Outbox::default(), Instant::now());
        let b = NamespaceKey(2);
        for sequence in 0..1000 {
            outbox.send(A, row(sequence));
        }
        let next = |outbox: &Outbox| match outbox.next(SHARE_MAX, now) {
            Next::Attempt(namespace, row, _) => Some((namespace, row.key.sequence)),
            _ => None,
        };
        for sequence in 0..SHARE_MAX as u32 {
            assert_eq!(next(&outbox), Some((A, sequence)));
        }
        assert_eq!(next(&outbox), None);
        outbox.send(b, row(5000));
        assert_eq!(next(&outbox), Some((b, 5000)));
        outbox.delay(A, row(0), Duration::ZERO);
        outbox.end(A);
        assert!(next(&outbox).is_some_and(|(namespace, _)| namespace == A));
        assert_eq!(next(&outbox), None, "a failed message counts in the share, too");
    }

    #[test]
    fn a_delayed_message_lets_the_others_through() {
        let outbox = Outbox::default();
        let now = Instant::now();
        for sequence in 0..100 {
            outbox.send(A, row(sequence));
            assert_eq!(attempted(&outbox, now), Some(sequence));
            outbox.delay(A, row(sequence), PAUSE_MAX);
        }
        outbox.send(A, row(1000));
        assert_eq!(attempted(&outbox, now), Some(1000));
        assert_eq!(attempted(&outbox, now), None);
        assert_eq!(attempted(&outbox, now + 2 * PAUSE_MAX), Some(0));
    }

    #[test]
    fn a_message_is_known_once_and_until_it_arrived() {
        let outbox = Outbox::default();
        outbox.send(A, row(1));
        outbox.send(A, row(1));
        let now = Instant::now();
        assert_eq!(attempted(&outbox, now), Some(1));
        outbox.send(A, row(1));
        assert_eq!(attempted(&outbox, now), None, "its attempt is under way");
        outbox.forget(row(1).key);
        outbox.send(A, row(1));
        assert_eq!(attempted(&outbox, now), Some(1));
    }

    #[test]
    fn however_many_cannot_be_delivered_there_is_room_for_others() {
        let outbox = Outbox::default();
        let now = Instant::now();
        for sequence in 0..(DELAYED_MAX + 10) as u32 {
            outbox.send(A, row(sequence));
            assert_eq!(attempted(&outbox, now), Some(sequence));
            outbox.delay(A, row(sequence), PAUSE_MAX);
        }
        assert_eq!(outbox.len(), DELAYED_MAX);
        outbox.send(A, row(1_000_000));
        assert_eq!(attempted(&outbox, now), Some(1_000_000));
        outbox.forget(row(1_000_000).key);
        // Those that were left to storage are read again later.
        while let Some(sequence) = attempted(&outbox, now + READ_AGAIN + PAUSE_MAX) {
            outbox.forget(row(sequence).key);
        }
        assert!(matches!(outbox.next(ATTEMPTS_MAX, now + READ_AGAIN + PAUSE_MAX), Next::Read));
    }

    #[test]
    fn too_many_messages_are_left_to_storage() {
        let outbox = Outbox::default();
        for sequence in 0..WAITING_MAX as u32 + 10 {
            outbox.send(A, row(sequence));
        }
        assert_eq!(outbox.len(), WAITING_MAX);
        let now = Instant::now();
        outbox.send(NamespaceKey(2), row(1_000_000));
        assert_eq!(outbox.len(), WAITING_MAX + 1, "another namespace is not pushed out");
        assert_eq!((attempted(&outbox, now), attempted(&outbox, now)), (Some(0), Some(1_000_000)));
        outbox.forget(row(0).key);
        outbox.forget(row(1_000_000).key);
        for _ in 1..WAITING_MAX {
            let sequence = attempted(&outbox, now).expect("they are ready");
            outbox.forget(row(sequence).key);
        }
        assert!(matches!(outbox.next(ATTEMPTS_MAX, now), Next::Read));
    }
}
