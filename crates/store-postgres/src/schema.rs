//! The tables, and their migrations.
//!
//! Migrations are part of the binary. Each is one transaction that locks the table `cluster`, so that two servers that
//! start at the same time do not make it twice. They only add, and none rewrites or scans a table.
//!
//! Texts are `COLLATE "C"`: bytewise order as in SQLite, and no index breaks when a system's collation is upgraded.
//! Decision 022 explains the tables.

use tokio_postgres::Client;

use crate::OpenError;
use crate::connect::failed;

/// By how much a revision grows. A failover that loses commits sets the revision back; with steps of one, other changes could
/// soon give it a number that a node knows already.
pub(crate) const REVISION_STEP: &str = "1 + (random() * 1000000)::int8";

const MIGRATIONS: &[&str] = &[
    r#"
    ALTER TABLE segno.cluster
        ADD COLUMN format int NOT NULL DEFAULT 1,
        ADD COLUMN map bigint NOT NULL DEFAULT 0,
        ADD COLUMN namespaces bigint NOT NULL DEFAULT 0,
        ADD COLUMN next_run_key bigint NOT NULL DEFAULT 1,
        ADD COLUMN next_node bigint NOT NULL DEFAULT 1;

    CREATE TABLE segno.nodes (
        node bigint PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        address text COLLATE "C" NOT NULL,
        certificate bytea,
        version text COLLATE "C" NOT NULL,
        format int NOT NULL,
        beat bigint NOT NULL,
        leaving bool NOT NULL DEFAULT false
    ) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

    -- last_group: the number of the lane's last group; voided: the last number that was used up by an empty group
    CREATE TABLE segno.lanes (
        node bigint NOT NULL,
        lane int NOT NULL,
        slot smallint NOT NULL UNIQUE,
        last_group bigint NOT NULL,
        voided bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (node, lane)
    ) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

    -- Facts that never change come first: the log of an update leaves out an unchanged beginning.
    -- ended: the close time, or the greatest integer while the run is open. root_*: null if the run is its own root.
    CREATE TABLE segno.runs (
        run_key bigint PRIMARY KEY,
        namespace int NOT NULL,
        bucket int NOT NULL,
        start_time bigint NOT NULL,
        execution_time bigint NOT NULL,
        workflow_type text COLLATE "C" NOT NULL,
        workflow_id bytea NOT NULL,
        run_id uuid NOT NULL,
        task_queue text COLLATE "C" NOT NULL,
        parent_workflow_id bytea,
        parent_run_id uuid,
        root_workflow_id bytea,
        root_run_id uuid,
        ended bigint NOT NULL,
        status smallint NOT NULL,
        history_length bigint,
        history_bytes bigint,
        transitions bigint,
        activity_attempts int,
        activity_failure text COLLATE "C",
        task_attempts int,
        task_failure text COLLATE "C",
        attributes jsonb,
        version bigint NOT NULL,
        open bool NOT NULL,
        dispatchable bool NOT NULL,
        held bool NOT NULL,
        wake_at bigint,
        checksum int NOT NULL,
        state bytea NOT NULL
    ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
            autovacuum_analyze_scale_factor = 0.02);
    ALTER TABLE segno.runs ALTER COLUMN state SET STORAGE EXTERNAL;
    CREATE INDEX runs_open ON segno.runs (bucket, run_key) WHERE open;
    CREATE INDEX runs_order ON segno.runs (namespace, ended, start_time, run_key);
    CREATE INDEX runs_type ON segno.runs (namespace, workflow_type, ended, start_time, run_key);
    CREATE INDEX runs_workflow_id ON segno.runs (namespace, workflow_id);
    CREATE INDEX runs_status ON segno.runs (namespace, status, ended, start_time, run_key) WHERE status > 2;
    CREATE INDEX runs_parent ON segno.runs (namespace, parent_workflow_id) WHERE parent_workflow_id IS NOT NULL;
    CREATE INDEX runs_retrying ON segno.runs (namespace)
        WHERE activity_attempts IS NOT NULL OR task_attempts IS NOT NULL;

    -- id: run_key << 20 | first event id
    CREATE TABLE segno.history (
        id bigint PRIMARY KEY,
        last_event int NOT NULL,
        checksum int NOT NULL,
        events bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
            autovacuum_analyze_scale_factor = 0.02);
    ALTER TABLE segno.history ALTER COLUMN events SET STORAGE EXTERNAL;

    -- id: sender's run_key << 20 | sequence
    CREATE TABLE segno.outbox (
        id bigint PRIMARY KEY,
        bucket int NOT NULL,
        checksum int NOT NULL,
        message bytea NOT NULL
    );
    CREATE INDEX outbox_bucket ON segno.outbox (bucket, id);

    CREATE TABLE segno.current (
        namespace int NOT NULL,
        workflow_id bytea NOT NULL,
        run_key bigint NOT NULL,
        PRIMARY KEY (namespace, workflow_id)
    );

    -- attribute: namespace << 32 | number. One row for each value, lists have several.
    CREATE TABLE segno.attributes (
        attribute bigint NOT NULL,
        value bytea NOT NULL,
        ended bigint NOT NULL,
        start_time bigint NOT NULL,
        run_key bigint NOT NULL,
        PRIMARY KEY (attribute, value, ended, start_time, run_key)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
            autovacuum_analyze_scale_factor = 0.02);
    CREATE INDEX attributes_run ON segno.attributes (run_key);

    -- slot: of the lane that counted, so that lanes do not wait for one another
    CREATE TABLE segno.status_counts (
        namespace int NOT NULL,
        status smallint NOT NULL,
        slot smallint NOT NULL,
        runs bigint NOT NULL,
        PRIMARY KEY (namespace, status, slot)
    ) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

    CREATE TABLE segno.namespaces (
        namespace int PRIMARY KEY,
        version bigint NOT NULL,
        name text COLLATE "C" NOT NULL UNIQUE,
        detail bytea NOT NULL
    );

    -- id: run_key << 2 | slot
    CREATE TABLE segno.script_states (
        id bigint PRIMARY KEY,
        checksum int NOT NULL,
        state bytea NOT NULL
    );
    ALTER TABLE segno.script_states ALTER COLUMN state SET STORAGE EXTERNAL;

    CREATE TABLE segno.documents (
        namespace int NOT NULL,
        name text COLLATE "C" NOT NULL,
        checksum int NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (namespace, name)
    );
"#,
    r#"
    -- secret: nodes show each other that they know it
    ALTER TABLE segno.cluster ADD COLUMN secret bytea;
    UPDATE segno.cluster SET secret = uuid_send(gen_random_uuid());

    -- node: the owner; a shard whose owner has no row in nodes has none. epoch: how often it changed hands
    CREATE TABLE segno.shards (
        shard int PRIMARY KEY,
        first_bucket int NOT NULL,
        last_bucket int NOT NULL,
        node bigint,
        epoch bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
    INSERT INTO segno.shards (shard, first_bucket, last_bucket)
        SELECT s, s * 64, s * 64 + 63 FROM generate_series(0, 1023) AS s;
"#,
    r#"
    -- Grows with every change of a document that all nodes have in memory. A table of its own: a group locks its lane before it,
    -- and a node that joins locks `cluster` before lanes.
    CREATE TABLE segno.revision (
        one bool PRIMARY KEY DEFAULT true CHECK (one),
        revision bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
    INSERT INTO segno.revision DEFAULT VALUES;

    -- What each node has in memory. A table of its own: nodes of older versions use `nodes` meanwhile.
    CREATE TABLE segno.node_revisions (
        node bigint PRIMARY KEY,
        revision bigint NOT NULL
    );
"#,
];

/// The newest schema this binary knows.
pub(crate) fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("few migrations")
}

/// The table that everything else is locked by. Two that make it at the same time get in each other's way and try again.
const BEGINNING: &str = "
    CREATE SCHEMA IF NOT EXISTS segno;
    CREATE TABLE IF NOT EXISTS segno.cluster (
        one bool PRIMARY KEY DEFAULT true CHECK (one),
        id uuid NOT NULL DEFAULT gen_random_uuid(),
        schema int NOT NULL DEFAULT 0
    );
    INSERT INTO segno.cluster (one) VALUES (true) ON CONFLICT DO NOTHING;
";

/// Brings a database up to date.
pub(crate) async fn migrate(client: &Client) -> Result<(), OpenError> {
    let there = "SELECT to_regclass('segno.cluster') IS NOT NULL";
    let there: bool = client.query_one(there, &[]).await.map_err(failed)?.get(0);
    if !there {
        let mut attempts = 0;
        while let Err(error) = client.batch_execute(BEGINNING).await {
            attempts += 1;
            if attempts == 5 {
                return Err(not_made(error));
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    // New tables are not analysed: of one that is known to be empty the planner thinks that reading all of it costs nothing,
    // and generic plans made then stay. Of one it knows nothing about it expects some pages.
    for (migration, version) in MIGRATIONS.iter().zip(1_i32..) {
        let step = step(client, migration, version).await;
        if step.is_err() {
            // A transaction that failed must not stay open.
            let _ = client.batch_execute("ROLLBACK").await;
        }
        step?;
    }
    Ok(())
}

/// Why the tables are not up to date: the database refused, or it went away meanwhile, which another start may mend.
fn not_made(error: tokio_postgres::Error) -> OpenError {
    let told = crate::connect::describe(&error);
    let is_away = error.code().is_none_or(|code| code.code().starts_with("08") || code.code().starts_with("57"));
    if is_away { OpenError::Unreachable(told) } else { OpenError::Migration(told) }
}

/// One migration, unless it was made already.
async fn step(client: &Client, migration: &str, version: i32) -> Result<(), OpenError> {
    let failed = not_made;
    let schema = "SELECT schema FROM segno.cluster";
    let done: i32 = client.query_one(schema, &[]).await.map_err(failed)?.get(0);
    if done >= version && done <= newest() {
        return Ok(());
    }
    // The whole table: a lock on its row alone would end in a deadlock of two that change the table.
    client.batch_execute("BEGIN; LOCK TABLE segno.cluster IN ACCESS EXCLUSIVE MODE").await.map_err(failed)?;
    let done: i32 = client.query_one(schema, &[]).await.map_err(failed)?.get(0);
    if done > newest() {
        return Err(OpenError::NewerSchema { found: done, known: newest() });
    }
    if done < version {
        client.batch_execute(migration).await.map_err(failed)?;
        client.execute("UPDATE segno.cluster SET schema = $1", &[&version]).await.map_err(failed)?;
    }
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(())
}
