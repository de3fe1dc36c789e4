//! Reads by key, scans, and the few writes that are no commits.
//!
//! A read whose connection broke is repeated on a new one until its deadline: it changes nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use segno_store::cluster::{NodeId, Revisions, SHARDS, Shard};
use segno_store::visibility::VisibilityRow;
use segno_store::{
    CommitError, Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow, ReadError,
    RunKey, RunRecord, limits,
};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::connect::{Link, WAIT_MAX, describe, is_connection_lost};
use crate::schema::REVISION_STEP;
use crate::{facts, layout, text};

/// History rows read at a time.
const BATCHES: usize = 128;

/// The parameters of a statement, owned so that it can be sent again.
type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Asks on a connection, and again on a new one if it breaks.
pub(crate) async fn query(link: &Link, text: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, ReadError> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let failed = |why: String| ReadError::Failed(why);
        let session = link.session(left).await.map_err(|error| failed(error.to_string()))?;
        let ask = async {
            let statement = session.prepare(text).await?;
            session.client.query(&statement, parameters).await
        };
        match tokio::time::timeout_at(until, ask).await {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(error)) => {
                if !is_connection_lost(&error) {
                    return Err(failed(describe(&error)));
                }
                session.give_up();
                if Instant::now() >= until {
                    return Err(failed(describe(&error)));
                }
            }
            Err(_) => {
                session.give_up();
                return Err(failed("the database does not answer".to_owned()));
            }
        }
    }
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn damaged(what: impl std::fmt::Display) -> ReadError {
    ReadError::Damaged(format!("{what} does not match its checksum"))
}

pub(crate) const RUN: &str = "r.run_key, r.version, r.open, r.dispatchable, r.wake_at, r.checksum, r.state";

/// A run's record, from the columns of [`RUN`] that begin at `at`.
pub(crate) fn record(row: &Row, at: usize) -> Result<RunRecord, ReadError> {
    let (key, version, open): (i64, i64, bool) = (row.get(at), row.get(at + 1), row.get(at + 2));
    let (dispatchable, wake_at, checksum): (bool, Option<i64>, i32) =
        (row.get(at + 3), row.get(at + 4), row.get(at + 5));
    let state: &[u8] = row.get(at + 6);
    if checksum != layout::run_checksum(key, version, wake_at, [open, dispatchable], state) {
        return Err(damaged(format!("run {key}")));
    }
    let (version, state) = (version.unsigned_abs(), Bytes::copy_from_slice(state));
    Ok(RunRecord { key: layout::run_key(key), version, state, open, wake_at, dispatchable })
}

pub(crate) async fn load_many(
    link: &Link,
    keys: &[RunKey],
) -> Result<Vec<Result<Option<RunRecord>, ReadError>>, ReadError> {
    let rows: Vec<i64> = keys.iter().filter_map(|key| layout::run_row(*key)).collect();
    let select = format!("SELECT {RUN} FROM segno.runs r WHERE r.run_key = ANY($1)");
    let found = query(link, &select, &[&rows]).await?;
    let of = |key: &RunKey| {
        let row = layout::run_row(*key);
        let found = found.iter().find(|found| Some(found.get::<_, i64>(0)) == row);
        found.map(|found| record(found, 0)).transpose()
    };
    if keys.len() < 8 {
        return Ok(keys.iter().map(of).collect());
    }
    let records: std::collections::HashMap<i64, _> =
        found.iter().map(|row| (row.get::<_, i64>(0), record(row, 0))).collect();
    // A key may be asked for more than once.
    let of = |key: &RunKey| layout::run_row(*key).and_then(|row| records.get(&row).cloned()).transpose();
    Ok(keys.iter().map(of).collect())
}

/// The pointers of workflow ids and the runs they name, in the order of the names.
pub(crate) async fn current_many(
    link: &Link,
    names: &[(NamespaceKey, String)],
) -> Result<Vec<Option<(RunKey, Result<Option<RunRecord>, ReadError>)>>, ReadError> {
    let namespaces: Vec<i32> = names.iter().map(|(namespace, _)| namespace.0.cast_signed()).collect();
    let ids: Vec<&[u8]> = names.iter().map(|(_, id)| id.as_bytes()).collect();
    // Most are asked before a start and are not there: that is answered by the pointers alone. A run that is deleted between
    // the two reads counts as absent, as it is then.
    let select = "SELECT i.place, c.run_key \
                  FROM unnest($1::int4[], $2::bytea[]) WITH ORDINALITY AS i(namespace, workflow_id, place) \
                  JOIN segno.current c ON c.namespace = i.namespace AND c.workflow_id = i.workflow_id";
    let rows = query(link, select, &[&namespaces, &ids]).await?;
    let mut found: Vec<_> = names.iter().map(|_| None).collect();
    if rows.is_empty() {
        return Ok(found);
    }
    let keys: Vec<RunKey> = rows.iter().map(|row| layout::run_key(row.get(1))).collect();
    let runs = load_many(link, &keys).await?;
    for ((row, key), run) in rows.iter().zip(keys).zip(runs) {
        let place: i64 = row.get(0);
        if let Some(answer) = usize::try_from(place - 1).ok().and_then(|place| found.get_mut(place)) {
            *answer = Some((key, run));
        }
    }
    Ok(found)
}

pub(crate) async fn script_state(link: &Link, key: RunKey, slot: u8) -> Result<Option<Bytes>, ReadError> {
    let Some(id) = layout::script_row(key, slot) else { return Ok(None) };
    let rows = query(link, "SELECT checksum, state FROM segno.script_states WHERE id = $1", &[&id]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (checksum, state): (i32, &[u8]) = (row.get(0), row.get(1));
    if checksum != layout::row_checksum(id, state) {
        return Err(damaged(format!("script state {slot} of run {}", key.0)));
    }
    Ok(Some(Bytes::copy_from_slice(state)))
}

pub(crate) async fn document(link: &Link, namespace: NamespaceKey, name: &str) -> Result<Option<Bytes>, ReadError> {
    let (number, stored) = (namespace.0.cast_signed(), text::escape(name));
    let select = "SELECT name, checksum, content FROM segno.documents WHERE namespace = $1 AND name = $2";
    let rows = query(link, select, &[&number, &stored]).await?;
    rows.first().map(|row| document_of(namespace, row).map(|document| document.content)).transpose()
}

fn document_of(namespace: NamespaceKey, row: &Row) -> Result<Document, ReadError> {
    let (name, checksum, content): (String, i32, &[u8]) = (row.get(0), row.get(1), row.get(2));
    if checksum != layout::document_checksum(namespace.0.cast_signed(), name.as_bytes(), content) {
        return Err(damaged(format!("document {name:?}")));
    }
    Ok(Document { namespace, name: text::unescape(name), content: Bytes::copy_from_slice(content) })
}

pub(crate) async fn documents(
    link: &Link,
    namespace: NamespaceKey,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Document>, ReadError> {
    let select = "SELECT name, checksum, content FROM segno.documents WHERE namespace = $1 AND name >= $2 \
                  AND ($3::text IS NULL OR name > $3) AND starts_with(name, $2) ORDER BY name LIMIT $4";
    let (number, prefix) = (namespace.0.cast_signed(), text::escape(prefix));
    let after = after.map(text::escape);
    let rows = query(link, select, &[&number, &prefix, &after, &count(limit)]).await?;
    rows.iter().map(|row| document_of(namespace, row)).collect()
}

fn batch(row: &Row) -> Result<HistoryBatch, ReadError> {
    let (id, last, checksum, events): (i64, i32, i32, &[u8]) = (row.get(0), row.get(1), row.get(2), row.get(3));
    let last_event_id = i64::from(last);
    if checksum != layout::batch_checksum(id, last_event_id, events) {
        return Err(damaged(format!("history of run {} from event {}", id >> 20, layout::first_event_id(id))));
    }
    Ok(HistoryBatch {
        first_event_id: layout::first_event_id(id),
        last_event_id,
        events: Bytes::copy_from_slice(events),
    })
}

pub(crate) async fn history(
    link: &Link,
    key: RunKey,
    from: i64,
    until: i64,
    batches_max: usize,
    bytes_max: usize,
) -> Result<Vec<HistoryBatch>, ReadError> {
    let Some(rows) = layout::rows_of(key) else { return Ok(Vec::new()) };
    let (base, end) = (*rows.start(), *rows.end());
    let last = base.saturating_add(until.saturating_sub(1).max(-1)).min(end);
    let clamped = from.clamp(0, limits::EVENT_ID_END - 1);
    // The batch that holds the first event may begin before it.
    let mut next = {
        let select = "SELECT max(id) FROM segno.history WHERE id >= $1 AND id <= $2";
        let found = query(link, select, &[&base, &(base + clamped)]).await?;
        found.first().and_then(|row| row.get::<_, Option<i64>>(0)).unwrap_or(base + clamped)
    };
    let select = "SELECT id, last_event, checksum, events FROM segno.history WHERE id >= $1 AND id <= $2 \
                  ORDER BY id LIMIT $3";
    let (mut batches, mut bytes, mut at_end) = (Vec::new(), 0_usize, false);
    loop {
        let limit = (batches_max - batches.len()).min(BATCHES);
        if limit == 0 || next > last || at_end {
            return Ok(batches);
        }
        // One that ends before the first event may be among them.
        let rows = query(link, select, &[&next, &last, &count(limit + 1)]).await?;
        let full = rows.len() == limit + 1;
        for row in &rows {
            let id: i64 = row.get(0);
            next = id.saturating_add(1);
            at_end = id == i64::MAX;
            let batch = batch(row)?;
            if batch.last_event_id < from {
                continue;
            }
            bytes = bytes.saturating_add(batch.events.len());
            if batches.len() == batches_max || (bytes > bytes_max && !batches.is_empty()) {
                return Ok(batches);
            }
            batches.push(batch);
        }
        if !full {
            return Ok(batches);
        }
    }
}

pub(crate) async fn history_reverse(
    link: &Link,
    key: RunKey,
    until: i64,
    batches_max: usize,
) -> Result<Vec<HistoryBatch>, ReadError> {
    let Some(rows) = layout::rows_of(key) else { return Ok(Vec::new()) };
    let (base, end) = (*rows.start(), *rows.end());
    let last = base.saturating_add(until.saturating_sub(1).max(-1)).min(end);
    let select = "SELECT id, last_event, checksum, events FROM segno.history WHERE id >= $1 AND id <= $2 \
                  ORDER BY id DESC LIMIT $3";
    let rows = query(link, select, &[&base, &last, &count(batches_max)]).await?;
    rows.iter().map(batch).collect()
}

/// The buckets of some shards, for finding their rows by index; `None` if that is all of them.
fn buckets_of(shards: Option<&[i32]>) -> Option<Vec<i32>> {
    let shards = shards.filter(|shards| shards.len() < SHARDS)?;
    let shards = shards.iter().filter_map(|shard| u16::try_from(*shard).ok()).map(Shard);
    let buckets = shards.map(Shard::buckets).flat_map(|(first, last)| first.0..=last.0);
    Some(buckets.map(i32::from).collect())
}

pub(crate) async fn open_runs(
    link: &Link,
    shards: Option<&[i32]>,
    after: Option<RunKey>,
    limit: usize,
) -> Result<Vec<OpenRun>, ReadError> {
    let after = match after {
        None => -1,
        Some(key) => match layout::run_row(key) {
            Some(row) => row,
            None => return Ok(Vec::new()),
        },
    };
    let select = "SELECT run_key, wake_at, dispatchable FROM segno.runs WHERE open AND run_key > $1 \
                  ORDER BY run_key LIMIT $2";
    // The sums keep the planner from reading all runs in the order of their keys.
    let of_buckets = "SELECT run_key, wake_at, dispatchable FROM segno.runs WHERE open AND bucket = ANY ($3::int4[]) \
                      AND run_key + 0 > $1 ORDER BY run_key + 0 LIMIT $2";
    let rows = match buckets_of(shards) {
        Some(buckets) => query(link, of_buckets, &[&after, &count(limit), &buckets]).await?,
        None => query(link, select, &[&after, &count(limit)]).await?,
    };
    let run = |row: &Row| OpenRun { key: layout::run_key(row.get(0)), wake_at: row.get(1), dispatchable: row.get(2) };
    Ok(rows.iter().map(run).collect())
}

pub(crate) async fn outbox(
    link: &Link,
    shards: Option<&[i32]>,
    after: Option<OutboxKey>,
    limit: usize,
) -> Result<Vec<OutboxRow>, ReadError> {
    let after = match after {
        None => -1,
        Some(key) => {
            let sequence = key.sequence.min(limits::OUTBOX_SEQUENCE_END - 1);
            match layout::outbox_row(OutboxKey { sequence, ..key }) {
                Some(row) => row,
                None => return Ok(Vec::new()),
            }
        }
    };
    let select = "SELECT id, checksum, message FROM segno.outbox WHERE id > $1 ORDER BY id LIMIT $2";
    let of_buckets = "SELECT id, checksum, message FROM segno.outbox WHERE bucket = ANY ($3::int4[]) AND id + 0 > $1 \
                      ORDER BY id + 0 LIMIT $2";
    let rows = match buckets_of(shards) {
        Some(buckets) => query(link, of_buckets, &[&after, &count(limit), &buckets]).await?,
        None => query(link, select, &[&after, &count(limit)]).await?,
    };
    let message = |row: &Row| {
        let (id, checksum, message): (i64, i32, &[u8]) = (row.get(0), row.get(1), row.get(2));
        if checksum != layout::row_checksum(id, message) {
            return Err(damaged(format!("message {} of run {}", layout::first_event_id(id), id >> 20)));
        }
        Ok(OutboxRow { key: layout::outbox_key(id), message: Bytes::copy_from_slice(message) })
    };
    rows.iter().map(message).collect()
}

pub(crate) async fn namespaces(link: &Link) -> Result<Vec<NamespaceRecord>, ReadError> {
    let rows = query(link, "SELECT namespace, name, detail FROM segno.namespaces", &[]).await?;
    let record = |row: &Row| NamespaceRecord {
        key: NamespaceKey(row.get::<_, i32>(0).cast_unsigned()),
        name: text::unescape(row.get(1)),
        detail: Bytes::copy_from_slice(row.get(2)),
    };
    let mut records: Vec<_> = rows.iter().map(record).collect();
    records.sort_by_key(|record| record.key);
    Ok(records)
}

/// The version of a run, whether or not its row is damaged.
pub(crate) async fn version(link: &Link, key: RunKey) -> Result<Option<u64>, ReadError> {
    let Some(row) = layout::run_row(key) else { return Ok(None) };
    let rows = query(link, "SELECT version FROM segno.runs WHERE run_key = $1", &[&row]).await?;
    Ok(rows.first().map(|row| row.get::<_, i64>(0).unsigned_abs()))
}

pub(crate) async fn facts(link: &Link, key: RunKey) -> Result<Option<VisibilityRow>, ReadError> {
    let Some(row) = layout::run_row(key) else { return Ok(None) };
    let select = format!("SELECT {} FROM segno.runs v WHERE v.run_key = $1", facts::COLUMNS);
    let rows = query(link, &select, &[&row]).await?;
    rows.first().map(|row| facts::of(row, 0)).transpose()
}

async fn keys(link: &Link, select: &str, parameters: Parameters<'_>) -> Result<Vec<RunKey>, ReadError> {
    Ok(query(link, select, parameters).await?.iter().map(|row| layout::run_key(row.get(0))).collect())
}

pub(crate) async fn runs_of_workflow(
    link: &Link,
    namespace: NamespaceKey,
    workflow_id: &str,
    limit: usize,
) -> Result<Vec<RunKey>, ReadError> {
    let select = "SELECT run_key FROM segno.runs WHERE namespace = $1 AND workflow_id = $2 \
                  ORDER BY run_key DESC LIMIT $3";
    keys(link, select, &[&namespace.0.cast_signed(), &workflow_id.as_bytes(), &count(limit)]).await
}

pub(crate) async fn closed_runs(
    link: &Link,
    namespace: NamespaceKey,
    closed_before: i64,
    limit: usize,
) -> Result<Vec<RunKey>, ReadError> {
    let select = "SELECT run_key FROM segno.runs WHERE namespace = $1 AND ended < $2 \
                  ORDER BY ended, start_time, run_key LIMIT $3";
    keys(link, select, &[&namespace.0.cast_signed(), &closed_before, &count(limit)]).await
}

pub(crate) async fn first_close(link: &Link, namespace: NamespaceKey) -> Result<Option<i64>, ReadError> {
    let select = "SELECT ended FROM segno.runs WHERE namespace = $1 AND ended < 9223372036854775807 \
                  ORDER BY ended LIMIT 1";
    let rows = query(link, select, &[&namespace.0.cast_signed()]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

pub(crate) async fn runs_of(
    link: &Link,
    namespace: NamespaceKey,
    after: Option<RunKey>,
    limit: usize,
) -> Result<Vec<RunKey>, ReadError> {
    let after = match after {
        None => -1,
        Some(key) => match layout::run_row(key) {
            Some(row) => row,
            None => return Ok(Vec::new()),
        },
    };
    let select = "SELECT run_key FROM segno.runs WHERE namespace = $1 AND run_key > $2 ORDER BY run_key LIMIT $3";
    keys(link, select, &[&namespace.0.cast_signed(), &after, &count(limit)]).await
}

/// One write that is no commit. It may be made twice if its connection breaks, which must do no harm. Writes nothing and
/// fails as [`CommitError::Fenced`] if this node's commit sequences are gone: each statement looks for them and gives no row then.
pub(crate) async fn write(link: &Arc<Link>, text: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, CommitError> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let session = link.session(left).await.map_err(|error| CommitError::NotDone(error.to_string()))?;
        let ask = async {
            let statement = session.prepare(text).await?;
            session.client.query(&statement, parameters).await
        };
        session.take_warning();
        let error = match tokio::time::timeout_at(until, ask).await {
            Ok(Ok(rows)) if rows.is_empty() => return Err(CommitError::Fenced),
            Ok(Ok(rows)) if !session.take_warning() => return Ok(rows),
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        if let Some(error) = &error
            && !is_connection_lost(error)
        {
            return Err(match error.code() {
                Some(&SqlState::UNIQUE_VIOLATION) => CommitError::Conflict,
                Some(&SqlState::DISK_FULL) => CommitError::Full,
                _ => CommitError::NotDone(describe(error)),
            });
        }
        session.give_up();
        if Instant::now() >= until {
            let why = error.as_ref().map_or_else(|| "the database does not answer".to_owned(), describe);
            return Err(CommitError::Unknown(why));
        }
    }
}

pub(crate) async fn reserve_run_keys(link: &Arc<Link>, node: i64, wanted: u64) -> Result<RunKey, CommitError> {
    limits::reserve(1, wanted)?;
    let number = i64::try_from(wanted).unwrap_or(i64::MAX);
    let end = i64::try_from(limits::RUN_KEY_END).unwrap_or(i64::MAX);
    let update = "WITH c AS (SELECT next_run_key AS next FROM segno.cluster \
                  WHERE EXISTS (SELECT 1 FROM segno.lanes WHERE node = $1) FOR UPDATE), \
                  u AS (UPDATE segno.cluster SET next_run_key = c.next + $2 FROM c WHERE c.next <= $3::int8 - $2::int8 RETURNING 1) \
                  SELECT c.next, EXISTS (SELECT 1 FROM u) FROM c";
    let rows = write(link, update, &[&node, &number, &end]).await?;
    let (first, reserved): (i64, bool) = (rows[0].get(0), rows[0].get(1));
    if !reserved {
        let why = format!("refused, nothing was changed: {wanted} run keys after {first} are more than there are");
        return Err(CommitError::Unknown(why));
    }
    Ok(layout::run_key(first))
}

/// The stored revision of documents, and that of each node.
pub(crate) async fn revisions(link: &Link) -> Result<Revisions, ReadError> {
    let select = "SELECT r.revision + c.namespaces, n.node, n.name, v.revision FROM segno.revision r, segno.cluster c, \
                  segno.nodes n LEFT JOIN segno.node_revisions v USING (node) ORDER BY n.node";
    let rows = query(link, select, &[]).await?;
    let member = |row: &Row| (NodeId(row.get::<_, i64>(1).cast_unsigned()), row.get(2), row.get(3));
    let stored = rows.first().map(|row| row.get(0));
    let stored = stored.ok_or_else(|| ReadError::Failed("no node is a member".to_owned()))?;
    Ok(Revisions { stored, members: rows.iter().map(member).collect() })
}

/// Another node may create the same one at the same time: the second fails as [`CommitError::Conflict`].
pub(crate) async fn create_namespace(
    link: &Arc<Link>,
    node: i64,
    namespace: &NamespaceRecord,
) -> Result<(), CommitError> {
    limits::check_value(namespace.detail.len())?;
    let insert = format!(
        "WITH c AS (UPDATE segno.cluster SET namespaces = namespaces + {REVISION_STEP} \
                    WHERE EXISTS (SELECT 1 FROM segno.lanes WHERE node = $1) RETURNING 1) \
         INSERT INTO segno.namespaces (namespace, version, name, detail) SELECT $2, 1, $3, $4 FROM c RETURNING 1"
    );
    let (key, name) = (namespace.key.0.cast_signed(), text::escape(&namespace.name));
    write(link, &insert, &[&node, &key, &name, &&namespace.detail[..]]).await.map(drop)
}

pub(crate) async fn put_namespace(link: &Arc<Link>, node: i64, namespace: &NamespaceRecord) -> Result<(), CommitError> {
    limits::check_value(namespace.detail.len())?;
    let insert = format!(
        "WITH c AS (UPDATE segno.cluster SET namespaces = namespaces + {REVISION_STEP} \
                    WHERE EXISTS (SELECT 1 FROM segno.lanes WHERE node = $1) RETURNING 1) \
         INSERT INTO segno.namespaces AS n (namespace, version, name, detail) SELECT $2, 1, $3, $4 FROM c \
         ON CONFLICT (namespace) DO UPDATE SET version = n.version + 1, name = $3, detail = $4 RETURNING 1"
    );
    let (key, name) = (namespace.key.0.cast_signed(), text::escape(&namespace.name));
    write(link, &insert, &[&node, &key, &name, &&namespace.detail[..]]).await.map(drop)
}

pub(crate) async fn delete_namespace(link: &Arc<Link>, node: i64, namespace: NamespaceKey) -> Result<(), CommitError> {
    let delete = format!(
        "WITH gone AS (DELETE FROM segno.namespaces WHERE namespace = $2 \
         AND EXISTS (SELECT 1 FROM segno.lanes WHERE node = $1)), \
         c AS (UPDATE segno.cluster SET namespaces = namespaces + {REVISION_STEP}) \
         SELECT 1 FROM segno.lanes WHERE node = $1"
    );
    write(link, &delete, &[&node, &namespace.0.cast_signed()]).await.map(drop)
}
