//! Due timers and time-outs of a run.
//!
//! A run has one wake-up, the earliest of everything it waits for. Waking it early or twice is harmless.

use segno_proto::{
    Nanos,
    enums::{RetryState, TimeoutType},
    events::{TimerFiredEventAttributes, WorkflowExecutionTimedOutEventAttributes, history_event::Attributes},
};

use crate::{
    parts::{
        activity::timeouts as activity_timeouts,
        chain::{self, RunContinuation},
        close, nexus,
        schedule::advance as schedule,
        update::abort,
        workflow_task,
    },
    retry,
    state::{Activity, nexus::Operation, run::Run},
    transition::{Applied, Context, Effect, draft::Draft},
};

/// When the run next wants to be woken.
pub fn wake_at(run: &Run, now: Nanos) -> Option<Nanos> {
    let activities = run.state.activities.values().filter_map(|activity| match run.is_paused() {
        // The end of a back-off changes nothing before the end of the pause.
        true => activity_timeouts::earliest_timeout(activity).map(|(at, _)| at),
        false => activity_timeouts::wake_at(activity, now),
    });
    if !run.is_running() {
        return if run.lingers() { activities.min() } else { None };
    }
    if let Some(schedule) = &run.state.schedule {
        return schedule::wake_at(schedule);
    }
    let positive = |at: Nanos| (at > 0).then_some(at);
    let fixed = [
        positive(run.info.run_deadline),
        positive(run.info.execution_deadline),
        positive(run.state.first_task_due),
        workflow_task::deadline(run),
    ];
    let timers = run.state.timers.values().map(|timer| timer.fire_at);
    let operations =
        run.state.operations.values().filter_map(|operation| nexus::wake_at(operation, now, run.is_paused()));
    fixed.into_iter().flatten().chain(timers).chain(activities).chain(operations).min()
}

/// Whether work on the run is under way, or waits for a worker: time that can be skipped must not be meanwhile. An attempt
/// of an activity that is put off does not count, nor does one that is paused, by itself or with its run.
pub fn holds_time(run: &Run, now: Nanos) -> bool {
    if run.is_paused() {
        return run.state.task_started() || run.state.activities.values().any(|activity| activity.started_time != 0);
    }
    let is_under_way = |activity: &Activity| {
        let put_off = activity_timeouts::is_held_back(activity) && activity.scheduled_time > now;
        activity.started_time != 0 || (activity.pause.is_none() && !put_off)
    };
    let calls_handler = |operation: &Operation| {
        operation.open_request().is_some_and(|(request, _)| request.taken_time != 0 || !request.is_backing_off(now))
    };
    (run.is_running() && run.state.task.is_some())
        || (run.is_running() && run.state.operations.values().any(|operation| calls_handler(operation)))
        || (run.has_work() && run.state.activities.values().any(|activity| is_under_way(activity)))
}

/// Lets everything happen that is due. What is not due yet stays untouched.
pub fn wake(run: &Run, context: Context) -> Applied<()> {
    let mut draft = Draft::new(run, context);
    let now = context.now;
    if !run.is_running() {
        let left: Vec<i64> = if run.lingers() { run.state.activities.keys().copied().collect() } else { Vec::new() };
        for id in left {
            wake_activity(&mut draft, id);
        }
        return draft.finish(());
    }
    if run.state.schedule.is_some() {
        schedule::wake(&mut draft);
        return draft.finish(());
    }
    let run_over = run.info.run_deadline > 0 && run.info.run_deadline <= now;
    let execution_over = run.info.execution_deadline > 0 && run.info.execution_deadline <= now;
    if run_over || execution_over {
        time_out_run(&mut draft, execution_over);
        return draft.finish(());
    }
    if run.state.first_task_due > 0 && run.state.first_task_due <= now {
        draft.run.state.first_task_due = 0;
        draft.touch();
        workflow_task::schedule_if_none(&mut draft);
    }
    if workflow_task::deadline(&draft.run).is_some_and(|at| at <= now) {
        workflow_task::time_out(&mut draft);
    }
    let mut news = fire_timers(&mut draft);
    let ids: Vec<i64> = run.state.activities.keys().copied().collect();
    for id in ids {
        news |= wake_activity(&mut draft, id);
    }
    let ids: Vec<i64> = run.state.operations.keys().copied().collect();
    for id in ids {
        news |= nexus::wake(&mut draft, id);
    }
    if news {
        workflow_task::schedule_if_none(&mut draft);
    }
    draft.finish(())
}

fn fire_timers(draft: &mut Draft) -> bool {
    let now = draft.now();
    let mut due: Vec<_> = draft
        .run
        .state
        .timers
        .iter()
        .filter(|(_, timer)| timer.fire_at <= now)
        .map(|(id, timer)| (timer.fire_at, timer.started_event_id, id.clone()))
        .collect();
    due.sort_unstable();
    for (_, started_event_id, timer_id) in &due {
        draft.run.state.timers.remove(timer_id);
        draft.add_external(Attributes::TimerFiredEventAttributes(TimerFiredEventAttributes {
            timer_id: timer_id.clone(),
            started_event_id: *started_event_id,
        }));
    }
    !due.is_empty()
}

fn wake_activity(draft: &mut Draft, id: i64) -> bool {
    let now = draft.now();
    // An attempt that runs out is followed by another one or by the end. Time may be up for the whole as well, which
    // shows when the attempt is over.
    while let Some((at, kind)) =
        draft.run.state.activities.get(&id).and_then(|activity| activity_timeouts::earliest_timeout(activity))
        && at <= now
    {
        if activity_timeouts::time_out(draft, id, kind) {
            return true;
        }
    }
    let Some(pending) = draft.run.state.activities.get(&id) else { return false };
    if activity_timeouts::is_held_back(pending) && pending.scheduled_time <= now {
        // The back-off is over. Offering twice is harmless: the stamp lets one start only.
        draft.effect(Effect::OfferActivity(id));
    }
    false
}

fn time_out_run(draft: &mut Draft, execution_over: bool) {
    let now = draft.now();
    let failure = retry::timeout_failure("workflow timeout".to_owned(), TimeoutType::StartToClose);
    let next = if execution_over {
        RunContinuation::End(RetryState::Timeout)
    } else {
        chain::after_failure(&draft.run, now, &failure)
    };
    close::fail_started_task(draft);
    abort::take_back(draft);
    let (retry_state, new_execution_run_id) = chain::follow(draft, next, Some(failure));
    close::close(
        draft,
        Attributes::WorkflowExecutionTimedOutEventAttributes(WorkflowExecutionTimedOutEventAttributes {
            retry_state: retry_state as i32,
            new_execution_run_id,
        }),
        Vec::new(),
    );
}
