//! `segno cluster ...`: the nodes on one database.

mod drain;
mod fence;
mod status;

use clap::{Args, Subcommand};

use crate::client::{Client, Connection};

#[derive(Args, Clone, Debug)]
pub struct Cluster {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Shows the nodes and what each one owns.
    Status(status::ClusterStatus),
    /// Lets a node hand over everything that it owns.
    Drain(drain::Drain),
    /// Fences a node: it loses its place at once.
    Fence(fence::Fence),
}

impl Cluster {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        self.connection.run(async move |client: &mut Client| match self.command {
            Command::Status(command) => command.run(client).await,
            Command::Drain(command) => command.run(client).await,
            Command::Fence(command) => command.run(client).await,
        })
    }
}
