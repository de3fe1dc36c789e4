//! `segno task-queue ...`.

mod describe;

use clap::{Args, Subcommand};

use crate::client::{Client, Connection};

#[derive(Args, Clone, Debug)]
pub struct TaskQueue {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Shows the pollers and the backlog of a task queue.
    Describe(describe::Describe),
}

impl TaskQueue {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let Command::Describe(command) = self.command;
        self.connection.run(async move |client: &mut Client| command.run(client).await)
    }
}
