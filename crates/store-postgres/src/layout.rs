//! Checksums over what a row means. The row numbers are those of [`segno_store::rows`].

use crc32fast::Hasher;
pub(crate) use segno_store::rows::{
    first_event_id, history_row, outbox_key, outbox_row, rows_of, run_key, run_row, script_row,
};

/// Over a run's row: a flag that flipped is found as well as a damaged state.
pub(crate) fn run_checksum(row: i64, version: i64, wake_at: Option<i64>, flags: [bool; 2], state: &[u8]) -> i32 {
    let mut head = [0; 26];
    head[..8].copy_from_slice(&row.to_le_bytes());
    head[8..16].copy_from_slice(&version.to_le_bytes());
    head[16..24].copy_from_slice(&wake_at.unwrap_or(0).to_le_bytes());
    head[24] = u8::from(wake_at.is_some());
    head[25] = u8::from(flags[0]) | u8::from(flags[1]) << 1;
    of(&head, state)
}

/// Over a history row.
pub(crate) fn batch_checksum(row: i64, last_event_id: i64, events: &[u8]) -> i32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&row.to_le_bytes());
    head[8..].copy_from_slice(&last_event_id.to_le_bytes());
    of(&head, events)
}

/// Over a row that is a number and a value.
pub(crate) fn row_checksum(row: i64, value: &[u8]) -> i32 {
    of(&row.to_le_bytes(), value)
}

/// Over a document.
pub(crate) fn document_checksum(namespace: i32, name: &[u8], content: &[u8]) -> i32 {
    let mut head = Vec::with_capacity(12 + name.len());
    head.extend_from_slice(&namespace.to_le_bytes());
    head.extend_from_slice(&(name.len() as u64).to_le_bytes());
    head.extend_from_slice(name);
    of(&head, content)
}

fn of(head: &[u8], value: &[u8]) -> i32 {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(value);
    hasher.finalize().cast_signed()
}
