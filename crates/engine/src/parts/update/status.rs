//! The status of an update, for the callers that wait for it.

use std::sync::Arc;

use segno_proto::{
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    update::{Outcome, outcome},
};

use crate::{
    parts::update::abort,
    state::{
        run::Run,
        updates::{Abort, UpdateEnd},
    },
};

/// How an update stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// It waits for a worker, or a worker has it.
    Admitted,
    /// A worker accepted it; nothing came out yet.
    Accepted,
    /// This came out.
    Completed(Arc<Outcome>),
    /// The outcome is in this event.
    CompletedIn(i64),
    /// It will not be answered.
    Aborted(Abort),
}

/// How an update stands; `None` if the run does not know it.
pub fn of(run: &Run, id: &str) -> Option<Status> {
    if let Some(ended) = run.updates.ended(id) {
        return Some(match ended {
            UpdateEnd::Completed(outcome) => Status::Completed(outcome.clone()),
            UpdateEnd::Rejected(failure) => Status::Completed(Arc::new(failed(Failure::clone(failure)))),
            UpdateEnd::Aborted(abort) => Status::Aborted(*abort),
        });
    }
    if let Some(record) = run.update_record(id) {
        if record.completed_event_id > 0 {
            return Some(Status::CompletedIn(record.completed_event_id));
        }
        if let Some(rejection) = &record.rejection {
            return Some(Status::Completed(Arc::new(failed(rejection.clone()))));
        }
        if record.is_accepted() {
            return Some(match run.is_running() {
                true => Status::Accepted,
                false => Status::Completed(Arc::new(failed(closed_before_completion()))),
            });
        }
        if !run.is_running() {
            return Some(Status::Aborted(abort::by_the_end(run)));
        }
    }
    run.updates.find(id).map(|_| Status::Admitted)
}

/// Earlier runs of the chain that may have completed an update that a run does not know, newest first, but for those in `searched`.
pub fn earlier_runs(run: &Run, id: &str, searched: &[u64]) -> Vec<u64> {
    let Some(earlier) = &run.info.earlier_updates else { return Vec::new() };
    match of(run, id) {
        Some(_) => Vec::new(),
        None => earlier.runs_of(id, searched),
    }
}

/// The failure of an accepted update whose workflow ended first.
pub(crate) fn closed_before_completion() -> Failure {
    server_failure(
        "Workflow Update failed because the Workflow completed before the Update completed.",
        "AcceptedUpdateCompletedWorkflow",
    )
}

/// The failure of an update that its worker did not answer.
pub fn unprocessed() -> Failure {
    server_failure(
        "Workflow Update is rejected because it wasn't processed by worker. Probably, Workflow Update is not supported \
         by the worker.",
        "UnprocessedUpdate",
    )
}

fn server_failure(message: &str, kind: &str) -> Failure {
    let info = ApplicationFailureInfo { r#type: kind.to_owned(), non_retryable: true, ..Default::default() };
    Failure {
        message: message.to_owned(),
        source: "Server".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        ..Default::default()
    }
}

/// An outcome that is a failure.
pub fn failed(failure: Failure) -> Outcome {
    Outcome { value: Some(outcome::Value::Failure(failure)) }
}
