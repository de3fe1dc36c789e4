//! Short ways to build what tests store.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::visibility::VisibilityRow;
use crate::{CurrentWrite, HistoryBatch, NamespaceKey, OutboxKey, OutboxRow, RunKey, RunWrite};

/// An open run's write: state `state` on top of `expected_version`, no events. A new run can be searched.
pub fn run(key: u64, expected_version: u64, state: &'static str) -> RunWrite {
    RunWrite {
        key: RunKey(key),
        expected_version,
        state: Bytes::from_static(state.as_bytes()),
        open: true,
        wake_at: None,
        dispatchable: false,
        batches: Vec::new(),
        visibility: (expected_version == 0).then(|| Box::new(row(key))),
    }
}

/// The searchable facts of an open run in namespace 1.
pub fn row(key: u64) -> VisibilityRow {
    // Keys out of range are tried as well.
    let time = i64::try_from(key).unwrap_or(i64::MAX / 20).saturating_mul(10);
    VisibilityRow {
        key: RunKey(key),
        namespace: NamespaceKey(1),
        workflow_id: format!("w-{}", key % 7),
        run_id: run_id(key),
        workflow_type: ["Order", "Refund", "order"][(key % 3) as usize].to_owned(),
        task_queue: "queue".to_owned(),
        status: 1,
        start_time: time,
        execution_time: time,
        closed: None,
        parent: None,
        root: None,
        activity_retry: None,
        task_retry: None,
        attributes: BTreeMap::new(),
    }
}

/// A run id that carries its key, as the engine makes them.
pub fn run_id(key: u64) -> String {
    format!("{:08x}-{:04x}-8abc-8def-0123456789ab", (key >> 16) as u32, key as u16)
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
