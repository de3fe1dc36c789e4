//! Calls that wait for the same run share a commit.
//!
//! While a commit of a run is being written, further calls on that run queue at its slot. The call that gets the lock
//! next decides all of them, each on top of the one before, and makes the result durable with one commit: the state of
//! the run is encoded and written once. Each call is answered after that commit, in order (decision 016).
//!
//! A commit holds durable transitions. A transition that changes only memory may come before them (the next durable
//! transition stores the tail) but not after them, because stored state must not depend on it; it opens the next group.
//! So does each transition after one that replaces this run by another.

use std::{collections::VecDeque, sync::Arc};

use segno_engine::{Applied, Context, Durability, Rejection, Run, Transition, oversize};
use segno_environment::metrics::add;
use segno_store::OutboxKey;
use tokio::sync::oneshot;

use crate::{
    error::CallError,
    runs::Runs,
    slots::{RunSelector, Slot, WaitingCall, WorkflowKey},
    transact::LockedSlot,
};

/// Turns of the scheduler that a group of calls waits for more of them.
const GATHER_YIELDS: usize = 3;
/// Most calls in one commit.
const GROUP_MAX: usize = 256;
/// A commit is closed when its events are this large.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes that a request can add to the state of a run.
const CALL_BYTES_MAX: usize = 4 * 1024 * 1024;

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
                // Waited too long; the call that has the lock may have taken this one meanwhile.
                Err(CallError::Busy) => slot.calls.remove(number).into_iter().for_each(|call| call.fail(CallError::Busy)),
                Err(error) => slot.calls.take().into_iter().for_each(|call| call.fail(error.clone())),
            },
        }
        answer.await.map_err(gone)?
    }

    /// Decides, commits and answers all calls that wait.
    async fn answer_all(self: &Arc<Self>, locked: &mut LockedSlot, key: &WorkflowKey) {
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
        locked: &mut LockedSlot,
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
        locked: &mut LockedSlot,
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
    async fn answer_alone(
        self: &Arc<Self>,
        locked: &mut LockedSlot,
        key: &WorkflowKey,
        mut call: Box<dyn WaitingCall>,
    ) {
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
async fn gather(locked: &LockedSlot) {
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
