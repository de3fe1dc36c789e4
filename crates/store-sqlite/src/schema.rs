//! The tables, and how a file of an older version gets them.
//!
//! Migrations are part of the binary and run in order, forward only; `user_version` counts those a file has had. A
//! released migration is never edited: change the schema by adding one.
//!
//! Small columns stand before the blob, so that scans need not follow a long state into its overflow pages. The index
//! of open runs holds row numbers only: one that also covered `wake_at` would be rewritten by nearly every commit.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as Segno's: "Sgno".
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"Sgno");

/// The migrations, oldest first.
const MIGRATIONS: &[&str] = &["
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
"];

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
