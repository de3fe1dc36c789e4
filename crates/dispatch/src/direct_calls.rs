//! Direct calls to the handlers of Nexus operations: a caller outside waits at this node until a worker has answered.
//!
//! A call is a task in the queue of its handlers. It exists in memory alone: if this node stops, the caller repeats it.

use std::sync::{Arc, Mutex};

use segno_deployments::hash_of;
use segno_engine::script;
use segno_environment::{hash::HashMap, lock::lock};
use segno_matching::{PRIORITY_DEFAULT, QueueKey, QueuePlace, TaskOffer, TaskRoute};
use segno_proto::{
    failure::Failure,
    nexus::{HandlerError, Request, Response},
};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    Dispatch,
    delivery::{Delivery, HeldWork},
};

/// Calls that wait at a node at most.
pub const DIRECT_CALLS_MAX: usize = 1000;

/// A request to a handler.
#[derive(Clone, Debug)]
pub struct DirectCall {
    /// The queue that the workers of the handler poll.
    pub queue: QueueKey,
    /// The request, without the time that is left.
    pub request: Request,
    /// Until when the caller waits.
    pub deadline: Instant,
}

/// The answer of a worker, as the worker sent it.
#[derive(Clone, Debug, PartialEq)]
pub enum CallAnswer {
    /// The handler answered.
    Completed(Option<Response>),
    /// The handler failed: the error in the older form, or in the newer one.
    Failed(Option<HandlerError>, Option<Failure>),
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectCallError {
    /// Too many calls wait at this node.
    #[error("{} direct calls to Nexus handlers wait at this node already: make fewer at a time", DIRECT_CALLS_MAX)]
    TooMany,
    /// No worker answered in time.
    #[error("no worker answered in time")]
    TimedOut,
    /// This node stops.
    #[error("the node is shutting down")]
    Stopped,
}

/// A call that a worker has taken.
#[derive(Clone, Debug)]
pub struct StartedCall {
    /// Which call.
    pub id: u64,
    /// The call.
    pub call: DirectCall,
    /// Gives it back unless it is delivered.
    pub delivery: Delivery,
}

/// A call that waits for its answer.
struct WaitingCall {
    call: DirectCall,
    answer: oneshot::Sender<CallAnswer>,
    /// Whether a worker has it.
    is_taken: bool,
    /// Notified when a worker did not get it after all.
    given_back: Arc<Notify>,
}

/// The direct calls whose callers wait at this node.
#[derive(Default)]
pub struct DirectCalls {
    waiting: Mutex<HashMap<u64, WaitingCall>>,
}

impl DirectCalls {
    fn add(&self, id: u64, call: DirectCall) -> Option<(oneshot::Receiver<CallAnswer>, Arc<Notify>)> {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= DIRECT_CALLS_MAX {
            return None;
        }
        let (answer, receiver) = oneshot::channel();
        let given_back = Arc::new(Notify::new());
        waiting.insert(id, WaitingCall { call, answer, is_taken: false, given_back: given_back.clone() });
        Some((receiver, given_back))
    }

    /// A worker takes a call; `None` if another one has it, or its caller left.
    fn take(&self, id: u64) -> Option<DirectCall> {
        let mut waiting = lock(&self.waiting);
        let call = waiting.get_mut(&id).filter(|call| !call.is_taken)?;
        call.is_taken = true;
        Some(call.call.clone())
    }

    /// The worker that took a call did not get it.
    pub fn give_back(&self, id: u64) {
        if let Some(call) = lock(&self.waiting).get_mut(&id) {
            call.is_taken = false;
            call.given_back.notify_one();
        }
    }

    /// A worker answers a call. False if no caller waits for the answer.
    pub fn answer(&self, id: u64, answer: CallAnswer) -> bool {
        lock(&self.waiting).remove(&id).is_some_and(|call| call.answer.send(answer).is_ok())
    }

    /// Whether a call waits for its answer.
    pub fn is_awaited(&self, id: u64) -> bool {
        lock(&self.waiting).contains_key(&id)
    }

    /// Ends all calls without an answer.
    pub(super) fn end(&self) {
        lock(&self.waiting).clear();
    }
}

/// Forgets a call when its caller leaves.
struct PendingCall<'a> {
    dispatch: &'a Dispatch,
    id: u64,
    queue: QueueKey,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        lock(&self.dispatch.direct_calls.waiting).remove(&self.id);
        self.dispatch.matching.withdraw_call(&self.queue, self.id);
    }
}

impl Dispatch {
    /// Calls a handler and waits for its answer.
    pub async fn call_handler(&self, call: DirectCall) -> Result<CallAnswer, DirectCallError> {
        if call.queue.name == script::QUEUE {
            return self.call_script(call).await;
        }
        let (id, queue, deadline) = (self.runs.ids.bits(), call.queue.clone(), call.deadline);
        let (mut answer, given_back) = self.direct_calls.add(id, call).ok_or(DirectCallError::TooMany)?;
        let _pending = PendingCall { dispatch: self, id, queue: queue.clone() };
        loop {
            let moved = self.direct_queries.offer_again.notified();
            timeout_at(deadline, self.offer_call(&queue, id)).await.map_err(|_| DirectCallError::TimedOut)?;
            tokio::select! {
                biased;
                answered = timeout_at(deadline, &mut answer) => {
                    return answered.map_err(|_| DirectCallError::TimedOut)?.map_err(|_| DirectCallError::Stopped);
                }
                // The queue may have another home, which does not know of it.
                () = moved => {}
                () = given_back.notified() => {}
            }
        }
    }

    async fn offer_call(&self, queue: &QueueKey, id: u64) {
        let route = TaskRoute { pinned: None, hash: hash_of(&id.to_string()), uses_ramp: false };
        let place = QueuePlace { priority: PRIORITY_DEFAULT, fairness: None, route };
        match self.remote_queues() {
            None => self.matching.offer(queue, TaskOffer::Call { id }, place),
            Some(remote) => drop(remote.offer_unstored(queue, TaskOffer::Call { id }, place, false).await),
        }
    }

    /// A worker takes a call.
    pub(super) fn start_call(&self, id: u64, delivery: Delivery) -> Option<StartedCall> {
        let Some(call) = self.direct_calls.take(id) else {
            delivery.delivered();
            return None;
        };
        delivery.hold(HeldWork::Call(id));
        Some(StartedCall { id, call, delivery })
    }
}

#[cfg(test)]
mod tests {
    use segno_matching::QueueKind;
    use segno_store::NamespaceKey;

    use super::*;

    fn call() -> DirectCall {
        let queue = QueueKey { namespace: NamespaceKey(1), kind: QueueKind::Nexus, name: "q".to_owned() };
        DirectCall { queue, request: Request::default(), deadline: Instant::now() }
    }

    #[test]
    fn one_worker_at_a_time_has_a_call() {
        let calls = DirectCalls::default();
        let (mut answer, _) = calls.add(1, call()).expect("there is room");
        assert!(calls.take(1).is_some() && calls.take(1).is_none());
        calls.give_back(1);
        assert!(calls.take(1).is_some());
        assert!(calls.answer(1, CallAnswer::Completed(None)));
        assert_eq!(answer.try_recv(), Ok(CallAnswer::Completed(None)));
        assert!(!calls.answer(1, CallAnswer::Completed(None)) && calls.take(1).is_none());
    }

    #[test]
    fn calls_are_bounded() {
        let calls = DirectCalls::default();
        let kept: Vec<_> = (0..DIRECT_CALLS_MAX as u64).map(|id| calls.add(id, call())).collect();
        assert!(kept.iter().all(Option::is_some) && calls.add(5000, call()).is_none());
        calls.end();
        assert!(calls.add(5000, call()).is_some());
    }
}
