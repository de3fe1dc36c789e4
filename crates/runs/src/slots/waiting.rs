//! Calls that wait for the lock of a slot.

use std::collections::VecDeque;

use segno_engine::{Applied, Context, Rejection, Run, Transition};
use segno_environment::lock::lock;
use segno_store::OutboxKey;
use tokio::sync::oneshot;

use super::current::SlotState;
use crate::error::CallError;

/// Calls that may wait for one run. Those beyond are refused.
const WAITING_MAX: usize = 1000;
/// Bytes of the requests of those calls. A call that is the first to wait is not refused for its size.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Which run of a workflow a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSelector {
    /// A run id; the current run if empty.
    pub run_id: String,
    /// The first run of its chain must be this one, if not empty.
    pub first_run_id: String,
}

impl RunSelector {
    /// The run with this id, or the current one if it is empty.
    pub fn run(run_id: impl Into<String>) -> Self {
        Self { run_id: run_id.into(), first_run_id: String::new() }
    }
}

/// A call on a run.
pub struct Call<R, A, F, G> {
    /// Which run it is about.
    pub selector: RunSelector,
    /// Messages that arrive with this call.
    pub delivered: Vec<OutboxKey>,
    /// Whether it may create a run, which needs a key.
    pub creates: bool,
    /// Whether it changes memory alone, most of the time.
    pub lazy: bool,
    /// Asks the engine.
    pub decide: F,
    /// Looks at the slot after the commit, while it is still locked.
    pub after: G,
    /// The types of its reply and of what `after` returns.
    pub types: std::marker::PhantomData<fn() -> (R, A)>,
}

/// A call that waits, without its types.
pub trait WaitingCall: Send {
    /// See [`Call::selector`].
    fn selector(&self) -> &RunSelector;
    /// See [`Call::creates`].
    fn creates(&self) -> bool;
    /// See [`Call::lazy`].
    fn is_lazy(&self) -> bool;
    /// See [`Call::delivered`]. Called once.
    fn take_delivered(&mut self) -> Vec<OutboxKey>;
    /// Asks the engine; keeps the reply. Called once.
    fn decide(&mut self, run: &Run, context: Context) -> Result<(Run, Transition), Rejection>;
    /// The decision is durable (or changed nothing).
    fn succeed(self: Box<Self>, state: &mut SlotState);
    /// The decision was not made, or is not known to be durable.
    fn fail(self: Box<Self>, error: CallError);
}

/// A call with the place where its answer is waited for.
pub struct PendingCall<R, A, F, G> {
    call: Call<R, A, Option<F>, G>,
    reply: Option<R>,
    answer: oneshot::Sender<Result<(R, A), CallError>>,
}

impl<R, A, F, G> PendingCall<R, A, F, G> {
    /// A call, and the sender of its answer.
    pub fn new(call: Call<R, A, F, G>, answer: oneshot::Sender<Result<(R, A), CallError>>) -> Self {
        let Call { selector, delivered, creates, lazy, decide, after, types } = call;
        let call = Call { selector, delivered, creates, lazy, decide: Some(decide), after, types };
        Self { call, reply: None, answer }
    }
}

impl<R, A, F, G> WaitingCall for PendingCall<R, A, F, G>
where
    R: Send + 'static,
    A: Send + 'static,
    F: FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send + 'static,
    G: FnOnce(&mut SlotState, &R) -> A + Send + 'static,
{
    fn selector(&self) -> &RunSelector {
        &self.call.selector
    }

    fn creates(&self) -> bool {
        self.call.creates
    }

    fn is_lazy(&self) -> bool {
        self.call.lazy
    }

    fn take_delivered(&mut self) -> Vec<OutboxKey> {
        std::mem::take(&mut self.call.delivered)
    }

    fn decide(&mut self, run: &Run, context: Context) -> Result<(Run, Transition), Rejection> {
        let Some(decide) = self.call.decide.take() else { return Err(Rejection::TaskObsolete) };
        let Applied { run, transition, reply } = decide(run, context)?;
        if let Err(defect) = transition.check() {
            tracing::error!(run = run.info.run_id, %defect, "a transition was refused");
            return Err(defect);
        }
        self.reply = Some(reply);
        Ok((run, transition))
    }

    fn succeed(self: Box<Self>, state: &mut SlotState) {
        if let Some(reply) = self.reply {
            let after = (self.call.after)(state, &reply);
            // A caller that is gone drops what it was to get, and with that gives it back.
            let _ = self.answer.send(Ok((reply, after)));
        }
    }

    fn fail(self: Box<Self>, error: CallError) {
        let _ = self.answer.send(Err(error));
    }
}

/// Calls that wait for the lock of a slot.
#[derive(Default)]
pub struct WaitingCalls(std::sync::Mutex<CallQueue>);

#[derive(Default)]
struct CallQueue {
    calls: VecDeque<WaitingEntry>,
    numbers: u64,
    /// Bytes of their requests.
    bytes: usize,
}

struct WaitingEntry {
    number: u64,
    bytes: usize,
    call: Box<dyn WaitingCall>,
}

impl WaitingCalls {
    /// Lets a call wait whose request has this many bytes, unless too many wait. Gives back its number.
    pub fn push(&self, call: Box<dyn WaitingCall>, bytes: usize) -> Result<u64, CallError> {
        let mut waiting = lock(&self.0);
        let is_too_large = !waiting.calls.is_empty() && waiting.bytes + bytes > WAITING_BYTES_MAX;
        if waiting.calls.len() >= WAITING_MAX || is_too_large {
            return Err(CallError::Busy);
        }
        waiting.numbers += 1;
        waiting.bytes += bytes;
        let number = waiting.numbers;
        waiting.calls.push_back(WaitingEntry { number, bytes, call });
        Ok(number)
    }

    /// Takes one call out, if it is still there.
    pub fn remove(&self, number: u64) -> Option<Box<dyn WaitingCall>> {
        let mut waiting = lock(&self.0);
        let place = waiting.calls.iter().position(|entry| entry.number == number)?;
        let entry = waiting.calls.remove(place)?;
        waiting.bytes -= entry.bytes;
        Some(entry.call)
    }

    /// Takes all calls out.
    pub fn take(&self) -> VecDeque<Box<dyn WaitingCall>> {
        let mut waiting = lock(&self.0);
        waiting.bytes = 0;
        std::mem::take(&mut waiting.calls).into_iter().map(|entry| entry.call).collect()
    }
}

tokio::task_local! {
    static REQUEST_BYTES: usize;
}

/// Carries out a request, and says how many bytes its calls hold while they wait for a run.
pub fn with_request_bytes<F: Future>(bytes: usize, request: F) -> impl Future<Output = F::Output> {
    REQUEST_BYTES.scope(bytes, request)
}

/// Bytes of the request behind the current task; nothing if there is none.
pub fn request_bytes() -> usize {
    REQUEST_BYTES.try_with(|bytes| *bytes).unwrap_or(0)
}
