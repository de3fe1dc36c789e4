//! Undelivered messages in memory: which one is attempted next.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use segno_environment::{
    hash::HashSet,
    lock::lock,
    namespace_queues::{NamespaceQueues, UnderWay},
};
use segno_store::{NamespaceKey, OutboxKey, OutboxRow};
use tokio::{sync::Notify, time::Instant};

/// Messages kept in memory for their first attempt. Those beyond are read from storage when there is room again.
pub(super) const WAITING_MAX: usize = 50_000;
/// So many of one namespace are kept even then: the messages of another one do not push them out.
const WAITING_OF_NAMESPACE_MIN: usize = 1000;
/// Messages kept in memory for another attempt. Those beyond are read from storage later: however many cannot be
/// delivered, there is room for the others.
const DELAYED_MAX: usize = 50_000;
/// When storage is read again for messages that were left to it after a failed attempt.
const READ_RETRY_DELAY: Duration = Duration::from_secs(30);
/// The first pause and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(5);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A message of a namespace that failed before.
struct DelayedMessage {
    namespace: NamespaceKey,
    row: OutboxRow,
    /// How long it waits after the next failure.
    pause: Duration,
}

/// Messages in memory.
#[derive(Default)]
pub(super) struct PendingMessages {
    ready: NamespaceQueues<OutboxRow>,
    /// Those that failed before and whose moment has come.
    due: NamespaceQueues<(OutboxRow, Duration)>,
    under_way: UnderWay,
    /// By the moment of their next attempt; the number tells apart those of the same moment.
    delayed: BTreeMap<(Instant, u64), DelayedMessage>,
    numbers: u64,
    /// Everything in memory, attempts under way included: nothing is attempted twice at the same time.
    known: HashSet<OutboxKey>,
    /// Storage has messages that memory does not.
    pub(super) overflowed: bool,
    /// Storage has messages that were attempted and left to it; when to read them.
    pub(super) left_until: Option<Instant>,
    /// Where the next read of storage goes on, so that messages which cannot be delivered do not keep others out.
    pub(super) cursor: Option<OutboxKey>,
    /// Whether the last attempt was one of those that had not failed before; the two kinds take turns.
    last_was_ready: bool,
}

impl PendingMessages {
    /// Messages that did not fail yet, attempts under way included.
    pub(super) fn fresh(&self) -> usize {
        self.known.len() - self.failed()
    }

    /// Messages that failed and wait.
    fn failed(&self) -> usize {
        self.delayed.len() + self.due.len()
    }

    fn next_due(&mut self, most: usize) -> Option<OutboxStep> {
        let (namespace, (row, pause)) = self.due.take(|namespace| self.under_way.of(namespace) < most)?;
        self.last_was_ready = false;
        self.under_way.begin(namespace);
        Some(OutboxStep::Attempt(namespace, row, pause))
    }

    fn next_ready(&mut self, most: usize) -> Option<OutboxStep> {
        let (namespace, row) = self.ready.take(|namespace| self.under_way.of(namespace) < most)?;
        self.last_was_ready = true;
        self.under_way.begin(namespace);
        Some(OutboxStep::Attempt(namespace, row, PAUSE_MIN))
    }
}

/// All messages of a node that have not arrived.
#[derive(Default)]
pub struct Outbox {
    pub(super) waiting: Mutex<PendingMessages>,
    pub(super) changed: Notify,
}

/// The next step of the loop.
pub(super) enum OutboxStep {
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

    /// Wakes the loop: the node stops, or an attempt ended.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Messages in memory.
    pub fn len(&self) -> usize {
        lock(&self.waiting).known.len()
    }

    /// `most` attempts of a namespace may be under way.
    pub(super) fn next(&self, most: usize, now: Instant) -> OutboxStep {
        let mut waiting = lock(&self.waiting);
        while let Some(entry) = waiting.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let DelayedMessage { namespace, row, pause } = entry.remove();
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
            return OutboxStep::Read;
        }
        let delayed = waiting.delayed.first_key_value().map(|((at, _), _)| *at);
        OutboxStep::Wait(delayed.into_iter().chain(waiting.left_until).min())
    }

    /// An attempt has ended.
    pub(super) fn end(&self, namespace: NamespaceKey) {
        lock(&self.waiting).under_way.end(namespace);
        self.changed.notify_one();
    }

    /// An attempt failed.
    pub(super) fn delay(&self, namespace: NamespaceKey, row: OutboxRow, pause: Duration) {
        let mut waiting = lock(&self.waiting);
        if waiting.failed() >= DELAYED_MAX {
            waiting.known.remove(&row.key);
            waiting.left_until.get_or_insert_with(|| Instant::now() + READ_RETRY_DELAY);
            return;
        }
        waiting.numbers += 1;
        let at = (Instant::now() + pause, waiting.numbers);
        waiting.delayed.insert(at, DelayedMessage { namespace, row, pause: (pause * 2).min(PAUSE_MAX) });
        drop(waiting);
        self.changed.notify_one();
    }

    /// A message has arrived.
    pub(super) fn forget(&self, key: OutboxKey) {
        let mut waiting = lock(&self.waiting);
        waiting.known.remove(&key);
        let room = waiting.overflowed && waiting.fresh() < WAITING_MAX / 2;
        drop(waiting);
        if room {
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use segno_store::RunKey;

    use super::{
        super::attempts::{ATTEMPTS_MAX, SHARE_MAX},
        *,
    };

    const A: NamespaceKey = NamespaceKey(1);

    fn row(sequence: u32) -> OutboxRow {
        OutboxRow { key: OutboxKey { sender: RunKey(1), sequence }, message: Default::default() }
    }

    fn attempted(outbox: &Outbox, now: Instant) -> Option<u32> {
        match outbox.next(ATTEMPTS_MAX, now) {
            OutboxStep::Attempt(namespace, row, _) => {
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
            OutboxStep::Attempt(namespace, row, _) => Some((namespace, row.key.sequence)),
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
        while let Some(sequence) = attempted(&outbox, now + READ_RETRY_DELAY + PAUSE_MAX) {
            outbox.forget(row(sequence).key);
        }
        assert!(matches!(outbox.next(ATTEMPTS_MAX, now + READ_RETRY_DELAY + PAUSE_MAX), OutboxStep::Read));
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
        assert!(matches!(outbox.next(ATTEMPTS_MAX, now), OutboxStep::Read));
    }
}
