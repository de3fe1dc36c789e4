//! `segno flow rollback`.

use clap::Args;
use segno_proto::segno_flow::RollbackRequest;

use super::short;
use crate::{
    client::Client,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno flow rollback order")]
pub struct Rollback {
    /// The script.
    #[arg(value_name = "NAME")]
    name: String,
}

impl Rollback {
    /// Goes back one version.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let (namespace, identity) = (client.namespace.clone(), client.identity.clone());
        let message = RollbackRequest { namespace, name: self.name, identity };
        let answer = client.call("roll back", message).await?;
        client.print(
            || format!("{} {} activated\n", plain(&answer.name), short(&answer.version)),
            || Json::object([("name", Json::text(&answer.name)), ("version", Json::text(&answer.version))]),
        )
    }
}
