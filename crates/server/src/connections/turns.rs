//! In which order calls begin when more of them arrive than can be handled: namespaces take turns.
//!
//! A call is in turn from its arrival until it is answered, or waits for something that may take long: a task, an event, a
//! worker. As long as few calls are in turn, nothing else happens. When there are many, further ones wait in a lane of their
//! namespace, and each call that leaves its turn gives it to the next lane. So the queues of the async runtime and of the
//! commits stay short, and a namespace with thousands of calls delays the call of another one by a few milliseconds, not by
//! all of them. Calls of workers have a lane of their own, so that they do not wait behind those that make work for them.
//!
//! Nobody keeps its turn for long: a call that began two [steps](STEP) ago is counted no more when there is no room. A slow disk
//! or another node that does not answer holds others up for no longer than that.
//!
//! How many calls may wait is limited by the streams and the bytes of their connections, which they count for while they wait.
//! A caller that leaves drops its place.

use std::{
    collections::VecDeque,
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use segno_node::HashMap;
use tokio::sync::oneshot;

use crate::{calls::Method, request_fields};

/// Calls that may be in turn: some milliseconds of work, and two groups of commits.
const IN_TURN_MAX: u32 = 128;
/// The same where commits go to another machine, in larger groups.
const IN_TURN_REMOTE_MAX: u32 = 512;
/// In which time is counted.
const STEP: Duration = Duration::from_millis(100);

/// Who takes turns: the hash of a namespace's name, and whether it is a worker.
pub(super) type LaneKey = u64;

/// Calls that wait, a lane for each namespace.
#[derive(Default)]
struct Lanes {
    calls: HashMap<LaneKey, VecDeque<oneshot::Sender<HeldTurn>>>,
    /// Lanes with calls, the next one first.
    order: VecDeque<LaneKey>,
    /// Whether [`Turns::tick`] runs.
    is_ticking: bool,
}

impl Lanes {
    fn push(&mut self, key: LaneKey, call: oneshot::Sender<HeldTurn>) {
        let lane = self.calls.entry(key).or_default();
        if lane.is_empty() {
            self.order.push_back(key);
        }
        lane.push_back(call);
    }

    fn pop(&mut self) -> Option<oneshot::Sender<HeldTurn>> {
        let key = self.order.pop_front()?;
        let lane = self.calls.get_mut(&key)?;
        let call = lane.pop_front();
        if lane.is_empty() {
            self.calls.remove(&key);
        } else {
            self.order.push_back(key);
        }
        call
    }
}

/// How many calls are in turn, by the step in which they began: this one, or the one before.
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

    fn in_turn(self) -> u32 {
        u32::from(self.now) + u32::from(self.before)
    }

    /// One more, if there are fewer than `most`.
    fn begin(self, most: u32) -> Option<Self> {
        (self.in_turn() < most).then(|| Self { now: self.now + 1, ..self })
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
pub(crate) struct Turns {
    /// Calls that may be in turn.
    most: u32,
    /// When the first step began.
    begun: Instant,
    /// A [`Count`].
    count: AtomicU64,
    waiting: AtomicUsize,
    lanes: Mutex<Lanes>,
}

impl Turns {
    /// For a server whose store is, or is not, on another machine.
    pub(crate) fn new(is_remote: bool) -> Self {
        let most = if is_remote { IN_TURN_REMOTE_MAX } else { IN_TURN_MAX };
        let (count, waiting) = (AtomicU64::default(), AtomicUsize::default());
        Self { most, begun: Instant::now(), count, waiting, lanes: Mutex::default() }
    }

    /// A call that has arrived.
    pub(super) fn arrive(self: &Arc<Self>) -> Arrival {
        let turn = if self.waiting.load(SeqCst) == 0 { self.take() } else { None };
        turn.map_or_else(|| Arrival::Late(self.clone()), Arrival::InTurn)
    }

    /// One more call in turn, if there is room.
    fn take(self: &Arc<Self>) -> Option<HeldTurn> {
        let one_more = || self.change(|count| count.begin(self.most));
        // Time goes on when there is no room: who began long ago makes some.
        let begun = one_more().or_else(|| {
            let step = (self.begun.elapsed().as_millis() / STEP.as_millis()) as u32;
            self.change(|count| count.at(step))?;
            one_more()
        })?;
        Some(HeldTurn { turns: Some(self.clone()), step: begun.step })
    }

    /// Changes the count unless there is nothing to change; how it was before.
    fn change(&self, change: impl Fn(Count) -> Option<Count>) -> Option<Count> {
        let changed = self.count.fetch_update(SeqCst, SeqCst, |count| change(Count::of(count)).map(Count::packed));
        changed.ok().map(Count::of)
    }

    /// Waits in the lane of a namespace.
    async fn wait(self: &Arc<Self>, key: LaneKey) -> Option<HeldTurn> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.push(key, sender);
            self.waiting.fetch_add(1, SeqCst);
            if !std::mem::replace(&mut lanes.is_ticking, true) {
                tokio::spawn(self.clone().tick());
            }
        }
        // Whoever left its turn before it could see that this one waits.
        self.go_on();
        receiver.await.ok()
    }

    /// Lets calls begin that wait, as many as there is room for.
    ///
    /// A call that leaves its turn first makes room and then looks who waits; a call that comes first waits and then looks for
    /// room. So one of the two sees the other.
    fn go_on(self: &Arc<Self>) {
        while self.waiting.load(SeqCst) > 0
            && let Some(turn) = self.take()
        {
            let next = {
                let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                let next = lanes.pop();
                if next.is_some() {
                    self.waiting.fetch_sub(1, SeqCst);
                }
                next
            };
            let refused = match next {
                Some(call) => call.send(turn).err(),
                None => Some(turn),
            };
            // The caller has left, or another thread was faster. Dropping the turn would come back to this function.
            if let Some(mut turn) = refused {
                turn.end();
            }
        }
    }

    /// Looks for room in every step, as long as calls wait: no call may end that would do it.
    async fn tick(self: Arc<Self>) {
        loop {
            tokio::time::sleep(STEP).await;
            self.go_on();
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            if lanes.order.is_empty() {
                lanes.is_ticking = false;
                return;
            }
        }
    }
}

/// A call that is in turn. When it is dropped, another one may begin.
pub(super) struct HeldTurn {
    turns: Option<Arc<Turns>>,
    /// When it began.
    step: u32,
}

impl HeldTurn {
    /// Makes room, and leaves it to others to see it.
    fn end(&mut self) -> Option<Arc<Turns>> {
        let turns = self.turns.take()?;
        turns.change(|count| Some(count.end(self.step)));
        Some(turns)
    }
}

impl Drop for HeldTurn {
    fn drop(&mut self) {
        if let Some(turns) = self.end() {
            turns.go_on();
        }
    }
}

/// A call at its arrival.
pub(super) enum Arrival {
    InTurn(HeldTurn),
    /// Too many others are in turn.
    Late(Arc<Turns>),
}

impl Arrival {
    /// Waits for the call's turn.
    pub(super) async fn turn(self, lane: impl FnOnce() -> LaneKey) -> Option<HeldTurn> {
        match self {
            Self::InTurn(turn) => Some(turn),
            Self::Late(turns) => Box::pin(turns.wait(lane())).await,
        }
    }
}

/// Handles a call that may wait for long: its turn ends when it waits for the first time.
pub(super) async fn handle_waiting<F: Future + ?Sized>(
    mut turn: Option<HeldTurn>,
    mut handling: Pin<Box<F>>,
) -> F::Output {
    poll_fn(move |context| {
        let polled = handling.as_mut().poll(context);
        drop(turn.take());
        polled
    })
    .await
}

/// The lane of a request: that of its namespace, as far as it names one, and of workers or others.
pub(super) fn lane(method: Option<&Method>, message: &[u8]) -> LaneKey {
    static HASHER: LazyLock<RandomState> = LazyLock::new(Default::default);
    let field = method.and_then(|method| method.namespace_field);
    let namespace = field.and_then(|number| request_fields::last(message, number)).unwrap_or_default();
    HASHER.hash_one((namespace, method.is_some_and(|method| method.is_of_workers)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls;

    fn in_turn(turns: &Turns) -> u32 {
        Count::of(turns.count.load(SeqCst)).in_turn()
    }

    /// As many calls in turn as there may be.
    fn full(turns: &Arc<Turns>) -> Vec<Arrival> {
        let calls: Vec<_> = (0..IN_TURN_MAX).map(|_| turns.arrive()).collect();
        assert!(calls.iter().all(|call| matches!(call, Arrival::InTurn(_))));
        calls
    }

    fn late(turns: &Arc<Turns>, key: LaneKey, order: &Arc<Mutex<Vec<LaneKey>>>) -> tokio::task::JoinHandle<()> {
        let (arrival, order) = (turns.arrive(), order.clone());
        assert!(matches!(arrival, Arrival::Late(_)));
        tokio::spawn(async move {
            let _turn = arrival.turn(|| key).await;
            order.lock().expect("no panic").push(key);
        })
    }

    #[tokio::test]
    async fn lanes_take_turns() {
        let (turns, order) = (Arc::new(Turns::new(false)), Arc::default());
        let mut calls = full(&turns);
        let mut waiting = Vec::new();
        for key in [1, 1, 1, 1, 2, 3, 3] {
            waiting.push(late(&turns, key, &order));
            tokio::task::yield_now().await;
        }
        calls.pop();
        for call in waiting {
            call.await.expect("no panic");
        }
        assert_eq!(*order.lock().expect("no panic"), [1, 2, 3, 1, 3, 1, 1]);
        calls.clear();
        assert_eq!(in_turn(&turns), 0);
        assert!(matches!(turns.arrive(), Arrival::InTurn(_)));
    }

    #[tokio::test]
    async fn a_caller_that_leaves_passes_its_turn_on() {
        let (turns, order) = (Arc::new(Turns::new(false)), Arc::default());
        let mut calls = full(&turns);
        let waiting: Vec<_> = (0..1_000).map(|_| late(&turns, 1, &order)).collect();
        let last = late(&turns, 2, &order);
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
        assert_eq!((in_turn(&turns), turns.waiting.load(SeqCst)), (0, 0));
    }

    /// Whatever the threads do, nobody waits for ever and no turn is lost.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_is_forgotten() {
        let turns = Arc::new(Turns::new(false));
        for _ in 0..20 {
            let calls: Vec<_> = (0..2_000_u64)
                .map(|number| {
                    let arrival = turns.arrive();
                    tokio::spawn(async move {
                        let turn = arrival.turn(|| number % 7).await;
                        assert!(turn.is_some());
                        match number % 3 {
                            0 => handle_waiting(turn, Box::pin(tokio::task::yield_now())).await,
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
        while in_turn(&turns) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(turns.waiting.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_turn_ends_when_a_call_waits_that_may_wait_for_long() {
        let turns = Arc::new(Turns::new(false));
        let Arrival::InTurn(turn) = turns.arrive() else { panic!("nobody else is there") };
        let seen = turns.clone();
        let handling = async move {
            let first = in_turn(&seen);
            tokio::task::yield_now().await;
            (first, in_turn(&seen))
        };
        assert_eq!(handle_waiting(Some(turn), Box::pin(handling)).await, (1, 0));
    }

    /// Calls that hang do not keep others from beginning, and nothing is counted twice when they end.
    #[tokio::test]
    async fn a_turn_does_not_last_for_ever() {
        let turns = Arc::new(Turns::new(false));
        let mut hanging = full(&turns);
        tokio::time::sleep(2 * STEP).await;
        // They have hung for long: nobody has to wait.
        assert!(matches!(turns.arrive(), Arrival::InTurn(_)));
        hanging.extend(full(&turns));
        let late = turns.arrive();
        let turn = late.turn(|| 1).await.expect("a turn");
        drop(hanging);
        assert_eq!(in_turn(&turns), 1);
        drop(turn);
        assert_eq!(in_turn(&turns), 0);
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
        assert_eq!(Count { step: 0, now: 56, before: 72 }.begin(IN_TURN_MAX), None);
    }

    #[test]
    fn a_lane_belongs_to_a_namespace() {
        let method = |name: &str| {
            let method = calls::find(format!("/{}/{name}", calls::WORKFLOW_SERVICE).as_bytes());
            assert!(method.is_some(), "{name}");
            method
        };
        let start = method("StartWorkflowExecution");
        assert_eq!(lane(start, b"\x0a\x01a"), lane(start, b"\x12\x01x\x0a\x01a"));
        assert_ne!(lane(start, b"\x0a\x01a"), lane(start, b"\x0a\x01b"));
        let poll = method("PollWorkflowTaskQueue");
        assert_ne!(lane(start, b"\x0a\x01a"), lane(poll, b"\x0a\x01a"));
    }
}
