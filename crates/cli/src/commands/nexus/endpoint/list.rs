//! `segno nexus endpoint list`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::{nexus, operatorservice::ListNexusEndpointsRequest};

use super::{ENDPOINT, goes_to, spec};
use crate::{
    client::Client,
    commands::pages,
    output::{
        table::{Cell, Table},
        time,
    },
};

/// Endpoints per call.
const PAGE: i32 = 100;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno nexus endpoint list")]
pub struct List {}

impl List {
    /// Prints page after page.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let table = Table::new(&["Endpoint", "Target", "Created", "Id"], client.colors);
        let now = Timestamp::now();
        pages::print(
            client,
            ENDPOINT,
            table,
            |endpoint| row(endpoint, now),
            None,
            async |client, _, token| {
                let message =
                    ListNexusEndpointsRequest { page_size: PAGE, next_page_token: token, ..Default::default() };
                let answer = client.call("list endpoints", message).await?;
                Ok((answer.endpoints, answer.next_page_token))
            },
        )
        .await
    }
}

fn row(endpoint: &nexus::Endpoint, now: Timestamp) -> Vec<Cell> {
    let created = time::relative(endpoint.created_time.as_ref(), now);
    vec![spec(endpoint).name.into(), goes_to(endpoint).into(), created.into(), endpoint.id.clone().into()]
}
