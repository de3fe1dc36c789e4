//! `segno worker ...`: workers, their leases and tasks. Only of Segno servers.

mod describe;
mod list;

use segno_proto::segno_worker::{self as api, WorkerState};

use crate::output::time;

noun!(Worker {
    /// Lists workers with their leases and numbers of tasks.
    List(list::List),
    /// Shows one worker and its tasks.
    Describe(describe::Describe),
});

/// How a worker stands, in a word.
fn state(worker: &api::Worker) -> &'static str {
    match worker.state() {
        WorkerState::Unspecified => "Unknown",
        WorkerState::Active => "Active",
        WorkerState::Detached => "Detached",
        WorkerState::Gone => "Gone",
    }
}

/// The time a worker has left, in words.
fn lease(worker: &api::Worker) -> String {
    match (worker.state(), &worker.lease_remaining) {
        (WorkerState::Gone | WorkerState::Unspecified, _) => String::new(),
        (_, Some(left)) => {
            // Whole seconds are enough for people.
            let left = prost_types::Duration { nanos: 0, ..*left };
            if left.seconds == 0 { "under 1s".to_owned() } else { time::span(Some(&left)) }
        }
        (_, None) => "while connected".to_owned(),
    }
}
