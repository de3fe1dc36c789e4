//! `segno flow delete`.

use clap::Args;
use segno_proto::segno_flow::DeleteRequest;

use super::name_and_version;
use crate::{
    client::Client,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow delete order\n  segno flow delete order@3f2a9c41d07b\n\nRuns that are open go \
                        on with their version."
)]
pub struct Delete {
    /// The script, or one version of it.
    #[arg(value_name = "NAME[@VERSION]")]
    name: String,
}

impl Delete {
    /// Deletes it.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let (name, version) = name_and_version(&self.name);
        let message = DeleteRequest { namespace: client.namespace.clone(), name, version };
        client.call("delete", message).await?;
        client.print(
            || format!("{} deleted\n", plain(&self.name)),
            || Json::object([("deleted", Json::text(&self.name))]),
        )
    }
}
