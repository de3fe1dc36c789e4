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
    /// Shows the nodes with their shards and links.
    Status(status::ClusterStatus),
    /// Moves all shards of a node to others.
    Drain(drain::Drain),
    /// Fences a node: its writes are refused at once.
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
