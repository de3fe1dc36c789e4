//! Server metrics, pushed to open pages once a second.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use maud::html;
use segno_node::{Latency, Node};
use segno_proto::workflowservice::GetClusterInfoRequest;
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    ProcessFigures, Web,
    layout::{Page, facts},
};

const PUSH_INTERVAL: Duration = Duration::from_secs(1);

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
    /// A time in microseconds.
    Time,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::ByteRate => "byte-rate",
            Self::Value => "value",
            Self::Bytes => "bytes",
            Self::Time => "time",
        }
    }
}

/// Name of the metric, title, kind.
const CHARTS: [(&str, &str, Kind); 21] = [
    ("commits", "Commits per second", Kind::Rate),
    ("syncs", "Syncs to disk per second", Kind::Rate),
    ("commit_p50", "Time of a commit: p50", Kind::Time),
    ("commit_p99", "Time of a commit: p99", Kind::Time),
    ("call_p50", "Time of a call, polls aside: p50", Kind::Time),
    ("call_p99", "Time of a call, polls aside: p99", Kind::Time),
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
    ("database_bytes", "Database file", Kind::Bytes),
    ("database_log_bytes", "Write-ahead log", Kind::Bytes),
    ("disk_free_bytes", "Free on its disk", Kind::Bytes),
];

/// The charts of what [`counted`] has, p50 and p99 of each.
const QUANTILES: [[&str; 2]; 2] = [["commit_p50", "commit_p99"], ["call_p50", "call_p99"]];

/// The figures of the charts, by name.
fn read(node: &Node, process: ProcessFigures) -> BTreeMap<&'static str, u64> {
    let counters = node.runs.metrics.read();
    let all = counters.into_iter().chain(node.gauges());
    let mut values: BTreeMap<_, _> = all.map(|(name, _, value)| (name, value)).collect();
    if let Some(bytes) = resident_bytes() {
        values.insert("resident_bytes", bytes);
    }
    if let Some(sizes) = node.runs.file_sizes() {
        values.insert("database_bytes", sizes.database);
        values.insert("database_log_bytes", sizes.log);
    }
    if let Some(bytes) = (process.disk_free)() {
        values.insert("disk_free_bytes", bytes);
    }
    values
}

/// Times counted so far, by bucket.
type Buckets = [u64; Latency::BOUNDS.len() + 1];

/// The counts of commits, and of all calls that do not wait for an event.
fn counted(node: &Node, process: ProcessFigures) -> [Buckets; 2] {
    let mut calls = Buckets::default();
    (process.call_times)().into_iter().for_each(|times| add(&mut calls, times));
    let mut commits = Buckets::default();
    add(&mut commits, &node.runs.metrics.commit_time);
    [commits, calls]
}

fn add(buckets: &mut Buckets, times: &Latency) {
    let (read, _) = times.read();
    let mut before = 0;
    for (bucket, (_, until)) in buckets.iter_mut().zip(read) {
        *bucket += until - before;
        before = until;
    }
}

/// The time in microseconds below which this part of what was counted in between lies: the middle of its bucket.
fn quantile(before: &Buckets, now: &Buckets, part: f64) -> Option<u64> {
    let grown: Vec<u64> = now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
    let total: u64 = grown.iter().sum();
    let wanted = (total as f64 * part).ceil().max(1.0) as u64;
    let mut seen = 0;
    let place = grown.iter().position(|count| {
        seen += count;
        seen >= wanted
    })?;
    let below = if place == 0 { 0 } else { Latency::BOUNDS[place - 1] };
    Some((below + Latency::BOUNDS.get(place).copied().unwrap_or(below)) / 2)
}

/// The memory of the process, where the system tells it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Sends the values that are drawn until the page is closed.
pub(super) async fn stream(web: Web, send: mpsc::Sender<Bytes>) {
    let mut before = counted(&web.node, web.figures);
    while !web.node.runs.is_stopping() {
        let mut values = read(&web.node, web.figures);
        values.retain(|name, _| CHARTS.iter().any(|(chart, ..)| chart == name));
        let now = counted(&web.node, web.figures);
        for (names, (before, now)) in QUANTILES.iter().zip(before.iter().zip(&now)) {
            for (name, part) in names.iter().zip([0.5, 0.99]) {
                // Nothing happened: the chart shows zero and not what was before.
                values.insert(*name, quantile(before, now, part).unwrap_or(0));
            }
        }
        before = now;
        let event = format!("event: figures\ndata: {}\n\n", json!(values));
        if send.send(event.into()).await.is_err() || tokio::time::timeout(PUSH_INTERVAL, send.closed()).await.is_ok() {
            return;
        }
    }
}

impl Web {
    pub(super) async fn server_page(&self) -> Page {
        let info = self.call(GetClusterInfoRequest {}).await;
        let info = info.unwrap_or_default();
        let values = read(&self.node, self.figures);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn quantiles_are_of_what_was_counted_in_between() {
        let times = Latency::default();
        let read = || {
            let mut buckets = Buckets::default();
            add(&mut buckets, &times);
            buckets
        };
        times.observe(Duration::from_secs(30));
        let before = read();
        assert_eq!(quantile(&before, &before, 0.5), None);
        for _ in 0..98 {
            times.observe(Duration::from_micros(700));
        }
        times.observe(Duration::from_millis(20));
        times.observe(Duration::from_millis(20));
        let now = read();
        assert_eq!(quantile(&before, &now, 0.5), Some(750), "between 500 and 1000");
        assert_eq!(quantile(&before, &now, 0.99), Some(17_500), "between 10 and 25 ms");
        times.observe(Duration::from_secs(300));
        assert_eq!(quantile(&now, &read(), 0.5), Some(60_000_000), "above the last bound");
    }
}
