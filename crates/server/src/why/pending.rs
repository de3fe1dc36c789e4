//! Timers, children, updates, messages to other workflows, cancellation, deadlines.

use segno_proto::{Nanos, segno_workflow::Reason};

use super::{RunSnapshot, SHOWN_MAX, reason, time, words};

/// A deadline within this time is shown.
const DEADLINE_NEAR: Nanos = 24 * 60 * 60 * 1_000_000_000;

/// Adds what is pending besides tasks and activities.
pub(super) fn add(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    timers(seen, found);
    children(seen, found);
    updates(seen, found);
    messages(seen, found);
    cancellation(seen, found);
}

fn timers(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    // The timers of a script are shown with the line that waits for them.
    if seen.script.is_some() {
        return;
    }
    let mut timers: Vec<_> = seen.run.state().timers.iter().collect();
    timers.sort_by_key(|(_, timer)| timer.fire_at);
    for (id, timer) in timers.iter().take(SHOWN_MAX) {
        let text = format!("Timer {} fires {}.", words::text(id), words::moment(timer.fire_at, seen.now));
        found.push(Reason { until: time(timer.fire_at), ..reason("TIMER", text) });
    }
    if timers.len() > SHOWN_MAX {
        let more = words::count(timers.len() - SHOWN_MAX, "timer fires", "timers fire");
        found.push(reason("MORE_TIMERS", format!("{more} later.")));
    }
}

fn children(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let children = &seen.run.state().children;
    for child in children.values().take(SHOWN_MAX) {
        let name =
            format!("child workflow {} ({})", words::quoted(&child.workflow_id), words::text(&child.workflow_type));
        if child.started_event_id == 0 {
            found.push(reason("CHILD_STARTING", format!("It asked for the {name}, which has not begun yet.")));
            continue;
        }
        let text = format!("It waits for the {name}, which is open.");
        let hint =
            format!("`segno workflow why -w {}` tells what the child waits for.", words::quoted(&child.workflow_id));
        found.push(Reason { hint, ..reason("CHILD", text) });
    }
    if children.len() > SHOWN_MAX {
        let more = words::count(children.len() - SHOWN_MAX, "child workflow is", "child workflows are");
        found.push(reason("MORE_CHILDREN", format!("{more} open besides.")));
    }
}

fn updates(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let accepted: Vec<_> =
        seen.run.state().updates.iter().filter(|(_, record)| record.is_accepted()).map(|(id, _)| id).collect();
    for id in accepted.iter().take(SHOWN_MAX) {
        let text = format!("Update {} was accepted, and its handler has not finished.", words::quoted(id));
        found.push(reason("UPDATE", text));
    }
    let waiting = seen.run.updates().waiting().len();
    if waiting > 0 {
        let text = format!("{} for a worker to look at.", words::count(waiting, "update waits", "updates wait"));
        found.push(reason("UPDATE_WAITING", text));
    }
}

fn messages(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let state = seen.run.state();
    let all = [
        (&state.external_signals, "EXTERNAL_SIGNAL", "A signal"),
        (&state.external_cancels, "EXTERNAL_CANCEL", "A cancel request"),
    ];
    for (pending, kind, what) in all {
        for external in pending.values().take(SHOWN_MAX) {
            let target = words::quoted(&external.execution.workflow_id);
            found.push(reason(kind, format!("{what} is on its way to workflow {target}.")));
        }
    }
}

fn cancellation(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let state = seen.run.state();
    if !state.cancel_requested {
        return;
    }
    let text = match state.task.is_some() {
        true => {
            "Cancellation was requested, and the code has not seen that yet: it hears of it with its workflow task."
        }
        false => "Cancellation was requested; the code knows, and goes on nevertheless.",
    };
    let hint = match state.task.is_some() {
        true => "",
        false => "The code may be cleaning up, or it ignores cancellation. `segno workflow terminate` ends it at once.",
    };
    found.push(Reason { hint: hint.to_owned(), ..reason("CANCEL_REQUESTED", text) });
}

/// Adds when the run times out, if that is near.
pub(super) fn add_deadline(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let info = &seen.run.info;
    let ends = [info.run_deadline, info.execution_deadline].into_iter().filter(|at| *at > 0).min();
    if let Some(at) = ends.filter(|at| at - seen.now < DEADLINE_NEAR) {
        let text = format!("The run times out {} if it is still open then.", words::moment(at, seen.now));
        found.push(Reason { until: time(at), ..reason("DEADLINE", text) });
    }
}
