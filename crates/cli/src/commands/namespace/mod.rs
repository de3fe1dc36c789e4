//! `segno namespace ...`.

mod create;
mod delete;
mod describe;
mod list;
mod update;

use clap::{Args, Subcommand};

use crate::client::{Client, Connection};

/// The full name of an answer that describes a namespace.
const DESCRIPTION: &str = "temporal.api.workflowservice.v1.DescribeNamespaceResponse";

#[derive(Args, Clone, Debug)]
pub struct Namespace {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Lists namespaces.
    List(list::List),
    /// Shows a namespace.
    Describe(describe::Describe),
    /// Creates a namespace.
    Create(create::Create),
    /// Changes a namespace.
    Update(update::Update),
    /// Deletes a namespace and all its workflows.
    Delete(delete::Delete),
}

impl Namespace {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let command = self.command;
        self.connection.run(async move |client: &mut Client| match command {
            Command::List(command) => command.run(client).await,
            Command::Describe(command) => command.run(client).await,
            Command::Create(command) => command.run(client).await,
            Command::Update(command) => command.run(client).await,
            Command::Delete(command) => command.run(client).await,
        })
    }
}

/// Which namespace: as a word of its own, or with --namespace as everywhere.
#[derive(Args, Clone, Debug)]
struct Name {
    /// The namespace. [default: that of --namespace]
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl Name {
    fn or_of(self, client: &Client) -> String {
        self.name.unwrap_or_else(|| client.namespace.clone())
    }
}
