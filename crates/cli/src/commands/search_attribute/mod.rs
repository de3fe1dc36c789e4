//! `segno search-attribute ...`.

mod create;
mod list;
mod remove;

use clap::{Args, Subcommand};

use crate::{
    client::{Client, Connection},
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
pub struct SearchAttribute {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Lists search attributes.
    List(list::List),
    /// Adds custom search attributes to a namespace.
    Create(create::Create),
    /// Removes custom search attributes from a namespace.
    Remove(remove::Remove),
}

impl SearchAttribute {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let command = self.command;
        self.connection.run(async move |client: &mut Client| match command {
            Command::List(command) => command.run(client).await,
            Command::Create(command) => command.run(client).await,
            Command::Remove(command) => command.run(client).await,
        })
    }
}

/// Says what was done to which search attributes.
fn done(client: &Client, names: &[String], action: &str) -> anyhow::Result<()> {
    let plural = if names.len() == 1 { " was" } else { "s were" };
    client.print(
        || format!("Search attribute{plural} {action}: {}", plain(&names.join(", "))),
        || {
            Ok(Json::object([
                ("namespace", Json::text(&client.namespace)),
                ("names", Json::Array(names.iter().map(Json::text).collect())),
                ("action", Json::text(action)),
            ]))
        },
    )
}
