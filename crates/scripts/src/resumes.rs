//! Turns that wait for an executor, round-robin over namespaces, each with a share of the turns under way.
//!
//! An entry is a run; everything else is read when it is taken, also whether the turn is still needed. The list is not
//! bounded: like the wake-up of a run an entry takes a few bytes.

use std::sync::Mutex;

use segno_environment::{
    hash::HashSet,
    lock::lock,
    namespace_queues::{NamespaceQueues, UnderWay},
};
use segno_store::{NamespaceKey, RunKey};
use tokio::sync::Notify;

/// Turns under way at the same time, of all namespaces.
const UNDER_WAY_MAX: usize = 256;
/// Of one namespace while no other one commits.
const ALONE_MAX: usize = 16;
/// Of one namespace otherwise.
const SHARE_MAX: usize = 4;

#[derive(Default)]
struct WaitingTurns {
    runs: NamespaceQueues<RunKey>,
    /// Runs in `runs`.
    known: HashSet<RunKey>,
    under_way: UnderWay,
}

/// See the module.
#[derive(Default)]
pub(super) struct Resumes {
    waiting: Mutex<WaitingTurns>,
    pub(super) changed: Notify,
}

impl Resumes {
    /// The run of a script has a turn to take.
    pub fn offer(&self, namespace: NamespaceKey, run: RunKey) {
        let mut waiting = lock(&self.waiting);
        if waiting.known.insert(run) {
            waiting.runs.push(namespace, run);
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// Takes the next turn. It is under way until [`Resumes::end`].
    pub(super) fn take(&self, is_shared: bool) -> Option<(NamespaceKey, RunKey)> {
        let mut waiting = lock(&self.waiting);
        if waiting.under_way.total() >= UNDER_WAY_MAX {
            return None;
        }
        let most = if is_shared { SHARE_MAX } else { ALONE_MAX };
        let WaitingTurns { runs, known, under_way } = &mut *waiting;
        let (namespace, run) = runs.take(|namespace| under_way.of(namespace) < most)?;
        known.remove(&run);
        under_way.begin(namespace);
        Some((namespace, run))
    }

    pub(super) fn end(&self, namespace: NamespaceKey) {
        lock(&self.waiting).under_way.end(namespace);
        self.changed.notify_one();
    }

    /// Turns that wait.
    pub fn len(&self) -> usize {
        lock(&self.waiting).known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NamespaceKey = NamespaceKey(1);
    const B: NamespaceKey = NamespaceKey(2);

    #[test]
    fn a_namespace_with_many_turns_does_not_delay_those_of_another() {
        let resumes = Resumes::default();
        for run in 0..1000 {
            resumes.offer(A, RunKey(run));
            resumes.offer(A, RunKey(run));
        }
        assert_eq!(resumes.len(), 1000);
        for _ in 0..SHARE_MAX {
            assert!(resumes.take(true).is_some_and(|(namespace, _)| namespace == A));
        }
        resumes.offer(B, RunKey(5000));
        assert_eq!(resumes.take(true), Some((B, RunKey(5000))));
        assert_eq!(resumes.take(true), None);
        assert!(resumes.take(false).is_some(), "alone it may have more");
        for _ in 0..=SHARE_MAX {
            resumes.end(A);
        }
        assert!(resumes.take(true).is_some());
    }
}
