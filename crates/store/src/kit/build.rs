//! Short ways to build what tests store.

use bytes::Bytes;

use crate::{CurrentWrite, HistoryBatch, NamespaceKey, OutboxKey, OutboxRow, RunKey, RunWrite};

/// An open run's write: state `state` on top of `expected_version`, no events.
pub fn run(key: u64, expected_version: u64, state: &'static str) -> RunWrite {
    RunWrite {
        key: RunKey(key),
        expected_version,
        state: Bytes::from_static(state.as_bytes()),
        open: true,
        wake_at: None,
        dispatchable: false,
        batches: Vec::new(),
        visibility: None,
    }
}

/// A batch of the events `first..=last`.
pub fn batch(first: i64, last: i64) -> HistoryBatch {
    HistoryBatch { first_event_id: first, last_event_id: last, events: Bytes::from(format!("{first:05}-{last:05}")) }
}

/// A move of a pointer in namespace 1.
pub fn current(workflow_id: &str, expected: Option<u64>, to: Option<u64>) -> CurrentWrite {
    CurrentWrite {
        namespace: NamespaceKey(1),
        workflow_id: workflow_id.to_owned(),
        expected: expected.map(RunKey),
        current: to.map(RunKey),
    }
}

/// A message.
pub fn outbox_row(sender: u64, sequence: u32, message: &'static str) -> OutboxRow {
    OutboxRow { key: OutboxKey { sender: RunKey(sender), sequence }, message: Bytes::from_static(message.as_bytes()) }
}
