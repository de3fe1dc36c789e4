//! In which order calls begin when more of them arrive than can be handled: namespaces take turns.
//!
//! A call is in turn from its arrival until it waits for the first time (for its commit, for a task). As long as few calls are
//! in turn, nothing else happens. When there are many, further ones wait in a lane of their namespace, and each call that
//! leaves its turn gives it to the next lane. So a namespace with thousands of calls delays the call of another one by a few
//! milliseconds, not by all of them.

use std::{
    collections::VecDeque,
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use segno_runtime::HashMap;
use tokio::sync::oneshot;

use crate::{request_fields, security::rules};

/// Calls that may be in turn. Some milliseconds of work for one core: enough to keep all cores busy.
const IN_TURN_MAX: usize = 128;

/// Who takes turns: the hash of a namespace's name.
pub(super) type LaneKey = u64;

/// Calls that wait, a lane for each namespace.
#[derive(Default)]
struct Lanes {
    calls: HashMap<LaneKey, VecDeque<oneshot::Sender<Turn>>>,
    /// Lanes with calls, the next one first.
    order: VecDeque<LaneKey>,
}

impl Lanes {
    fn push(&mut self, key: LaneKey, call: oneshot::Sender<Turn>) {
        let lane = self.calls.entry(key).or_default();
        if lane.is_empty() {
            self.order.push_back(key);
        }
        lane.push_back(call);
    }

    fn pop(&mut self) -> Option<oneshot::Sender<Turn>> {
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

/// See the module.
#[derive(Default)]
pub(crate) struct Turns {
    in_turn: AtomicUsize,
    waiting: AtomicUsize,
    lanes: Mutex<Lanes>,
}

impl Turns {
    /// A call that has arrived.
    pub(super) fn arrive(self: &Arc<Self>) -> Arrival {
        let begins = self.waiting.load(SeqCst) == 0 && self.take();
        match begins {
            true => Arrival::InTurn(Turn::of(self)),
            false => Arrival::Late(self.clone()),
        }
    }

    /// Makes room for one more call in turn, if there is any.
    fn take(&self) -> bool {
        self.in_turn.fetch_update(SeqCst, SeqCst, |count| (count < IN_TURN_MAX).then_some(count + 1)).is_ok()
    }

    /// Waits in the lane of a namespace.
    async fn wait(self: &Arc<Self>, key: LaneKey) -> Option<Turn> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.push(key, sender);
            self.waiting.fetch_add(1, SeqCst);
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
        while self.waiting.load(SeqCst) > 0 && self.take() {
            let next = {
                let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                let next = lanes.pop();
                if next.is_some() {
                    self.waiting.fetch_sub(1, SeqCst);
                }
                next
            };
            let refused = match next {
                Some(call) => call.send(Turn::of(self)).err(),
                None => Some(Turn::of(self)),
            };
            // The caller has left, or another thread was faster. Dropping the turn would come back to this function.
            if let Some(mut turn) = refused {
                turn.end();
            }
        }
    }
}

/// A call that is in turn. When it is dropped, another one may begin.
pub(super) struct Turn(Option<Arc<Turns>>);

impl Turn {
    fn of(turns: &Arc<Turns>) -> Self {
        Self(Some(turns.clone()))
    }

    /// Makes room, and leaves it to others to see it.
    fn end(&mut self) -> Option<Arc<Turns>> {
        let turns = self.0.take()?;
        turns.in_turn.fetch_sub(1, SeqCst);
        Some(turns)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.end() {
            turns.go_on();
        }
    }
}

/// A call at its arrival.
pub(super) enum Arrival {
    InTurn(Turn),
    /// Too many others are in turn.
    Late(Arc<Turns>),
}

impl Arrival {
    /// Waits for the call's turn.
    pub(super) async fn turn(self, lane: impl FnOnce() -> LaneKey) -> Option<Turn> {
        match self {
            Self::InTurn(turn) => Some(turn),
            Self::Late(turns) => Box::pin(turns.wait(lane())).await,
        }
    }
}

/// Handles a call whose turn it is; that ends when the call waits for the first time.
pub(super) async fn handle<F: Future + ?Sized>(mut turn: Option<Turn>, mut handling: Pin<Box<F>>) -> F::Output {
    poll_fn(move |context| {
        let polled = handling.as_mut().poll(context);
        drop(turn.take());
        polled
    })
    .await
}

/// The lane of a request: that of its namespace, as far as it names one.
pub(super) fn lane(path: &str, message: &[u8]) -> LaneKey {
    static HASHER: LazyLock<RandomState> = LazyLock::new(Default::default);
    let field = rules::find(path).and_then(|call| call.fields.name);
    let namespace = field.and_then(|number| request_fields::last(message, number)).unwrap_or_default();
    HASHER.hash_one(namespace)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

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
        let (turns, order) = (Arc::new(Turns::default()), Arc::default());
        let mut calls = full(&turns);
        let mut waiting = Vec::new();
        for key in [1, 1, 1, 1, 2, 3, 3] {
            waiting.push(late(&turns, key, &order));
            tokio::task::yield_now().await;
        }
        assert_eq!(turns.waiting.load(SeqCst), 7);
        calls.pop();
        for call in waiting {
            call.await.expect("no panic");
        }
        assert_eq!(*order.lock().expect("no panic"), [1, 2, 3, 1, 3, 1, 1]);
        calls.clear();
        assert_eq!(turns.in_turn.load(SeqCst), 0);
        assert!(matches!(turns.arrive(), Arrival::InTurn(_)));
    }

    #[tokio::test]
    async fn a_caller_that_leaves_passes_its_turn_on() {
        let (turns, order) = (Arc::new(Turns::default()), Arc::default());
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
        assert_eq!((turns.in_turn.load(SeqCst), turns.waiting.load(SeqCst)), (0, 0));
    }

    /// Whatever the threads do, nobody waits for ever and no turn is lost.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_is_forgotten() {
        let turns = Arc::new(Turns::default());
        for _ in 0..20 {
            let calls: Vec<_> = (0..1_000_u64)
                .map(|number| {
                    let arrival = turns.arrive();
                    tokio::spawn(async move {
                        let turn = arrival.turn(|| number % 7).await;
                        assert!(turn.is_some());
                        handle(turn, Box::pin(tokio::task::yield_now())).await;
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
        while turns.in_turn.load(SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(turns.waiting.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_turn_ends_when_the_call_waits() {
        let turns = Arc::new(Turns::default());
        let Arrival::InTurn(turn) = turns.arrive() else { panic!("nobody else is there") };
        let was_free = Arc::new(AtomicBool::new(false));
        let (seen, looked) = (turns.clone(), was_free.clone());
        let handling = async move {
            assert_eq!(seen.in_turn.load(SeqCst), 1);
            tokio::task::yield_now().await;
            looked.store(seen.in_turn.load(SeqCst) == 0, SeqCst);
        };
        handle(Some(turn), Box::pin(handling)).await;
        assert!(was_free.load(SeqCst));
    }

    #[test]
    fn a_lane_belongs_to_a_namespace() {
        let start = "/temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution";
        assert_eq!(lane(start, b"\x0a\x01a"), lane(start, b"\x12\x01x\x0a\x01a"));
        assert_ne!(lane(start, b"\x0a\x01a"), lane(start, b"\x0a\x01b"));
    }
}
