//! Fair share of the server among namespaces when more calls arrive than can be handled at once: round robin.
//!
//! A call has a slot from its arrival until it is answered, or until it begins a long wait: for a task, an event, a
//! worker. When no slot is free, further calls wait in a queue of their namespace, and each call that returns its slot
//! starts the first call of the next queue. So the queues of the async runtime and of the commits stay short, and a
//! namespace with thousands of calls delays the call of another one by a few milliseconds, not by all of them. Calls of
//! workers have a queue of their own, so that they do not wait behind starts, which make work for them.
//!
//! A slot expires: when none is free, a call that began two [steps](STEP) ago is no longer counted. A slow disk or
//! another node that does not answer delays other calls for no longer than that.
//!
//! The number of waiting calls is limited by the streams and the bytes of their connections. A caller that cancels its
//! call leaves the queue.

use std::{
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use segno_node::FairQueues;
use tokio::{sync::oneshot, time::Instant};

use crate::{calls::Method, request_fields};
use segno_store::lock::lock;

/// Calls that may hold a slot: some milliseconds of work, and two groups of commits.
const SLOTS_MAX: u32 = 128;
/// The same where commits go to another machine, in larger groups.
const SLOTS_REMOTE_MAX: u32 = 512;
/// Unit of the time since the server started: a slot expires with the second step after its own.
const STEP: Duration = Duration::from_millis(100);

/// A queue: the hash of a namespace's name, and whether a worker calls.
pub(super) type QueueKey = u64;

/// Calls that wait for a slot, a queue for each namespace.
#[derive(Default)]
struct WaitingCalls {
    queues: FairQueues<QueueKey, oneshot::Sender<CallSlot>>,
    /// Whether [`FairShare::tick`] runs.
    is_ticking: bool,
}

/// How many slots are in use, by the step in which their calls began: this one, or the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    step: u32,
    now: u16,
    before: u16,
}

impl Count {
    fn of(packed: u64) -> Self {
        Self { step: (packed >> 32) as u32, now: (packed >> 16) as u16, before: packed as u16 }
    }

    fn packed(self) -> u64 {
        u64::from(self.step) << 32 | u64::from(self.now) << 16 | u64::from(self.before)
    }

    fn in_use(self) -> u32 {
        u32::from(self.now) + u32::from(self.before)
    }

    /// One more, if there are fewer than `most`.
    fn begin(self, most: u32) -> Option<Self> {
        (self.in_use() < most).then(|| Self { now: self.now + 1, ..self })
    }

    /// One less, of those that began in a step. Those that began long ago are not counted.
    fn end(self, step: u32) -> Self {
        match self.step.wrapping_sub(step) {
            0 => Self { now: self.now.saturating_sub(1), ..self },
            1 => Self { before: self.before.saturating_sub(1), ..self },
            _ => self,
        }
    }

    /// The same in a later step; `None` if it is this one.
    fn at(self, step: u32) -> Option<Self> {
        match step.wrapping_sub(self.step) {
            0 => None,
            1 => Some(Self { step, now: 0, before: self.now }),
            _ => Some(Self { step, now: 0, before: 0 }),
        }
    }
}

/// See the module.
pub(crate) struct FairShare {
    /// Slots.
    most: u32,
    /// When the first step began.
    begun: Instant,
    /// A [`Count`].
    count: AtomicU64,
    waiting: AtomicUsize,
    waiting_calls: Mutex<WaitingCalls>,
}

impl FairShare {
    /// For a server whose store is, or is not, on another machine.
    pub(crate) fn new(is_remote: bool) -> Self {
        let most = if is_remote { SLOTS_REMOTE_MAX } else { SLOTS_MAX };
        let (count, waiting) = (AtomicU64::default(), AtomicUsize::default());
        Self { most, begun: Instant::now(), count, waiting, waiting_calls: Mutex::default() }
    }

    /// A call that has arrived.
    pub(super) fn arrive(self: &Arc<Self>) -> Arrival {
        let slot = if self.waiting.load(SeqCst) == 0 { self.take() } else { None };
        slot.map_or_else(|| Arrival::Queued(self.clone()), Arrival::Started)
    }

    /// A slot, if one is free.
    fn take(self: &Arc<Self>) -> Option<CallSlot> {
        let one_more = || self.change(|count| count.begin(self.most));
        // No slot is free: those of calls that began long ago expire.
        let begun = one_more().or_else(|| {
            let step = (self.begun.elapsed().as_millis() / STEP.as_millis()) as u32;
            self.change(|count| count.at(step))?;
            one_more()
        })?;
        Some(CallSlot { share: Some(self.clone()), step: begun.step })
    }

    /// Changes the count unless there is nothing to change; how it was before.
    fn change(&self, change: impl Fn(Count) -> Option<Count>) -> Option<Count> {
        let changed = self.count.fetch_update(SeqCst, SeqCst, |count| change(Count::of(count)).map(Count::packed));
        changed.ok().map(Count::of)
    }

    /// Waits in the queue of a namespace.
    async fn wait(self: &Arc<Self>, key: QueueKey) -> Option<CallSlot> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut calls = lock(&self.waiting_calls);
            calls.queues.push(key, sender);
            self.waiting.fetch_add(1, SeqCst);
            if !std::mem::replace(&mut calls.is_ticking, true) {
                tokio::spawn(self.clone().tick());
            }
        }
        // A call that gave its slot back just before may not have seen that this one waits.
        self.go_on();
        receiver.await.ok()
    }

    /// Starts calls that wait, as many as slots are free.
    ///
    /// A call that ends first frees its slot and then looks for calls that wait; a call that arrives first queues and then looks for
    /// a free slot. So one of the two sees the other.
    fn go_on(self: &Arc<Self>) {
        while self.waiting.load(SeqCst) > 0
            && let Some(slot) = self.take()
        {
            let next = {
                let mut calls = lock(&self.waiting_calls);
                let next = calls.queues.take(|_| true).map(|(_, call)| call);
                if next.is_some() {
                    self.waiting.fetch_sub(1, SeqCst);
                }
                next
            };
            let refused = match next {
                Some(call) => call.send(slot).err(),
                None => Some(slot),
            };
            // The call was cancelled, or another thread was faster. Dropping the slot would come back to this function.
            if let Some(mut slot) = refused {
                slot.end();
            }
        }
    }

    /// Looks for free slots in every step, as long as calls wait: perhaps no call ends that would do it.
    async fn tick(self: Arc<Self>) {
        loop {
            tokio::time::sleep(STEP).await;
            self.go_on();
            let mut calls = lock(&self.waiting_calls);
            if calls.queues.is_empty() {
                calls.is_ticking = false;
                return;
            }
        }
    }
}

/// The slot of a call. When it is dropped, another call may begin.
pub(super) struct CallSlot {
    share: Option<Arc<FairShare>>,
    /// When it began.
    step: u32,
}

impl CallSlot {
    /// Frees the slot without starting another call.
    fn end(&mut self) -> Option<Arc<FairShare>> {
        let share = self.share.take()?;
        share.change(|count| Some(count.end(self.step)));
        Some(share)
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        if let Some(share) = self.end() {
            share.go_on();
        }
    }
}

/// A call at its arrival.
pub(super) enum Arrival {
    Started(CallSlot),
    /// No slot is free.
    Queued(Arc<FairShare>),
}

impl Arrival {
    /// Waits for a slot.
    pub(super) async fn slot(self, queue_key: impl FnOnce() -> QueueKey) -> Option<CallSlot> {
        match self {
            Self::Started(slot) => Some(slot),
            Self::Queued(share) => Box::pin(share.wait(queue_key())).await,
        }
    }
}

/// Handles a call that may wait for long: it gives its slot back when it waits for the first time.
pub(super) async fn handle_waiting<F: Future + ?Sized>(
    mut slot: Option<CallSlot>,
    mut handling: Pin<Box<F>>,
) -> F::Output {
    poll_fn(move |context| {
        let polled = handling.as_mut().poll(context);
        drop(slot.take());
        polled
    })
    .await
}

/// The queue of a request: that of its namespace, as far as it names one, and of workers or others.
pub(super) fn queue_key(method: Option<&Method>, message: &[u8]) -> QueueKey {
    static HASHER: LazyLock<RandomState> = LazyLock::new(Default::default);
    let field = method.and_then(|method| method.namespace_field);
    let namespace = field.and_then(|number| request_fields::last(message, number)).unwrap_or_default();
    HASHER.hash_one((namespace, method.is_some_and(|method| method.is_of_workers)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls;

    fn in_use(share: &FairShare) -> u32 {
        Count::of(share.count.load(SeqCst)).in_use()
    }

    /// Calls that hold all slots.
    fn full(share: &Arc<FairShare>) -> Vec<Arrival> {
        let calls: Vec<_> = (0..SLOTS_MAX).map(|_| share.arrive()).collect();
        assert!(calls.iter().all(|call| matches!(call, Arrival::Started(_))));
        calls
    }

    fn queued(share: &Arc<FairShare>, key: QueueKey, order: &Arc<Mutex<Vec<QueueKey>>>) -> tokio::task::JoinHandle<()> {
        let (arrival, order) = (share.arrive(), order.clone());
        assert!(matches!(arrival, Arrival::Queued(_)));
        tokio::spawn(async move {
            let _slot = arrival.slot(|| key).await;
            order.lock().expect("no panic").push(key);
        })
    }

    #[tokio::test]
    async fn queues_are_served_round_robin() {
        let (share, order) = (Arc::new(FairShare::new(false)), Arc::default());
        let mut calls = full(&share);
        let mut waiting = Vec::new();
        for key in [1, 1, 1, 1, 2, 3, 3] {
            waiting.push(queued(&share, key, &order));
            tokio::task::yield_now().await;
        }
        calls.pop();
        for call in waiting {
            call.await.expect("no panic");
        }
        assert_eq!(*order.lock().expect("no panic"), [1, 2, 3, 1, 3, 1, 1]);
        calls.clear();
        assert_eq!(in_use(&share), 0);
        assert!(matches!(share.arrive(), Arrival::Started(_)));
    }

    #[tokio::test]
    async fn a_cancelled_call_passes_its_slot_on() {
        let (share, order) = (Arc::new(FairShare::new(false)), Arc::default());
        let mut calls = full(&share);
        let waiting: Vec<_> = (0..1_000).map(|_| queued(&share, 1, &order)).collect();
        let last = queued(&share, 2, &order);
        tokio::task::yield_now().await;
        for call in &waiting {
            call.abort();
        }
        calls.pop();
        last.await.expect("no panic");
        calls.clear();
        for call in waiting {
            let _ = call.await;
        }
        assert_eq!((in_use(&share), share.waiting.load(SeqCst)), (0, 0));
    }

    /// In every interleaving of threads each call gets a slot, and no slot is lost.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_call_waits_for_ever() {
        let share = Arc::new(FairShare::new(false));
        for _ in 0..20 {
            let calls: Vec<_> = (0..2_000_u64)
                .map(|number| {
                    let arrival = share.arrive();
                    tokio::spawn(async move {
                        let slot = arrival.slot(|| number % 7).await;
                        assert!(slot.is_some());
                        match number % 3 {
                            0 => handle_waiting(slot, Box::pin(tokio::task::yield_now())).await,
                            _ => tokio::task::yield_now().await,
                        }
                    })
                })
                .collect();
            for (number, call) in calls.into_iter().enumerate() {
                match number % 10 {
                    0 => call.abort(),
                    _ => call.await.expect("no panic"),
                }
            }
        }
        while in_use(&share) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(share.waiting.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_call_that_may_wait_for_long_gives_its_slot_back_when_it_waits() {
        let share = Arc::new(FairShare::new(false));
        let Arrival::Started(slot) = share.arrive() else { panic!("no other call holds a slot") };
        let seen = share.clone();
        let handling = async move {
            let first = in_use(&seen);
            tokio::task::yield_now().await;
            (first, in_use(&seen))
        };
        assert_eq!(handle_waiting(Some(slot), Box::pin(handling)).await, (1, 0));
    }

    /// Calls that hang do not keep others from beginning, and nothing is counted twice when they end.
    #[tokio::test]
    async fn a_slot_expires() {
        let share = Arc::new(FairShare::new(false));
        let mut hanging = full(&share);
        tokio::time::sleep(2 * STEP).await;
        // The slots have expired: no call has to wait.
        assert!(matches!(share.arrive(), Arrival::Started(_)));
        hanging.extend(full(&share));
        let late = share.arrive();
        let slot = late.slot(|| 1).await.expect("a slot");
        drop(hanging);
        assert_eq!(in_use(&share), 1);
        drop(slot);
        assert_eq!(in_use(&share), 0);
    }

    #[test]
    fn counts_are_packed_and_steps_wrap_around() {
        let count = Count { step: u32::MAX, now: 3, before: 200 };
        assert_eq!(Count::of(count.packed()), count);
        let next = count.at(0).expect("another step");
        assert_eq!(next, Count { step: 0, now: 0, before: 3 });
        assert_eq!((next.at(0), next.at(2)), (None, Some(Count { step: 2, now: 0, before: 0 })));
        assert_eq!(next.end(u32::MAX).before, 2);
        assert_eq!(next.end(u32::MAX - 1), next);
        assert_eq!(Count { step: 0, now: 56, before: 72 }.begin(SLOTS_MAX), None);
    }

    #[test]
    fn a_queue_belongs_to_a_namespace() {
        let method = |name: &str| {
            let method = calls::find(format!("/{}/{name}", calls::WORKFLOW_SERVICE).as_bytes());
            assert!(method.is_some(), "{name}");
            method
        };
        let start = method("StartWorkflowExecution");
        assert_eq!(queue_key(start, b"\x0a\x01a"), queue_key(start, b"\x12\x01x\x0a\x01a"));
        assert_ne!(queue_key(start, b"\x0a\x01a"), queue_key(start, b"\x0a\x01b"));
        let poll = method("PollWorkflowTaskQueue");
        assert_ne!(queue_key(start, b"\x0a\x01a"), queue_key(poll, b"\x0a\x01a"));
    }
}
