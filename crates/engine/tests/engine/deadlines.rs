//! Time-outs of runs and executions that come at the same moment, or almost.

use crate::common::world::{EPOCH, World, start_request};
use segno_engine::wake;
use segno_proto::{common::RetryPolicy, enums::RetryState, events::history_event::Attributes, nanos_duration};

const MILLISECOND: i64 = 1_000_000;

/// How a run ends that begins at this moment and gets no answer.
fn end_of(now: i64, execution_ms: i64, run_ms: i64, maximum_attempts: i32) -> RetryState {
    let mut call = start_request();
    call.options.workflow_execution_timeout = Some(nanos_duration(execution_ms * MILLISECOND));
    call.options.workflow_run_timeout = (run_ms > 0).then(|| nanos_duration(run_ms * MILLISECOND));
    call.options.retry_policy = Some(RetryPolicy {
        maximum_attempts,
        backoff_coefficient: 1.0,
        initial_interval: Some(nanos_duration(MILLISECOND)),
        ..Default::default()
    });
    let mut world = World::begin(call, now).0;
    world.now = wake::wake_at(&world.run, now).expect("its time is limited");
    world.call(|run, context| Ok(wake::wake(run, context))).expect("a run may always be woken");
    match world.history().pop().and_then(|event| event.attributes) {
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(ended)) => ended.retry_state(),
        other => panic!("it did not time out but ended with {other:?}"),
    }
}

#[test]
fn an_execution_whose_time_is_up_never_asks_its_retry_policy() {
    let edges = [1, 499_999, 500_000, 500_001, 999_999];
    for offset in (0..MILLISECOND).step_by(1_000).chain(edges) {
        for attempts in [0, 1, 3] {
            assert_eq!(end_of(EPOCH + offset, 10, 0, attempts), RetryState::Timeout, "{offset} ns, {attempts}");
            assert_eq!(end_of(EPOCH + offset, 10, 10, attempts), RetryState::Timeout, "{offset} ns, {attempts}");
        }
    }
}

#[test]
fn a_run_whose_time_is_up_first_does() {
    for offset in (0..MILLISECOND).step_by(100_000) {
        assert_eq!(end_of(EPOCH + offset, 10, 5, 1), RetryState::MaximumAttemptsReached, "{offset} ns");
        assert_eq!(end_of(EPOCH + offset, 10, 5, 3), RetryState::InProgress, "{offset} ns");
    }
}
