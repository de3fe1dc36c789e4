//! `segno cluster fence`.

use clap::Args;
use segno_proto::segno_cluster::FenceRequest;

use crate::{client::Client, output::Json};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno cluster fence node-2")]
pub struct Fence {
    /// The node's name.
    name: String,
}

impl Fence {
    /// Fences a node.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        client.call("fence a node", FenceRequest { name: self.name.clone() }).await?;
        client.print(
            || format!("{} has lost its place; if it is alive it joins again\n", self.name),
            || Json::object([("name", Json::text(&self.name))]),
        )
    }
}
