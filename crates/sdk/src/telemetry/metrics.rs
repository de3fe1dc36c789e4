//! Counters, gauges and latencies under the names of Temporal's SDKs.

use crate::lock::lock;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

/// Upper ends of the buckets of latencies, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];

/// Counters of clients and workers. Give it to [`ClientBuilder::metrics`](crate::client::ClientBuilder::metrics); workers
/// count where their client counts.
///
/// Names and labels are those of Temporal's SDKs, with latencies in seconds: `temporal_request`,
/// `temporal_activity_execution_latency_seconds` and so on. [`render`](Self::render) gives them as text for Prometheus,
/// to be served by the HTTP server of the program.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<&'static str, Family>>>);

/// Everything under one name.
struct Family {
    kind: &'static str,
    /// By labels, as they are written between braces.
    series: BTreeMap<String, Series>,
}

enum Series {
    Number(f64),
    Latency { buckets: [u64; BUCKETS.len()], count: u64, sum: f64 },
}

/// Names and values of labels.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One value: that of a counter or gauge, or how many latencies were noted. Labels may be given in any order.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        match self.lock().get(name)?.series.get(&written(labels))? {
            Series::Number(value) => Some(*value),
            #[expect(clippy::cast_precision_loss, reason = "a count")]
            Series::Latency { count, .. } => Some(*count as f64),
        }
    }

    /// Everything, in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (name, family) in self.lock().iter() {
            let _ = writeln!(text, "# TYPE {name} {}", family.kind);
            for (labels, series) in &family.series {
                render(&mut text, name, labels, series);
            }
        }
        text
    }

    /// Answers every HTTP request on this address with [`render`](Self::render), until the future is dropped. Needs the
    /// feature `prometheus`.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let metrics = segno_sdk::Metrics::new();
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:9464").await?;
    /// tokio::spawn(metrics.clone().serve(listener));
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "prometheus")]
    pub async fn serve(self, listener: tokio::net::TcpListener) -> std::io::Result<()> {
        loop {
            let (connection, _) = listener.accept().await?;
            let metrics = self.clone();
            tokio::spawn(async move {
                // A connection without a request within this time is closed.
                let _ = tokio::time::timeout(Duration::from_secs(10), metrics.answer(connection)).await;
            });
        }
    }

    #[cfg(feature = "prometheus")]
    async fn answer(&self, mut connection: tokio::net::TcpStream) -> std::io::Result<()> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        const HEAD_MAX: usize = 16 * 1024;
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if head.len() > HEAD_MAX || connection.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let text = self.render();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        connection.write_all(head.as_bytes()).await?;
        connection.write_all(text.as_bytes()).await?;
        connection.shutdown().await
    }

    pub(crate) fn count(&self, name: &'static str, labels: Labels<'_>) {
        self.change(name, "counter", labels, |value| *value += 1.0);
    }

    pub(crate) fn set(&self, name: &'static str, labels: Labels<'_>, to: usize) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
        self.change(name, "gauge", labels, |value| *value = to as f64);
    }

    pub(crate) fn observe(&self, name: &'static str, labels: Labels<'_>, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut families = self.lock();
        let family = families.entry(name).or_insert_with(|| Family { kind: "histogram", series: BTreeMap::new() });
        let empty = || Series::Latency { buckets: [0; BUCKETS.len()], count: 0, sum: 0.0 };
        if let Series::Latency { buckets, count, sum } = family.series.entry(written(labels)).or_insert_with(empty) {
            if let Some(bucket) = BUCKETS.iter().position(|end| seconds <= *end) {
                buckets[bucket] += 1;
            }
            *count += 1;
            *sum += seconds;
        }
    }

    /// How long a task waited that the server scheduled at this time.
    pub(crate) fn observe_since(&self, name: &'static str, labels: Labels<'_>, then: Option<&prost_types::Timestamp>) {
        let since = then.and_then(|then| SystemTime::try_from(*then).ok());
        if let Some(took) = since.and_then(|since| SystemTime::now().duration_since(since).ok()) {
            self.observe(name, labels, took);
        }
    }

    fn change(&self, name: &'static str, kind: &'static str, labels: Labels<'_>, change: impl FnOnce(&mut f64)) {
        let mut families = self.lock();
        let family = families.entry(name).or_insert_with(|| Family { kind, series: BTreeMap::new() });
        if let Series::Number(value) = family.series.entry(written(labels)).or_insert(Series::Number(0.0)) {
            change(value);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Family>> {
        lock(&self.0)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("names", &self.lock().len()).finish()
    }
}

/// Labels in the order of their names, as they stand between braces.
fn written(labels: Labels<'_>) -> String {
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    let mut text = String::new();
    for (name, value) in labels {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text
}

fn render(text: &mut String, name: &str, labels: &str, series: &Series) {
    match series {
        Series::Number(value) => {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
        Series::Latency { buckets, count, sum } => {
            let comma = if labels.is_empty() { "" } else { "," };
            let mut below = 0;
            for (end, bucket) in BUCKETS.iter().zip(buckets) {
                below += bucket;
                let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {below}");
            }
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
            let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_prometheus() {
        let metrics = Metrics::new();
        metrics.count("temporal_request", &[("operation", "A"), ("namespace", "a\"b")]);
        metrics.count("temporal_request", &[("namespace", "a\"b"), ("operation", "A")]);
        metrics.set("temporal_sticky_cache_size", &[], 3);
        metrics.observe("temporal_request_latency_seconds", &[], Duration::from_millis(3));
        metrics.observe("temporal_request_latency_seconds", &[], Duration::from_secs(100));
        assert_eq!(metrics.value("temporal_request", &[("operation", "A"), ("namespace", "a\"b")]), Some(2.0));
        let text = metrics.render();
        for line in [
            "# TYPE temporal_request counter",
            "temporal_request{namespace=\"a\\\"b\",operation=\"A\"} 2",
            "temporal_sticky_cache_size{} 3",
            "temporal_request_latency_seconds_bucket{le=\"0.002\"} 0",
            "temporal_request_latency_seconds_bucket{le=\"0.005\"} 1",
            "temporal_request_latency_seconds_bucket{le=\"60\"} 1",
            "temporal_request_latency_seconds_bucket{le=\"+Inf\"} 2",
            "temporal_request_latency_seconds_count{} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
        }
    }

    #[cfg(feature = "prometheus")]
    #[tokio::test]
    async fn they_are_served_over_http() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let metrics = Metrics::new();
        metrics.set("temporal_sticky_cache_size", &[], 3);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(metrics.clone().serve(listener));
        for _ in 0..2 {
            let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
            connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
            assert_eq!(body, metrics.render());
        }
        serving.abort();
    }
}
