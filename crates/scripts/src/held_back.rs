//! Turns that must not be taken now: the last attempt failed, or the run waits for an operator.

use std::{sync::Mutex, time::Duration};

use segno_engine::{Run, script};
use segno_environment::{
    hash::{HashMap, HashSet},
    lock::lock,
};
use segno_store::RunKey;
use tokio::time::Instant;

/// See the module.
#[derive(Default)]
pub(super) struct HeldBackTurns {
    /// Runs whose turn failed, and until when they wait.
    until: Mutex<HashMap<RunKey, Instant>>,
    /// Runs that wait for an operator, who asked for one more attempt.
    retried: Mutex<HashSet<RunKey>>,
}

impl HeldBackTurns {
    /// The turn of a run failed: it is not tried again for a while.
    pub fn hold_back(&self, run: RunKey, pause: Duration) {
        lock(&self.until).insert(run, Instant::now() + pause);
    }

    /// The while is over.
    pub fn release(&self, run: RunKey) {
        lock(&self.until).remove(&run);
    }

    /// Whether the turn of a run has to wait.
    pub fn is_held_back(&self, run: &Run) -> bool {
        let key = RunKey(run.info.run_key);
        if script::waits_for_operator(run) && !lock(&self.retried).contains(&key) {
            return true;
        }
        let until = lock(&self.until);
        !until.is_empty() && until.get(&key).is_some_and(|until| *until > Instant::now())
    }

    /// An operator wants one more attempt of a turn.
    pub fn retry(&self, run: RunKey) {
        lock(&self.retried).insert(run);
        self.release(run);
    }

    /// Whether the turn of a run may be executed now. The attempt for which an operator asked is used up by it.
    pub fn begin_turn(&self, run: &Run) -> bool {
        let is_allowed = !self.is_held_back(run);
        lock(&self.retried).remove(&RunKey(run.info.run_key));
        is_allowed
    }
}
