//! Reads all of a database and checks its tables against each other. Changes nothing.
//!
//! SQLite's own check finds damage of pages and of indexes. This module finds the rest: rows that do not match their
//! checksum, histories that lack events which the state of their run counts, missing or dangling pointers, lists and
//! counts that contradict the runs.

use std::collections::BTreeSet;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use segno_store::{HistoryBatch, NamespaceKey, RunKey, RunRecord, StateFacts};

use crate::visibility::pending::PendingFacts;
use crate::visibility::write::CHECKED_COLUMNS;
use crate::{checksum, read, recent_history};
use segno_store::rows;

/// Findings that are listed one by one.
const LISTED_MAX: usize = 20;

/// Reads the state of a run, which is not the store's own language.
pub type ReadState = fn(Bytes) -> Result<StateFacts, String>;

/// The findings of a check; there may be more than are listed.
#[derive(Default)]
struct Findings {
    listed: Vec<String>,
    count: usize,
}

impl Findings {
    fn add(&mut self, text: impl Into<String>) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(text.into());
        }
    }

    fn into_list(mut self) -> Vec<String> {
        if self.count > self.listed.len() {
            self.listed.push(format!("and {} more", self.count - self.listed.len()));
        }
        self.listed
    }
}

/// Everything that is wrong with a database of the newest schema, as of one moment.
pub(crate) fn verify(connection: &Connection, read_state: ReadState) -> rusqlite::Result<Vec<String>> {
    let mut found = Findings::default();
    let snapshot = connection.unchecked_transaction()?;
    let mut statement = snapshot.prepare(&format!("PRAGMA integrity_check({LISTED_MAX})"))?;
    for text in statement.query_map([], |row| row.get::<_, String>(0))? {
        match text?.as_str() {
            "ok" => {}
            damage => found.add(damage),
        }
    }
    drop(statement);
    // Further comparisons would read pages that cannot be trusted.
    if found.count == 0 {
        let checker = Checker::new(&snapshot, read_state)?;
        for check in [Checker::runs, Checker::sums, Checker::orphans, Checker::lists] {
            // One that fails has come across something that was never written.
            check(&checker, &mut found).unwrap_or_else(|error| found.add(error.to_string()));
        }
    }
    Ok(found.into_list())
}

struct Checker<'a> {
    connection: &'a Connection,
    read_state: ReadState,
    /// Runs up to this one may be in no list yet.
    unlisted_until: i64,
    /// `None` if they cannot be read.
    pending: Option<BTreeSet<i64>>,
}

impl<'a> Checker<'a> {
    fn new(connection: &'a Connection, read_state: ReadState) -> rusqlite::Result<Self> {
        let select = "SELECT value FROM meta WHERE key = 'unlisted_until'";
        let unlisted_until = connection.query_row(select, [], |row| row.get(0)).optional()?.unwrap_or(0);
        let pending = PendingFacts::read(connection).and_then(|pending| pending.runs()).ok();
        Ok(Self { connection, read_state, unlisted_until, pending })
    }

    /// Each run: its own row, its history, the pointer to it, its row in lists.
    fn runs(&self, found: &mut Findings) -> rusqlite::Result<()> {
        let select = "SELECT run_key, version, open, dispatchable, wake_at, checksum, state, recent_history FROM runs";
        let mut statement = self.connection.prepare(select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let (record, sum, recent) = match run_row(number, row) {
                Ok(read) => read,
                Err(error) if read::is_damage(&error) => {
                    found.add(format!("run {number}: {error}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if checksum::of_run(&record) != sum {
                found.add(format!("run {number} does not match its checksum"));
                continue;
            }
            match (self.read_state)(record.state) {
                Ok(facts) => {
                    self.history(number, &recent, facts.last_event_id, found)?;
                    self.pointer(number, &facts, found)?;
                    self.listed(number, &facts, found)?;
                }
                Err(error) => found.add(format!("the state of run {number} cannot be read: {error}")),
            }
        }
        Ok(())
    }

    /// The history of a run has every event that its state counts, and no other.
    fn history(&self, run: i64, recent: &Bytes, last: i64, found: &mut Findings) -> rusqlite::Result<()> {
        let key = rows::run_key(run);
        let Some(ids) = rows::rows_of(key) else { return Ok(()) };
        let select = "SELECT id, last_event_id, checksum, events FROM history WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
        let mut statement = self.connection.prepare_cached(select)?;
        let mut rows = statement.query(params![ids.start(), ids.end()])?;
        let mut next = 1;
        let mut follows = |first: i64, last: i64, found: &mut Findings| {
            if first != next {
                found.add(format!("the history of run {run} goes on with event {first} instead of {next}"));
            }
            next = last + 1;
        };
        while let Some(row) = rows.next()? {
            let (id, last_event_id): (i64, i64) = (row.get(0)?, row.get(1)?);
            let first = rows::first_event_id(id);
            if checksum::of_batch(id, last_event_id, row.get_ref(3)?.as_blob()?) != row.get::<_, u32>(2)? {
                found.add(format!("the history of run {run} from event {first} on does not match its checksum"));
            }
            follows(first, last_event_id, found);
        }
        match recent_history::decode(key, recent) {
            Ok(batches) => batches.iter().for_each(|HistoryBatch { first_event_id, last_event_id, .. }| {
                follows(*first_event_id, *last_event_id, found);
            }),
            Err(_) => {
                found.add(format!("the newest history of run {run} does not match its checksum"));
                return Ok(());
            }
        }
        if next != last + 1 {
            found.add(format!("run {run} has had {last} events, but its history ends with event {}", next - 1));
        }
        Ok(())
    }

    /// The workflow id of a running run leads to it.
    fn pointer(&self, run: i64, facts: &StateFacts, found: &mut Findings) -> rusqlite::Result<()> {
        if !facts.is_running {
            return Ok(());
        }
        let StateFacts { namespace: NamespaceKey(namespace), workflow_id, .. } = facts;
        match read::current(self.connection, facts.namespace, workflow_id) {
            Ok(Some(current)) if current == rows::run_key(run) => {}
            // A pointer that does not match its checksum is found with the others.
            Err(_) => {}
            Ok(_) => found.add(format!(
                "run {run} is running, but its workflow id {workflow_id:?} in namespace {namespace} does not lead to it: another \
                 run could be started beside it"
            )),
        }
        Ok(())
    }

    /// Lists show a run as it is.
    fn listed(&self, run: i64, facts: &StateFacts, found: &mut Findings) -> rusqlite::Result<()> {
        let select = "SELECT namespace, workflow_id, run_id, status FROM visibility WHERE run_key = ?1";
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let listed: rusqlite::Result<Option<(u32, String, String, i32)>> =
            self.connection.prepare_cached(select)?.query_row([run], row).optional();
        let is_pending = self.pending.as_ref().is_none_or(|pending| pending.contains(&run));
        match listed {
            Err(error) if read::is_damage(&error) => found.add(format!("what lists show of run {run}: {error}")),
            Err(error) => return Err(error),
            Ok(None) if run > self.unlisted_until && !is_pending => {
                found.add(format!("run {run} (workflow id {:?}) is in no list", facts.workflow_id));
            }
            Ok(Some((namespace, workflow_id, run_id, status)))
                if (namespace, workflow_id.as_str(), run_id.as_str())
                    != (facts.namespace.0, facts.workflow_id.as_str(), facts.run_id.as_str())
                    || status != facts.status && !is_pending =>
            {
                found.add(format!(
                    "lists show run {run} with workflow id {workflow_id:?} and status {status}, which it does not have"
                ));
            }
            Ok(_) => {}
        }
        Ok(())
    }

    /// Rows of the other tables match their checksums.
    fn sums(&self, found: &mut Findings) -> rusqlite::Result<()> {
        if self.pending.is_none() {
            found.add("the searchable facts that wait to be listed do not match their checksum");
        }
        let columns = [
            ("visibility", CHECKED_COLUMNS, "'row of lists of run ' || run_key"),
            ("attributes", "attribute, value, ended, start_time, run_key", "'search attribute of run ' || run_key"),
            ("current", "namespace, workflow_id, run_key", "'current pointer of ' || workflow_id"),
            ("documents", "namespace, name, content", "'document ' || name"),
        ];
        for (table, checked, name) in columns {
            let select = format!("SELECT {name} FROM {table} WHERE checksum <> row_checksum({checked})");
            self.each(&select, found, |name| format!("the {name} does not match its checksum"))?;
        }
        for (table, of, column) in [
            ("outbox", checksum::of_message as fn(i64, &[u8]) -> u32, "message"),
            ("script_states", checksum::of_script, "state"),
        ] {
            let mut statement = self.connection.prepare(&format!("SELECT id, checksum, {column} FROM {table}"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let id: i64 = row.get(0)?;
                if of(id, row.get_ref(2)?.as_blob()?) != row.get::<_, u32>(1)? {
                    found.add(format!("row {id} of {table} does not match its checksum"));
                }
            }
        }
        Ok(())
    }

    /// No row belongs to a run that is not there.
    fn orphans(&self, found: &mut Findings) -> rusqlite::Result<()> {
        let without_run = [
            ("history", "id >> 20", "history"),
            ("script_states", "id >> 2", "the state of a script"),
            ("visibility", "run_key", "a row of lists"),
            ("current", "run_key", "the current pointer of a workflow id"),
        ];
        for (table, run, what) in without_run {
            let select = format!(
                "SELECT DISTINCT run FROM (SELECT {run} AS run FROM {table}) WHERE run NOT IN (SELECT run_key FROM runs)"
            );
            self.each(&select, found, |run| format!("{what} names run {run}, which is not there"))?;
        }
        Ok(())
    }

    /// Checks that the attributes by which lists search, and the counts, agree with the rows.
    fn lists(&self, found: &mut Findings) -> rusqlite::Result<()> {
        let entries = "SELECT attribute, value, ended, start_time, run_key FROM attributes";
        let expected = "SELECT namespace << 32 | entry.key, entry.value, ended, start_time, run_key \
                        FROM visibility, json_each(visibility.attributes) AS entry \
                        WHERE entry.type NOT IN ('array', 'object', 'null') \
                        UNION SELECT namespace << 32 | entry.key, item.value, ended, start_time, run_key \
                        FROM visibility, json_each(visibility.attributes) AS entry, json_each(entry.value) AS item \
                        WHERE entry.type = 'array'";
        let missing = format!("SELECT run_key FROM (SELECT * FROM ({expected}) EXCEPT {entries})");
        self.each(&missing, found, |run| format!("run {run} is not found by one of its search attributes"))?;
        let wrong = format!("SELECT run_key FROM ({entries} EXCEPT SELECT * FROM ({expected}))");
        self.each(&wrong, found, |run| format!("run {run} is found by a search attribute that it does not have"))?;
        let counts = "SELECT namespace || ' with status ' || status FROM \
                      (SELECT namespace, status, sum(runs) AS runs FROM \
                       (SELECT namespace, status, runs FROM status_counts UNION ALL \
                        SELECT namespace, status, -count(*) FROM visibility GROUP BY namespace, status) \
                       GROUP BY namespace, status) WHERE runs <> 0";
        self.each(counts, found, |which| format!("the count of runs of namespace {which} is wrong"))
    }

    /// Adds a finding for each row of a statement with one column.
    fn each(&self, select: &str, found: &mut Findings, text: impl Fn(&str) -> String) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let value = match row.get_ref(0)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            };
            found.add(text(&value));
        }
        Ok(())
    }
}

fn run_row(number: i64, row: &Row<'_>) -> rusqlite::Result<(RunRecord, u32, Bytes)> {
    let record = RunRecord {
        key: RunKey(number.unsigned_abs()),
        version: row.get(1)?,
        open: row.get(2)?,
        dispatchable: row.get(3)?,
        wake_at: row.get(4)?,
        state: row.get::<_, Vec<u8>>(6)?.into(),
    };
    Ok((record, row.get(5)?, row.get::<_, Vec<u8>>(7)?.into()))
}
