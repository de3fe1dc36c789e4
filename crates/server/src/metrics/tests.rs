//! The text form, and that the dashboard and the alert rules name metrics that exist.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use segno_node::{Environment, NodeOptions};
use segno_store::MemoryStore;

use super::*;

#[test]
fn labels_are_escaped() {
    let family = Family::<2>::default();
    family.count(["a\"b", "c\\d\ne"]);
    let mut text = Text::default();
    text.family("x_total", "Help.", ["one", "two"], &family);
    assert_eq!(
        text.0,
        "# HELP segno_x_total Help.\n# TYPE segno_x_total counter\nsegno_x_total{one=\"a\\\"b\",two=\"c\\\\d\\ne\"} 1\n"
    );
}

#[test]
fn distributions_have_buckets_sum_and_count() {
    let times = Latency::default();
    times.observe(Duration::from_millis(2));
    let mut text = Text::default();
    text.latency("x_seconds", "method=\"M\",", &times);
    assert!(text.0.contains("segno_x_seconds_bucket{method=\"M\",le=\"0.0025\"} 1\n"), "{}", text.0);
    assert!(text.0.ends_with("segno_x_seconds_sum{method=\"M\"} 0.002\nsegno_x_seconds_count{method=\"M\"} 1\n"));
    let mut text = Text::default();
    text.latency("x_seconds", "", &times);
    assert!(text.0.contains("segno_x_seconds_bucket{le=\"+Inf\"} 1\nsegno_x_seconds_sum 0.002\n"), "{}", text.0);
}

/// Names of metrics in a text: words that begin with `segno_` or `process_`.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("segno_") || word.starts_with("process_")).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let node = Node::start(Arc::new(MemoryStore::default()), Environment::of_machine(), NodeOptions::default());
    let node = node.await.expect("a node");
    let shown = text(&node);
    let mut known: BTreeSet<String> = BTreeSet::new();
    for line in shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a type");
        known.insert(name.to_owned());
        if kind == "histogram" {
            known.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        }
    }
    // Only a store with files has these.
    known.extend(
        ["bytes", "log_bytes", "checkpoints_total", "checkpoint_failures_total"]
            .map(|name| format!("segno_database_{name}")),
    );
    known.insert("segno_disk_free_bytes".to_owned());
    for shipped in [
        include_str!("../../../../deploy/grafana/segno.json"),
        include_str!("../../../../deploy/prometheus/alerts.yml"),
    ] {
        let unknown: Vec<_> = names(shipped).into_iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(names(shipped).len() > 5);
    }
    node.shut_down();
}
