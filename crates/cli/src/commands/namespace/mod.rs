//! `segno namespace ...`.

mod create;
mod delete;
mod describe;
mod list;
mod update;

use clap::Args;

use crate::client::Client;

/// The full name of an answer that describes a namespace.
const DESCRIPTION: &str = "temporal.api.workflowservice.v1.DescribeNamespaceResponse";

noun!(Namespace {
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
});

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
