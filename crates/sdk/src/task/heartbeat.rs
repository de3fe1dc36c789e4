//! Heartbeats of tasks, throttled: the first is sent at once, of those that follow within an interval only the last
//! one.
//!
//! Details that are unsent when the attempt ends are sent with its answer, so that the next attempt gets them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use segno_proto::common::Payload;
use tokio::{runtime::Handle, task::AbortHandle, time::Instant};

use super::cancel::{CancelReason, Cancellation};
use crate::lock::lock;

/// The server's reply to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Go on.
    Taken,
    /// Stop.
    Stop(CancelReason),
    /// It could not be reached; the details are still to be sent.
    Unsent,
}

type Send = Arc<dyn Fn(Vec<Payload>) -> BoxFuture<'static, Answer> + std::marker::Send + Sync>;
#[cfg(feature = "testing")]
type Observe = Arc<dyn Fn(Vec<Payload>) -> Answer + std::marker::Send + Sync>;

/// The heartbeats of one attempt.
pub(crate) struct Heartbeats {
    to: Target,
    cancellation: Arc<Cancellation>,
    state: Arc<Mutex<State>>,
}

enum Target {
    /// Not sent: a local task.
    Nowhere,
    /// A test listens, to each of them.
    #[cfg(feature = "testing")]
    Observer(Observe),
    /// The server, not more often than once per interval.
    Server { send: Send, interval: Duration, runtime: Handle },
}

struct State {
    /// Said, and not yet taken by the server.
    unsent: Option<Vec<Payload>>,
    /// The sender, from a heartbeat until an interval passes without one.
    sender: Option<AbortHandle>,
    /// The attempt is over.
    closed: bool,
    /// When the server last took one; first, when the attempt began.
    taken_at: Instant,
}

impl Heartbeats {
    pub(crate) fn unsent(cancellation: Arc<Cancellation>) -> Self {
        Self::new(Target::Nowhere, cancellation)
    }

    #[cfg(feature = "testing")]
    pub(crate) fn observer(observe: Observe, cancellation: Arc<Cancellation>) -> Self {
        Self::new(Target::Observer(observe), cancellation)
    }

    pub(crate) fn server(send: Send, interval: Duration, cancellation: Arc<Cancellation>) -> Self {
        // Blocking tasks may beat on threads of their own, which have no runtime.
        let runtime = Handle::current();
        Self::new(Target::Server { send, interval, runtime }, cancellation)
    }

    fn new(to: Target, cancellation: Arc<Cancellation>) -> Self {
        let state = State { unsent: None, sender: None, closed: false, taken_at: Instant::now() };
        Self { to, cancellation, state: Arc::new(Mutex::new(state)) }
    }

    /// Says how far the task is.
    pub(crate) fn beat(&self, details: Vec<Payload>) {
        match &self.to {
            Target::Nowhere => {}
            #[cfg(feature = "testing")]
            Target::Observer(observe) => {
                if let Answer::Stop(reason) = observe(details) {
                    self.cancellation.tell(reason);
                }
            }
            Target::Server { send, interval, runtime } => {
                let mut state = lock(&self.state);
                if state.closed {
                    return;
                }
                state.unsent = Some(details);
                // A cancelled task learns nothing more from the server; its answer takes the details along.
                if state.sender.is_none() && self.cancellation.reason().is_none() {
                    let sender = sender(send.clone(), *interval, self.state.clone(), self.cancellation.clone());
                    state.sender = Some(runtime.spawn(sender).abort_handle());
                }
            }
        }
    }

    /// When the server last heard of the attempt.
    pub(crate) fn taken_at(&self) -> Instant {
        lock(&self.state).taken_at
    }

    /// The attempt is over: returns what the server has not heard yet.
    pub(crate) fn close(&self) -> Option<Vec<Payload>> {
        let mut state = lock(&self.state);
        state.closed = true;
        if let Some(sender) = state.sender.take() {
            sender.abort();
        }
        state.unsent.take()
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.close();
    }
}

async fn sender(send: Send, interval: Duration, state: Arc<Mutex<State>>, cancellation: Arc<Cancellation>) {
    loop {
        let details = {
            let mut state = lock(&state);
            match &state.unsent {
                Some(details) => details.clone(),
                None => {
                    state.sender = None;
                    return;
                }
            }
        };
        // The details stay in `unsent` until the server has taken them: if the attempt ends meanwhile its answer has them.
        match send(details.clone()).await {
            Answer::Taken => {
                let mut state = lock(&state);
                state.taken_at = Instant::now();
                if state.unsent.as_ref() == Some(&details) {
                    state.unsent = None;
                }
            }
            Answer::Stop(reason) => {
                cancellation.tell(reason);
                lock(&state).sender = None;
                return;
            }
            Answer::Unsent => {
                // Soon again: what is left of the heartbeat time-out is a fifth of it.
                tokio::time::sleep(interval / 8).await;
                continue;
            }
        }
        tokio::time::sleep(interval).await;
    }
}

/// How often the server hears of a task: in time for its time-out, and not more often than it needs to.
pub(crate) fn interval(heartbeat_timeout: Option<Duration>, longest: Duration) -> Duration {
    match heartbeat_timeout {
        Some(timeout) if !timeout.is_zero() => timeout.mul_f64(0.8).min(longest),
        _ => longest,
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
