//! Standalone activities: after any events in any order, its machine takes only steps that it has, it is
//! closed exactly if it has an outcome, and its stored form says all of it.

use segno_engine::{
    Applied, Context, Rejection, Run,
    activity::{self, ActivityRef, Taker},
    activity_options::Update,
    activity_pause::{Pause, Reset},
    limits::Limits,
    standalone::{
        NewStandalone, SCHEDULED_EVENT_ID, StandaloneStatus, activity_of,
        calls::{self, Terminate},
        operations,
        state::CancelRequest,
        status_of,
    },
    start::{self, Start, StartOptions},
    wake,
};
use segno_proto::{
    Nanos,
    activity::ActivityOptions,
    command::ScheduleActivityTaskCommandAttributes,
    common::{ActivityType, RetryPolicy},
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    nanos_duration,
    taskqueue::TaskQueue,
};

use crate::common::{random::Random, world::EPOCH};

const SECOND: Nanos = 1_000_000_000;

fn context(now: Nanos, key: u64) -> Context {
    Context { now, new_run_key: key, new_run_seed: key, limits: Limits::default(), script: None }
}

fn begin(delay: Nanos, schedule_to_close: Nanos, attempts: i32) -> Run {
    let attributes = ScheduleActivityTaskCommandAttributes {
        activity_id: "a".to_owned(),
        activity_type: Some(ActivityType { name: "act".to_owned() }),
        task_queue: Some(TaskQueue { name: "q".to_owned(), ..Default::default() }),
        start_to_close_timeout: Some(nanos_duration(5 * SECOND)),
        schedule_to_close_timeout: Some(nanos_duration(schedule_to_close)),
        schedule_to_start_timeout: Some(nanos_duration(20 * SECOND)),
        heartbeat_timeout: Some(nanos_duration(3 * SECOND)),
        retry_policy: Some(RetryPolicy {
            initial_interval: Some(nanos_duration(SECOND)),
            backoff_coefficient: 2.0,
            maximum_interval: Some(nanos_duration(100 * SECOND)),
            maximum_attempts: attempts,
            ..Default::default()
        }),
        ..Default::default()
    };
    let options = StartOptions {
        workflow_id: "temporal-sys-activity:a".to_owned(),
        request_id: "r".to_owned(),
        start_delay: (delay > 0).then(|| nanos_duration(delay)),
        standalone: Some(Box::new(NewStandalone { attributes, start_delay: delay })),
        ..Default::default()
    };
    let start = Start::new(1, "n".to_owned(), 0, options);
    let started = start::start(start, Vec::new(), context(EPOCH, 1));
    started.transition.check().expect("a start is legal");
    started.run
}

fn failure(non_retryable: bool) -> Option<Failure> {
    let info = ApplicationFailureInfo { non_retryable, ..Default::default() };
    Some(Failure { failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Default::default() })
}

/// One call of any kind. Which ones are refused is for the machine to say.
fn anything(run: &Run, context: Context, chance: &mut Random) -> Result<Run, Rejection> {
    fn run_of<R>(applied: Result<Applied<R>, Rejection>) -> Result<Run, Rejection> {
        let applied = applied?;
        applied.transition.check()?;
        Ok(applied.run)
    }
    let by_id = ActivityRef::Id("a".to_owned());
    let request_id = format!("r{}", chance.below(4));
    let stamp = activity_of(run.state()).map_or(0, |activity| activity.stamp);
    match chance.below(16) {
        0..=2 => {
            let taker = Taker { identity: "worker".to_owned(), ..Default::default() };
            run_of(activity::start(run, context, SCHEDULED_EVENT_ID, stamp, taker))
        }
        3 => run_of(activity::heartbeat(run, context, &by_id, None, String::new())),
        4 | 5 => run_of(activity::fail(run, context, &by_id, failure(false), String::new(), None, None)),
        6 if chance.once_in(6) => {
            run_of(activity::fail(run, context, &by_id, failure(true), String::new(), None, None))
        }
        7 if chance.once_in(8) => run_of(activity::complete(run, context, &by_id, None, String::new(), None)),
        8 => run_of(activity::cancel(run, context, &by_id, None, String::new(), None)),
        9 if chance.once_in(6) => {
            let call = CancelRequest { request_id, ..Default::default() };
            run_of(calls::request_cancel(run, context, call))
        }
        10 if chance.once_in(12) => {
            run_of(calls::terminate(run, context, Terminate { request_id, ..Default::default() }))
        }
        11 => run_of(operations::pause(run, context, &Pause { request_id, ..Default::default() })),
        12 => run_of(operations::unpause(run, context, &request_id, 0)),
        13 => {
            let call = Reset {
                reset_heartbeat: chance.once_in(2),
                keep_paused: chance.once_in(2),
                jitter: chance.below(2) as Nanos * SECOND,
                restore_options: chance.once_in(2),
            };
            run_of(operations::reset(run, context, &request_id, call))
        }
        14 => {
            let options = ActivityOptions {
                start_to_close_timeout: Some(nanos_duration((chance.below(9) as Nanos + 1) * SECOND)),
                retry_policy: Some(RetryPolicy {
                    initial_interval: Some(nanos_duration(SECOND)),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let paths = vec!["startToCloseTimeout".to_owned(), "retryPolicy.initialInterval".to_owned()];
            let call = Update { options: Some(options), paths: Some(paths) };
            run_of(operations::update(run, context, &request_id, &call, chance.once_in(4)))
        }
        _ => run_of(Ok(wake::wake(run, context))),
    }
}

#[test]
fn whatever_happens_the_outcome_is_the_end() {
    let mut ended = 0;
    for seed in 0..3000 {
        let mut chance = Random(seed);
        let mut now = EPOCH;
        let mut run = begin(chance.below(3) as Nanos * SECOND, 60 * SECOND, chance.below(4) as i32);
        for step in 0..60 {
            now += chance.below(3) as Nanos * SECOND / 2;
            match anything(&run, context(now, step), &mut chance) {
                Ok(after) => run = after,
                Err(Rejection::Defect(illegal)) => panic!("seed {seed}, step {step}: {illegal}"),
                Err(_) => {}
            }
            let outcome = run.state().standalone.as_ref().and_then(|standalone| standalone.outcome.as_ref());
            assert_eq!(outcome.is_some(), !run.is_running(), "seed {seed}, step {step}");
            assert!(activity_of(run.state()).is_some(), "seed {seed}, step {step}");
            assert!(run.state().task.is_none(), "seed {seed}, step {step}: it has no workflow tasks");
            let waits = matches!(status_of(&run), StandaloneStatus::Scheduled | StandaloneStatus::Started);
            let dispatchable = run.is_dispatchable(now);
            assert!(
                !waits || dispatchable || wake::wake_at(&run, now).is_some(),
                "seed {seed}, step {step}: forgotten"
            );
        }
        let again = Run::decode(run.encode()).expect("what was stored can be read");
        assert_eq!(again.state(), run.state(), "seed {seed}");
        ended += u32::from(!run.is_running());
    }
    assert!(ended > 500, "only {ended} ended");
}

#[test]
fn time_goes_on_while_it_is_paused() {
    let run = begin(0, 10 * SECOND, 0);
    let paused = operations::pause(&run, context(EPOCH, 2), &Pause::default()).expect("it can be paused").run;
    assert_eq!(status_of(&paused), StandaloneStatus::Paused);
    let late = context(EPOCH + 10 * SECOND, 3);
    assert_eq!(wake::wake_at(&paused, EPOCH), Some(late.now), "only the time for all attempts counts");
    assert!(!wake::wake(&paused, late).run.is_running());
}

#[test]
fn a_delayed_start_is_offered_when_it_is_due() {
    let run = begin(5 * SECOND, 60 * SECOND, 0);
    assert!(!run.is_dispatchable(EPOCH));
    let due = EPOCH + 5 * SECOND;
    assert_eq!(wake::wake_at(&run, EPOCH), Some(due));
    let woken = wake::wake(&run, context(due, 2));
    assert!(woken.transition.effects.contains(&segno_engine::Effect::OfferActivity(SCHEDULED_EVENT_ID)));
}
