//! Writes an export.

use std::{hash::Hasher, io::Write};

use bytes::Bytes;
use prost::Message;
use segno_engine::Run;
use segno_environment::hash::HashMap;
use segno_store::{NamespaceKey, OutboxKey, RunKey, Store, Wait};
use siphasher::sip::SipHasher24;

use super::{
    BatchRow, DOCUMENT, DocumentRow, END, EndRow, ExportCounts, HISTORY, HISTORY_BYTES, HistoryRow, MAGIC, MoveError,
    NAMESPACE, NamespaceRow, NumberedRow, PROGRESS, RUN, RunRow, SCRIPT_SLOTS, checksum,
};

/// Rows read at a time.
const PAGE: usize = 1000;
/// Batches read at a time.
const BATCHES: usize = 1000;

struct Writer<W> {
    out: W,
    digest: SipHasher24,
}

impl<W: Write> Writer<W> {
    fn put(&mut self, kind: u8, message: &impl Message) -> Result<(), MoveError> {
        let message = message.encode_to_vec();
        let sum = checksum(kind, &message);
        self.digest.write_u64(sum);
        self.out.write_all(&[kind])?;
        self.out.write_all(&(message.len() as u32).to_le_bytes())?;
        self.out.write_all(&message)?;
        self.out.write_all(&sum.to_le_bytes())?;
        Ok(())
    }
}

/// Writes everything that a store has. No node may write to it meanwhile.
pub fn export(store: &dyn Store, out: impl Write) -> Result<ExportCounts, MoveError> {
    let mut writer = Writer { out, digest: SipHasher24::new() };
    writer.out.write_all(MAGIC)?;
    let mut counts = ExportCounts::default();
    let namespaces = store.namespaces().wait()?;
    for namespace in &namespaces {
        let row = NamespaceRow { key: namespace.key.0, name: namespace.name.clone(), detail: namespace.detail.clone() };
        writer.put(NAMESPACE, &row)?;
        counts.namespaces += 1;
    }
    let mut messages = messages(store)?;
    for namespace in &namespaces {
        let mut after = None;
        loop {
            let keys = store.runs_of(namespace.key, after, PAGE).wait()?;
            let Some(last) = keys.last() else { break };
            after = Some(*last);
            for key in keys {
                export_run(store, &mut writer, namespace.key, key, messages.remove(&key), &mut counts)?;
                if counts.runs % PROGRESS == 0 {
                    tracing::info!(runs = counts.runs, "exporting");
                }
            }
        }
        export_documents(store, &mut writer, namespace.key, &mut counts)?;
    }
    // What belongs to no namespace: access keys.
    export_documents(store, &mut writer, NamespaceKey(0), &mut counts)?;
    let ExportCounts { namespaces, runs, batches, messages, documents } = counts;
    let digest = writer.digest.finish();
    writer.put(END, &EndRow { namespaces, runs, batches, messages, documents, digest })?;
    writer.out.flush()?;
    Ok(counts)
}

/// Messages on their way, by their senders: few at any time.
fn messages(store: &dyn Store) -> Result<HashMap<RunKey, Vec<NumberedRow>>, MoveError> {
    let mut found: HashMap<RunKey, Vec<NumberedRow>> = HashMap::default();
    let mut after: Option<OutboxKey> = None;
    loop {
        let page = store.outbox(after, PAGE).wait()?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.key);
        for row in page {
            let message = NumberedRow { number: row.key.sequence, content: row.message };
            found.entry(row.key.sender).or_default().push(message);
        }
    }
}

fn export_run<W: Write>(
    store: &dyn Store,
    writer: &mut Writer<W>,
    namespace: NamespaceKey,
    key: RunKey,
    messages: Option<Vec<NumberedRow>>,
    counts: &mut ExportCounts,
) -> Result<(), MoveError> {
    let Some(record) = store.load(key).wait()? else { return Ok(()) };
    let damaged = |error: &dyn std::fmt::Display| MoveError::Damaged(format!("run {}: {error}", key.0));
    let run = Run::decode(record.state.clone()).map_err(|error| damaged(&error))?;
    let current = store.current(namespace, &run.info.workflow_id).wait()? == Some(key);
    let mut scripts = Vec::new();
    if run.state().script.is_some() {
        for slot in 0..SCRIPT_SLOTS {
            let state: Option<Bytes> = store.script_state(key, slot).wait()?;
            scripts.extend(state.map(|content| NumberedRow { number: slot.into(), content }));
        }
    }
    let messages = messages.unwrap_or_default();
    counts.messages += messages.len() as u64;
    counts.runs += 1;
    let row = RunRow {
        key: key.0,
        state: record.state,
        open: record.open,
        wake_at: record.wake_at,
        dispatchable: record.dispatchable,
        current,
        scripts,
        messages,
    };
    writer.put(RUN, &row)?;
    let mut from = 1;
    loop {
        let page = store.history(key, from, i64::MAX, BATCHES, HISTORY_BYTES).wait()?;
        let Some(last) = page.last() else { return Ok(()) };
        from = last.last_event_id + 1;
        counts.batches += page.len() as u64;
        let batch = |batch: segno_store::HistoryBatch| BatchRow {
            first: batch.first_event_id,
            last: batch.last_event_id,
            events: batch.events,
        };
        writer.put(HISTORY, &HistoryRow { key: key.0, batches: page.into_iter().map(batch).collect() })?;
    }
}

fn export_documents<W: Write>(
    store: &dyn Store,
    writer: &mut Writer<W>,
    namespace: NamespaceKey,
    counts: &mut ExportCounts,
) -> Result<(), MoveError> {
    let mut after: Option<String> = None;
    loop {
        let page = store.documents(namespace, "", after.as_deref(), PAGE).wait()?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.name.clone());
        for document in page {
            counts.documents += 1;
            let row = DocumentRow { namespace: namespace.0, name: document.name, content: document.content };
            writer.put(DOCUMENT, &row)?;
        }
    }
}
