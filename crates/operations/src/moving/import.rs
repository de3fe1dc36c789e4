//! Fills an empty store from an export.

use std::{hash::Hasher, io::Read};

use bytes::Bytes;
use prost::Message;
use segno_engine::Run;
use segno_environment::{environment::Random, ids::Ids};
use segno_runs::{Namespaces, facts_of};
use segno_store::{
    Commit, CurrentWrite, DocumentWrite, HistoryBatch, NamespaceKey, NamespaceRecord, OutboxKey, OutboxRow, RunKey,
    RunWrite, ScriptWrite, Store, Wait,
};
use siphasher::sip::SipHasher24;

use super::{
    DOCUMENT, DocumentRow, END, EndRow, ExportCounts, HISTORY, HistoryRow, MAGIC, MoveError, NAMESPACE, NamespaceRow,
    PROGRESS, RECORD_BYTES_MAX, RUN, RunRow, checksum,
};

/// Runs stored together.
const GROUP: usize = 256;
/// Bytes stored together.
const GROUP_BYTES: usize = 16 << 20;

struct Reader<R> {
    input: R,
    digest: SipHasher24,
}

fn damaged(why: impl std::fmt::Display) -> MoveError {
    MoveError::Damaged(why.to_string())
}

impl<R: Read> Reader<R> {
    /// The next record, and the digest of all before it.
    fn next(&mut self) -> Result<(u8, Bytes, u64), MoveError> {
        let mut head = [0; 5];
        self.read(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > RECORD_BYTES_MAX {
            return Err(damaged("a record is too large"));
        }
        let mut message = vec![0; length];
        self.read(&mut message)?;
        let mut sum = [0; 8];
        self.read(&mut sum)?;
        if u64::from_le_bytes(sum) != checksum(kind, &message) {
            return Err(damaged("a record does not match its checksum"));
        }
        let before = self.digest.finish();
        self.digest.write_u64(u64::from_le_bytes(sum));
        Ok((kind, message.into(), before))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), MoveError> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
            _ => error.into(),
        })
    }
}

/// Collects commits and stores them in groups.
struct Writer<'a> {
    store: &'a dyn Store,
    group: Vec<Commit>,
    bytes: usize,
    highest: u64,
    /// Of the run whose history comes.
    versions: (u64, u64),
}

impl Writer<'_> {
    fn add(&mut self, commit: Commit) -> Result<(), MoveError> {
        self.bytes += commit.bytes();
        self.group.push(commit);
        if self.group.len() >= GROUP || self.bytes >= GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), MoveError> {
        let group = std::mem::take(&mut self.group);
        self.bytes = 0;
        for result in self.store.commit(group).wait() {
            result?;
        }
        Ok(())
    }
}

/// Fills an empty store with what an export has.
pub fn import(store: &dyn Store, random: &dyn Random, input: impl Read) -> Result<ExportCounts, MoveError> {
    if !store.namespaces().wait()?.is_empty() || !store.open_runs(None, 1).wait()?.is_empty() {
        return Err(MoveError::NotEmpty);
    }
    let mut reader = Reader { input, digest: SipHasher24::new() };
    let mut magic = vec![0; MAGIC.len()];
    reader.read(&mut magic)?;
    if magic != MAGIC {
        return Err(damaged("it does not begin like one of this version"));
    }
    let mut counts = ExportCounts::default();
    let mut writer = Writer { store, group: Vec::new(), bytes: 0, highest: 0, versions: (0, 0) };
    let mut namespaces: Option<Namespaces> = None;
    // A run is stored with the first part of its history.
    let mut waiting: Option<(RunRow, Run)> = None;
    loop {
        let (kind, message, digest) = reader.next()?;
        if kind != HISTORY
            && let Some((row, run)) = waiting.take()
        {
            store_run(&mut writer, namespaces.as_ref(), row, &run, Vec::new())?;
        }
        match kind {
            NAMESPACE => {
                let row = NamespaceRow::decode(message).map_err(damaged)?;
                let record = NamespaceRecord { key: NamespaceKey(row.key), name: row.name, detail: row.detail };
                store.put_namespace(&record).wait()?;
                counts.namespaces += 1;
            }
            RUN => {
                if namespaces.is_none() {
                    // All of them come before the runs.
                    let known = Namespaces::load(store, &Ids::seeded(random)).wait().map_err(damaged)?;
                    namespaces = Some(known);
                }
                let row = RunRow::decode(message).map_err(damaged)?;
                let run =
                    Run::decode(row.state.clone()).map_err(|error| damaged(format!("run {}: {error}", row.key)))?;
                writer.highest = writer.highest.max(row.key);
                counts.runs += 1;
                counts.messages += row.messages.len() as u64;
                if counts.runs % PROGRESS == 0 {
                    tracing::info!(runs = counts.runs, "importing");
                }
                waiting = Some((row, run));
            }
            HISTORY => {
                let row = HistoryRow::decode(message).map_err(damaged)?;
                counts.batches += row.batches.len() as u64;
                let batch = |batch: super::BatchRow| HistoryBatch {
                    first_event_id: batch.first,
                    last_event_id: batch.last,
                    events: batch.events,
                };
                let batches = row.batches.into_iter().map(batch).collect();
                match waiting.take() {
                    Some((of, run)) if of.key == row.key => {
                        store_run(&mut writer, namespaces.as_ref(), of, &run, batches)?;
                    }
                    Some(_) => return Err(damaged("history of another run")),
                    None => store_more(&mut writer, row.key, batches)?,
                }
            }
            DOCUMENT => {
                let row = DocumentRow::decode(message).map_err(damaged)?;
                counts.documents += 1;
                let write = DocumentWrite {
                    namespace: NamespaceKey(row.namespace),
                    name: row.name,
                    content: Some(row.content),
                };
                writer.add(Commit { documents: vec![write], ..Default::default() })?;
            }
            END => {
                let end = EndRow::decode(message).map_err(damaged)?;
                let counted = ExportCounts {
                    namespaces: end.namespaces,
                    runs: end.runs,
                    batches: end.batches,
                    messages: end.messages,
                    documents: end.documents,
                };
                if counted != counts || end.digest != digest {
                    return Err(damaged("its counts or its digest do not fit"));
                }
                writer.flush()?;
                break;
            }
            _ => return Err(damaged("a record of an unknown kind")),
        }
    }
    // Keys that were used are never given again.
    let mut next = store.reserve_run_keys(1).wait()?.0;
    while next <= writer.highest {
        let missing = writer.highest + 1 - next;
        next = store.reserve_run_keys(missing).wait()?.0 + missing;
    }
    Ok(counts)
}

fn store_run(
    writer: &mut Writer<'_>,
    namespaces: Option<&Namespaces>,
    row: RunRow,
    run: &Run,
    batches: Vec<HistoryBatch>,
) -> Result<(), MoveError> {
    let namespaces = namespaces.ok_or_else(|| damaged("a run before its namespace"))?;
    let key = RunKey(row.key);
    let facts = facts_of(namespaces, run);
    let current = row.current.then(|| CurrentWrite {
        namespace: facts.namespace,
        workflow_id: facts.workflow_id.clone(),
        expected: None,
        current: Some(key),
    });
    let write = RunWrite {
        key,
        expected_version: 0,
        state: row.state,
        open: row.open,
        wake_at: row.wake_at,
        dispatchable: row.dispatchable,
        batches,
        visibility: Some(Box::new(facts)),
    };
    let script = |script: super::NumberedRow| {
        let slot = u8::try_from(script.number).unwrap_or(u8::MAX);
        ScriptWrite { run: key, slot, state: script.content }
    };
    let message = |message: super::NumberedRow| OutboxRow {
        key: OutboxKey { sender: key, sequence: message.number },
        message: message.content,
    };
    writer.versions = (row.key, 1);
    writer.add(Commit {
        runs: vec![write],
        scripts: row.scripts.into_iter().map(script).collect(),
        current: current.into_iter().collect(),
        outbox_add: row.messages.into_iter().map(message).collect(),
        ..Default::default()
    })
}

/// More history of the run that was stored last.
fn store_more(writer: &mut Writer<'_>, key: u64, batches: Vec<HistoryBatch>) -> Result<(), MoveError> {
    if writer.versions.0 != key {
        return Err(damaged("history without its run"));
    }
    writer.flush()?;
    let Some(record) = writer.store.load(RunKey(key)).wait()? else { return Err(damaged("history without its run")) };
    let write = RunWrite {
        key: record.key,
        expected_version: record.version,
        state: record.state,
        open: record.open,
        wake_at: record.wake_at,
        dispatchable: record.dispatchable,
        batches,
        visibility: None,
    };
    writer.add(Commit { runs: vec![write], ..Default::default() })?;
    writer.flush()
}
