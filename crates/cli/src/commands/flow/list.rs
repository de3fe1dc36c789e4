//! `segno flow list`.

use clap::Args;
use segno_proto::segno_flow::{Flow, ListRequest, ListResponse};

use super::short;
use crate::{
    client::{Client, ClientError},
    output::{
        dynamic::decoded,
        table::{Cell, Table},
        time,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno flow list")]
pub struct List {}

impl List {
    /// Prints all scripts of the namespace.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let all = client.scripts().await?;
        client.print(|| text(&all.flows, client.colors), || decoded("segno.flow.v1.ListResponse", &all))
    }
}

impl Client {
    /// All scripts of the namespace.
    pub async fn scripts(&mut self) -> Result<ListResponse, ClientError> {
        let mut all = ListResponse::default();
        loop {
            let message = ListRequest {
                namespace: self.namespace.clone(),
                page_size: 0,
                next_page_token: std::mem::take(&mut all.next_page_token),
            };
            let page = self.call("list scripts", message).await?;
            all.flows.extend(page.flows);
            all.next_page_token = page.next_page_token;
            if all.next_page_token.is_empty() {
                return Ok(all);
            }
        }
    }
}

fn text(flows: &[Flow], colors: bool) -> String {
    let headers = ["Name", "Current", "Versions", "Activated", "By"];
    Table::new(&headers, colors).render(&flows.iter().map(row).collect::<Vec<_>>())
}

/// The digits of the current version, and whether the server can execute it.
fn current(flow: &Flow) -> String {
    let version = flow.versions.iter().find(|known| known.version == flow.current);
    match (flow.current.as_str(), version.is_some_and(|known| !known.unusable.is_empty())) {
        ("", _) => "-".to_owned(),
        (digits, false) => short(digits).to_owned(),
        (digits, true) => format!("{} (unusable)", short(digits)),
    }
}

fn row(flow: &Flow) -> Vec<Cell> {
    let last = flow.activations.last();
    vec![
        (&flow.name).into(),
        current(flow).into(),
        flow.versions.len().to_string().into(),
        last.map(|last| time::relative(last.time.as_ref(), jiff::Timestamp::now())).unwrap_or_default().into(),
        last.map(|last| last.identity.clone()).unwrap_or_default().into(),
    ]
}
