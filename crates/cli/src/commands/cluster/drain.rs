//! `segno cluster drain`.

use clap::Args;
use segno_proto::segno_cluster::DrainRequest;

use crate::{client::Client, output::Json};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno cluster drain node-2")]
pub struct Drain {
    /// The node's name.
    name: String,
}

impl Drain {
    /// Lets a node hand over everything that it owns.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        client.call("drain a node", DrainRequest { name: self.name.clone() }).await?;
        client.print(
            || format!("{} is handing over what it owns; `segno cluster status` shows how far it is\n", self.name),
            || Json::object([("name", Json::text(&self.name))]),
        )
    }
}
