//! Scales the number of concurrent polls.
//!
//! A server that scales pollers says with each answer how many more or fewer there should be. With other servers the
//! answers themselves decide: a poll that got a task adds another one, a poll without a task is not repeated as long as
//! there are more than the minimum.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tonic::{Code, Status};

use super::options::Pollers;
use crate::client::Waits;
use crate::lock::lock;

/// Longer than servers let a poll wait.
pub(super) const POLL: Duration = Duration::from_secs(70);

/// The result of a poll.
pub(crate) struct PollAnswer<T> {
    /// A task, or nothing within the time that the server lets a poll wait.
    pub task: Option<T>,
    /// How many pollers more or fewer the server wants.
    pub delta: Option<i32>,
}

/// How many polls of one kind a worker has open.
pub(crate) struct Scaling {
    min: usize,
    max: usize,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    target: usize,
    active: usize,
    /// Whether the server said anything about pollers yet.
    server_decides: bool,
}

/// How a worker stops its polls.
#[derive(Clone)]
pub(crate) struct PollStop {
    /// No new polls once this is true.
    pub stop: watch::Receiver<bool>,
    /// Polls that wait end by themselves once the worker has announced its shutdown. Otherwise they are
    /// dropped.
    pub server_ends_polls: bool,
}

/// How long the server has to end polls after a worker announced its shutdown.
const POLLS_END: Duration = Duration::from_secs(5);

impl Scaling {
    pub(crate) fn new(pollers: Pollers) -> Arc<Self> {
        let (min, max) = match pollers {
            Pollers::Fixed(count) => (count, count),
            Pollers::Auto { min, max } => (min, max),
        };
        // Enough to begin with, should there be a backlog.
        let target = min.max(max.min(5));
        let state = State { target, active: 0, server_decides: false };
        Arc::new(Self { min, max, state: Mutex::new(state), changed: Notify::new() })
    }

    /// Polls open now.
    pub(crate) fn active(&self) -> usize {
        self.lock().active
    }

    /// Polls until `stop`, then waits for the polls that are open.
    ///
    /// Each poller waits for room with `reserve`, polls with `poll` and hands over with `take`, which must not block.
    pub(crate) async fn poll<S, T, RF, PF>(
        self: Arc<Self>,
        ending: PollStop,
        reserve: impl Fn() -> RF + Clone + Send + Sync + 'static,
        poll: impl Fn() -> PF + Clone + Send + Sync + 'static,
        take: impl Fn(T, S) + Clone + Send + Sync + 'static,
    ) where
        S: Send + 'static,
        T: Send + 'static,
        RF: Future<Output = S> + Send + 'static,
        PF: Future<Output = Result<PollAnswer<T>, Status>> + Send + 'static,
    {
        let mut pollers = JoinSet::new();
        let mut stop = ending.stop.clone();
        while !*stop.borrow() {
            while self.begin() {
                let (reserve, poll, take) = (reserve.clone(), poll.clone(), take.clone());
                pollers.spawn(self.clone().poller(ending.stop.clone(), reserve, poll, take));
            }
            tokio::select! {
                _ = self.changed.notified() => {}
                // None, if all of them ended; then `begin` starts as many as there should be.
                _ = pollers.join_next(), if !pollers.is_empty() => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        if ending.server_ends_polls {
            let ended = async { while pollers.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(POLLS_END, ended).await;
        }
    }

    /// One poller.
    async fn poller<S, T, RF, PF>(
        self: Arc<Self>,
        mut stop: watch::Receiver<bool>,
        reserve: impl Fn() -> RF,
        poll: impl Fn() -> PF,
        take: impl Fn(T, S),
    ) where
        RF: Future<Output = S>,
        PF: Future<Output = Result<PollAnswer<T>, Status>>,
    {
        let mut waits = Waits::default();
        loop {
            let slot = tokio::select! {
                biased;
                _ = stopped(&mut stop) => break,
                slot = reserve() => slot,
            };
            match poll().await {
                Ok(polled) => {
                    waits = Waits::default();
                    let found = polled.task.is_some();
                    if let Some(task) = polled.task {
                        take(task, slot);
                    } else {
                        drop(slot);
                    }
                    self.answered(found, polled.delta);
                }
                Err(status) => {
                    drop(slot);
                    if *stop.borrow() {
                        break;
                    }
                    let wait = waits.next(status.code());
                    log(&status, wait);
                    self.failed(status.code());
                    tokio::select! {
                        _ = stopped(&mut stop) => break,
                        _ = tokio::time::sleep(wait) => {}
                    }
                }
            }
            if self.is_superfluous() {
                return;
            }
        }
        self.lock().active -= 1;
    }

    /// Counts another poller, if there should be one.
    fn begin(&self) -> bool {
        let mut state = self.lock();
        let wanted = state.active < state.target;
        state.active += usize::from(wanted);
        wanted
    }

    /// Whether the poller that asks should end; it is then not counted.
    fn is_superfluous(&self) -> bool {
        let mut state = self.lock();
        let superfluous = state.active > state.target;
        state.active -= usize::from(superfluous);
        superfluous
    }

    fn answered(&self, found: bool, delta: Option<i32>) {
        let mut state = self.lock();
        state.server_decides |= delta.is_some();
        let delta = match delta {
            Some(delta) => delta,
            None if !found => -1,
            None if state.server_decides => 0,
            None => 1,
        };
        self.set(&mut state, |target| target.saturating_add_signed(delta as isize));
    }

    fn failed(&self, code: Code) {
        let mut state = self.lock();
        // A server that has too much to do is left alone faster than one that cannot be reached.
        self.set(
            &mut state,
            |target| if code == Code::ResourceExhausted { target / 2 } else { target.saturating_sub(1) },
        );
    }

    fn set(&self, state: &mut State, change: impl FnOnce(usize) -> usize) {
        let target = change(state.target).clamp(self.min, self.max);
        if target > state.target {
            self.changed.notify_one();
        }
        state.target = target;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        lock(&self.state)
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn log(status: &Status, wait: Duration) {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => {
            tracing::debug!(code = ?status.code(), message = status.message(), ?wait, "a poll failed");
        }
        code => tracing::warn!(?code, message = status.message(), ?wait, "a poll failed"),
    }
}

#[cfg(test)]
#[path = "pollers_tests.rs"]
mod tests;
