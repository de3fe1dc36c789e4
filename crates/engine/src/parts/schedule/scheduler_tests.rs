//! Schedules through their days, without a store.

use segno_proto::{
    common::{Payload, Payloads, WorkflowType},
    failure::Failure,
    schedule::{IntervalSpec, ScheduleAction, ScheduleSpec, TriggerImmediatelyRequest},
};

use super::*;

const MINUTE: Nanos = 60 * SECOND;
const HOUR: Nanos = 60 * MINUTE;
const BEGIN: Nanos = 1_704_067_200 * SECOND;

/// A schedule that acts each minute, with a world around it in which starts succeed.
struct World {
    state: ScheduleRun,
    now: Nanos,
}

impl World {
    fn new(change: impl FnOnce(&mut Schedule)) -> Self {
        let workflow = NewWorkflowExecutionInfo {
            workflow_id: "w".to_owned(),
            workflow_type: Some(WorkflowType { name: "W".to_owned() }),
            ..Default::default()
        };
        let mut schedule = Schedule {
            spec: Some(ScheduleSpec {
                interval: vec![IntervalSpec { interval: Some(nanos_duration(MINUTE)), phase: None }],
                ..Default::default()
            }),
            action: Some(ScheduleAction { action: Some(Action::StartWorkflow(workflow)) }),
            ..Default::default()
        };
        change(&mut schedule);
        let mut state = ScheduleRun {
            schedule: with_defaults(schedule).into(),
            processed: BEGIN,
            conflict_token: 1,
            ..Default::default()
        };
        state.info.create_time = Some(nanos_timestamp(BEGIN));
        let mut world = Self { state, now: BEGIN };
        world.step(|_| ());
        world
    }

    fn policy(policy: Policy) -> Self {
        Self::new(|schedule| schedule.policies.get_or_insert_default().set_overlap_policy(policy))
    }

    /// A step whose starts have not happened yet.
    fn orders(&mut self, happens: impl FnOnce(&mut Scheduler<'_>)) -> Orders {
        let mut scheduler = Scheduler::new(&mut self.state, self.now, "");
        scheduler.pass_time();
        happens(&mut scheduler);
        scheduler.settle();
        scheduler.orders
    }

    /// A step; the workflows that it starts begin. Returns the minutes for which workflows were started.
    fn step(&mut self, happens: impl FnOnce(&mut Scheduler<'_>)) -> Vec<i64> {
        let mut orders = self.orders(happens);
        let mut started = Vec::new();
        while let Some(order) = orders.starts.pop() {
            started.push((order.start.nominal - BEGIN) / MINUTE);
            let execution = execution(order.number);
            let more = self.orders(|scheduler| assert!(scheduler.started(order.number, Some(execution))));
            orders.starts.extend(more.starts);
        }
        started.sort_unstable();
        started
    }

    /// The schedule is woken whenever it wants to be, until a time.
    fn until(&mut self, minutes: i64) -> Vec<i64> {
        let end = BEGIN + minutes * MINUTE;
        let mut started = Vec::new();
        while self.state.wake_at > 0 && self.state.wake_at <= end {
            self.now = self.state.wake_at.max(self.now);
            started.extend(self.step(|_| ()));
        }
        self.now = end;
        started
    }

    fn end(&mut self, number: u64, status: Status) -> Vec<i64> {
        let failure = (status == Status::Failed).then(|| Failure { message: "no".to_owned(), ..Default::default() });
        let result = (status == Status::Completed)
            .then(|| Payloads { payloads: vec![Payload { data: "1".into(), ..Default::default() }] });
        self.step(|scheduler| scheduler.ended(&execution(number), WorkflowEnd { number, status, result, failure }))
    }
}

fn execution(number: u64) -> WorkflowExecution {
    WorkflowExecution { workflow_id: format!("w{number}"), run_id: format!("r{number}") }
}

fn trigger(policy: Policy) -> SchedulePatch {
    let trigger = TriggerImmediatelyRequest { overlap_policy: policy as i32, scheduled_time: None };
    SchedulePatch { trigger_immediately: Some(trigger), ..Default::default() }
}

fn backfill(from: i64, to: i64, policy: Policy) -> SchedulePatch {
    let time = |minutes: i64| Some(nanos_timestamp(BEGIN + minutes * MINUTE));
    let request = BackfillRequest { start_time: time(from), end_time: time(to), overlap_policy: policy as i32 };
    SchedulePatch { backfill_request: vec![request], ..Default::default() }
}

#[test]
fn it_skips_while_its_workflow_runs() {
    let mut world = World::policy(Policy::Unspecified);
    assert_eq!(world.until(3), [1]);
    assert_eq!((world.state.info.overlap_skipped, world.state.info.action_count), (2, 1));
    assert_eq!(world.end(1, Status::Completed), [] as [i64; 0]);
    assert_eq!(world.until(4), [4]);
    assert_eq!(world.state.info.recent_actions[0].start_workflow_status(), Status::Completed);
    assert_eq!(world.state.info.running_workflows, [execution(2)]);
    assert!(world.state.last_result.is_some());
}

#[test]
fn it_buffers() {
    let mut world = World::policy(Policy::BufferOne);
    assert_eq!(world.until(4), [1]);
    assert_eq!((world.state.buffered.len(), world.state.info.overlap_skipped), (1, 2));
    assert_eq!(world.end(1, Status::Completed), [2]);
    let mut world = World::policy(Policy::BufferAll);
    assert_eq!(world.until(4), [1]);
    assert_eq!(world.state.buffered.len(), 3);
    assert_eq!(world.end(1, Status::Failed), [2]);
    assert_eq!(world.end(2, Status::Canceled), [3]);
    assert_eq!(world.state.last_failure.as_ref().map(|failure| failure.message.as_str()), Some("no"));
}

#[test]
fn it_ends_the_one_before() {
    for (policy, terminate) in [(Policy::CancelOther, false), (Policy::TerminateOther, true)] {
        let mut world = World::policy(policy);
        assert_eq!(world.until(1), [1]);
        world.now = BEGIN + 2 * MINUTE;
        let orders = world.orders(|_| ());
        assert_eq!((orders.ends, orders.terminate, orders.starts.len()), (vec![execution(1)], terminate, 0));
        assert_eq!(world.end(1, Status::Terminated), [2]);
    }
}

#[test]
fn it_lets_all_run() {
    let mut world = World::policy(Policy::AllowAll);
    assert_eq!(world.until(3), [1, 2, 3]);
    assert!(world.state.info.running_workflows.is_empty());
    assert_eq!(world.state.info.recent_actions.len(), 3);
}

#[test]
fn starts_are_reported_in_order() {
    let mut world = World::policy(Policy::AllowAll);
    world.now = BEGIN + 3 * MINUTE;
    assert_eq!(world.orders(|_| ()).starts.len(), 3);
    for number in [3, 1, 2] {
        world.orders(|scheduler| assert!(scheduler.started(number, Some(execution(number)))));
        world.orders(|scheduler| assert!(!scheduler.started(number, Some(execution(number))), "it comes twice"));
    }
    let ids = world.state.info.recent_actions.iter().map(|action| action.start_workflow_result.clone());
    assert_eq!(ids.collect::<Vec<_>>(), [Some(execution(1)), Some(execution(2)), Some(execution(3))]);
    assert!(world.state.starting.is_empty());
}

#[test]
fn a_failed_start_counts_as_nothing() {
    let mut world = World::policy(Policy::BufferAll);
    world.now = BEGIN + 2 * MINUTE;
    assert_eq!(world.orders(|_| ()).starts.len(), 1);
    let orders = world.orders(|scheduler| assert!(scheduler.started(1, None)));
    assert_eq!(orders.starts.len(), 1, "the next one starts");
    assert_eq!(world.state.info.action_count, 0);
}

#[test]
fn time_without_a_server_is_caught_up_within_the_window() {
    let mut world = World::new(|schedule| {
        let policies = schedule.policies.get_or_insert_default();
        policies.set_overlap_policy(Policy::AllowAll);
        policies.catchup_window = Some(nanos_duration(3 * MINUTE));
    });
    world.now = BEGIN + 10 * MINUTE;
    assert_eq!(world.step(|_| ()), [7, 8, 9, 10]);
    assert_eq!(world.state.info.missed_catchup_window, 6);
    assert_eq!(world.state.wake_at, BEGIN + 11 * MINUTE);
    // Three years: a thousand wait, the others are dropped, in several steps.
    world.state.schedule.policies.as_mut().unwrap().catchup_window = Some(nanos_duration(5 * 365 * DAY));
    world.state.schedule.policies.as_mut().unwrap().set_overlap_policy(Policy::BufferAll);
    world.now = BEGIN + 3 * 365 * DAY;
    assert_eq!(world.step(|_| ()).len(), 1);
    assert!(world.state.wake_at < world.now);
    assert!(world.state.info.buffer_dropped > 8000);
}

#[test]
fn pausing() {
    let mut world = World::policy(Policy::AllowAll);
    world.step(|scheduler| scheduler.patch(SchedulePatch { pause: "stop".to_owned(), ..Default::default() }));
    assert_eq!((world.state.wake_at, world.state.conflict_token), (0, 2));
    assert_eq!(world.until(5), [] as [i64; 0]);
    // A caller may still trigger it.
    assert_eq!(world.step(|scheduler| scheduler.patch(trigger(Policy::Unspecified))), [5]);
    world.step(|scheduler| scheduler.patch(SchedulePatch { unpause: "go".to_owned(), ..Default::default() }));
    assert_eq!(world.state.schedule.state.as_ref().unwrap().notes, "go");
    assert_eq!(world.until(7), [6, 7], "what was missed in between is not caught up");
    assert_eq!(world.state.info.missed_catchup_window, 0);
}

#[test]
fn a_failure_pauses_it_if_it_says_so() {
    for (status, notes) in [
        (Status::Failed, "paused due to workflow failure: w1: no"),
        (Status::TimedOut, "paused due to workflow timeout: w1"),
        (Status::Terminated, ""),
    ] {
        let mut world = World::new(|schedule| schedule.policies.get_or_insert_default().pause_on_failure = true);
        assert_eq!(world.until(1), [1]);
        world.end(1, status);
        assert_eq!(world.state.schedule.state.as_ref().unwrap().notes, notes);
        assert_eq!(world.state.is_paused(), !notes.is_empty());
    }
}

#[test]
fn actions_can_be_limited() {
    let mut world = World::new(|schedule| {
        schedule.policies.get_or_insert_default().set_overlap_policy(Policy::AllowAll);
        schedule.state = Some(ScheduleState { limited_actions: true, remaining_actions: 2, ..Default::default() });
    });
    assert_eq!(world.until(60), [1, 2]);
    assert_eq!(world.state.conflict_token, 3);
    // It is over a week after its last action.
    assert_eq!(world.state.wake_at, BEGIN + 2 * MINUTE + RETENTION);
    world.now = world.state.wake_at;
    assert!(world.orders(|_| ()).complete);
}

#[test]
fn backfills_take_ten_at_a_time_and_include_both_ends() {
    let mut world = World::new(|schedule| {
        schedule.state = Some(ScheduleState { paused: true, ..Default::default() });
    });
    world.now = BEGIN + 100 * MINUTE;
    let started = world.step(|scheduler| scheduler.patch(backfill(5, 29, Policy::AllowAll)));
    assert_eq!(started, (5..15).collect::<Vec<_>>());
    assert_eq!(world.state.wake_at, world.now + BACKFILL_PAUSE);
    assert_eq!(world.until(101), (15..=29).collect::<Vec<_>>());
    assert!(world.state.backfills.is_empty());
    assert_eq!(world.state.info.action_count, 25);
    assert_eq!(world.state.info.recent_actions.len(), RECENT_MAX);
    assert_eq!(world.state.wake_at, 0);
}

#[test]
fn a_backfill_may_begin_at_the_earliest_time() {
    let mut world = World::policy(Policy::AllowAll);
    let earliest = prost_types::Timestamp { seconds: i64::MIN, nanos: 0 };
    let request = BackfillRequest { start_time: Some(earliest), end_time: Some(earliest), ..Default::default() };
    let patch = SchedulePatch { backfill_request: vec![request], ..Default::default() };
    assert_eq!(world.step(|scheduler| scheduler.patch(patch)), [0i64; 0]);
    // Further steps find nothing in the span.
    assert_eq!(world.until(10).len(), 10);
    assert!(world.state.backfills.is_empty());
}

#[test]
fn an_update_forgets_the_times_before_it() {
    let mut world = World::policy(Policy::AllowAll);
    assert_eq!(world.until(2), [1, 2]);
    world.now = BEGIN + 150 * SECOND;
    let mut schedule = Schedule::clone(&world.state.schedule);
    schedule.spec.as_mut().unwrap().interval[0].interval = Some(nanos_duration(10 * SECOND));
    assert_eq!(world.step(|scheduler| scheduler.replace(schedule)), [2], "the time of the update itself counts");
    assert_eq!(world.state.wake_at, BEGIN + 160 * SECOND);
    assert_eq!(world.state.conflict_token, 2);
}

#[test]
fn without_times_it_is_over_after_a_week() {
    let mut world = World::new(|schedule| schedule.spec = None);
    assert_eq!(world.state.wake_at, BEGIN + RETENTION);
    world.now = BEGIN + HOUR;
    world.step(|scheduler| scheduler.patch(trigger(Policy::Unspecified)));
    assert_eq!(world.state.wake_at, BEGIN + HOUR + RETENTION);
}
