//! `segno migration status`: what is still open on the server that is left behind, and what would be done twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
use clap::Args;
use segno_proto::workflowservice::{ListSchedulesRequest, ListWorkflowExecutionsRequest};

use crate::{
    client::{Client, ClientError},
    output::{Json, plain, table::Table},
};

/// Open workflows. A paused one is open, too.
const OPEN: &str = "ExecutionStatus = 'Running'";
/// Items in a page of a list.
const PAGE: i32 = 1000;
/// Most workflows that are read of a server.
const READ_MAX: usize = 100_000;
/// Names that are printed of a kind.
const NAMED_MAX: usize = 20;
/// Pause between two comparisons.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  segno migration status --from temporal.example:7233\n  segno migration status --from temporal.example:7233 \
                  --from-namespace orders --wait\n\nThe old server may be Temporal's or one of Segno's; nothing is changed on either. The exit \
                  code is 0 if nothing is open on the old one."
)]
pub struct Status {
    /// The old server; https:// in front of it encrypts the connection.
    #[arg(long, value_name = "HOST:PORT")]
    from: String,
    /// The namespace there. [default: the same]
    #[arg(long, value_name = "NAME")]
    from_namespace: Option<String>,
    /// API key for the old server. Neither the profile nor the environment is used for it.
    #[arg(long, env = "SEGNO_FROM_API_KEY", value_name = "KEY", hide_env_values = true)]
    from_api_key: Option<String>,
    /// Roots for the certificate of the old server, PEM. [default: the system's]
    #[arg(long, value_name = "FILE")]
    from_tls_ca_path: Option<PathBuf>,
    /// Compare again every five seconds, until nothing is open on the old server.
    #[arg(long)]
    wait: bool,
}

/// What is open on a server.
#[derive(Debug, Default)]
struct OpenItems {
    /// Types by workflow id.
    workflows: BTreeMap<String, String>,
    /// Ids of schedules that act.
    schedules: BTreeSet<String>,
    /// Whether there are more workflows than were read.
    is_cut: bool,
}

impl Status {
    /// Prints the comparison, once or until the old server is empty.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let namespace = self.from_namespace.unwrap_or_else(|| client.namespace.clone());
        let mut old = client.of_other(&self.from, namespace, self.from_api_key, self.from_tls_ca_path).await?;
        loop {
            let (before, after) = (open_items(&mut old).await?, open_items(client).await?);
            client.print(|| text(&old, client, &before, &after), || json(&before, &after))?;
            if before.is_empty() {
                return Ok(());
            }
            if !self.wait {
                return Err(ClientError::Outcome("the old server is not empty yet".to_owned()).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl OpenItems {
    fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.schedules.is_empty()
    }

    fn by_type(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        self.workflows.values().for_each(|kind| *counts.entry(kind.as_str()).or_default() += 1);
        counts
    }

    /// Workflow ids that are open on both servers.
    fn workflows_also_of(&self, other: &Self) -> Vec<&str> {
        self.workflows.keys().filter(|id| other.workflows.contains_key(*id)).map(String::as_str).collect()
    }

    /// Schedules that act on both servers.
    fn schedules_also_of(&self, other: &Self) -> Vec<&str> {
        self.schedules.iter().filter(|id| other.schedules.contains(*id)).map(String::as_str).collect()
    }
}

async fn open_items(client: &mut Client) -> anyhow::Result<OpenItems> {
    let mut found = OpenItems::default();
    let mut token = Bytes::new();
    loop {
        let message = ListWorkflowExecutionsRequest {
            namespace: client.namespace.clone(),
            page_size: PAGE,
            next_page_token: token,
            query: OPEN.to_owned(),
        };
        let page = client.call("list workflows", message).await?;
        for info in page.executions {
            let id = info.execution.unwrap_or_default().workflow_id;
            found.workflows.insert(id, info.r#type.unwrap_or_default().name);
        }
        token = page.next_page_token;
        found.is_cut = found.workflows.len() >= READ_MAX && !token.is_empty();
        if token.is_empty() || found.is_cut {
            break;
        }
    }
    let mut token = Bytes::new();
    loop {
        let message = ListSchedulesRequest {
            namespace: client.namespace.clone(),
            maximum_page_size: PAGE,
            next_page_token: token,
            ..Default::default()
        };
        let page = client.call("list schedules", message).await?;
        let acting = page.schedules.into_iter().filter(|entry| !entry.info.as_ref().is_some_and(|info| info.paused));
        found.schedules.extend(acting.map(|entry| entry.schedule_id));
        token = page.next_page_token;
        if token.is_empty() {
            return Ok(found);
        }
    }
}

fn text(old: &Client, new: &Client, before: &OpenItems, after: &OpenItems) -> String {
    let (counts, counts_after) = (before.by_type(), after.by_type());
    let types: BTreeSet<&str> = counts.keys().chain(counts_after.keys()).copied().collect();
    let count = |counts: &BTreeMap<&str, usize>, kind: &str| counts.get(kind).copied().unwrap_or(0).to_string();
    let rows: Vec<Vec<_>> = types
        .into_iter()
        .map(|kind| vec![kind.into(), count(&counts, kind).into(), count(&counts_after, kind).into()])
        .collect();
    let mut lines = vec![summary("Old", old, before), summary("New", new, after)];
    if !rows.is_empty() {
        let table = Table::new(&["Type", "OpenOnOld", "OpenOnNew"], new.colors).render(&rows);
        lines.push(table.trim_end().to_owned());
    }
    let twice = [
        ("Open on both servers, so that their work may be done twice", before.workflows_also_of(after)),
        ("Schedules that act on both servers: pause them on the old one", before.schedules_also_of(after)),
    ];
    lines.extend(twice.iter().filter(|(_, ids)| !ids.is_empty()).map(|(what, ids)| format!("{what}: {}", named(ids))));
    if before.is_empty() {
        lines.push("Nothing is open on the old server: its workers can be stopped.".to_owned());
    }
    lines.join("\n")
}

fn summary(which: &str, client: &Client, items: &OpenItems) -> String {
    let at_least = if items.is_cut { "at least " } else { "" };
    format!(
        "{which}: {} namespace {}, {at_least}{} open workflows, {} schedules that act",
        plain(&client.address),
        plain(&client.namespace),
        items.workflows.len(),
        items.schedules.len()
    )
}

fn named(ids: &[&str]) -> String {
    let shown: Vec<_> = ids.iter().take(NAMED_MAX).map(|id| plain(id)).collect();
    match ids.len().saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn json(before: &OpenItems, after: &OpenItems) -> Json {
    let list = |ids: Vec<&str>| Json::Array(ids.into_iter().map(Json::text).collect());
    let side = |items: &OpenItems| {
        Json::object([
            ("openWorkflows", Json::number(items.workflows.len() as i64)),
            ("actingSchedules", Json::number(items.schedules.len() as i64)),
            ("isCut", Json::Bool(items.is_cut)),
        ])
    };
    Json::object([
        ("old", side(before)),
        ("new", side(after)),
        ("workflowsOnBoth", list(before.workflows_also_of(after))),
        ("schedulesOnBoth", list(before.schedules_also_of(after))),
        ("oldIsEmpty", Json::Bool(before.is_empty())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_both_servers_is_found() {
        let items = |workflows: &[&str], schedules: &[&str]| OpenItems {
            workflows: workflows.iter().map(|id| ((*id).to_owned(), "Order".to_owned())).collect(),
            schedules: schedules.iter().map(|id| (*id).to_owned()).collect(),
            is_cut: false,
        };
        let (before, after) = (items(&["a", "b"], &["nightly"]), items(&["b", "c"], &["nightly", "weekly"]));
        assert_eq!(before.workflows_also_of(&after), ["b"]);
        assert_eq!(before.schedules_also_of(&after), ["nightly"]);
        assert_eq!(before.by_type(), BTreeMap::from([("Order", 2)]));
        assert!(!items(&[], &["nightly"]).is_empty() && items(&[], &[]).is_empty());
        assert_eq!(named(&["x"; 21]).matches("x").count(), 20);
    }
}
