//! Reads, on connections of their own.
//!
//! Read-only connections are opened as they are needed and kept in pools, one for each kind of reads, so that none waits
//! for reads of another kind ([`crate::SqliteStore`] says which there are). A pool has as many threads as connections; a read
//! that finds none free waits. Each read is one statement or one transaction (histories are two statements, see [`newest`]), so it sees one state of the
//! file: the newest committed when it began.
//!
//! What holds: nothing is returned that does not match its checksum; a connection on which a read failed is not used
//! again.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};
use segno_store::limits::EVENT_ID_END;
use segno_store::{
    Answer, Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow, Read, ReadError,
    ReadLimit, RunKey, RunRecord, Threads,
};

use crate::visibility::write::OPEN;
use crate::{checksum, recent_history, visibility};
use segno_store::lock::lock;
use segno_store::rows;

/// Statements kept prepared; those of lists differ with filter and order.
const STATEMENTS_CACHED: usize = 64;

/// Instructions of SQLite's virtual machine between two looks at the limit of a read: well below a millisecond.
const CHECKED_EVERY: i32 = 1_000;

/// How long a read with a limit waits for a connection before it looks at its limit again.
const WAIT_STEP: Duration = Duration::from_millis(20);

/// Connections and threads for one kind of reads.
#[derive(Debug)]
pub(crate) struct Readers {
    connections: Arc<Connections>,
    threads: Threads,
}

/// Read connections that are pooled to one kind of reads.
#[derive(Debug)]
struct Connections {
    path: PathBuf,
    /// More connections would help only if reads waited for the disk; each costs up to 1 MiB of cache.
    connections_max: usize,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Connection>,
    /// Idle or in use.
    open: usize,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, connections_max: usize) -> Self {
        let connections = Connections { path, connections_max, pool: Mutex::default(), returned: Condvar::new() };
        Self { connections: Arc::new(connections), threads: Threads::new("segno-reader", connections_max) }
    }

    /// Runs `work` on a connection, on one of the threads.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Read<T> {
        self.read_within(ReadLimit::none(), work)
    }

    /// Runs `work` on a connection, on one of the threads, as long as the limit allows.
    pub(crate) fn read_within<T: Send + 'static>(
        &self,
        limit: ReadLimit,
        work: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Read<T> {
        let connections = self.connections.clone();
        self.threads.read(move || connections.read_within(&limit, work))
    }

    /// Runs `work` for each key, on one of the threads. One that fails does not hide the others.
    pub(crate) fn read_each<K: Copy + Send + 'static, T: Send + 'static>(
        &self,
        keys: &[K],
        work: impl Fn(&Connection, K) -> Result<T, ReadError> + Send + 'static,
    ) -> Answer<Vec<Result<T, ReadError>>> {
        let (connections, keys, length) = (self.connections.clone(), keys.to_vec(), keys.len());
        let read = move |key: &K| connections.read_within(&ReadLimit::none(), |connection| work(connection, *key));
        let done = self.threads.read(move || Ok(keys.iter().map(read).collect()));
        Box::pin(async move { done.await.unwrap_or_else(|error| (0..length).map(|_| Err(error.clone())).collect()) })
    }

    /// Runs `work` on a connection, on the caller's thread.
    pub(crate) fn read_inline<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        self.connections.read_within(&ReadLimit::none(), work)
    }

    /// Waits for what runs, drops what waits, and closes the connections.
    pub(crate) fn close(&self) {
        self.threads.stop();
        self.connections.close();
    }
}

impl Connections {
    fn read_within<T>(
        &self,
        limit: &ReadLimit,
        work: impl FnOnce(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        limit.check()?;
        let mut pooled = PooledConnection { connections: self, connection: self.take(limit)? };
        let failed = |error: rusqlite::Error| ReadError::Failed(error.to_string());
        let mut connection = match pooled.connection.take() {
            Some(connection) => connection,
            None => self.connect().map_err(failed)?,
        };
        if limit.is_none() {
            let outcome = work(&connection);
            if outcome.is_ok() {
                pooled.connection = Some(connection);
            }
            return outcome;
        }
        let watched = limit.clone();
        connection.progress_handler(CHECKED_EVERY, Some(move || watched.check().is_err())).map_err(failed)?;
        let outcome = work(&connection);
        connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
        // A statement that was interrupted failed because of the limit, regardless of its message.
        let outcome = outcome.or_else(|error| limit.check().and(Err(error)));
        if matches!(outcome, Ok(_) | Err(ReadError::Cancelled | ReadError::DeadlineExceeded)) {
            pooled.connection = Some(connection);
        }
        outcome
    }

    /// Closes what is idle; nothing may be in use.
    fn close(&self) {
        let mut pool = lock(&self.pool);
        pool.open -= pool.idle.len();
        pool.idle.clear();
    }

    /// An idle connection, or the right to open one.
    fn take(&self, limit: &ReadLimit) -> Result<Option<Connection>, ReadError> {
        let mut pool = lock(&self.pool);
        while pool.idle.is_empty() && pool.open >= self.connections_max {
            if limit.is_none() {
                pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
            } else {
                limit.check()?;
                let waited = self.returned.wait_timeout(pool, WAIT_STEP).unwrap_or_else(PoisonError::into_inner);
                pool = waited.0;
            }
        }
        let connection = pool.idle.pop();
        pool.open += usize::from(connection.is_none());
        Ok(connection)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.execute_batch("PRAGMA cache_size = -1024; PRAGMA temp_store = memory;")?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        visibility::register(&connection)?;
        Ok(connection)
    }
}

/// Gives the place in the pool back in every case, and the connection if the read went well.
struct PooledConnection<'a> {
    connections: &'a Connections,
    connection: Option<Connection>,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let mut pool = lock(&self.connections.pool);
        match self.connection.take() {
            Some(connection) => pool.idle.push(connection),
            None => pool.open -= 1,
        }
        drop(pool);
        self.connections.returned.notify_one();
    }
}

/// See [`segno_store::Store::load`].
pub(crate) fn load(connection: &Connection, key: RunKey) -> Result<Option<RunRecord>, ReadError> {
    let Some(row) = rows::run_row(key) else { return Ok(None) };
    let what = || format!("run {}", key.0);
    let select = "SELECT version, open, dispatchable, wake_at, checksum, state FROM runs WHERE run_key = ?1";
    let found = connection.prepare_cached(select).and_then(|mut statement| {
        let record = |row: &Row<'_>| {
            let record = RunRecord {
                key,
                version: row.get(0)?,
                open: row.get(1)?,
                dispatchable: row.get(2)?,
                wake_at: row.get(3)?,
                state: blob(row, 5)?,
            };
            Ok((record, row.get(4)?))
        };
        statement.query_row([row], record).optional()
    });
    match found.map_err(|error| read_error(&what(), &error))? {
        None => Ok(None),
        Some((record, sum)) => {
            check(checksum::of_run(&record), sum, what)?;
            Ok(Some(record))
        }
    }
}

/// See [`segno_store::Store::version`].
pub(crate) fn version(connection: &Connection, key: RunKey) -> Result<Option<u64>, ReadError> {
    let Some(row) = rows::run_row(key) else { return Ok(None) };
    let found = connection
        .prepare_cached("SELECT version FROM runs WHERE run_key = ?1")
        .and_then(|mut statement| statement.query_row([row], |row| row.get(0)).optional());
    found.map_err(|error| read_error(&format!("run {}", key.0), &error))
}

/// See [`segno_store::Store::current`].
pub(crate) fn current(
    connection: &Connection,
    namespace: NamespaceKey,
    workflow_id: &str,
) -> Result<Option<RunKey>, ReadError> {
    let select = "SELECT run_key, checksum FROM current WHERE namespace = ?1 AND workflow_id = ?2";
    let what = || format!("the current pointer of {workflow_id:?} in namespace {}", namespace.0);
    let pointer = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = connection
        .prepare_cached(select)
        .and_then(|mut statement| statement.query_row(params![namespace.0, workflow_id], pointer).optional());
    match found.map_err(|error| read_error(&what(), &error))? {
        None => Ok(None),
        Some((run, sum)) => {
            check(checksum::of_pointer(namespace.0, workflow_id, run), sum, what)?;
            Ok(Some(rows::run_key(run)))
        }
    }
}

/// See [`segno_store::Store::history`].
pub(crate) fn history(
    connection: &Connection,
    key: RunKey,
    from: i64,
    until: i64,
    batches_max: usize,
    bytes_max: usize,
) -> Result<Vec<HistoryBatch>, ReadError> {
    let (from, until) = (from.max(0), until.min(EVENT_ID_END));
    let Some(rows) = rows::rows_of(key).filter(|_| from < EVENT_ID_END && until > 0) else { return Ok(Vec::new()) };
    let newest = newest(connection, key)?;
    let newest_from = newest.first().map_or(EVENT_ID_END, |batch| batch.first_event_id);
    let mut page = Page { batches: Vec::new(), bytes: 0, batches_max, bytes_max };
    if newest_from > from {
        // The batch that holds `from` may begin before it: it is the last that begins at or before it.
        let select = "SELECT id, last_event_id, checksum, events FROM history \
                      WHERE id >= coalesce((SELECT max(id) FROM history WHERE id BETWEEN ?1 AND ?1 + ?2), ?1 + ?2) \
                      AND id <= ?1 + ?3 AND last_event_id >= ?2 ORDER BY id LIMIT ?4";
        let values = params![rows.start(), from, until.min(newest_from) - 1, count(batches_max)];
        add_rows(connection, key, select, values, &mut page)?;
    }
    for batch in newest.into_iter().filter(|batch| batch.last_event_id >= from && batch.first_event_id < until) {
        if !page.add(batch) {
            break;
        }
    }
    Ok(page.batches)
}

/// See [`segno_store::Store::history_reverse`].
pub(crate) fn history_reverse(
    connection: &Connection,
    key: RunKey,
    until: i64,
    batches_max: usize,
) -> Result<Vec<HistoryBatch>, ReadError> {
    let until = until.min(EVENT_ID_END);
    let Some(rows) = rows::rows_of(key).filter(|_| until > 0) else { return Ok(Vec::new()) };
    let newest = newest(connection, key)?;
    let newest_from = newest.first().map_or(EVENT_ID_END, |batch| batch.first_event_id);
    let mut page = Page { batches: Vec::new(), bytes: 0, batches_max, bytes_max: usize::MAX };
    for batch in newest.into_iter().rev().filter(|batch| batch.first_event_id < until) {
        page.add(batch);
    }
    let wanted = count(batches_max - page.batches.len());
    if wanted > 0 {
        let select = "SELECT id, last_event_id, checksum, events FROM history \
                      WHERE id BETWEEN ?1 AND ?1 + ?2 ORDER BY id DESC LIMIT ?3";
        let values = params![rows.start(), until.min(newest_from) - 1, wanted];
        add_rows(connection, key, select, values, &mut page)?;
    }
    Ok(page.batches)
}

/// A page of a read, with the number of batches and bytes that it may still get.
struct Page {
    batches: Vec<HistoryBatch>,
    bytes: usize,
    batches_max: usize,
    bytes_max: usize,
}

impl Page {
    /// Adds a batch; `false` if the page is full.
    fn add(&mut self, batch: HistoryBatch) -> bool {
        self.bytes = self.bytes.saturating_add(batch.events.len());
        let fits = self.batches.len() < self.batches_max && (self.bytes <= self.bytes_max || self.batches.is_empty());
        if fits {
            self.batches.push(batch);
        }
        fits
    }
}

/// The batches in a run's own row. Read them before the rows, and of those only what is older: histories grow at their
/// end, so that the two together are one state of it although they are two statements.
fn newest(connection: &Connection, key: RunKey) -> Result<Vec<HistoryBatch>, ReadError> {
    let Some(row) = rows::run_row(key) else { return Ok(Vec::new()) };
    let what = || format!("newest history of run {}", key.0);
    let found = connection
        .prepare_cached("SELECT recent_history FROM runs WHERE run_key = ?1")
        .and_then(|mut statement| statement.query_row([row], |row| blob(row, 0)).optional());
    let recent = found.map_err(|error| read_error(&what(), &error))?.unwrap_or_default();
    recent_history::decode(key, &recent).map_err(|_| mismatch(&what()))
}

fn add_rows(
    connection: &Connection,
    key: RunKey,
    select: &str,
    values: &[&dyn rusqlite::ToSql],
    page: &mut Page,
) -> Result<(), ReadError> {
    let what = || format!("history of run {}", key.0);
    let failed = |error| read_error(&what(), &error);
    let mut statement = connection.prepare_cached(select).map_err(failed)?;
    let mut rows = statement.query(values).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let id: i64 = row.get(0).map_err(failed)?;
        let batch = HistoryBatch {
            first_event_id: rows::first_event_id(id),
            last_event_id: row.get(1).map_err(failed)?,
            events: blob(row, 3).map_err(failed)?,
        };
        check(checksum::of_batch(id, batch.last_event_id, &batch.events), row.get(2).map_err(failed)?, what)?;
        if !page.add(batch) {
            break;
        }
    }
    Ok(())
}

/// See [`segno_store::Store::open_runs`].
pub(crate) fn open_runs(
    connection: &Connection,
    after: Option<RunKey>,
    limit: usize,
) -> Result<Vec<OpenRun>, ReadError> {
    let after = match after.map(rows::run_row) {
        None => -1,
        Some(Some(row)) => row,
        Some(None) => return Ok(Vec::new()),
    };
    let select = "SELECT run_key, wake_at, dispatchable FROM runs INDEXED BY runs_open \
                  WHERE open = 1 AND run_key > ?1 ORDER BY run_key LIMIT ?2";
    let open_run = |row: &Row<'_>| {
        Ok(OpenRun { key: row.get(0).map(rows::run_key)?, wake_at: row.get(1)?, dispatchable: row.get(2)? })
    };
    let found = connection
        .prepare_cached(select)
        .and_then(|mut statement| statement.query_map(params![after, count(limit)], open_run)?.collect());
    found.map_err(|error| read_error("the open runs", &error))
}

/// See [`segno_store::Store::outbox`].
pub(crate) fn outbox(
    connection: &Connection,
    after: Option<OutboxKey>,
    limit: usize,
) -> Result<Vec<OutboxRow>, ReadError> {
    let after = match after {
        None => -1,
        // A sequence out of range comes after all of its sender's.
        Some(key) => match (rows::outbox_row(key), rows::rows_of(key.sender)) {
            (Some(row), _) => row,
            (None, Some(rows)) => *rows.end(),
            (None, None) => return Ok(Vec::new()),
        },
    };
    let failed = |error| read_error("the outbox", &error);
    let select = "SELECT id, checksum, message FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(select).map_err(failed)?;
    let mut rows = statement.query(params![after, count(limit)]).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let id = row.get(0).map_err(failed)?;
        let row_sum = row.get(1).map_err(failed)?;
        let message = blob(row, 2).map_err(failed)?;
        check(checksum::of_message(id, &message), row_sum, || format!("outbox row {id}"))?;
        found.push(OutboxRow { key: rows::outbox_key(id), message });
    }
    Ok(found)
}

/// See [`segno_store::Store::script_state`].
pub(crate) fn script_state(connection: &Connection, key: RunKey, slot: u8) -> Result<Option<Bytes>, ReadError> {
    let Some(id) = rows::script_row(key, slot) else { return Ok(None) };
    let what = || format!("the script of run {}", key.0);
    let select = "SELECT checksum, state FROM script_states WHERE id = ?1";
    let found = connection
        .prepare_cached(select)
        .and_then(|mut statement| statement.query_row([id], |row| Ok((row.get(0)?, blob(row, 1)?))).optional());
    match found.map_err(|error| read_error(&what(), &error))? {
        None => Ok(None),
        Some((sum, state)) => {
            check(checksum::of_script(id, &state), sum, what)?;
            Ok(Some(state))
        }
    }
}

/// See [`segno_store::Store::document`].
pub(crate) fn document(
    connection: &Connection,
    namespace: NamespaceKey,
    name: &str,
) -> Result<Option<Bytes>, ReadError> {
    let select = "SELECT namespace, name, checksum, content FROM documents WHERE namespace = ?1 AND name = ?2";
    let found = connection
        .prepare_cached(select)
        .and_then(|mut statement| statement.query_row(params![namespace.0, name], document_row).optional());
    let found = found.map_err(|error| read_error(&format!("document {name:?}"), &error))?;
    found.map(checked_document).transpose().map(|document| document.map(|document| document.content))
}

/// See [`segno_store::Store::documents`].
pub(crate) fn documents(
    connection: &Connection,
    namespace: NamespaceKey,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Document>, ReadError> {
    let select = "SELECT namespace, name, checksum, content FROM documents \
                  WHERE namespace = ?1 AND name >= ?2 AND name > ?3 ORDER BY name LIMIT ?4";
    let mut found = Vec::new();
    let failed = |error: rusqlite::Error| read_error("documents", &error);
    let mut statement = connection.prepare_cached(select).map_err(failed)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![namespace.0, prefix, after.unwrap_or(""), limit], document_row);
    for row in rows.map_err(failed)? {
        let row = row.map_err(failed)?;
        if !row.0.name.starts_with(prefix) {
            break;
        }
        found.push(checked_document(row)?);
    }
    Ok(found)
}

fn document_row(row: &Row<'_>) -> rusqlite::Result<(Document, i64)> {
    Ok((Document { namespace: NamespaceKey(row.get(0)?), name: row.get(1)?, content: blob(row, 3)? }, row.get(2)?))
}

fn checked_document((document, sum): (Document, i64)) -> Result<Document, ReadError> {
    let expected = checksum::of_document(document.namespace.0, &document.name, &document.content);
    check(expected, sum, || format!("document {:?}", document.name))?;
    Ok(document)
}

/// See [`segno_store::Store::namespaces`].
pub(crate) fn namespaces(connection: &Connection) -> Result<Vec<NamespaceRecord>, ReadError> {
    let select = "SELECT namespace, name, detail FROM namespaces ORDER BY namespace";
    let namespace = |row: &Row<'_>| {
        Ok(NamespaceRecord { key: NamespaceKey(row.get(0)?), name: row.get(1)?, detail: blob(row, 2)? })
    };
    let found =
        connection.prepare_cached(select).and_then(|mut statement| statement.query_map([], namespace)?.collect());
    found.map_err(|error| read_error("the namespaces", &error))
}

/// See [`segno_store::Store::unlisted_runs`].
pub(crate) fn unlisted_runs(connection: &Connection, limit: usize) -> Result<Vec<RunKey>, ReadError> {
    let select = "SELECT run_key FROM runs WHERE run_key <= (SELECT value FROM meta WHERE key = 'unlisted_until') \
                  AND NOT EXISTS (SELECT 1 FROM visibility WHERE visibility.run_key = runs.run_key) LIMIT ?1";
    keys(connection, select, params![count(limit)])
}

/// See [`segno_store::Store::closed_runs`].
pub(crate) fn closed_runs(
    connection: &Connection,
    namespace: NamespaceKey,
    closed_before: i64,
    limit: usize,
) -> Result<Vec<RunKey>, ReadError> {
    let select =
        "SELECT run_key FROM visibility WHERE namespace = ?1 AND ended < ?2 ORDER BY ended, start_time LIMIT ?3";
    keys(connection, select, params![namespace.0, closed_before, count(limit)])
}

/// See [`segno_store::Store::first_close`].
pub(crate) fn first_close(connection: &Connection, namespace: NamespaceKey) -> Result<Option<i64>, ReadError> {
    let select = "SELECT min(ended) FROM visibility WHERE namespace = ?1";
    let first: Option<i64> = connection
        .prepare_cached(select)
        .and_then(|mut statement| statement.query_row([namespace.0], |row| row.get(0)))
        .map_err(|error| read_error("the first closed run", &error))?;
    Ok(first.filter(|ended| *ended != OPEN))
}

/// See [`segno_store::Store::runs_of`].
pub(crate) fn runs_of(
    connection: &Connection,
    namespace: NamespaceKey,
    after: Option<RunKey>,
    limit: usize,
) -> Result<Vec<RunKey>, ReadError> {
    let after = match after.map(rows::run_row) {
        None => -1,
        Some(Some(row)) => row,
        Some(None) => return Ok(Vec::new()),
    };
    let select = "SELECT run_key FROM visibility NOT INDEXED WHERE run_key > ?2 AND namespace = ?1 \
                  ORDER BY run_key LIMIT ?3";
    keys(connection, select, params![namespace.0, after, count(limit)])
}

pub(crate) fn keys(
    connection: &Connection,
    select: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<RunKey>, ReadError> {
    let found = connection
        .prepare_cached(select)
        .and_then(|mut statement| statement.query_map(values, |row| row.get(0).map(rows::run_key))?.collect());
    found.map_err(|error| read_error("the runs of a namespace", &error))
}

fn blob(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    let value = row.get_ref(column)?;
    let bytes = value.as_blob().map_err(|error: FromSqlError| {
        rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(error))
    })?;
    Ok(Bytes::copy_from_slice(bytes))
}

pub(crate) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn check(computed: u32, stored: i64, what: impl Fn() -> String) -> Result<(), ReadError> {
    if i64::from(computed) == stored {
        return Ok(());
    }
    Err(mismatch(&what()))
}

pub(crate) fn mismatch(what: &str) -> ReadError {
    ReadError::Damaged(format!("{what} does not match its checksum"))
}

pub(crate) fn read_error(what: &str, error: &rusqlite::Error) -> ReadError {
    let message = format!("{what}: {error}");
    if is_damage(error) { ReadError::Damaged(message) } else { ReadError::Failed(message) }
}

/// Whether an error says that what is stored is not what was written.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        // A value of the wrong kind was not written by us.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::Utf8Error(..) => true,
        error => matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)),
    }
}
