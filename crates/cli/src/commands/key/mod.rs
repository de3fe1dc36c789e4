//! `segno key ...`: access keys.

mod create;
mod list;
mod revoke;
mod whoami;

use clap::{Args, Subcommand};

use crate::client::{Client, Connection};

#[derive(Args, Clone, Debug)]
pub struct Key {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Makes a key and prints its secret, once.
    Create(create::Create),
    /// Lists the keys.
    List(list::List),
    /// Revokes a key at once.
    Revoke(revoke::Revoke),
    /// Shows the name and the grants under which the server knows you.
    Whoami(whoami::WhoAmI),
}

impl Key {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        self.connection.run(async move |client: &mut Client| match self.command {
            Command::Create(command) => command.run(client).await,
            Command::List(command) => command.run(client).await,
            Command::Revoke(command) => command.run(client).await,
            Command::Whoami(command) => command.run(client).await,
        })
    }
}
