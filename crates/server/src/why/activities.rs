//! Pending activities: failing, paused, waiting for a worker, or at a worker.

use segno_engine::{Shared, state::Activity};
use segno_proto::segno_workflow::Reason;

use super::{
    RunSnapshot, SHOWN_MAX, command, failure,
    queue::{self, WaitingTask},
    reason,
    task::holder,
    time, words,
};

/// Adds what there is to say about each pending activity, those that need attention first.
pub(super) fn add(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let all = &seen.run.state().activities;
    let briefed = |activity: &Shared<Activity>| {
        let mut reason = one(seen, activity);
        if reason.brief.is_empty() {
            reason.brief = format!("activity {}", words::text(&activity.activity_type));
        }
        reason
    };
    let mut reasons: Vec<Reason> = all.values().map(briefed).collect();
    reasons.sort_by_key(|reason| rank(&reason.kind));
    let more = reasons.len().saturating_sub(SHOWN_MAX);
    found.extend(reasons.into_iter().take(SHOWN_MAX));
    if more > 0 {
        let text = format!("{} more are pending.", words::count(more, "activity", "activities"));
        found.push(reason("MORE_ACTIVITIES", text));
    }
}

fn rank(kind: &str) -> usize {
    let order = [
        "ACTIVITY_QUARANTINED",
        "NOT_REGISTERED",
        "NO_POLLER",
        "WAITS_FOR_VERSION",
        "ACTIVITY_FAILING",
        "WORKER_SILENT",
        "ACTIVITY_PAUSED",
        "RATE_LIMITED",
        "WORKERS_BUSY",
        "QUEUED",
    ];
    order.iter().position(|known| *known == kind).unwrap_or(order.len())
}

fn one(seen: &RunSnapshot<'_>, activity: &Activity) -> Reason {
    let now = seen.now;
    let name = format!("Activity {} (id {})", words::text(&activity.activity_type), words::text(&activity.activity_id));
    let failed = activity.attempt - 1;
    let times = if failed == 1 { "once".to_owned() } else { format!("{failed} times") };
    let last = activity.last_failure.as_ref();
    let details = last.map(failure::details).unwrap_or_default();
    let with = last.map_or_else(String::new, |last| format!(", last with: {}", failure::line(last)));
    let most = activity.retry_policy.as_ref().map_or(0, |policy| policy.maximum_attempts);
    let of = if most > 0 { format!(" of {most}") } else { String::new() };
    if let Some(pause) = activity.pause.as_ref().filter(|pause| pause.is_quarantine()) {
        let text = format!("{name} has been quarantined {}:{}", words::since(pause.time, now), lost_workers(activity));
        let command = |words| command::of_activity(&seen.run.info, words, &activity.activity_id);
        let hint = format!(
            "If it kills its workers, deploy a fix first. {} begins it anew, {} lets it go to one more worker.",
            command("activity reset"),
            command("activity unpause")
        );
        return Reason { since: time(pause.time), hint, details, ..reason("ACTIVITY_QUARANTINED", text) };
    }
    if let Some(pause) = &activity.pause {
        let at_worker = if activity.started_time > 0 { " The current attempt still runs." } else { "" };
        let lost = lost_workers(activity);
        let text = format!("{name} has been paused by {}.{at_worker}{lost}", words::paused_by(pause, now));
        let unpause = command::of_activity(&seen.run.info, "activity unpause", &activity.activity_id);
        let hint = format!("{unpause} lets it go on.");
        return Reason { since: time(pause.time), hint, details, ..reason("ACTIVITY_PAUSED", text) };
    }
    if seen.run.is_paused() && activity.started_time == 0 {
        let text = format!("{name} waits for the end of the pause.");
        return Reason { since: time(activity.scheduled_time), details, ..reason("ACTIVITY_DELAYED", text) };
    }
    if activity.started_time > 0 {
        return at_worker(seen, activity, &name, &of, &with, details);
    }
    if activity.scheduled_time > now {
        let next = words::span(activity.scheduled_time - now);
        if failed < 1 {
            let text = format!("{name} is held back: its first attempt is in {next}.");
            return Reason { until: time(activity.scheduled_time), ..reason("ACTIVITY_DELAYED", text) };
        }
        let text = format!("{name} failed {times}{with}; attempt {}{of} is in {next}.", activity.attempt);
        let reset = command::of_activity(&seen.run.info, "activity reset", &activity.activity_id);
        let (since, until) = (time(activity.last_attempt_end), time(activity.scheduled_time));
        if last.is_some_and(failure::is_not_registered) {
            let hint = format!(
                "The workers of task queue {} do not have this activity type. Deploy workers that register it, or start the \
                 workflow with the queue of the workers that do. {reset} then tries it at once.",
                words::quoted(&activity.queue)
            );
            return Reason { since, until, hint, details, ..reason("NOT_REGISTERED", text) };
        }
        let hint = format!("It is tried again by itself; {reset} tries it at once.");
        return Reason { since, until, hint, details, ..reason("ACTIVITY_FAILING", text) };
    }
    let what = match failed {
        0 => name,
        _ => format!("{name} failed {times}{with}; attempt {}{of}", activity.attempt),
    };
    let unknown = Default::default();
    let queue_seen = seen.activity_queues.get(&activity.queue).unwrap_or(&unknown);
    let waits = queue::waiting(
        &WaitingTask {
            what: &what,
            kind: "activity task",
            queue: &activity.queue,
            namespace: None,
            info: &seen.run.info,
            since: activity.scheduled_time,
        },
        queue_seen,
        now,
    );
    Reason { details, ..waits }
}

/// Which workers were lost while they had an activity; empty if none was.
fn lost_workers(activity: &Activity) -> String {
    let lost = &activity.lost_workers;
    if lost.is_empty() {
        return String::new();
    }
    let names: Vec<String> = lost.iter().take(SHOWN_MAX).map(|lost| words::text(&lost.identity)).collect();
    let more = if lost.len() > SHOWN_MAX { ", …" } else { "" };
    let count = words::count(lost.len(), "worker was lost while it had", "workers were lost while they had");
    format!(" {count} the activity ({}{more}).", names.join(", "))
}

fn at_worker(
    seen: &RunSnapshot<'_>,
    activity: &Activity,
    name: &str,
    of: &str,
    with: &str,
    details: Vec<String>,
) -> Reason {
    let now = seen.now;
    let who = words::quoted(&activity.started_identity);
    let held = words::since(activity.started_time, now);
    let attempt = activity.attempt;
    let mut text = format!("{name} has been running at worker {who}, attempt {attempt}{of}, {held}");
    if attempt > 1 {
        text.push_str(&format!("; before that it failed{with}"));
    }
    if activity.last_heartbeat_time > activity.started_time {
        text.push_str(&format!("; its last heartbeat was {} ago", words::span(now - activity.last_heartbeat_time)));
    }
    let heard = activity.last_heartbeat_time.max(activity.started_time);
    let ends = [(activity.start_to_close, activity.started_time), (activity.heartbeat, heard)];
    let until = ends.iter().filter(|(limit, _)| *limit > 0).map(|(limit, from)| from + limit).min();
    let base = |kind: &str, text: String| Reason {
        since: time(activity.started_time),
        until: until.and_then(time),
        details,
        ..reason(kind, text)
    };
    if let Some((wrong, hint)) = holder(seen, &activity.worker) {
        return Reason { hint, ..base("WORKER_SILENT", format!("{text}, but {wrong}.")) };
    }
    if activity.cancel_requested {
        let text = format!("{text}. It was asked to cancel and has not answered.");
        let hint = "A worker hears of it with its next heartbeat: an activity without heartbeats runs to its end.";
        return Reason { hint: hint.to_owned(), ..base("ACTIVITY_CANCEL_REQUESTED", text) };
    }
    base("ACTIVITY_RUNNING", format!("{text}."))
}
