//! Checksums over the meaning of a row, not only over its bytes.
//!
//! The row's number and its small columns are part of the sum, so that a row in another's place, or a flipped flag, is
//! detected as well as a damaged state. They detect damage, not an attacker.

use crc32fast::Hasher;
use rusqlite::types::ValueRef;
use segno_store::RunRecord;

/// Over a run's row.
pub(crate) fn of_run(run: &RunRecord) -> u32 {
    let mut head = [0; 26];
    head[..8].copy_from_slice(&run.key.0.to_le_bytes());
    head[8..16].copy_from_slice(&run.version.to_le_bytes());
    head[16..24].copy_from_slice(&run.wake_at.unwrap_or(0).to_le_bytes());
    head[24] = u8::from(run.wake_at.is_some());
    head[25] = u8::from(run.open) | u8::from(run.dispatchable) << 1;
    of(&head, &run.state)
}

/// Over a history row.
pub(crate) fn of_batch(row: i64, last_event_id: i64, events: &[u8]) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&row.to_le_bytes());
    head[8..].copy_from_slice(&last_event_id.to_le_bytes());
    of(&head, events)
}

/// Over an outbox row.
pub(crate) fn of_message(row: i64, message: &[u8]) -> u32 {
    of(&row.to_le_bytes(), message)
}

/// Over a script state.
pub(crate) fn of_script(row: i64, state: &[u8]) -> u32 {
    of(&row.to_le_bytes(), state)
}

/// Over a document.
pub(crate) fn of_document(namespace: u32, name: &str, content: &[u8]) -> u32 {
    of_values([ValueRef::Integer(namespace.into()), ValueRef::Text(name.as_bytes()), ValueRef::Blob(content)])
}

/// Over a slot of `pending_facts`.
pub(crate) fn of_slot(position: usize, round: u64, facts: &[u8]) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&(position as u64).to_le_bytes());
    head[8..].copy_from_slice(&round.to_le_bytes());
    of(&head, facts)
}

/// Over the row of `current` that points from a workflow id to a run.
pub(crate) fn of_pointer(namespace: u32, workflow_id: &str, run: i64) -> u32 {
    of_values([ValueRef::Integer(namespace.into()), ValueRef::Text(workflow_id.as_bytes()), ValueRef::Integer(run)])
}

/// Over values of columns, each with its type, in the order in which they are given. In SQL it is `row_checksum`.
pub(crate) fn of_values<'a>(values: impl IntoIterator<Item = ValueRef<'a>>) -> u32 {
    // One long piece costs less than many short ones.
    let mut row = Vec::with_capacity(512);
    let mut add = |kind: u8, bytes: &[u8]| {
        row.push(kind);
        row.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        row.extend_from_slice(bytes);
    };
    for value in values {
        match value {
            ValueRef::Null => add(0, &[]),
            ValueRef::Integer(number) => add(1, &number.to_le_bytes()),
            ValueRef::Real(number) => add(2, &number.to_bits().to_le_bytes()),
            ValueRef::Text(text) => add(3, text),
            ValueRef::Blob(bytes) => add(4, bytes),
        }
    }
    crc32fast::hash(&row)
}

fn of(head: &[u8], value: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(value);
    hasher.finalize()
}
