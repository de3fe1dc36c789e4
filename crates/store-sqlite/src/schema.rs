//! The tables, and their migrations.
//!
//! Migrations are part of the binary and run in order, forward only; `user_version` counts those a file has had. A
//! released migration is never edited: change the schema by adding one.
//!
//! Small columns precede the blob, so that scans need not follow a long state into its overflow pages. The index of
//! open runs holds row numbers only: one that also covered `wake_at` would be rewritten by nearly every commit.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as Segno's: "Sgno".
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Sgno");

/// The migrations, oldest first.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE runs (
        run_key INTEGER PRIMARY KEY,
        version INTEGER NOT NULL,
        open INTEGER NOT NULL,
        dispatchable INTEGER NOT NULL,
        wake_at INTEGER,
        checksum INTEGER NOT NULL,
        state BLOB NOT NULL
    ) STRICT;
    CREATE INDEX runs_open ON runs (open) WHERE open = 1;

    -- id: run_key << 20 | first event id
    CREATE TABLE history (
        id INTEGER PRIMARY KEY,
        last_event_id INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        events BLOB NOT NULL
    ) STRICT;

    -- id: sender's run_key << 20 | sequence
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY,
        checksum INTEGER NOT NULL,
        message BLOB NOT NULL
    ) STRICT;

    CREATE TABLE current (
        namespace INTEGER NOT NULL,
        workflow_id TEXT NOT NULL,
        run_key INTEGER NOT NULL,
        PRIMARY KEY (namespace, workflow_id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE namespaces (
        namespace INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        detail BLOB NOT NULL
    ) STRICT;

    CREATE TABLE meta (
        key TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO meta (key, value) VALUES ('next_run_key', 1);
",
    "
    -- What filters look at. `ended` is the close time, or the greatest integer while the run is open.
    -- `root_*` is null if the run is its own root. `attributes` is JSON, by attribute number.
    CREATE TABLE visibility (
        run_key INTEGER PRIMARY KEY,
        namespace INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        status INTEGER NOT NULL,
        execution_time INTEGER NOT NULL,
        workflow_type TEXT NOT NULL,
        workflow_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        task_queue TEXT NOT NULL,
        history_length INTEGER,
        history_bytes INTEGER,
        transitions INTEGER,
        parent_workflow_id TEXT,
        parent_run_id TEXT,
        root_workflow_id TEXT,
        root_run_id TEXT,
        activity_attempts INTEGER,
        activity_failure TEXT,
        task_attempts INTEGER,
        task_failure TEXT,
        attributes TEXT
    ) STRICT;
    CREATE INDEX visibility_order ON visibility (namespace, ended, start_time);
    CREATE INDEX visibility_type ON visibility (namespace, workflow_type, ended, start_time, status);
    CREATE INDEX visibility_workflow_id ON visibility (namespace, workflow_id);
    -- Most runs are running or completed and are found by the order they stand in.
    CREATE INDEX visibility_status ON visibility (namespace, status, ended, start_time) WHERE status > 2;
    CREATE INDEX visibility_parent ON visibility (namespace, parent_workflow_id) WHERE parent_workflow_id IS NOT NULL;
    CREATE INDEX visibility_retrying ON visibility (namespace, activity_attempts, task_attempts)
        WHERE activity_attempts IS NOT NULL OR task_attempts IS NOT NULL;

    -- attribute: namespace << 32 | number of the attribute. One row for each value, lists have several.
    CREATE TABLE attributes (
        attribute INTEGER NOT NULL,
        value ANY NOT NULL,
        ended INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        run_key INTEGER NOT NULL,
        PRIMARY KEY (attribute, value, ended, start_time, run_key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE status_counts (
        namespace INTEGER NOT NULL,
        status INTEGER NOT NULL,
        runs INTEGER NOT NULL,
        PRIMARY KEY (namespace, status)
    ) STRICT, WITHOUT ROWID;
    -- Runs up to this one were written before there were facts to search; the server adds them when it starts.
    INSERT INTO meta (key, value) SELECT 'unlisted_until', coalesce(max(run_key), 0) FROM runs;
",
    "
    -- The newest history stands in the run's row until it is too long for it.
    ALTER TABLE runs ADD COLUMN last_event INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN tail BLOB NOT NULL DEFAULT x'';

    -- What is not yet in `visibility`, in order; its columns and whether the run has no row there.
    CREATE TABLE facts (
        position INTEGER PRIMARY KEY,
        run_key INTEGER NOT NULL,
        is_new INTEGER NOT NULL,
        namespace INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        status INTEGER NOT NULL,
        execution_time INTEGER NOT NULL,
        workflow_type TEXT NOT NULL,
        workflow_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        task_queue TEXT NOT NULL,
        history_length INTEGER,
        history_bytes INTEGER,
        transitions INTEGER,
        parent_workflow_id TEXT,
        parent_run_id TEXT,
        root_workflow_id TEXT,
        root_run_id TEXT,
        activity_attempts INTEGER,
        activity_failure TEXT,
        task_attempts INTEGER,
        task_failure TEXT,
        attributes TEXT
    ) STRICT;
",
    "
    -- Facts wait as bytes, in slots that are written over; see `visibility/pending.rs`. Those that wait are listed.
    CREATE TABLE queue (
        position INTEGER PRIMARY KEY,
        slot BLOB NOT NULL
    ) STRICT;
    DELETE FROM facts WHERE position NOT IN (SELECT max(position) FROM facts GROUP BY run_key);
    INSERT INTO status_counts (namespace, status, runs)
        SELECT namespace, status, -count(*) FROM visibility
        WHERE run_key IN (SELECT run_key FROM facts) GROUP BY namespace, status
        ON CONFLICT (namespace, status) DO UPDATE SET runs = runs + excluded.runs;
    INSERT INTO status_counts (namespace, status, runs)
        SELECT namespace, status, count(*) FROM facts WHERE true GROUP BY namespace, status
        ON CONFLICT (namespace, status) DO UPDATE SET runs = runs + excluded.runs;
    DELETE FROM attributes WHERE run_key IN (SELECT run_key FROM facts);
    INSERT OR IGNORE INTO attributes (attribute, value, ended, start_time, run_key)
        SELECT namespace << 32 | entry.key, entry.value, ended, start_time, run_key
        FROM facts, json_each(facts.attributes) AS entry WHERE entry.type NOT IN ('array', 'object', 'null');
    INSERT OR IGNORE INTO attributes (attribute, value, ended, start_time, run_key)
        SELECT namespace << 32 | entry.key, item.value, ended, start_time, run_key
        FROM facts, json_each(facts.attributes) AS entry, json_each(entry.value) AS item WHERE entry.type = 'array';
    REPLACE INTO visibility (run_key, namespace, ended, start_time, status, execution_time, workflow_type, workflow_id,
            run_id, task_queue, history_length, history_bytes, transitions, parent_workflow_id, parent_run_id,
            root_workflow_id, root_run_id, activity_attempts, activity_failure, task_attempts, task_failure, attributes)
        SELECT run_key, namespace, ended, start_time, status, execution_time, workflow_type, workflow_id,
            run_id, task_queue, history_length, history_bytes, transitions, parent_workflow_id, parent_run_id,
            root_workflow_id, root_run_id, activity_attempts, activity_failure, task_attempts, task_failure, attributes
        FROM facts;
    DROP TABLE facts;
",
    "
    -- `row_checksum` is one of ours; see `visibility/functions.rs`.
    ALTER TABLE current ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    UPDATE current SET checksum = row_checksum(namespace, workflow_id, run_key);
    ALTER TABLE attributes ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    UPDATE attributes SET checksum = row_checksum(attribute, value, ended, start_time, run_key);
    ALTER TABLE visibility ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    UPDATE visibility SET checksum = row_checksum(run_key, namespace, ended, start_time, status, execution_time,
        workflow_type, workflow_id, run_id, task_queue, history_length, history_bytes, transitions, parent_workflow_id,
        parent_run_id, root_workflow_id, root_run_id, activity_attempts, activity_failure, task_attempts, task_failure,
        attributes);

    ALTER TABLE runs RENAME COLUMN tail TO recent_history;
    ALTER TABLE queue RENAME TO pending_facts;
",
    "
    -- id: run_key << 2 | slot; see `layout.rs`.
    CREATE TABLE script_states (
        id INTEGER PRIMARY KEY,
        checksum INTEGER NOT NULL,
        state BLOB NOT NULL
    ) STRICT;
    CREATE TABLE documents (
        namespace INTEGER NOT NULL,
        name TEXT NOT NULL,
        checksum INTEGER NOT NULL,
        content BLOB NOT NULL,
        PRIMARY KEY (namespace, name)
    ) STRICT, WITHOUT ROWID;
",
];

/// The newest schema version this binary knows.
pub(crate) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("few migrations")
}

/// Brings a file up to date. Each migration is a transaction of its own, so one cut short starts over.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let done: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (migration, version) in MIGRATIONS.iter().zip(1_i64..).filter(|(_, version)| *version > done) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}
