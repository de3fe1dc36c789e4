//! Figures of the server, sent once a second to whoever looks.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use maud::html;
use segno_proto::workflowservice::{GetClusterInfoRequest, workflow_service_server::WorkflowService};
use segno_runtime::Node;
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    Web, call,
    layout::{Page, facts},
};

const PAUSE: Duration = Duration::from_secs(1);

/// How a figure is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The growth of a counter in a second.
    Rate,
    /// Bytes that a counter grew by in a second.
    ByteRate,
    /// A value.
    Value,
    /// A number of bytes.
    Bytes,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::ByteRate => "byte-rate",
            Self::Value => "value",
            Self::Bytes => "bytes",
        }
    }
}

/// Name of the metric, title, kind.
const CHARTS: [(&str, &str, Kind); 14] = [
    ("commits", "Commits per second", Kind::Rate),
    ("syncs", "Syncs to disk per second", Kind::Rate),
    ("committed_bytes", "Written per second", Kind::ByteRate),
    ("runs_started", "Runs started per second", Kind::Rate),
    ("runs_closed", "Runs closed per second", Kind::Rate),
    ("workflow_tasks_started", "Workflow tasks per second", Kind::Rate),
    ("activity_tasks_started", "Activity tasks per second", Kind::Rate),
    ("wakes", "Timers fired per second", Kind::Rate),
    ("flow_turns", "Turns of scripts per second", Kind::Rate),
    ("queued_tasks", "Tasks waiting for a worker", Kind::Value),
    ("armed_timers", "Runs with a timer", Kind::Value),
    ("live_workers", "Workers with a lease", Kind::Value),
    ("cache_bytes", "Run cache", Kind::Bytes),
    ("resident_bytes", "Memory of the process", Kind::Bytes),
];

/// What the charts show, by name.
fn read(node: &Node) -> BTreeMap<&'static str, u64> {
    let counters = node.metrics.read();
    let all = counters.into_iter().chain(node.gauges());
    let mut values: BTreeMap<_, _> = all.map(|(name, _, value)| (name, value)).collect();
    if let Some(bytes) = resident_bytes() {
        values.insert("resident_bytes", bytes);
    }
    values
}

/// The memory of the process, where the system tells it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Sends the values that are drawn until nobody listens.
pub(super) async fn stream(web: Web, send: mpsc::Sender<Bytes>) {
    while !web.node.is_stopping() {
        let mut values = read(&web.node);
        values.retain(|name, _| CHARTS.iter().any(|(chart, ..)| chart == name));
        let event = format!("event: figures\ndata: {}\n\n", json!(values));
        if send.send(event.into()).await.is_err() || tokio::time::timeout(PAUSE, send.closed()).await.is_ok() {
            return;
        }
    }
}

impl Web {
    pub(super) async fn server_page(&self) -> Page {
        let info = self.workflows.get_cluster_info(call(GetClusterInfoRequest {})).await;
        let info = info.map(tonic::Response::into_inner).unwrap_or_default();
        let values = read(&self.node);
        let content = html! {
            h1 { "Server" }
            (facts(&[
                ("Segno", html! { (env!("CARGO_PKG_VERSION")) }),
                ("Protocol of Temporal", html! { (info.server_version) }),
                ("Store", html! { (info.persistence_store) }),
                ("Metrics", html! { a href="/metrics" { "/metrics" } }),
                ("Damaged runs", html! { (values.get("damaged_runs").copied().unwrap_or(0)) }),
                ("Failed commits", html! { (values.get("commit_failures").copied().unwrap_or(0)) }),
                ("Lost workers", html! { (values.get("workers_lost").copied().unwrap_or(0)) }),
            ]))
            div.charts data-figures {
                @for (name, title, kind) in CHARTS {
                    figure data-figure=(name) data-kind=(kind.word()) {
                        figcaption { (title) }
                        output aria-label=(title) { @if kind == Kind::Value { (values.get(name).copied().unwrap_or(0)) } @else { "–" } }
                        svg viewBox="0 0 240 48" preserveAspectRatio="none" aria-hidden="true" { path.area {} polyline.line points="" {} }
                    }
                }
            }
        };
        Page { title: "Server".to_owned(), area: "server", content, is_live: true }
    }
}
