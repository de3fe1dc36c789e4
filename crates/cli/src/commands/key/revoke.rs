//! `segno key revoke`.

use clap::Args;
use segno_proto::segno_access::RevokeKeyRequest;

use crate::{
    client::Client,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno key revoke ci")]
pub struct Revoke {
    /// Name of the key.
    #[arg(value_name = "NAME")]
    name: String,
}

impl Revoke {
    /// Revokes the key.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        client.call("revoke the key", RevokeKeyRequest { name: self.name.clone() }).await?;
        client.print(
            || format!("The key {} is revoked", plain(&self.name)),
            || Json::object([("revoked", Json::text(&self.name))]),
        )
    }
}
