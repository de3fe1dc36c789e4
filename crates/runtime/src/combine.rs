//! Calls that wait for the same run share a commit.
//!
//! While a commit of a run is being written, further calls on that run line up at its slot. Whoever gets the lock next
//! decides all of them, each on top of the one before, and makes the result durable with one commit: the state of the run
//! is encoded and written once. Each call is answered after that commit, in order (decision 016).
//!
//! A commit holds durable transitions. One that changes memory alone may come before them (the next durable transition
//! stores the tail) but not after them, because what is stored must not know of it; it opens the next group. So does
//! whatever follows a transition that lets another run take the place of this one.

use std::{collections::VecDeque, sync::Arc};

use segno_engine::{Applied, Context, Durability, Rejection, Run, Transition, oversize};
use segno_store::OutboxKey;
use tokio::sync::oneshot;

use crate::{
    error::CallError,
    metrics::add,
    runs::Runs,
    slots::{Slot, SlotState, WorkflowKey, lock},
    transact::{Locked, RunSelector},
};

/// Calls that may wait for one run. Those beyond are refused.
pub(crate) const WAITING_MAX: usize = 1000;
/// Bytes of the requests of those calls. A call that nobody waits before is not refused for its size.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Turns of the scheduler that a group of calls waits for more of them.
const GATHER_YIELDS: usize = 3;
/// Most calls in one commit.
const GROUP_MAX: usize = 256;
/// A commit is closed when its events are this large.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What a request can add to the state of a run at most.
const CALL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A call on a run.
pub(crate) struct Call<R, A, F, G> {
    pub selector: RunSelector,
    /// Messages that arrive with this call.
    pub delivered: Vec<OutboxKey>,
    /// Whether it may create a run, which needs a key.
    pub creates: bool,
    /// Whether it changes memory alone, most of the time.
    pub lazy: bool,
    pub decide: F,
    /// Looks at the slot after the commit, while it is still locked.
    pub after: G,
    pub types: std::marker::PhantomData<fn() -> (R, A)>,
}

/// A call that waits, whatever its types are.
pub(crate) trait WaitingCall: Send {
    fn selector(&self) -> &RunSelector;
    fn creates(&self) -> bool;
    fn is_lazy(&self) -> bool;
    fn take_delivered(&mut self) -> Vec<OutboxKey>;
    /// Asks the engine; keeps the reply. Called once.
    fn decide(&mut self, run: &Run, context: Context) -> Result<(Run, Transition), Rejection>;
    /// The decision is durable (or changed nothing).
    fn succeed(self: Box<Self>, state: &mut SlotState);
    fn fail(self: Box<Self>, error: CallError);
}

/// A call with the place where its answer is waited for.
pub(crate) struct PendingCall<R, A, F, G> {
    call: Call<R, A, Option<F>, G>,
    reply: Option<R>,
    answer: oneshot::Sender<Result<(R, A), CallError>>,
}

impl<R, A, F, G> PendingCall<R, A, F, G> {
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
pub(crate) struct WaitingCalls(std::sync::Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
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
    fn remove(&self, number: u64) -> Option<Box<dyn WaitingCall>> {
        let mut waiting = lock(&self.0);
        let place = waiting.calls.iter().position(|entry| entry.number == number)?;
        let entry = waiting.calls.remove(place)?;
        waiting.bytes -= entry.bytes;
        Some(entry.call)
    }

    fn take(&self) -> VecDeque<Box<dyn WaitingCall>> {
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

/// What the request behind the current task holds; nothing if there is none.
pub(crate) fn request_bytes() -> usize {
    REQUEST_BYTES.try_with(|bytes| *bytes).unwrap_or(0)
}

/// A call that was decided and belongs to the next group.
struct Opening {
    call: Box<dyn WaitingCall>,
    run: Run,
    transition: Transition,
}

impl Runs {
    /// Answers a call, whose request has so many bytes, together with everything else that waits for the same run.
    pub(crate) async fn call_together<R: Send + 'static, A: Send + 'static>(
        self: &Arc<Self>,
        key: &WorkflowKey,
        slot: &Arc<Slot>,
        call: (Box<dyn WaitingCall>, usize),
        answer: oneshot::Receiver<Result<(R, A), CallError>>,
    ) -> Result<(R, A), CallError> {
        let (call, bytes) = call;
        let number = slot.calls.push(call, bytes)?;
        let gone = |_| CallError::ShuttingDown;
        let mut answer = answer;
        tokio::select! {
            biased;
            answered = &mut answer => return answered.map_err(gone)?,
            locked = self.lock_slot(slot.clone(), key) => match locked {
                Ok(mut locked) => self.answer_all(&mut locked, key).await,
                // Waited too long; whoever has the lock may have taken the call meanwhile.
                Err(CallError::Busy) => slot.calls.remove(number).into_iter().for_each(|call| call.fail(CallError::Busy)),
                Err(error) => slot.calls.take().into_iter().for_each(|call| call.fail(error.clone())),
            },
        }
        answer.await.map_err(gone)?
    }

    /// Decides, commits and answers whatever waits.
    async fn answer_all(self: &Arc<Self>, locked: &mut Locked, key: &WorkflowKey) {
        gather(locked).await;
        let mut calls = locked.slot.calls.take();
        // What changes memory alone cannot follow what is stored in the same commit, but can come before it.
        calls.make_contiguous().sort_by_key(|call| !call.is_lazy());
        let mut opening: Option<Opening> = None;
        while opening.is_some() || !calls.is_empty() {
            // A commit that failed has dropped the run from memory.
            if !locked.state.loaded
                && let Err(error) = self.load_into(locked, key).await
            {
                calls.into_iter().for_each(|call| call.fail(error.clone()));
                return;
            }
            opening = self.answer_group(locked, key, &mut calls, opening).await;
        }
    }

    /// Decides as many calls as fit into one commit, commits and answers them. Gives back a call that was decided and
    /// did not fit.
    async fn answer_group(
        self: &Arc<Self>,
        locked: &mut Locked,
        key: &WorkflowKey,
        calls: &mut VecDeque<Box<dyn WaitingCall>>,
        opening: Option<Opening>,
    ) -> Option<Opening> {
        let Some(current) = locked.state.current.clone() else {
            self.answer_alone(locked, key, calls.pop_front()?).await;
            return None;
        };
        let mut group: Vec<(Box<dyn WaitingCall>, Option<CallError>)> = Vec::new();
        let mut delivered = Vec::new();
        let mut stored_bytes = current.stored_bytes;
        let mut decided: Option<(Run, Transition)> = None;
        let mut next_opening = None;
        if let Some(Opening { mut call, run, transition }) = opening {
            delivered.append(&mut call.take_delivered());
            decided = Some((run, transition));
            group.push((call, None));
        }
        while group.len() < GROUP_MAX {
            let closed = decided
                .as_ref()
                .is_some_and(|(_, transition)| transition.successor.is_some() || transition.bytes > GROUP_BYTES_MAX);
            if closed {
                break;
            }
            let run = decided.as_ref().map_or(&*current.run, |(run, _)| run);
            let Some(call) = calls.front() else { break };
            if !is_meant(run, call.selector()) {
                if group.is_empty()
                    && let Some(call) = calls.pop_front()
                {
                    self.answer_alone(locked, key, call).await;
                    return None;
                }
                break;
            }
            let Some(mut call) = calls.pop_front() else { break };
            let context = match self.context_on(run, call.creates()).await {
                Ok(context) => context,
                Err(error) => {
                    call.fail(error);
                    continue;
                }
            };
            let (next, transition) = match call.decide(run, context) {
                Ok(applied) => applied,
                Err(rejection) => {
                    // What it was refused for may not be durable yet.
                    group.push((call, Some(rejection.into())));
                    continue;
                }
            };
            if let Some((ended, refused)) = end_oversized(run, &next, context, stored_bytes) {
                merge(&mut decided, ended.run, ended.transition);
                group.push((call, Some(refused.into())));
                break;
            }
            stored_bytes += CALL_BYTES_MAX;
            let durable = decided.as_ref().is_some_and(|(_, before)| before.durability == Durability::Durable);
            if durable && transition.durability == Durability::Memory {
                next_opening = Some(Opening { call, run: next, transition });
                break;
            }
            delivered.append(&mut call.take_delivered());
            merge(&mut decided, next, transition);
            group.push((call, None));
        }
        // Otherwise what memory keeps of the run is copied when the commit changes it.
        drop(current);
        locked.state.shared_commit = group.len() > 1;
        let result = match decided {
            Some((run, transition)) => {
                if group.len() > 1 {
                    add(&self.metrics.calls_combined, group.len() as u64 - 1);
                }
                self.commit(locked, Applied { run, transition, reply: () }, delivered).await
            }
            None => Ok(()),
        };
        for (call, refused) in group {
            match (&result, refused) {
                (Err(error), _) => call.fail(error.clone()),
                (Ok(()), Some(refused)) => call.fail(refused),
                (Ok(()), None) => call.succeed(&mut locked.state),
            }
        }
        match (&result, next_opening) {
            // It was decided on top of what was not stored.
            (Err(error), Some(opening)) => {
                opening.call.fail(error.clone());
                None
            }
            (_, opening) => opening,
        }
    }

    /// A group of one: decides a call on the run that it means and commits it.
    pub(crate) async fn commit_alone<R: Send>(
        self: &Arc<Self>,
        locked: &mut Locked,
        key: &WorkflowKey,
        selector: &RunSelector,
        creates: bool,
        delivered: Vec<OutboxKey>,
        decide: impl FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send,
    ) -> Result<R, CallError> {
        let run = self.select(locked, key, selector).await?;
        let context = self.context_on(&run, creates).await?;
        let applied = decide(&run, context)?;
        let stored_bytes = locked.state.current.as_ref().map_or(0, |current| current.stored_bytes);
        if let Some((ended, refused)) = end_oversized(&run, &applied.run, context, stored_bytes) {
            self.commit(locked, ended, Vec::new()).await?;
            return Err(refused.into());
        }
        self.commit(locked, applied, delivered).await
    }

    /// A call that is not about the current run, or finds none.
    async fn answer_alone(self: &Arc<Self>, locked: &mut Locked, key: &WorkflowKey, mut call: Box<dyn WaitingCall>) {
        let mut own = match self.lock_lingering(locked, key, call.selector()).await {
            Ok(own) => own,
            Err(error) => return call.fail(error),
        };
        let locked = own.as_mut().unwrap_or(locked);
        let (selector, creates, delivered) = (call.selector().clone(), call.creates(), call.take_delivered());
        let decide = |run: &Run, context| {
            let (run, transition) = call.decide(run, context)?;
            Ok(Applied { run, transition, reply: () })
        };
        let decided = Box::pin(self.commit_alone(locked, key, &selector, creates, delivered, decide)).await;
        match decided {
            Ok(()) => call.succeed(&mut locked.state),
            Err(error) => call.fail(error),
        }
    }
}

/// Lets calls that are on their way line up, if calls lined up before: workers that were answered together call again
/// together. A turn of the scheduler costs microseconds, a commit a sync.
async fn gather(locked: &Locked) {
    if locked.state.shared_commit {
        for _ in 0..GATHER_YIELDS {
            tokio::task::yield_now().await;
        }
    }
}

/// Whether a selector means the current run and fits it.
fn is_meant(run: &Run, selector: &RunSelector) -> bool {
    (selector.run_id.is_empty() || run.info.run_id == selector.run_id)
        && (selector.first_run_id.is_empty() || run.info.first_run_id == selector.first_run_id)
}

/// The size rule: a run that a call would make too large ends instead, and the call is refused.
fn end_oversized(run: &Run, next: &Run, context: Context, stored_bytes: usize) -> Option<(Applied<()>, Rejection)> {
    let reason = oversize::reason(run, next, stored_bytes)?;
    Some((oversize::end(run, context, reason), Rejection::InvalidArgument(reason.to_owned())))
}

/// Adds a transition to those before it.
fn merge(decided: &mut Option<(Run, Transition)>, run: Run, next: Transition) {
    match decided {
        Some((before, transition)) => {
            *before = run;
            transition.then(next);
        }
        None => *decided = Some((run, next)),
    }
}
