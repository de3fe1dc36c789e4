//! `segno namespace list`.

use clap::Args;
use segno_proto::workflowservice::{DescribeNamespaceResponse, ListNamespacesRequest};

use super::DESCRIPTION;
use crate::{
    client::Client,
    output::{
        Json,
        dynamic::decoded,
        status,
        table::{Cell, Table},
        time,
    },
};

const PAGE: i32 = 100;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno namespace list")]
pub struct List {}

impl List {
    /// Prints all namespaces.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let mut all = Vec::new();
        let mut token = Default::default();
        loop {
            let message = ListNamespacesRequest { page_size: PAGE, next_page_token: token, ..Default::default() };
            let answer = client.call("list namespaces", message).await?;
            all.extend(answer.namespaces);
            token = answer.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        client.print(
            || {
                let mut table = Table::new(&["Name", "State", "Retention", "Description"], client.colors);
                table.render(&all.iter().map(row).collect::<Vec<_>>())
            },
            || {
                let items = all.iter().map(|one| decoded(DESCRIPTION, one));
                Json::Array(items.collect())
            },
        )
    }
}

fn row(namespace: &DescribeNamespaceResponse) -> Vec<Cell> {
    let info = namespace.namespace_info.clone().unwrap_or_default();
    let config = namespace.config.clone().unwrap_or_default();
    vec![
        (&info.name).into(),
        status::namespace(info.state()).into(),
        time::span(config.workflow_execution_retention_ttl.as_ref()).into(),
        info.description.into(),
    ]
}
