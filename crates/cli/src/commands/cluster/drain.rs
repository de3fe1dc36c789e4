//! `segno cluster drain`.

use clap::Args;
use segno_proto::segno_cluster::{DrainRequest, DrainResponse};

use crate::{
    client::{Client, request},
    output::Json,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno cluster drain node-2")]
pub struct Drain {
    /// The node's name.
    name: String,
}

impl Drain {
    /// Lets a node hand over everything that it owns.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let answer = client.cluster.drain(request(DrainRequest { name: self.name.clone() })).await;
        let _: DrainResponse = client.answer("drain a node", answer)?;
        client.print(
            || format!("{} is handing over what it owns; `segno cluster status` shows how far it is\n", self.name),
            || Json::object([("name", Json::text(&self.name))]),
        )
    }
}
