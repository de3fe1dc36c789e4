//! Tasks that wait in a queue: does a worker poll for them?

use segno_engine::state::RunInfo;
use segno_proto::{Nanos, segno_workflow::Reason};

use super::{QueueSnapshot, command, reason, time, versions, words};

/// A poll lasts a minute. A worker that did not poll for this long has gone.
const POLL_SILENCE_MAX: Nanos = 5 * 60 * 1_000_000_000;

/// A task that waits in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingTask<'a> {
    /// Begins the sentence.
    pub(super) what: &'a str,
    /// Names the tasks of the queue.
    pub(super) kind: &'a str,
    /// The queue.
    pub(super) queue: &'a str,
    /// The namespace of the queue, if it may be another one than that of the workflow.
    pub(super) namespace: Option<&'a str>,
    /// Its workflow.
    pub(super) info: &'a RunInfo,
    /// Since when it waits.
    pub(super) since: Nanos,
}

/// Why a task that waits is not taken.
pub(super) fn waiting(task: &WaitingTask<'_>, seen: &QueueSnapshot, now: Nanos) -> Reason {
    let WaitingTask { what, kind, queue, since, .. } = *task;
    let mut name = words::quoted(queue);
    if let Some(namespace) = task.namespace {
        name = format!("{name} of namespace {}", words::quoted(namespace));
    }
    let waits = format!("{what} has waited {}", words::since(since, now));
    let brief = format!("a worker on {}", words::text(queue));
    let base = |kind, text| Reason { since: time(since), brief: brief.clone(), ..reason(kind, text) };
    if let Some(target) = &seen.target
        && let Some(reason) = versions::waiting(&waits, task, target, now)
    {
        return reason;
    }
    let QueueSnapshot { service, live_workers, is_limited, .. } = *seen;
    let silent = service.last_poll.is_none_or(|last| now - last > POLL_SILENCE_MAX);
    if service.polls_waiting == 0 && (live_workers == 0 || silent) {
        let last = match service.last_poll {
            Some(last) => format!("the last poll began {} ago", words::span(now - last)),
            None => "none has since the server started".to_owned(),
        };
        let others = match live_workers {
            0 => String::new(),
            count => {
                format!(" {} the queue, but not for {kind}s.", words::count(count, "worker serves", "workers serve"))
            }
        };
        let text = format!("{waits}: no worker polls task queue {name} for {kind}s ({last}).{others}");
        let hint = format!(
            "Start a worker on task queue {name}, or check that the worker and this run name the same queue and namespace."
        );
        return Reason { hint, ..base("NO_POLLER", text) };
    }
    if is_limited && service.backlog > 0 {
        let text =
            format!("{waits}: task queue {name} hands out tasks at a limited rate, and {} wait.", service.backlog);
        let namespace = task.namespace.unwrap_or(&task.info.namespace);
        let describe = command::command(namespace, "task-queue describe", &[("--task-queue", queue)]);
        let hint = format!("{describe} shows the limit and where it comes from.");
        return Reason { hint, ..base("RATE_LIMITED", text) };
    }
    if service.polls_waiting == 0 {
        let workers = match live_workers {
            0 => "the workers of".to_owned(),
            count => format!("{} of", words::count(count, "worker", "workers")),
        };
        let text = format!(
            "{waits}: {workers} task queue {name} ask for no {kind} at the moment, so they are busy; {} there.",
            words::count(service.backlog, "task waits", "tasks wait")
        );
        let hint = "Add workers, or give them more slots, if this lasts.".to_owned();
        return Reason { hint, ..base("WORKERS_BUSY", text) };
    }
    let polls = words::count(service.polls_waiting, "poll waits", "polls wait");
    base("QUEUED", format!("{waits} in task queue {name}, where {polls}; it is about to be handed to a worker."))
}
