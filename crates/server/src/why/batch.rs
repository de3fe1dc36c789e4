//! Batch jobs: how far they have come, and what was refused.

use segno_node::BatchInfo;
use segno_proto::{Nanos, enums::BatchOperationState as State, segno_workflow::Reason};

use super::{command, reason, severity, time, words};

/// The sentences about a job.
pub(crate) fn reasons(namespace: &str, info: &BatchInfo, now: Nanos) -> Vec<Reason> {
    let mut found = Vec::new();
    let dealt = info.complete + info.failed;
    let of = match info.total {
        0 => String::new(),
        total => format!(" of {}", words::count(total as usize, "execution", "executions")),
    };
    let job = [("--job-id", info.job_id.as_str())];
    if info.is_open() {
        let rate = match (dealt, (now - info.start_time) / 1_000_000_000) {
            (done, seconds) if done > 0 && seconds > 0 => {
                let left = (info.total - done).max(0) * seconds / done;
                format!("; at this rate it ends in about {}", words::span(left * 1_000_000_000))
            }
            _ => String::new(),
        };
        let text = format!("The job runs {}: {dealt}{of} are done{rate}.", words::since(info.start_time, now));
        let stop = command::command(namespace, "batch terminate", &job);
        let hint = format!("{stop} stops it; what is done stays done.");
        found.push(Reason { since: time(info.start_time), hint, ..reason("BATCH_RUNNING", text) });
    } else {
        let how = match info.state() {
            State::Completed => "completed",
            _ => "was stopped, or failed,",
        };
        let text = format!("The job {how} {}: {dealt}{of} were done.", words::moment(info.close_time, now));
        found.push(Reason { since: time(info.close_time), ..reason("BATCH_CLOSED", text) });
    }
    if info.failed > 0 {
        let refused = words::count(info.failed as usize, "execution refused", "executions refused");
        let text =
            format!("{refused} the operation, for example because the execution had closed. They are not tried again.");
        let hint = match info.query.as_str() {
            "" => String::new(),
            query => {
                let list = command::command(namespace, "workflow list", &[("--query", query)]);
                format!("{list} shows which executions the filter of the job selects now.")
            }
        };
        found.push(Reason { hint, ..reason("BATCH_REFUSED", text) });
    }
    severity::fill(&mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;
    const NOW: Nanos = 1_000_000_000 * SECOND;

    fn job(state: State) -> BatchInfo {
        let mut info = BatchInfo::default();
        info.set_state(state);
        info.job_id = "cleanup".to_owned();
        info.start_time = NOW - 10 * SECOND;
        info.close_time = if state == State::Running { 0 } else { NOW - SECOND };
        (info.total, info.complete, info.failed) = (60, 18, 2);
        info.query = "WorkflowType = 'Order'".to_owned();
        info
    }

    #[test]
    fn a_job_runs_and_ends() {
        let all = reasons("shop", &job(State::Running), NOW);
        assert_eq!(
            all[0].text,
            "The job runs since 2001-09-09T01:46:30Z (for 10 s): 20 of 60 executions are done; at this rate it ends in about 20 s."
        );
        assert!(all[0].hint.starts_with("`segno batch terminate --namespace shop --job-id cleanup` stops it"));
        assert!(all[1].text.starts_with("2 executions refused the operation"), "{}", all[1].text);
        assert!(
            all[1].hint.starts_with("`segno workflow list --namespace shop --query 'WorkflowType = '\\''Order'\\'''`")
        );
        let all = reasons("shop", &job(State::Completed), NOW);
        assert_eq!((all[0].kind.as_str(), all[0].severity.as_str()), ("BATCH_CLOSED", ""));
        assert!(all[0].text.starts_with("The job completed at"), "{}", all[0].text);
    }
}
