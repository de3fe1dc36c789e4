//! `segno nexus endpoint get`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::nexus;

use super::{ENDPOINT, Name, goes_to, read, spec};
use crate::{
    client::Client,
    output::{dynamic::decoded, fields::Fields, payload, time},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno nexus endpoint get --name payments")]
pub struct Get {
    #[command(flatten)]
    endpoint: Name,
}

impl Get {
    /// Prints the endpoint.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let endpoint = read(client, &self.endpoint.name).await?;
        client.print(|| text(&endpoint, client.colors, Timestamp::now()), || decoded(ENDPOINT, &endpoint))
    }
}

fn text(endpoint: &nexus::Endpoint, colors: bool, now: Timestamp) -> String {
    let spec = spec(endpoint);
    let mut fields = Fields::new(colors);
    fields.section("Endpoint");
    fields.add("Name", &spec.name);
    fields.add("Target", goes_to(endpoint));
    fields.add("Description", spec.description.as_ref().map(payload::text).unwrap_or_default());
    fields.add("Created", time::both(endpoint.created_time.as_ref(), now));
    fields.add("LastModified", time::both(endpoint.last_modified_time.as_ref(), now));
    fields.add("Id", &endpoint.id);
    fields.add("Version", endpoint.version.to_string());
    fields.finish()
}
