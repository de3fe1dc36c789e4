//! `segno nexus endpoint ...`: the endpoints of the cluster.

mod create;
mod delete;
mod get;
mod list;
mod target;
mod update;

use clap::{Args, Subcommand};
use segno_proto::{
    nexus::{self, EndpointSpec, EndpointTarget, endpoint_target::Variant},
    operatorservice::ListNexusEndpointsRequest,
};

use crate::{
    client::{Client, ClientError},
    output::{Json, dynamic::decoded, plain},
};

const ENDPOINT: &str = "temporal.api.nexus.v1.Endpoint";

#[derive(Args, Clone, Debug)]
pub struct Endpoint {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Lists endpoints.
    List(list::List),
    /// Shows an endpoint.
    Get(get::Get),
    /// Creates an endpoint.
    Create(create::Create),
    /// Changes the name, the target or the description of an endpoint.
    Update(update::Update),
    /// Deletes an endpoint.
    Delete(delete::Delete),
}

impl Endpoint {
    /// Runs the command.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        match self.command {
            Command::List(command) => command.run(client).await,
            Command::Get(command) => command.run(client).await,
            Command::Create(command) => command.run(client).await,
            Command::Update(command) => command.run(client).await,
            Command::Delete(command) => command.run(client).await,
        }
    }
}

/// Which endpoint a command is about.
#[derive(Args, Clone, Debug)]
struct Name {
    /// Name of the endpoint.
    #[arg(long, value_name = "NAME")]
    name: String,
}

/// An endpoint by its name.
async fn read(client: &mut Client, name: &str) -> Result<nexus::Endpoint, ClientError> {
    let message = ListNexusEndpointsRequest { name: name.to_owned(), ..Default::default() };
    let found = client.call("find the endpoint", message).await?.endpoints.into_iter().next();
    found.ok_or_else(|| ClientError::Outcome(format!("there is no endpoint {}", plain(name))))
}

/// Prints what was done to an endpoint.
fn done(client: &Client, endpoint: Option<nexus::Endpoint>, action: &str) -> anyhow::Result<()> {
    let endpoint = endpoint.unwrap_or_default();
    client.print(
        || format!("Endpoint {} was {action}: {}", plain(&spec(&endpoint).name), goes_to(&endpoint)),
        || decoded(ENDPOINT, &endpoint),
    )
}

fn spec(endpoint: &nexus::Endpoint) -> EndpointSpec {
    endpoint.spec.clone().unwrap_or_default()
}

/// Where the requests of an endpoint go, in words.
fn goes_to(endpoint: &nexus::Endpoint) -> String {
    match spec(endpoint).target {
        Some(EndpointTarget { variant: Some(Variant::Worker(worker)) }) => {
            format!("task queue {} of namespace {}", plain(&worker.task_queue), plain(&worker.namespace))
        }
        Some(EndpointTarget { variant: Some(Variant::External(external)) }) => plain(&external.url).into_owned(),
        _ => "nowhere".to_owned(),
    }
}

/// The JSON of a deleted endpoint.
fn deleted(name: &str) -> Json {
    Json::object([("name", Json::text(name)), ("action", Json::text("deleted"))])
}
