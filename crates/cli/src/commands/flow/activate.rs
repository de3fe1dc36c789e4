//! `segno flow activate`.

use clap::Args;
use segno_proto::segno_flow::ActivateRequest;

use super::short;
use crate::{
    client::Client,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno flow activate order 3f2a9c41d07b")]
pub struct Activate {
    /// The script.
    #[arg(value_name = "NAME")]
    name: String,
    /// The version: all digits of it, or as many as are unambiguous.
    #[arg(value_name = "VERSION")]
    digits: String,
}

impl Activate {
    /// Makes the version current.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = ActivateRequest {
            namespace: client.namespace.clone(),
            name: self.name,
            version: self.digits,
            identity: client.identity.clone(),
        };
        let answer = client.call("activate", message).await?;
        client.print(
            || format!("{} {} activated\n", plain(&answer.name), short(&answer.version)),
            || Json::object([("name", Json::text(&answer.name)), ("version", Json::text(&answer.version))]),
        )
    }
}
