//! Requests of one destination that wait: which one is made next, and when.

use std::collections::VecDeque;

use segno_engine::nexus::RequestRef;
use segno_environment::hash::HashSet;
use segno_runs::ports::DueCallback;
use segno_store::{OutboxKey, RunKey};
use tokio::time::Instant;

use crate::breaker::{Admission, Breaker};

/// Requests to one destination at a time.
pub(crate) const AT_A_TIME: usize = 32;
/// Requests of operations that wait in memory. Those beyond are found again in their runs.
const WAITING_MAX: usize = 10_000;

/// A request to make.
#[derive(Debug)]
pub(crate) enum Job {
    /// The open request of an operation.
    Request(RunKey, RequestRef),
    /// A callback.
    Callback(Box<DueCallback>),
}

/// Names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum JobKey {
    /// Run, operation, stamp, whether it is a cancellation.
    Request(RunKey, i64, u32, bool),
    /// The message of a callback.
    Callback(OutboxKey),
}

impl Job {
    pub(crate) fn key(&self) -> JobKey {
        match self {
            Self::Request(run, request) => {
                JobKey::Request(*run, request.scheduled_event_id, request.stamp, request.cancel)
            }
            Self::Callback(callback) => JobKey::Callback(callback.row.key),
        }
    }
}

/// The next step of the task of a destination.
#[derive(Debug)]
pub(crate) enum Step {
    /// Makes a request; true if it is a probe of the breaker.
    Attempt(Job, bool),
    /// Waits for a change, or for this moment.
    Wait(Option<Instant>),
    /// Nothing waits, and nothing is under way.
    Idle,
}

/// The requests of a destination.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Job>,
    /// Those that wait and those under way.
    known: HashSet<JobKey>,
    under_way: usize,
    pub(crate) breaker: Breaker,
    /// Whether runs have requests that were not taken.
    overflowed: bool,
}

impl Queue {
    /// Takes a request, unless it is here or there is no room.
    pub(crate) fn push(&mut self, job: Job) {
        if self.waiting.len() >= WAITING_MAX && matches!(job, Job::Request(..)) {
            self.overflowed = true;
        } else if self.known.insert(job.key()) {
            self.waiting.push_back(job);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way == 0
    }

    pub(crate) fn next(&mut self, now: Instant) -> Step {
        if self.is_idle() {
            return Step::Idle;
        }
        if self.waiting.is_empty() || self.under_way >= AT_A_TIME {
            return Step::Wait(None);
        }
        let is_probe = match self.breaker.admission(now) {
            Admission::Now => false,
            Admission::Probe => true,
            Admission::At(until) => return Step::Wait(Some(until)),
            Admission::AfterProbe => return Step::Wait(None),
        };
        let Some(job) = self.waiting.pop_front() else { return Step::Idle };
        if is_probe {
            self.breaker.probe();
        }
        self.under_way += 1;
        Step::Attempt(job, is_probe)
    }

    /// A request has ended; see [`Breaker::note`].
    pub(crate) fn end(&mut self, key: JobKey, was_probe: bool, failed: Option<bool>, now: Instant) {
        self.under_way -= 1;
        self.known.remove(&key);
        self.breaker.note(was_probe, failed, now);
    }

    /// Whether requests that were not taken are to be looked for now.
    pub(crate) fn takes_more(&mut self) -> bool {
        let takes = self.overflowed && self.waiting.len() < WAITING_MAX / 2;
        self.overflowed &= !takes;
        takes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn job(id: i64) -> Job {
        Job::Request(RunKey(1), RequestRef { scheduled_event_id: id, cancel: false, stamp: 1 })
    }

    fn attempted(queue: &mut Queue, now: Instant) -> Option<(JobKey, bool)> {
        match queue.next(now) {
            Step::Attempt(job, is_probe) => Some((job.key(), is_probe)),
            _ => None,
        }
    }

    #[test]
    fn so_many_are_made_at_a_time_and_each_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for id in 0..40 {
            queue.push(job(id));
            queue.push(job(id));
        }
        for id in 0..32 {
            assert_eq!(attempted(&mut queue, now), Some((job(id).key(), false)));
        }
        assert!(matches!(queue.next(now), Step::Wait(None)));
        queue.push(job(0));
        queue.end(job(0).key(), false, Some(false), now);
        queue.push(job(0));
        for id in (32..40).chain([0]) {
            assert_eq!(attempted(&mut queue, now), Some((job(id).key(), false)));
            queue.end(job(id).key(), false, Some(false), now);
        }
        (1..32).for_each(|id| queue.end(job(id).key(), false, Some(false), now));
        assert!(matches!(queue.next(now), Step::Idle));
    }

    #[test]
    fn an_open_breaker_lets_one_through_after_a_minute() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (0..10).for_each(|id| queue.push(job(id)));
        for id in 0..6 {
            assert_eq!(attempted(&mut queue, now), Some((job(id).key(), false)));
            queue.end(job(id).key(), false, Some(true), now);
        }
        let later = now + Duration::from_secs(60);
        assert!(matches!(queue.next(now), Step::Wait(Some(until)) if until == later));
        assert_eq!(attempted(&mut queue, later), Some((job(6).key(), true)));
        assert_eq!(attempted(&mut queue, later), None);
        queue.end(job(6).key(), true, Some(false), later);
        assert_eq!(attempted(&mut queue, later), Some((job(7).key(), false)));
    }

    #[test]
    fn those_beyond_the_limit_are_looked_for_when_there_is_room() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (0..WAITING_MAX as i64 + 1).for_each(|id| queue.push(job(id)));
        for id in 0..WAITING_MAX as i64 / 2 {
            assert!(!queue.takes_more());
            attempted(&mut queue, now);
            queue.end(job(id).key(), false, Some(false), now);
        }
        attempted(&mut queue, now);
        assert_eq!((queue.takes_more(), queue.takes_more()), (true, false));
    }
}
