//! `segno cluster fence`.

use clap::Args;
use segno_proto::segno_cluster::{FenceRequest, FenceResponse};

use crate::{
    client::{Client, request},
    output::Json,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno cluster fence node-2")]
pub struct Fence {
    /// The node's name.
    name: String,
}

impl Fence {
    /// Fences a node.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let answer = client.cluster.fence(request(FenceRequest { name: self.name.clone() })).await;
        let _: FenceResponse = client.answer("fence a node", answer)?;
        client.print(
            || format!("{} has lost its place; if it is alive it joins again\n", self.name),
            || Json::object([("name", Json::text(&self.name))]),
        )
    }
}
