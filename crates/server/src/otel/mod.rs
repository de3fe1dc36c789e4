//! OpenTelemetry: a span for each gRPC call, as a child of the caller's span, sent to a collector over OTLP/HTTP.
//!
//! Spans are made at the edge and handed to one task, which sends them in batches ([`export`]). The queue in between is
//! bounded: if the collector is slow or down, spans are dropped and counted, and calls go on. Without a collector a
//! call costs one read of [`EXPORTER`].
//!
//! The caller's `traceparent` decides whether a call is traced; of callers without one a fraction is.

mod encode;
mod export;
mod fields;
mod parent;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::sync::{mpsc, oneshot};
use tonic::Code;
use uuid::Uuid;

pub(crate) use parent::TraceParent;

/// Spans that wait to be sent; more are dropped.
const QUEUE_MAX: usize = 8_192;

/// Where traces go, and which.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Base URL of a collector's OTLP/HTTP receiver, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Headers of each request, such as a key.
    pub headers: Vec<(String, String)>,
    /// Name of the service in traces.
    pub service: String,
    /// Part of the calls without a `traceparent` that are traced, 0 to 1.
    pub fraction: f64,
}

/// One in a process, as the table of calls is.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

#[derive(Debug)]
struct Exporter {
    queue: mpsc::Sender<Message>,
    /// A call is traced if 64 bits of its trace id are below this.
    threshold: u64,
    always: bool,
}

/// A message to the exporting task.
#[derive(Debug)]
enum Message {
    Span(Box<Span>),
    /// Send what is there, then answer.
    Flush(oneshot::Sender<()>),
}

/// Spans that were sent, and those that were not.
static SENT: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// A call that is traced. It is sent when it has ended; one that is cancelled is sent as such.
#[derive(Debug)]
pub(crate) struct Span {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    path: &'static str,
    namespace: String,
    workflow_id: String,
    begun: u64,
    ended: u64,
    code: Code,
}

/// Ends its span when dropped, also if the call failed or was cancelled.
#[derive(Debug, Default)]
pub(crate) struct SpanGuard(Option<Box<Span>>);

/// Starts the task that sends spans. A second start in a process has no effect.
pub(crate) fn start(options: TraceOptions) {
    let (queue, receiver) = mpsc::channel(QUEUE_MAX);
    let fraction = options.fraction.clamp(0.0, 1.0);
    // A fraction of 2^64, rounded down; one is told apart because 2^64 does not fit.
    let threshold = (fraction * 2f64.powi(64)) as u64;
    if EXPORTER.set(Exporter { queue, threshold, always: fraction >= 1.0 }).is_ok() {
        tokio::spawn(export::run(options, receiver));
    }
}

/// Whether spans are made at all.
pub(crate) fn is_on() -> bool {
    EXPORTER.get().is_some()
}

/// Sends what waits; returns when it is sent or could not be.
pub(crate) async fn flush() {
    let Some(exporter) = EXPORTER.get() else { return };
    let (sender, done) = oneshot::channel();
    if exporter.queue.send(Message::Flush(sender)).await.is_ok() {
        let _ = done.await;
    }
}

/// Spans sent and dropped so far, if there is a collector.
pub(crate) fn counts() -> Option<(u64, u64)> {
    is_on().then(|| (SENT.load(Ordering::Relaxed), DROPPED.load(Ordering::Relaxed)))
}

/// Begins the span of a call, if it is to be traced. `message` is the encoded request.
pub(crate) fn begin(parent: Option<TraceParent>, path: &'static str, message: &[u8]) -> SpanGuard {
    let Some(exporter) = EXPORTER.get() else { return SpanGuard(None) };
    let (trace, parent) = match parent {
        Some(parent) if parent.sampled => (parent.trace, Some(parent.span)),
        Some(_) => return SpanGuard(None),
        None => {
            let trace = Uuid::new_v4().into_bytes();
            if !exporter.chooses(&trace) {
                return SpanGuard(None);
            }
            (trace, None)
        }
    };
    let [id @ .., _, _, _, _, _, _, _, _] = Uuid::new_v4().into_bytes();
    let (namespace, workflow_id) = fields::read(path, message);
    let begun = now();
    SpanGuard(Some(Box::new(Span {
        trace,
        id,
        parent,
        path,
        namespace,
        workflow_id,
        begun,
        ended: begun,
        code: Code::Cancelled,
    })))
}

/// The path of a built method, which lives as long as the process.
pub(crate) fn known_path(path: &str) -> Option<&'static str> {
    fields::known_path(path)
}

impl Exporter {
    /// Whether a trace without a parent is chosen.
    fn chooses(&self, trace: &[u8; 16]) -> bool {
        // The first two bits of the second half are those of the UUID's variant.
        let [_, _, _, _, _, _, _, _, random @ ..] = *trace;
        self.always || u64::from_be_bytes(random) << 2 < self.threshold
    }
}

impl SpanGuard {
    /// The call ended.
    pub(crate) fn ended(mut self, code: Code) {
        if let Some(span) = &mut self.0 {
            span.code = code;
        }
    }
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        let (Some(mut span), Some(exporter)) = (self.0.take(), EXPORTER.get()) else { return };
        span.ended = now();
        if exporter.queue.try_send(Message::Span(span)).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fraction_is_kept() {
        let chosen = |threshold| {
            let (queue, _) = mpsc::channel(1);
            let exporter = Exporter { queue, threshold, always: false };
            (0..4_000).filter(|_| exporter.chooses(&Uuid::new_v4().into_bytes())).count()
        };
        assert_eq!(chosen(0), 0);
        let quarter = chosen(1 << 62);
        assert!((800..1_200).contains(&quarter), "{quarter} of 4000");
    }

    #[test]
    fn nothing_is_made_without_a_collector() {
        assert!(begin(None, "/a/B", b"").0.is_none());
        assert_eq!(counts(), None);
    }
}
