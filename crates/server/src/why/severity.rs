//! How serious a reason is: whether what waits goes on by itself.

use segno_proto::segno_workflow::Reason;

/// Whether what waits goes on by itself, the harmless case first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// It waits as intended.
    Waiting,
    /// It is tried again, or waits for a worker.
    Delayed,
    /// It cannot go on by itself.
    Stuck,
}

impl Severity {
    /// As [`Reason::severity`] spells it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Delayed => "DELAYED",
            Self::Stuck => "STUCK",
        }
    }

    /// The severity of a reason; none if it is no reason to wait.
    pub(super) fn of(reason: &Reason) -> Option<Self> {
        [Self::Waiting, Self::Delayed, Self::Stuck].into_iter().find(|severity| severity.word() == reason.severity)
    }

    /// The severity of all reasons of a kind, unless the reason has one of its own.
    fn of_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "NOT_REGISTERED" | "WAITS_FOR_OPERATOR" | "ACTIVITY_QUARANTINED" | "NO_ENDPOINT" | "CALLBACK_FAILED" => {
                Self::Stuck
            }
            "NO_POLLER" | "WAITS_FOR_VERSION" | "WORKERS_BUSY" | "WORKER_SILENT" | "TASK_FAILING"
            | "TASK_TIMING_OUT" | "ACTIVITY_FAILING" | "OPERATION_FAILING" | "OPERATION_BLOCKED"
            | "CALLBACK_FAILING" | "SCHEDULE_OVERLAP" | "SCHEDULE_FAILING" | "BATCH_REFUSED" => Self::Delayed,
            "COMPLETED" | "FAILED" | "CANCELED" | "TERMINATED" | "TIMED_OUT" | "CONTINUED_AS_NEW" | "CLOSED"
            | "SUCCESSOR" | "RESET" | "BATCH_CLOSED" | "MORE_ACTIVITIES" | "MORE_TIMERS" | "MORE_CHILDREN"
            | "MORE_OPERATIONS" | "NOT_THE_SCRIPT" | "DEADLINE" | "SCHEDULE_ENDED" | "SCHEDULE_SKIPPED"
            | "SCHEDULE_MISSED" => {
                return None;
            }
            _ => Self::Waiting,
        })
    }
}

/// Completes reasons that have no severity of their own.
pub(super) fn fill(reasons: &mut [Reason]) {
    for reason in reasons.iter_mut() {
        if reason.brief.is_empty() {
            reason.brief = brief_of_kind(&reason.kind).to_owned();
        }
        if !reason.severity.is_empty() {
            continue;
        }
        reason.severity =
            Severity::of_kind(&reason.kind).map_or_else(String::new, |severity| severity.word().to_owned());
    }
}

/// The thing that a run waits for in a few words, for reasons that have none of their own.
fn brief_of_kind(kind: &str) -> &'static str {
    match kind {
        "NO_POLLER" | "WORKERS_BUSY" | "RATE_LIMITED" | "QUEUED" | "STICKY" => "a worker",
        "WAITS_FOR_VERSION" => "workers of its version",
        "TASK_FAILING" => "a repair of its code",
        "NOT_REGISTERED" => "a worker that has its type",
        "TASK_TIMING_OUT" => "an answer of a worker",
        "TASK_AT_WORKER" => "the worker that has its task",
        "WORKER_SILENT" => "a silent worker",
        "WAITS_FOR_OPERATOR" => "an operator",
        "SCRIPT_TURN" => "a turn of its script",
        "SCRIPT_WAITS" | "WAITS_FOR_SIGNAL" | "WAITS_IN_CODE" => "a signal or a condition",
        "PAUSED" => "the end of the pause",
        "START_DELAYED" => "its start time",
        "TIMER" => "a timer",
        "EXTERNAL_SIGNAL" | "EXTERNAL_CANCEL" => "the delivery of a message",
        "CANCEL_REQUESTED" => "its cancellation",
        "CALLBACK_FAILING" | "CALLBACK_FAILED" => "the delivery of a callback",
        "SCHEDULE" => "its next time",
        "SCHEDULE_RUNNING" | "SCHEDULE_OVERLAP" => "the workflow that it started",
        "BATCH_RUNNING" => "the executions that are left",
        _ => "",
    }
}

/// The most serious of some reasons.
pub(crate) fn worst(reasons: &[Reason]) -> Option<Severity> {
    reasons.iter().filter_map(Severity::of).max()
}
