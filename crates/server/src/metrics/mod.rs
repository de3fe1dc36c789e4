//! Prometheus' `/metrics`: all counters in its text form.
//!
//! docs/guides/production.md has the list. Labels are bounded: methods by the table of calls, namespaces, types and
//! queues by [`segno_node::Family`] and [`QUEUES_MAX`].

pub(crate) mod calls;
pub(crate) mod disk;
mod process;

use std::fmt::{Display, Write};

use segno_node::{Cluster, Family, Latency, LinkMetrics, Node, QueueGauge, VersionGauge};

use crate::otel;

/// Queues that have figures of their own: those with the most tasks.
const QUEUES_MAX: usize = 200;
/// Versions of workers that have figures of their own: those with the most waiting tasks.
const VERSIONS_MAX: usize = 50;

/// Everything, as Prometheus reads it.
pub(crate) fn text(node: &Node) -> String {
    let mut text = Text::default();
    for (name, help, value) in node.runs.metrics.read() {
        text.single(&format!("{name}_total"), help, "counter", value);
    }
    for (name, help, value) in node.gauges() {
        text.single(name, help, "gauge", value);
    }
    cluster(&mut text, node);
    let (states, groups) = (node.runs.metrics.flow_state_bytes.read(), node.runs.metrics.commit_group.read());
    text.histogram("flow_state_bytes", "Bytes of the state of a script after a turn.", &states);
    text.histogram("commit_group_size", "Commits that shared a durable transaction.", &groups);
    text.head("commit_seconds", "Time to make a group of commits durable, the sync included.", "histogram");
    text.latency("commit_seconds", "", &node.runs.metrics.commit_time);
    method_calls(&mut text);
    if let Some((sent, dropped)) = otel::counts() {
        text.single("trace_spans_total", "Spans of calls that a collector took.", "counter", sent);
        text.single("trace_spans_dropped_total", "Spans that could not be sent, or were too many.", "counter", dropped);
    }
    let labelled = &node.runs.metrics;
    text.family(
        "runs_started_by_type_total",
        "Workflow runs started, by namespace and type.",
        ["namespace", "type"],
        &labelled.started_by_type,
    );
    text.family(
        "runs_closed_by_type_total",
        "Workflow runs closed, by namespace, type and how.",
        ["namespace", "type", "status"],
        &labelled.closed_by_type,
    );
    text.family(
        "workflow_tasks_by_queue_total",
        "Workflow tasks handed to workers, by namespace and task queue.",
        ["namespace", "queue"],
        &labelled.workflow_tasks_by_queue,
    );
    text.family(
        "activity_tasks_by_queue_total",
        "Activity tasks handed to workers, by namespace, task queue and type.",
        ["namespace", "queue", "type"],
        &labelled.activity_tasks_by_queue,
    );
    text.family(
        "nexus_requests_by_endpoint_total",
        "Requests of Nexus operations handed to workers, by the namespace of the caller, and endpoint.",
        ["namespace", "endpoint"],
        &labelled.nexus_requests_by_endpoint,
    );
    queues(&mut text, &node.dispatch.queue_gauges(QUEUES_MAX));
    versions(&mut text, &node.dispatch.version_gauges(VERSIONS_MAX));
    if let Some(sizes) = node.runs.file_sizes() {
        text.single("database_bytes", "Bytes of the database file.", "gauge", sizes.database);
        text.single("database_log_bytes", "Bytes of the write-ahead log.", "gauge", sizes.log);
        text.single("database_checkpoints_total", "Checkpoints of the write-ahead log.", "counter", sizes.checkpoints);
        let failures = sizes.checkpoint_failures;
        text.single("database_checkpoint_failures_total", "Checkpoints that failed.", "counter", failures);
    }
    if let Some(free) = disk::disk_free() {
        text.single("disk_free_bytes", "Bytes that are free on the disk with the data.", "gauge", free);
    }
    for (name, help, kind, value) in process::read() {
        // Prometheus' own names, without a prefix.
        let _ = writeln!(text.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    text.0
}

/// The text so far. Writing to a string cannot fail, so nothing is made of the results.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP segno_{name} {help}\n# TYPE segno_{name} {kind}");
    }

    fn single(&mut self, name: &str, help: &str, kind: &str, value: impl Display) {
        self.head(name, help, kind);
        let _ = writeln!(self.0, "segno_{name} {value}");
    }

    fn family<const N: usize>(&mut self, name: &str, help: &str, labels: [&str; N], family: &Family<N>) {
        self.head(name, help, "counter");
        for (values, count) in family.read() {
            let _ = writeln!(self.0, "segno_{name}{{{}}} {count}", pairs(&labels, &values));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, (buckets, sum): &(Vec<(Option<u64>, u64)>, u64)) {
        self.head(name, help, "histogram");
        for (bound, count) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            let _ = writeln!(self.0, "segno_{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let count = buckets.last().map_or(0, |(_, count)| *count);
        let _ = writeln!(self.0, "segno_{name}_sum {sum}\nsegno_{name}_count {count}");
    }

    /// A distribution of times; `labels` ends with a comma, or is empty.
    fn latency(&mut self, name: &str, labels: &str, times: &Latency) {
        let (buckets, sum) = times.read();
        for (bound, count) in &buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            let _ = writeln!(self.0, "segno_{name}_bucket{{{labels}le=\"{bound}\"}} {count}");
        }
        let count = buckets.last().map_or(0, |(_, count)| *count);
        let braces = match labels.trim_end_matches(',') {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        let _ = writeln!(self.0, "segno_{name}_sum{braces} {sum}\nsegno_{name}_count{braces} {count}");
    }
}

/// Labels with their values, escaped.
fn pairs(names: &[&str], values: &[String]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pair = |(name, value): (&&str, &String)| format!("{name}=\"{}\"", escaped(value));
    names.iter().zip(values).map(pair).collect::<Vec<_>>().join(",")
}

fn cluster(text: &mut Text, node: &Node) {
    let Some(cluster) = &node.cluster else { return };
    let (map, links) = (cluster.topology.map(), cluster.peers.links());
    let open = links.iter().filter(|(_, is_open)| *is_open).count();
    let free = map.owners.iter().filter(|owner| owner.is_none()).count();
    for (name, help, value) in [
        ("cluster_nodes", "Nodes on the same database.", map.members.len()),
        ("cluster_links_open", "Other nodes that this one reaches.", open),
        ("cluster_shards_served", "Shards that this node serves.", cluster.topology.served().len()),
        ("cluster_shards_without_owner", "Shards that no node serves.", free),
        (
            "cluster_within_lease",
            "Whether this node may answer from memory.",
            usize::from(cluster.topology.is_within_lease()),
        ),
    ] {
        text.single(name, help, "gauge", value);
    }
    link_metrics(text, cluster);
    let help = "Changes of runs while this node served their shard, by shard.";
    text.head("cluster_shard_commits_total", help, "counter");
    for (shard, commits) in cluster.topology.commits_by_shard() {
        let _ = writeln!(text.0, "segno_cluster_shard_commits_total{{shard=\"{}\"}} {commits}", shard.0);
    }
}

/// A figure of a link: its name, help text, kind, and how it is read.
type LinkMetric = (&'static str, &'static str, &'static str, fn(&LinkMetrics) -> u64);

const LINK_METRICS: [LinkMetric; 11] = [
    ("open", "Whether this node reaches another one.", "gauge", |link| link.is_open.into()),
    ("encrypted", "Whether the link is encrypted: not with an older version.", "gauge", |link| {
        link.is_encrypted.into()
    }),
    ("frames_waiting", "Frames that wait to be sent to another node.", "gauge", |link| link.frames_waiting as u64),
    ("bytes_waiting", "Bytes that wait to be sent to another node.", "gauge", |link| link.bytes_waiting as u64),
    ("questions", "Questions that another node has not answered.", "gauge", |link| link.requests as u64),
    ("frames_sent_total", "Frames sent to another node.", "counter", |link| link.frames_sent),
    ("bytes_sent_total", "Bytes sent to another node, before encryption.", "counter", |link| link.bytes_sent),
    ("writes_total", "Writes to another node, each of several frames.", "counter", |link| link.writes),
    ("frames_received_total", "Frames received from another node.", "counter", |link| link.frames_received),
    ("bytes_received_total", "Bytes received from another node.", "counter", |link| link.bytes_received),
    ("connections_total", "Connections made to another node.", "counter", |link| link.connections),
];

fn link_metrics(text: &mut Text, cluster: &Cluster) {
    let (map, links) = (cluster.topology.map(), cluster.peers.link_metrics());
    for (name, help, kind, read) in LINK_METRICS {
        text.head(&format!("cluster_link_{name}"), help, kind);
        for link in &links {
            let Some(member) = map.member(link.node) else { continue };
            let label = pairs(&["node"], std::slice::from_ref(&member.name));
            let _ = writeln!(text.0, "segno_cluster_link_{name}{{{label}}} {}", read(link));
        }
    }
}

fn method_calls(text: &mut Text) {
    let all = calls::read();
    text.head("calls_total", "Calls of gRPC that ended, by method and status code.", "counter");
    for (method, calls) in &all {
        for (code, count) in calls.by_code() {
            let _ = writeln!(text.0, "segno_calls_total{{method=\"{method}\",code=\"{code}\"}} {count}");
        }
    }
    text.head("call_seconds", "Time of calls of gRPC, by method. Polls wait for tasks, up to a minute.", "histogram");
    for (method, calls) in &all {
        text.latency("call_seconds", &format!("method=\"{method}\","), calls.latency());
    }
}

fn queues(text: &mut Text, queues: &[QueueGauge]) {
    let labels = |queue: &QueueGauge| {
        let values = [queue.namespace.clone(), queue.name.clone(), queue.kind.to_owned()];
        pairs(&["namespace", "queue", "kind"], &values)
    };
    text.head("queue_backlog", "Tasks waiting for a worker, by task queue; sticky queues are left out.", "gauge");
    for queue in queues {
        let _ = writeln!(text.0, "segno_queue_backlog{{{}}} {}", labels(queue), queue.backlog);
    }
    text.head("queue_oldest_seconds", "How long the oldest waiting task has waited, by task queue.", "gauge");
    for queue in queues {
        let _ = writeln!(text.0, "segno_queue_oldest_seconds{{{}}} {}", labels(queue), queue.oldest as f64 / 1e9);
    }
    text.head("queue_polls_waiting", "Polls waiting for a task, by task queue.", "gauge");
    for queue in queues {
        let _ = writeln!(text.0, "segno_queue_polls_waiting{{{}}} {}", labels(queue), queue.polls_waiting);
    }
}

/// A figure of a version: its name, help text, and how it is read.
type VersionMetric = (&'static str, &'static str, fn(&VersionGauge) -> usize);

fn versions(text: &mut Text, versions: &[VersionGauge]) {
    let gauges: [VersionMetric; 2] = [
        ("version_backlog", "Tasks waiting for workers of a version, by version.", |version| version.waiting),
        (
            "version_backlog_unserved",
            "Those of them on task queues that no worker of the version polls, by version.",
            |version| version.unserved,
        ),
    ];
    for (name, help, read) in gauges {
        text.head(name, help, "gauge");
        for version in versions {
            let values =
                [version.namespace.clone(), version.version.deployment_name.clone(), version.version.build_id.clone()];
            let labels = pairs(&["namespace", "deployment", "build_id"], &values);
            let _ = writeln!(text.0, "segno_{name}{{{labels}}} {}", read(version));
        }
    }
}

#[cfg(test)]
mod tests;
