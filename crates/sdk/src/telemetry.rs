//! Logs, spans, and [metrics](Metrics).
//!
//! Calls of clients, workflow tasks of workflows and attempts of tasks are spans of `tracing`: `call`, `workflow` and `task`, with the
//! ids as fields, so that log lines inside of them have these ids. With the feature `otel` the OpenTelemetry trace
//! is propagated in headers, as the global propagator writes it and as Temporal's other SDKs read it.
//!
//! Workflow code logs with `tracing` as any code does. A replay repeats these logs; a subscriber can filter them by
//! [`is_replaying`]:
//!
//! ```
//! # use tracing::Metadata;
//! // With tracing-subscriber: `layer.with_filter(filter_fn(|_| !segno_sdk::telemetry::is_replaying()))`
//! fn wanted(_: &Metadata<'_>) -> bool {
//!     !segno_sdk::telemetry::is_replaying()
//! }
//! ```

mod metrics;
pub(crate) mod spans;

use std::cell::Cell;

pub use metrics::Metrics;

thread_local! {
    static REPLAYING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread replays a workflow task that history has already.
pub fn is_replaying() -> bool {
    REPLAYING.get()
}

/// Marks a workflow task on this thread until it is dropped.
pub(crate) struct ReplayMark(bool);

impl ReplayMark {
    pub fn begin(replaying: bool) -> Self {
        Self(REPLAYING.replace(replaying))
    }
}

impl Drop for ReplayMark {
    fn drop(&mut self) {
        REPLAYING.set(self.0);
    }
}
