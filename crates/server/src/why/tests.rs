//! One test for each state that a run can be in.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use segno_engine::{
    Shared,
    callbacks::{CallbackState, RegisteredCallback, SYSTEM},
    schedule::state::ScheduleRun,
    state::{
        Activity, Child, External, PauseInfo, ReportedFailure, RunInfo, RunState, Script, ScriptWakeSet, TaskKind,
        Timer, UpdateRecord, WorkflowTask, activity::LostWorker, nexus::Operation,
    },
};
use segno_proto::{
    common::{Callback, RetryPolicy, WorkflowExecution, callback},
    enums::{RetryState, TimeoutType, WorkflowExecutionStatus as Status, WorkflowTaskFailedCause as Cause},
    events::{
        HistoryEvent, WorkflowExecutionFailedEventAttributes, WorkflowExecutionTerminatedEventAttributes,
        WorkflowExecutionTimedOutEventAttributes, history_event::Attributes,
    },
    failure::{ApplicationFailureInfo, Failure, TimeoutFailureInfo, failure::FailureInfo},
};

use super::*;

pub(super) const SECOND: Nanos = 1_000_000_000;
/// 2001-09-09T01:46:40Z.
pub(super) const NOW: Nanos = 1_000_000_000 * SECOND;

pub(super) fn run(change: impl FnOnce(&mut RunInfo, &mut RunState)) -> Run {
    let mut info = RunInfo {
        run_key: 1,
        workflow_id: "order-7".to_owned(),
        run_id: "the-run".to_owned(),
        workflow_type: "Order".to_owned(),
        task_queue: "orders".to_owned(),
        task_timeout: 10 * SECOND,
        attempt: 1,
        start_time: NOW - 60 * SECOND,
        ..Default::default()
    };
    let mut state = RunState { status: Status::Running as i32, next_event_id: 5, ..Default::default() };
    change(&mut info, &mut state);
    let mut stored = BytesMut::new();
    let info = info.encode_to_vec();
    stored.put_u32_le(info.len() as u32);
    stored.put_slice(&info);
    stored.put_slice(&state.encode_to_vec());
    Run::decode(stored.freeze()).expect("a run")
}

pub(super) fn seen(run: &Run) -> RunSnapshot<'_> {
    RunSnapshot {
        run,
        now: NOW,
        workflow_queue: QueueSnapshot::default(),
        activity_queues: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        workers: BTreeMap::new(),
        script: None,
        namesake: false,
        close_event: None,
        children: BTreeMap::new(),
        updates: BTreeMap::new(),
        cancel: None,
    }
}

fn only(seen: &RunSnapshot<'_>) -> Reason {
    let mut all = reasons(seen);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

fn kinds(seen: &RunSnapshot<'_>) -> Vec<String> {
    reasons(seen).into_iter().map(|reason| reason.kind).collect()
}

fn application(message: &str, kind: &str) -> Failure {
    let info = ApplicationFailureInfo { r#type: kind.to_owned(), ..Default::default() };
    Failure {
        message: message.to_owned(),
        stack_trace: "at pay (shop.py:12)\nat run (shop.py:3)".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        ..Default::default()
    }
}

fn waiting_task() -> WorkflowTask {
    WorkflowTask {
        scheduled_event_id: 2,
        attempt: 1,
        scheduled_time: NOW - 30 * SECOND,
        start_to_close: 10 * SECOND,
        queue: "orders".to_owned(),
        ..Default::default()
    }
}

fn started_task() -> WorkflowTask {
    WorkflowTask {
        started_event_id: 3,
        started_time: NOW - 4 * SECOND,
        identity: "7@host".to_owned(),
        worker: "w-1".to_owned(),
        ..waiting_task()
    }
}

fn lease(change: impl FnOnce(&mut LeaseView)) -> (String, LeaseView) {
    let mut lease = LeaseView {
        worker: "w-1".to_owned(),
        first_heard: None,
        identity: "7@host".to_owned(),
        task_queue: "orders".to_owned(),
        leaving: false,
        detached: false,
        speaks_protocol: false,
        remaining: None,
        silent: 0,
        connections: 1,
        holds: Vec::new(),
        tasks: Vec::new(),
    };
    change(&mut lease);
    (lease.worker.clone(), lease)
}

fn activity(change: impl FnOnce(&mut Activity)) -> Run {
    let mut activity = Activity {
        scheduled_event_id: 5,
        activity_id: "5".to_owned(),
        activity_type: "charge".to_owned(),
        queue: "payments".to_owned(),
        attempt: 1,
        scheduled_time: NOW - 20 * SECOND,
        start_to_close: 60 * SECOND,
        ..Default::default()
    };
    change(&mut activity);
    run(|_, state| drop(state.activities.insert(5, Shared::from(activity))))
}

fn closed(
    status: Status,
    attributes: Option<Attributes>,
    change: impl FnOnce(&mut RunInfo, &mut RunState),
) -> Vec<Reason> {
    let run = run(|info, state| {
        state.status = status as i32;
        state.close_time = NOW - 5 * SECOND;
        change(info, state);
    });
    let event = HistoryEvent { event_id: 4, attributes, ..Default::default() };
    reasons(&RunSnapshot { close_event: Some(event), ..seen(&run) })
}

#[test]
fn no_worker_polls_the_queue() {
    let run = run(|_, state| state.task = Some(waiting_task()));
    let never = only(&seen(&run));
    assert_eq!(never.kind, "NO_POLLER");
    assert_eq!(
        never.text,
        "The workflow task has waited since 2001-09-09T01:46:10Z (for 30 s): no worker polls task queue \"orders\" for workflow \
         tasks (none has since the server started)."
    );
    assert!(never.hint.starts_with("Start a worker on task queue \"orders\""), "{}", never.hint);
    let mut gone = seen(&run);
    gone.workflow_queue.service.last_poll = Some(NOW - 95 * SECOND);
    assert!(only(&gone).text.ends_with("(the last poll began 1 min 35 s ago)."), "{}", only(&gone).text);
    gone.workflow_queue.service.last_poll = None;
    gone.workflow_queue.live_workers = 1;
    assert!(only(&gone).text.ends_with("1 worker serves the queue, but not for workflow tasks."));
}

#[test]
fn workers_are_there_but_busy_limited_or_about_to_take_it() {
    let run = run(|_, state| state.task = Some(waiting_task()));
    let mut there = seen(&run);
    there.workflow_queue = QueueSnapshot {
        service: QueueService { polls_waiting: 0, last_poll: Some(NOW), backlog: 3 },
        live_workers: 2,
        ..QueueSnapshot::default()
    };
    let busy = only(&there);
    assert_eq!(busy.kind, "WORKERS_BUSY");
    assert!(busy.text.ends_with("3 tasks wait there."), "{}", busy.text);
    there.workflow_queue.is_limited = true;
    assert_eq!(only(&there).kind, "RATE_LIMITED");
    there.workflow_queue.is_limited = false;
    there.workflow_queue.service.polls_waiting = 1;
    assert_eq!(only(&there).kind, "QUEUED");
}

#[test]
fn a_worker_has_the_task() {
    let run = run(|_, state| state.task = Some(started_task()));
    let mut held = seen(&run);
    held.workers.extend([lease(|_| ())]);
    let reason = only(&held);
    assert_eq!(reason.kind, "TASK_AT_WORKER");
    assert_eq!(
        reason.text,
        "Worker \"7@host\" has been working on the workflow task since 2001-09-09T01:46:36Z (for 4 s). It has 6 s left to answer."
    );
}

#[test]
fn a_worker_has_a_task_that_failed_before() {
    let run = run(|_, state| state.task = Some(WorkflowTask { attempt: 3, ..started_task() }));
    assert!(
        only(&seen(&run)).text.ends_with("report only the first failure of a task and let later attempts time out.")
    );
}

#[test]
fn the_worker_that_has_the_task_is_silent() {
    let run = run(|_, state| state.task = Some(started_task()));
    let mut held = seen(&run);
    held.workers.extend([lease(|lease| {
        lease.silent = 9 * SECOND;
        lease.remaining = Some(21 * SECOND);
    })]);
    let reason = only(&held);
    assert_eq!(reason.kind, "WORKER_SILENT");
    assert!(reason.text.contains("but it has been silent for 9 s."), "{}", reason.text);
    assert_eq!(reason.hint, "It counts as lost in 21 s; then its work is given to others.");
    held.workers.extend([lease(|lease| lease.detached = true)]);
    assert!(only(&held).text.contains("its connections are gone"));
}

#[test]
fn the_code_breaks() {
    let run = run(|_, state| {
        state.failures_since_success = 5;
        state.reported_failure = Some(Box::new(ReportedFailure {
            cause: Cause::WorkflowWorkerUnhandledFailure as i32,
            failure: Some(Failure {
                cause: Some(Box::new(application("deep", ""))),
                ..application("no such key", "KeyError")
            }),
            time: NOW - 3 * SECOND,
            identity: "7@host".to_owned(),
        }));
        state.task = Some(WorkflowTask { attempt: 6, ..waiting_task() });
    });
    let all = reasons(&seen(&run));
    assert_eq!(all[0].kind, "TASK_FAILING");
    assert_eq!(
        all[0].text,
        "The code breaks: the workflow task failed 5 times in a row, last reported at 2001-09-09T01:46:37Z (3 s ago) by \
         7@host with: no such key (KeyError)."
    );
    assert_eq!(
        all[0].details,
        [
            "cause: WORKFLOW_WORKER_UNHANDLED_FAILURE",
            "no such key (KeyError)",
            "caused by: deep",
            "at pay (shop.py:12)",
            "at run (shop.py:3)"
        ]
    );
    assert_eq!(all[1].kind, "NO_POLLER");
    let last = last_task_failure(run.state()).expect("a failure");
    assert_eq!((last.cause.as_str(), last.r#type.as_str()), ("WORKFLOW_WORKER_UNHANDLED_FAILURE", "KeyError"));
    assert_eq!((last.failures, last.message.as_str()), (5, "no such key"));
}

#[test]
fn a_script_waits_for_an_operator() {
    let run = run(|_, state| {
        state.script = Some(Default::default());
        state.failures_since_success = 5;
        let failure = Failure { message: segno_engine::script::OVERTIME.to_owned(), ..Default::default() };
        let reported = ReportedFailure { failure: Some(failure), time: NOW - 3 * SECOND, ..Default::default() };
        state.reported_failure = Some(Box::new(reported));
        state.task = Some(WorkflowTask { attempt: 6, ..waiting_task() });
    });
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "WAITS_FOR_OPERATOR");
    assert_eq!(
        reason.text,
        "It waits for an operator: the turn of the script took longer than 10 s in 5 attempts, and is not tried again by \
         itself."
    );
    assert!(reason.hint.contains("`segno flow migrate --workflow-id order-7`"), "{}", reason.hint);
}

#[test]
fn the_code_does_not_fit_the_history() {
    let run = run(|_, state| {
        state.failures_since_success = 1;
        let cause = Cause::NonDeterministicError as i32;
        state.reported_failure = Some(Box::new(ReportedFailure { cause, time: NOW, ..Default::default() }));
    });
    let reason = &reasons(&seen(&run))[0];
    assert!(
        reason.text.contains("failed once") && reason.text.ends_with("NON_DETERMINISTIC_ERROR."),
        "{}",
        reason.text
    );
    assert!(reason.hint.contains("segno workflow reset"), "{}", reason.hint);
}

#[test]
fn workflow_tasks_time_out() {
    let run = run(|_, state| {
        state.failures_since_success = 2;
        state.task = Some(WorkflowTask { attempt: 3, ..started_task() });
    });
    let all = reasons(&seen(&run));
    assert_eq!(all[0].kind, "TASK_TIMING_OUT");
    assert!(all[0].text.contains("timed out 2 times in a row: a worker took it and did not answer within 10 s"));
}

#[test]
fn the_task_waits_for_the_worker_with_the_run_in_its_cache() {
    let run = run(|_, state| {
        state.task = Some(WorkflowTask { sticky: true, schedule_to_start: 35 * SECOND, ..waiting_task() });
    });
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "STICKY");
    assert!(reason.text.ends_with("any worker of task queue \"orders\" may take it at 2001-09-09T01:46:45Z (in 5 s)."));
}

#[test]
fn a_speculative_task_and_buffered_events() {
    let run = run(|_, state| {
        state.task = Some(WorkflowTask { kind: TaskKind::Speculative as i32, ..waiting_task() });
        state.buffered = vec![HistoryEvent::default(); 2];
    });
    let all = reasons(&seen(&run));
    assert!(all[0].text.starts_with("A workflow task for an update has waited"), "{}", all[0].text);
    assert_eq!(all[1].text, "2 events wait until the worker has answered the workflow task.");
}

#[test]
fn the_start_is_held_back() {
    let held = |change: fn(&mut RunInfo)| {
        let run = run(|info, state| {
            state.first_task_due = NOW + 12 * SECOND;
            change(info);
        });
        let reason = reasons(&seen(&run)).remove(0);
        assert_eq!(reason.kind, "START_DELAYED");
        reason.text
    };
    let begins = "It begins at 2001-09-09T01:46:52Z (in 12 s)";
    assert_eq!(held(|_| ()), format!("{begins}: it was started with a delay."));
    let cron = held(|info| info.cron_schedule = "@hourly".to_owned());
    assert_eq!(cron, format!("{begins}: the cron schedule \"@hourly\" has its next time then."));
    let retried = held(|info| info.attempt = 3);
    assert!(retried.ends_with("the run before it failed, and attempt 3 is held back by the retry policy."));
}

#[test]
fn an_activity_failed_and_is_tried_again() {
    let run = activity(|activity| {
        activity.attempt = 6;
        activity.scheduled_time = NOW + 12 * SECOND;
        activity.last_failure = Some(application("card declined", "CardError"));
        activity.retry_policy = Some(RetryPolicy { maximum_attempts: 10, ..Default::default() });
    });
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "ACTIVITY_FAILING");
    assert_eq!(
        reason.text,
        "Activity charge (id 5) failed 5 times, last with: card declined (CardError); attempt 6 of 10 is in 12 s."
    );
    assert_eq!(reason.details, ["card declined (CardError)", "at pay (shop.py:12)", "at run (shop.py:3)"]);
}

#[test]
fn an_activity_waits_for_a_worker() {
    let run = activity(|_| ());
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "NO_POLLER");
    assert!(
        reason
            .text
            .starts_with("Activity charge (id 5) has waited since 2001-09-09T01:46:20Z (for 20 s): no worker polls")
    );
    let mut served = seen(&run);
    let service = QueueService { polls_waiting: 1, last_poll: Some(NOW), backlog: 0 };
    served
        .activity_queues
        .insert("payments".to_owned(), QueueSnapshot { service, live_workers: 1, ..QueueSnapshot::default() });
    assert_eq!(only(&served).kind, "QUEUED");
}

#[test]
fn an_activity_is_delayed_at_first() {
    let run = activity(|activity| activity.scheduled_time = NOW + 3 * SECOND);
    assert_eq!(only(&seen(&run)).text, "Activity charge (id 5) is held back: its first attempt is in 3 s.");
}

#[test]
fn an_activity_runs() {
    let started = |activity: &mut Activity| {
        activity.started_time = NOW - 10 * SECOND;
        activity.started_identity = "7@host".to_owned();
        activity.worker = "w-1".to_owned();
    };
    let run = activity(|activity| {
        started(activity);
        activity.attempt = 2;
        activity.heartbeat = 5 * SECOND;
        activity.last_heartbeat_time = NOW - 2 * SECOND;
        let timed_out = TimeoutFailureInfo { timeout_type: TimeoutType::StartToClose as i32, ..Default::default() };
        let info = Some(FailureInfo::TimeoutFailureInfo(timed_out));
        activity.last_failure =
            Some(Failure { message: "too slow".to_owned(), failure_info: info, ..Default::default() });
    });
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "ACTIVITY_RUNNING");
    assert_eq!(
        reason.text,
        "Activity charge (id 5) has been running at worker \"7@host\", attempt 2, since 2001-09-09T01:46:30Z (for 10 s); before that \
         it failed, last with: too slow (start-to-close timeout); its last heartbeat was 2 s ago."
    );
    assert_eq!(reason.until, time(NOW + 3 * SECOND));
    let mut silent = seen(&run);
    silent.workers.extend([lease(|lease| {
        lease.silent = 9 * SECOND;
        lease.remaining = Some(SECOND);
    })]);
    assert_eq!(only(&silent).kind, "WORKER_SILENT");
    let run = activity(|activity| {
        started(activity);
        activity.cancel_requested = true;
    });
    assert_eq!(only(&seen(&run)).kind, "ACTIVITY_CANCEL_REQUESTED");
}

#[test]
fn the_run_is_paused() {
    let paused = |change: fn(&mut RunState)| {
        run(move |_, state| {
            let (identity, reason) = ("ann".to_owned(), "bank is down".to_owned());
            state.status = Status::Paused as i32;
            state.pause = Some(Box::new(PauseInfo { time: NOW - 60 * SECOND, identity, reason, ..Default::default() }));
            change(state);
        })
    };
    let idle = paused(|_| {});
    let reason = only(&seen(&idle));
    assert_eq!(reason.kind, "PAUSED");
    assert!(reason.text.contains("has been paused by ann (bank is down) since 2001-09-09T01:45:40Z (for 1 min)."));
    assert!(reason.hint.contains("`segno workflow unpause --workflow-id order-7`"), "{}", reason.hint);
    let held = paused(|state| {
        state.task = Some(WorkflowTask { started_event_id: 3, started_time: NOW, ..Default::default() });
    });
    let all = reasons(&seen(&held));
    assert!(all[0].text.ends_with("may still answer it."), "{}", all[0].text);
    assert_eq!(all[1].kind, "TASK_AT_WORKER");
    let waiting = paused(|state| {
        let activity = Activity { attempt: 1, scheduled_time: NOW, ..Default::default() };
        state.activities.insert(5, Shared::from(activity));
    });
    let all = reasons(&seen(&waiting));
    assert!(all[1].text.ends_with("waits for the end of the pause."), "{}", all[1].text);
}

#[test]
fn an_activity_is_paused() {
    let run = activity(|activity| {
        let (identity, reason) = ("ann".to_owned(), "bank is down".to_owned());
        activity.pause = Some(PauseInfo { time: NOW - 60 * SECOND, identity, reason, ..Default::default() });
    });
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "ACTIVITY_PAUSED");
    assert!(reason.text.contains("has been paused by ann (bank is down) since 2001-09-09T01:45:40Z (for 1 min)."));
}

#[test]
fn an_activity_is_quarantined() {
    let lost = |name: &str| LostWorker { worker: format!("key of {name}"), identity: name.to_owned() };
    let run = activity(|activity| {
        activity.pause = Some(PauseInfo { time: NOW - 60 * SECOND, lost_workers: 2, ..Default::default() });
        activity.lost_workers = vec![lost("1@a"), lost("2@b")];
    });
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "ACTIVITY_QUARANTINED");
    let text = "has been quarantined since 2001-09-09T01:45:40Z (for 1 min): 2 workers were lost while they had the activity (1@a, 2@b).";
    assert!(reason.text.ends_with(text), "{}", reason.text);
    assert!(
        reason.hint.contains("`segno activity reset --workflow-id order-7 --activity-id 5` begins it anew"),
        "{}",
        reason.hint
    );
    // An operator who paused it learns of them, too.
    let run = activity(|activity| {
        activity.pause = Some(PauseInfo { time: NOW - 60 * SECOND, identity: "ann".to_owned(), ..Default::default() });
        activity.lost_workers = vec![lost("1@a")];
    });
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "ACTIVITY_PAUSED");
    assert!(reason.text.ends_with(" 1 worker was lost while it had the activity (1@a)."), "{}", reason.text);
}

#[test]
fn those_that_need_attention_come_first_and_not_all_are_told() {
    let run = run(|_, state| {
        for id in 0..30 {
            let started_time = if id == 29 { 0 } else { NOW };
            let activity = Activity { started_time, attempt: 1, scheduled_time: NOW, ..Default::default() };
            state.activities.insert(id, Shared::from(activity));
        }
    });
    let all = reasons(&seen(&run));
    assert_eq!((all.len(), all[0].kind.as_str()), (SHOWN_MAX + 1, "NO_POLLER"));
    assert_eq!(all[SHOWN_MAX].text, "10 activities more are pending.");
}

#[test]
fn timers_children_updates_and_messages() {
    let run = run(|_, state| {
        state.timers.insert("late".to_owned(), Timer { started_event_id: 6, fire_at: NOW + 7200 * SECOND });
        state.timers.insert("soon".to_owned(), Timer { started_event_id: 7, fire_at: NOW + 90 * SECOND });
        let child = Child { workflow_id: "c".to_owned(), workflow_type: "Ship".to_owned(), ..Default::default() };
        state.children.insert(8, child.clone());
        state.children.insert(9, Child { started_event_id: 10, ..child });
        state.updates.insert("u".to_owned(), UpdateRecord { accepted_event_id: 11, ..Default::default() });
        let execution = WorkflowExecution { workflow_id: "other".to_owned(), ..Default::default() };
        state.external_signals.insert(12, External { execution: execution.clone(), ..Default::default() });
        state.external_cancels.insert(13, External { execution, ..Default::default() });
    });
    let all = reasons(&seen(&run));
    let kinds: Vec<_> = all.iter().map(|reason| reason.kind.as_str()).collect();
    assert_eq!(kinds, ["TIMER", "TIMER", "CHILD_STARTING", "CHILD", "UPDATE", "EXTERNAL_SIGNAL", "EXTERNAL_CANCEL"]);
    assert_eq!(all[0].text, "Timer soon fires at 2001-09-09T01:48:10Z (in 1 min 30 s).");
    assert_eq!(all[3].text, "It waits for the child workflow \"c\" (Ship), which is open.");
    assert_eq!(all[4].text, "Update \"u\" was accepted, and its handler has not finished.");
}

#[test]
fn an_update_waits_for_a_worker() {
    let run = run(|_, state| {
        state.task = Some(waiting_task());
        state.updates.insert("u".to_owned(), UpdateRecord { admitted_event_id: 3, ..Default::default() });
    });
    assert_eq!(kinds(&seen(&run)), ["NO_POLLER", "UPDATE_WAITING"]);
}

#[test]
fn only_the_code_knows_what_it_waits_for() {
    let run = run(|_, state| state.signal_count = 2);
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "WAITS_IN_CODE");
    assert!(reason.text.ends_with("It has received 2 signals so far."), "{}", reason.text);
    assert!(reason.hint.contains("`segno workflow stack --workflow-id order-7`"));
}

#[test]
fn cancellation_is_not_seen_or_ignored() {
    let ignored = run(|_, state| state.cancel_requested = true);
    assert_eq!(kinds(&seen(&ignored)), ["CANCEL_REQUESTED", "WAITS_IN_CODE"]);
    let unseen = run(|_, state| {
        state.cancel_requested = true;
        state.task = Some(waiting_task());
    });
    let all = reasons(&seen(&unseen));
    assert!(all[1].text.contains("The code has not seen that yet"), "{all:#?}");
}

#[test]
fn a_deadline_is_near() {
    let run = run(|info, _| info.run_deadline = NOW + 30 * SECOND);
    assert_eq!(kinds(&seen(&run)), ["WAITS_IN_CODE", "DEADLINE"]);
}

fn script_run(change: impl FnOnce(&mut RunState)) -> Run {
    run(|_, state| {
        let wake = Shared::from(ScriptWakeSet::default());
        state.script = Some(Script { version: Bytes::from_static(&[1; 32]), turns: 1, wake, ..Default::default() });
        change(state);
    })
}

#[test]
fn a_script_waits_at_a_line() {
    let run = script_run(|state| {
        state.timers.insert("t".to_owned(), Timer { started_event_id: 5, fire_at: NOW });
    });
    let state = r#"{"code":[{"id":"main","waiting_for":["s-1"],"frames":[{"function":"order","line":2,"column":3}]}],
        "pending":[{"item_id":"s-1","kind":"signal","name":"approve","since":"2001-09-09T01:46:00Z","due":null}],
        "signals":{"aprove":1}}"#;
    let script = ScriptSnapshot::new(state, "order.flow".to_owned(), b"workflow order() {\n  await Signal.next()\n}");
    let reason = only(&RunSnapshot { script, ..seen(&run) });
    assert_eq!(reason.kind, "WAITS_FOR_SIGNAL");
    assert_eq!(
        reason.text,
        "order waits at line 2 of order.flow for signal \"approve\" since 2001-09-09T01:46:00Z (for 40 s). Other signals have \
         come, which it does not wait for: \"aprove\"."
    );
    assert_eq!(reason.hint, "`segno workflow signal --workflow-id order-7 --name approve` sends it.");
    assert_eq!(reason.details, ["2: await Signal.next()"]);
}

#[test]
fn a_script_that_waits_for_a_call_names_the_function() {
    let run = script_run(|_| {});
    let state = r#"{"code":[{"id":"main","waiting_for":["call-1"],"frames":[{"function":"order","line":1}]},
        {"id":"call-1","waiting_for":["timer-1"],"frames":[{"function":"approve","line":2}]}],
        "pending":[{"item_id":"call-1","kind":"call","name":null,"since":null,"due":null},
        {"item_id":"timer-1","kind":"timer","name":null,"since":null,"due":"2001-09-09T01:47:00Z"}]}"#;
    let found = reasons(&RunSnapshot { script: ScriptSnapshot::new(state, "a.flow".to_owned(), b""), ..seen(&run) });
    let texts: Vec<_> = found.iter().map(|reason| reason.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "order waits at line 1 of a.flow for the end of approve.",
            "approve waits at line 2 of a.flow for timer, until 2001-09-09T01:47:00Z (in 20 s)."
        ]
    );
}

#[test]
fn a_turn_of_a_script_waits_runs_or_fails() {
    let waits = script_run(|state| state.task = Some(waiting_task()));
    assert!(only(&seen(&waits)).text.starts_with("The next turn of the script has waited for the server"));
    let runs = script_run(|state| state.task = Some(started_task()));
    assert!(only(&seen(&runs)).text.starts_with("The server has been executing the script since"));
    let fails = script_run(|state| {
        state.failures_since_success = 3;
        state.reported_failure =
            Some(Box::new(ReportedFailure { failure: Some(application("boom", "")), time: NOW, ..Default::default() }));
    });
    assert!(reasons(&seen(&fails))[0].hint.contains("segno flow migrate"));
}

#[test]
fn the_run_of_a_schedule() {
    let run = run(|_, state| state.schedule = Some(Box::new(ScheduleRun::default())));
    assert_eq!(kinds(&seen(&run)), ["SCHEDULE_ENDED"]);
}

#[test]
fn closed_runs_say_how_and_with_what() {
    let completed = closed(Status::Completed, None, |_, _| ());
    assert_eq!(completed[0].text, "It completed at 2001-09-09T01:46:35Z (5 s ago), after 55 s.");
    let failed = WorkflowExecutionFailedEventAttributes {
        failure: Some(application("no money", "Broke")),
        retry_state: RetryState::MaximumAttemptsReached as i32,
        ..Default::default()
    };
    let failed = closed(Status::Failed, Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)), |_, _| ());
    assert!(failed[0].text.ends_with("with: no money (Broke). No attempt of its retry policy was left."));
    assert_eq!(failed[0].details.len(), 3);
    let terminated = WorkflowExecutionTerminatedEventAttributes {
        reason: "stuck".to_owned(),
        identity: "ann".to_owned(),
        ..Default::default()
    };
    let attributes = Attributes::WorkflowExecutionTerminatedEventAttributes(terminated);
    let terminated = closed(Status::Terminated, Some(attributes), |_, state| state.reset_run_id = "r2".to_owned());
    assert!(terminated[0].text.ends_with("after 55 s, by ann, because: stuck."), "{}", terminated[0].text);
    assert_eq!(terminated[1].kind, "RESET");
    let timed_out =
        WorkflowExecutionTimedOutEventAttributes { retry_state: RetryState::Timeout as i32, ..Default::default() };
    let attributes = Attributes::WorkflowExecutionTimedOutEventAttributes(timed_out);
    let timed_out = closed(Status::TimedOut, Some(attributes), |info, _| info.run_timeout = 55 * SECOND);
    assert!(timed_out[0].text.contains("it was still open when the run timeout of 55 s had passed."));
    assert_eq!(closed(Status::Canceled, None, |_, _| ())[0].kind, "CANCELED");
    let continued = closed(Status::ContinuedAsNew, None, |_, state| state.successor_run_id = "next".to_owned());
    assert_eq!(continued[1].text, "Another run of the workflow follows it: next.");
}

#[test]
fn callbacks_that_fail_are_told() {
    let callback = |url: &str, state: CallbackState| RegisteredCallback {
        callback: Some(Callback {
            variant: Some(callback::Variant::Nexus(callback::Nexus { url: url.to_owned(), ..Default::default() })),
            ..Default::default()
        }),
        state: state as i32,
        attempts: 2,
        last_failure: Some(application("away", "")),
        due_time: NOW + 3 * SECOND,
        ..Default::default()
    };
    let found = closed(Status::Completed, None, |_, state| {
        let delivered = RegisteredCallback { last_failure: None, ..callback("https://a", CallbackState::Succeeded) };
        let failing = callback("https://b", CallbackState::BackingOff);
        state.callbacks = vec![delivered, failing, callback(SYSTEM, CallbackState::Failed)];
    });
    let kinds: Vec<&str> = found.iter().map(|reason| &*reason.kind).collect();
    assert_eq!(kinds, ["COMPLETED", "CALLBACK_FAILING", "CALLBACK_FAILED"]);
    let place = "Its end could not be reported to \"https://b\" in 2 attempts, last with: away; it is tried again";
    assert!(found[1].text.starts_with(place), "{}", found[1].text);
    assert!(found[2].text.contains("the Nexus operation that waits for it in 2 attempts"), "{}", found[2].text);
}

#[test]
fn activities_of_a_closed_script_are_told() {
    let run = script_run(|state| {
        state.status = Status::Completed as i32;
        state.close_time = NOW;
        if let Some(script) = &mut state.script {
            script.lingers = true;
        }
        state.activities.insert(5, Shared::from(Activity { attempt: 1, scheduled_time: NOW, ..Default::default() }));
    });
    assert_eq!(kinds(&seen(&run)), ["COMPLETED", "NO_POLLER"]);
}

#[test]
fn spans_have_two_units() {
    for (nanos, text) in [
        (0, "0 ms"),
        (999_000_000, "999 ms"),
        (59 * SECOND, "59 s"),
        (60 * SECOND, "1 min"),
        (3_661 * SECOND, "1 h 1 min"),
        (90_000 * SECOND, "1 d 1 h"),
    ] {
        assert_eq!(words::span(nanos), text);
    }
}

/// An operation that was scheduled 30 seconds ago.
fn operation() -> Operation {
    Operation {
        scheduled_event_id: 5,
        endpoint: "payments".into(),
        endpoint_id: "e1".into(),
        service: "pay".into(),
        operation: "charge".into(),
        scheduled_time: NOW - 30 * SECOND,
        ..Default::default()
    }
}

fn with_operation(change: impl FnOnce(&mut Operation)) -> Run {
    run(|_, state| {
        let mut operation = operation();
        change(&mut operation);
        state.operations.insert(5, operation.into());
    })
}

fn endpoint() -> BTreeMap<String, EndpointSnapshot> {
    let target = EndpointSnapshot::Queue {
        namespace: "finance".to_owned(),
        queue: "handlers".to_owned(),
        seen: QueueSnapshot::default(),
    };
    BTreeMap::from([("e1".to_owned(), target)])
}

#[test]
fn an_operation_without_a_worker_names_endpoint_queue_and_namespace() {
    let run = with_operation(|_| {});
    let reason = only(&RunSnapshot { endpoints: endpoint(), ..seen(&run) });
    assert_eq!(reason.kind, "NO_POLLER");
    assert_eq!(
        reason.text,
        "Nexus operation pay.charge of endpoint \"payments\" has waited since 2001-09-09T01:46:10Z (for 30 s): no worker polls task \
         queue \"handlers\" of namespace \"finance\" for Nexus tasks (none has since the server started)."
    );
    let reason = only(&seen(&run));
    assert_eq!(reason.kind, "NO_ENDPOINT");
}

#[test]
fn an_operation_at_a_worker_failing_and_started() {
    let held = with_operation(|operation| operation.start.taken_time = NOW - 5 * SECOND);
    let reason = only(&RunSnapshot { endpoints: endpoint(), ..seen(&held) });
    assert_eq!(reason.kind, "OPERATION_STARTING");
    let failing = with_operation(|operation| {
        operation.start.attempts = 2;
        operation.start.last_attempt_end = NOW - SECOND;
        operation.start.due_time = NOW + 3 * SECOND;
    });
    let reason = only(&RunSnapshot { endpoints: endpoint(), ..seen(&failing) });
    assert_eq!(
        (reason.kind.as_str(), reason.text.as_str()),
        (
            "OPERATION_FAILING",
            "Nexus operation pay.charge of endpoint \"payments\" failed 2 times; it is tried again in 3 s."
        )
    );
    let url = |is_blocked| {
        BTreeMap::from([("e1".to_owned(), EndpointSnapshot::Url { url: "http://h".to_owned(), is_blocked })])
    };
    let waiting = with_operation(|_| {});
    let text = |run, is_blocked| only(&RunSnapshot { endpoints: url(is_blocked), ..seen(run) }).text;
    let since = "since 2001-09-09T01:46:10Z (for 30 s)";
    let name = "Nexus operation pay.charge of endpoint \"payments\"";
    assert_eq!(text(&waiting, false), format!("{name} has waited {since} to be sent to \"http://h\"."));
    let blocked = "the last requests to \"http://h\" failed, so that its circuit breaker is open.";
    assert_eq!(text(&waiting, true), format!("{name} has waited {since}: {blocked}"));
    assert_eq!(text(&held, false), format!("{name} has been at \"http://h\" since 2001-09-09T01:46:35Z (for 5 s)."));
    let scripts = || BTreeMap::from([("e1".to_owned(), EndpointSnapshot::Server)]);
    let text = |run| only(&RunSnapshot { endpoints: scripts(), ..seen(run) }).text;
    assert_eq!(text(&waiting), format!("{name} has waited {since} for the server, which carries it out."));
    assert_eq!(text(&held), format!("{name} has been at the server since 2001-09-09T01:46:35Z (for 5 s)."));
    let started = with_operation(|operation| operation.started_time = NOW - 20 * SECOND);
    let reason = only(&RunSnapshot { endpoints: endpoint(), ..seen(&started) });
    assert_eq!(
        reason.text,
        "Nexus operation pay.charge of endpoint \"payments\" was started by its handler, and has been open since \
         2001-09-09T01:46:20Z (for 20 s)."
    );
}
