//! Timers, children, updates, messages to other workflows, cancellation, deadlines.

use segno_proto::{Nanos, segno_workflow::Reason};

use super::{CancelSnapshot, RunSnapshot, SHOWN_MAX, command, reason, severity, time, words};

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
            let brief = format!("child {}", words::text(&child.workflow_id));
            let text = format!("It asked for the {name}, which has not begun yet.");
            found.push(Reason { brief, ..reason("CHILD_STARTING", text) });
            continue;
        }
        let text = format!("It waits for the {name}, which is open.");
        let found_one = match seen.children.get(&child.workflow_id) {
            Some(because) => {
                let severity = severity::worst(because).map_or_else(String::new, |severity| severity.word().to_owned());
                Reason { because: because.clone(), severity, ..reason("CHILD", text) }
            }
            None => {
                let namespace = if child.namespace.is_empty() { &seen.run.info.namespace } else { &child.namespace };
                let why = command::command(namespace, "workflow why", &[("--workflow-id", &child.workflow_id)]);
                Reason { hint: format!("{why} tells what the child waits for."), ..reason("CHILD", text) }
            }
        };
        let brief = format!("child {}", words::text(&child.workflow_id));
        found.push(Reason { brief, ..found_one });
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
        let (name, at) = update(seen, id);
        let when = if at > 0 { format!(" {}", words::moment(at, seen.now)) } else { String::new() };
        let text = format!("{name} was accepted{when}, and its handler has not finished.");
        let stack = command::of_workflow(&seen.run.info, "workflow stack", &[]);
        let hint =
            format!("The handler waits for what it awaits, such as an activity or a condition: {stack} shows where.");
        let brief = format!("update {}", words::text(id));
        found.push(Reason { since: time(at), hint, brief, ..reason("UPDATE", text) });
    }
    let waiting = seen.run.updates().waiting();
    for one in waiting.iter().take(SHOWN_MAX) {
        let (name, at) = update(seen, &one.id);
        let waits = if at > 0 { format!("waits {}", words::since(at, seen.now)) } else { "waits".to_owned() };
        let text = format!("{name} {waits} for a worker to accept or reject it.");
        let hint =
            "It goes to a worker with the workflow task; its caller may repeat the call with the same update id.";
        let brief = format!("update {}", words::text(&one.id));
        found.push(Reason { since: time(at), hint: hint.to_owned(), brief, ..reason("UPDATE_WAITING", text) });
    }
    if waiting.len() > SHOWN_MAX {
        let more = words::count(waiting.len() - SHOWN_MAX, "update waits", "updates wait");
        found.push(reason("UPDATE_WAITING", format!("{more} besides.")));
    }
}

/// An update as the beginning of a sentence, and when it was admitted or accepted; 0 if that is not known.
fn update(seen: &RunSnapshot<'_>, id: &str) -> (String, Nanos) {
    match seen.updates.get(id) {
        Some(update) => (format!("Update {} (id {})", words::quoted(&update.name), words::quoted(id)), update.time),
        None => (format!("Update {}", words::quoted(id)), 0),
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
    let requested = match &seen.cancel {
        Some(cancel) => uppercased(&canceler(cancel, seen.now)),
        None => "Cancellation was requested".to_owned(),
    };
    let text = match state.task.is_some() {
        true => format!("{requested}. The code has not seen that yet: it hears of it with its workflow task."),
        false => format!("{requested}. The code knows, and goes on nevertheless."),
    };
    let hint = match state.task.is_some() {
        true => String::new(),
        false => format!(
            "The code may be cleaning up, or it ignores cancellation. {} ends it at once.",
            command::of_workflow(&seen.run.info, "workflow terminate", &[])
        ),
    };
    let since = time(seen.cancel.as_ref().map_or(0, |cancel| cancel.time));
    found.push(Reason { since, hint, ..reason("CANCEL_REQUESTED", text) });
}

/// Who requested the cancellation, why and when, as a clause.
pub(super) fn canceler(cancel: &CancelSnapshot, now: Nanos) -> String {
    let by = match (cancel.workflow_id.as_str(), cancel.identity.as_str()) {
        ("", "") => String::new(),
        ("", identity) => format!(" by {}", words::text(identity)),
        (workflow_id, _) => format!(" by workflow {}", words::quoted(workflow_id)),
    };
    let why = match cancel.cause.as_str() {
        "" => String::new(),
        cause => format!(", because: {}", words::text(cause)),
    };
    format!("cancellation was requested{by} {}{why}", words::moment(cancel.time, now))
}

fn uppercased(clause: &str) -> String {
    let mut chars = clause.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
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
