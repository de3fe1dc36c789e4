//! `segno worker ...`: workers, their leases and tasks. Only of Segno servers.

mod describe;
mod list;

use clap::{Args, Subcommand};
use segno_proto::segno_worker::{self as api, WorkerState};

use crate::{
    client::{Client, Connection},
    output::time,
};

#[derive(Args, Clone, Debug)]
pub struct Worker {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Lists workers with their leases and numbers of tasks.
    List(list::List),
    /// Shows one worker and its tasks.
    Describe(describe::Describe),
}

impl Worker {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        self.connection.run(async move |client: &mut Client| match self.command {
            Command::List(command) => command.run(client).await,
            Command::Describe(command) => command.run(client).await,
        })
    }
}

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
