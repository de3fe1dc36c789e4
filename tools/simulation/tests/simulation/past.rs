//! Worlds in which something was found once. A change of what is drawn makes other worlds of these seeds: then they are ordinary ones.

use segno_simulation::{live, scenario::Scenario};

fn holds(seed: u64) {
    assert_eq!(live(&Scenario::of_seed(seed), false).findings, Vec::<String>::new());
}

/// A query waited for a task whose completion could not be stored because the disk was full. It was then sent to a worker by itself,
/// although the task was pending again, and did not see a signal that had been acknowledged.
#[test]
fn a_query_after_a_failed_commit_sees_acknowledged_signals() {
    holds(957);
}

/// An activity was scheduled at a moment that was a nanosecond ahead of the clock, because calls came faster than the clock ticked. Its
/// run was stored as one without waiting tasks, and a crash right after it left the activity in no queue.
#[test]
fn a_task_that_was_scheduled_ahead_of_the_clock_is_offered_after_a_crash() {
    holds(997);
}
