//! Whether a worker should poll a queue more or less often: advice that goes with each task, for workers that adapt their
//! number of polls.

use segno_proto::Nanos;

use super::stats::QueueStats;

const SECOND: Nanos = 1_000_000_000;
/// A poll that waited so long could have been spared.
const WAITED: Nanos = SECOND;
/// A backlog that is so old needs more polls.
const BACKLOG_AGE: Nanos = SECOND / 5;
/// Advice to grow in a second, for each worker.
const ADVICE_PER_SECOND: f64 = 10.0;
/// More polls are needed if so many times more tasks come than go.
const GROWTH: f32 = 1.2;

/// Keeps workers from growing too fast.
#[derive(Debug)]
pub struct AdviceBudget {
    left: f64,
    since: Nanos,
}

impl Default for AdviceBudget {
    fn default() -> Self {
        Self { left: 1.0, since: 0 }
    }
}

impl AdviceBudget {
    /// Takes a part of what is left; the more workers there are, the smaller a part.
    fn take(&mut self, workers: usize, now: Nanos) -> bool {
        let passed = (now - self.since).max(0) as f64 / SECOND as f64;
        self.left = (self.left + passed * ADVICE_PER_SECOND).min(1.0);
        self.since = now;
        let part = 1.0 / workers.max(1) as f64;
        let allowed = self.left >= part;
        if allowed {
            self.left -= part;
        }
        allowed
    }

    /// How many polls more, or fewer, a worker should make whose poll waited so long for its task. What the queue can say of
    /// its tasks is asked for only if it matters.
    pub fn advice(
        &mut self,
        waited: Nanos,
        workers: usize,
        now: Nanos,
        is_sticky: bool,
        stats: impl FnOnce() -> Vec<QueueStats>,
    ) -> i32 {
        if waited >= WAITED {
            return -1;
        }
        if !self.take(workers, now) {
            return 0;
        }
        let stats = stats();
        let is_late = stats.iter().any(|stats| stats.backlog > 0 && stats.oldest > BACKLOG_AGE);
        let added: f32 = stats.iter().map(|stats| stats.add_rate).sum();
        let dispatched: f32 = stats.iter().map(|stats| stats.dispatch_rate).sum();
        // Without any dispatch the quotient is infinite or no number, and only the former asks for more.
        i32::from(is_late || !is_sticky && added / dispatched > GROWTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(backlog: usize, oldest: Nanos, add_rate: f32, dispatch_rate: f32) -> Vec<QueueStats> {
        vec![QueueStats { backlog, oldest, add_rate, dispatch_rate }]
    }

    #[test]
    fn polls_that_waited_are_too_many() {
        let mut budget = AdviceBudget::default();
        for _ in 0..3 {
            assert_eq!(budget.advice(WAITED, 1, 1, false, || stats(5, SECOND, 9.0, 1.0)), -1);
        }
    }

    #[test]
    fn an_old_backlog_or_more_tasks_than_go_need_more() {
        let advice = |is_sticky, stats| AdviceBudget::default().advice(0, 1, 1, is_sticky, || stats);
        assert_eq!(advice(false, stats(1, BACKLOG_AGE, 1.0, 1.0)), 0, "not old enough");
        assert_eq!(advice(false, stats(1, BACKLOG_AGE + 1, 1.0, 1.0)), 1);
        assert_eq!(advice(true, stats(1, BACKLOG_AGE + 1, 1.0, 1.0)), 1);
        assert_eq!(advice(false, stats(0, 0, 1.3, 1.0)), 1);
        assert_eq!(advice(true, stats(0, 0, 1.3, 1.0)), 0, "sticky queues are judged by their backlog alone");
        assert_eq!(advice(false, stats(0, 0, 0.0, 0.0)), 0);
    }

    #[test]
    fn growth_is_limited_by_the_number_of_workers() {
        let mut budget = AdviceBudget::default();
        let mut ask = |workers, now| budget.advice(0, workers, now, false, || stats(1, SECOND, 1.0, 1.0));
        assert_eq!((ask(1, SECOND), ask(1, SECOND)), (1, 0));
        assert_eq!(ask(1, SECOND + SECOND / 10), 1, "ten in a second");
        let now = 10 * SECOND;
        assert_eq!((0..6).map(|_| ask(4, now)).sum::<i32>(), 4, "one for each worker");
    }
}
