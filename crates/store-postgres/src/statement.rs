//! The statement that makes a group of commits.
//!
//! Data-modifying CTEs over arrays: one message, one round trip, one transaction. The statement checks its conditions
//! itself, and a violation is an error, so that it is rolled back: division by zero (22012) if the commit sequence's row has
//! another number, logarithm of zero (2201E) if a version or a pointer differs, 23505 if a key exists, square root of a
//! negative number (2201F) if the form without attribute entries would leave some behind.

use std::sync::LazyLock;

use crate::schema::REVISION_STEP;
use segno_store::sabotage;

/// Columns of the runs of a group, in the order of their arrays: name and type.
pub(crate) const RUN_COLUMNS: [(&str, &str); 33] = [
    ("k", "int8"),
    ("x", "int8"),
    ("v", "int8"),
    ("fresh", "bool"),
    ("open", "bool"),
    ("dispatchable", "bool"),
    ("held", "bool"),
    ("wake_at", "int8"),
    ("checksum", "int4"),
    ("state", "bytea"),
    ("f", "bool"),
    ("namespace", "int4"),
    ("bucket", "int4"),
    ("start_time", "int8"),
    ("execution_time", "int8"),
    ("workflow_type", "text"),
    ("workflow_id", "bytea"),
    ("run_id", "uuid"),
    ("task_queue", "text"),
    ("parent_workflow_id", "bytea"),
    ("parent_run_id", "uuid"),
    ("root_workflow_id", "bytea"),
    ("root_run_id", "uuid"),
    ("ended", "int8"),
    ("status", "int2"),
    ("history_length", "int8"),
    ("history_bytes", "int8"),
    ("transitions", "int8"),
    ("activity_attempts", "int4"),
    ("activity_failure", "text"),
    ("task_attempts", "int4"),
    ("task_failure", "text"),
    ("attributes", "text"),
];

/// The columns of a run's row besides `run_key`, `version` and those of [`CHANGING`].
const FIXED: [&str; 12] = [
    "namespace",
    "bucket",
    "start_time",
    "execution_time",
    "workflow_type",
    "workflow_id",
    "run_id",
    "task_queue",
    "parent_workflow_id",
    "parent_run_id",
    "root_workflow_id",
    "root_run_id",
];

/// Facts that change after the start.
const CHANGING: [&str; 9] = [
    "ended",
    "status",
    "history_length",
    "history_bytes",
    "transitions",
    "activity_attempts",
    "activity_failure",
    "task_attempts",
    "task_failure",
];

const ALWAYS: [&str; 6] = ["open", "dispatchable", "held", "wake_at", "checksum", "state"];

/// Puts the text together and hands out numbers of parameters.
struct Text {
    text: String,
    next: usize,
}

impl Text {
    fn arrays(&mut self, types: &[&str]) -> String {
        let one = |(place, kind): (usize, &&str)| format!("${}::{kind}[]", self.next + place);
        let all: Vec<_> = types.iter().enumerate().map(one).collect();
        self.next += types.len();
        all.join(", ")
    }

    fn one(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("${}::{kind}", self.next - 1)
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

/// Groups that begin and change runs without attributes, which is almost all there are.
pub(crate) static USUAL: LazyLock<String> = LazyLock::new(|| build(Form::Usual));

/// Groups that begin and change runs, some with attributes.
pub(crate) static ENTRIES: LazyLock<String> = LazyLock::new(|| build(Form::Entries));

/// Groups with anything else.
pub(crate) static ALL: LazyLock<String> = LazyLock::new(|| build(Form::All));

/// A part of the statement costs the database something even if it has nothing to do, with every group anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Usual,
    Entries,
    All,
}

/// The parameters are, in order: node, commit sequence, group, slot, the arrays of [`RUN_COLUMNS`], history (id, last event, checksum,
/// events), new pointers (namespace, workflow id, run); then entries (attribute, value, ended, start time, run) except in
/// the usual form; in the long form then those that `all` names.
fn build(form: Form) -> String {
    let (entries, long) = (form != Form::Usual, form == Form::All);
    let mut sql = Text { text: String::with_capacity(8 * 1024), next: 5 };
    sql.push(
        "WITH fence AS (UPDATE segno.lanes SET last_group = $3 WHERE node = $1 AND lane = $2 AND last_group = $3::int8 - 1 \
         RETURNING 1), ",
    );
    let types: Vec<_> = RUN_COLUMNS.iter().map(|(_, kind)| *kind).collect();
    let names: Vec<_> = RUN_COLUMNS.iter().map(|(name, _)| *name).collect();
    let arrays = sql.arrays(&types);
    let names = names.join(", ");
    sql.push(&format!("inp AS MATERIALIZED (SELECT * FROM unnest({arrays}) AS i({names})), "));
    let always = ALWAYS.map(|name| format!("{name} = i.{name}")).join(", ");
    let changing = CHANGING.map(|name| format!("{name} = CASE WHEN i.f THEN i.{name} ELSE r.{name} END")).join(", ");
    sql.push(&format!(
        "upd AS (UPDATE segno.runs r SET version = i.v, {always}, {changing}, \
         attributes = CASE WHEN i.f THEN i.attributes::jsonb ELSE r.attributes END \
         FROM inp i WHERE NOT i.fresh AND r.run_key = i.k AND r.version = i.x RETURNING 1), "
    ));
    let columns = [&FIXED[..], &CHANGING[..], &ALWAYS[..]].concat();
    let values = columns.iter().map(|name| format!("i.{name}")).collect::<Vec<_>>().join(", ");
    let columns = columns.join(", ");
    sql.push(&format!(
        "new AS (INSERT INTO segno.runs (run_key, version, attributes, {columns}) \
         SELECT i.k, i.v, i.attributes::jsonb, {values} FROM inp i WHERE i.fresh), "
    ));
    let arrays = sql.arrays(&["int8", "int4", "int4", "bytea"]);
    sql.push(&format!(
        "his AS (INSERT INTO segno.history (id, last_event, checksum, events) SELECT * FROM unnest({arrays})), "
    ));
    let arrays = sql.arrays(&["int4", "bytea", "int8"]);
    sql.push(&format!(
        "cur AS (INSERT INTO segno.current (namespace, workflow_id, run_key) SELECT * FROM unnest({arrays})), "
    ));
    if entries {
        let arrays = sql.arrays(&["int8", "bytea", "int8", "int8", "int8"]);
        // An entry that stays as it is must not be removed and added in one statement.
        sql.push(&format!(
            "ent AS MATERIALIZED (SELECT * FROM unnest({arrays}) AS e(attribute, value, ended, start_time, run_key)), \
             uat AS (DELETE FROM segno.attributes a USING inp i WHERE i.f AND NOT i.fresh AND a.run_key = i.k \
             AND (a.attribute, a.value, a.ended, a.start_time, a.run_key) NOT IN \
             (SELECT attribute, value, ended, start_time, run_key FROM ent)), \
             att AS (INSERT INTO segno.attributes (attribute, value, ended, start_time, run_key) \
             SELECT attribute, value, ended, start_time, run_key FROM ent ON CONFLICT DO NOTHING), "
        ));
    }
    let deleted = if long { all(&mut sql) } else { None };
    // What runs were before is what the statement's snapshot shows.
    let gone = deleted.map_or_else(String::new, |deleted| {
        format!(" UNION ALL SELECT r.namespace, r.status, -1 FROM segno.runs r WHERE r.run_key = ANY({deleted})")
    });
    sql.push(&format!(
        "old AS MATERIALIZED (SELECT r.namespace, r.status, r.attributes IS NOT NULL AS has_entries \
         FROM inp i JOIN segno.runs r ON r.run_key = i.k WHERE i.f AND NOT i.fresh), \
         cnt AS (INSERT INTO segno.status_counts AS c (namespace, status, slot, runs) \
         SELECT d.namespace, d.status, $4, sum(d.runs) FROM (\
         SELECT i.namespace, i.status, 1 AS runs FROM inp i WHERE i.f UNION ALL \
         SELECT namespace, status, -1 FROM old{gone}\
         ) d GROUP BY d.namespace, d.status HAVING sum(d.runs) <> 0 \
         ON CONFLICT (namespace, status, slot) DO UPDATE SET runs = c.runs + excluded.runs) "
    ));
    let more =
        if long { " AND (SELECT count(*) FROM mov) = (SELECT count(*) FROM mvi) AND (SELECT ok FROM chk)" } else { "" };
    let same = if sabotage::is_on("no-version") { "true OR " } else { "" };
    sql.push(&format!(
        "SELECT 1 / (SELECT count(*) FROM fence), ln((CASE WHEN {same}(SELECT count(*) FROM upd) = \
         (SELECT count(*) FROM inp WHERE NOT fresh){more} THEN 1 ELSE 0 END)::float8)"
    ));
    if !entries {
        sql.push(", sqrt((CASE WHEN (SELECT count(*) FROM old WHERE has_entries) = 0 THEN 1 ELSE -1 END)::float8)");
    }
    sql.text
}

/// The parts that few groups need. Gives the parameter with the runs to delete.
fn all(sql: &mut Text) -> Option<String> {
    // Pointers from one run to another, or to none: namespace, workflow id, expected, new.
    let arrays = sql.arrays(&["int4", "bytea", "int8", "int8"]);
    sql.push(&format!(
        "mvi AS MATERIALIZED (SELECT * FROM unnest({arrays}) AS i(namespace, workflow_id, expected, run_key)), \
         mvu AS (UPDATE segno.current c SET run_key = i.run_key FROM mvi i WHERE i.run_key IS NOT NULL \
         AND c.namespace = i.namespace AND c.workflow_id = i.workflow_id AND c.run_key = i.expected RETURNING 1), \
         mvd AS (DELETE FROM segno.current c USING mvi i WHERE i.run_key IS NULL \
         AND c.namespace = i.namespace AND c.workflow_id = i.workflow_id AND c.run_key = i.expected RETURNING 1), \
         mov AS (SELECT * FROM mvu UNION ALL SELECT * FROM mvd), "
    ));
    // Pointers that are set regardless of their values: namespace, workflow id, new.
    let arrays = sql.arrays(&["int4", "bytea", "int8"]);
    sql.push(&format!(
        "rsi AS MATERIALIZED (SELECT * FROM unnest({arrays}) AS i(namespace, workflow_id, run_key)), \
         rsu AS (INSERT INTO segno.current (namespace, workflow_id, run_key) SELECT * FROM rsi \
         WHERE run_key IS NOT NULL ON CONFLICT (namespace, workflow_id) DO UPDATE SET run_key = excluded.run_key), \
         rsd AS (DELETE FROM segno.current c USING rsi i WHERE i.run_key IS NULL AND c.namespace = i.namespace \
         AND c.workflow_id = i.workflow_id), "
    ));
    // Messages: id, bucket if the sender is new, checksum, message; ids that arrived.
    let arrays = sql.arrays(&["int8", "int4", "int4", "bytea"]);
    let arrived = sql.arrays(&["int8"]);
    sql.push(&format!(
        "box AS (INSERT INTO segno.outbox (id, bucket, checksum, message) SELECT i.id, \
         coalesce(i.bucket, (SELECT r.bucket FROM segno.runs r WHERE r.run_key = i.id >> 20), 0), i.checksum, i.message \
         FROM unnest({arrays}) AS i(id, bucket, checksum, message)), \
         del AS (DELETE FROM segno.outbox WHERE id = ANY({arrived})), "
    ));
    // Script states: id, checksum, state.
    let arrays = sql.arrays(&["int8", "int4", "bytea"]);
    sql.push(&format!(
        "scr AS (INSERT INTO segno.script_states (id, checksum, state) SELECT * FROM unnest({arrays}) \
         ON CONFLICT (id) DO UPDATE SET checksum = excluded.checksum, state = excluded.state), "
    ));
    // Histories that become shorter: id, last event, checksum, events; ranges of ids that go.
    let arrays = sql.arrays(&["int8", "int4", "int4", "bytea"]);
    let ranges = sql.arrays(&["int8", "int8"]);
    sql.push(&format!(
        "cpi AS MATERIALIZED (SELECT * FROM unnest({arrays}) AS i(id, last_event, checksum, events)), \
         cpd AS (DELETE FROM segno.history h USING unnest({ranges}) AS g(first, last) \
         WHERE h.id >= g.first AND h.id <= g.last AND h.id NOT IN (SELECT id FROM cpi)), \
         cpu AS (INSERT INTO segno.history (id, last_event, checksum, events) SELECT * FROM cpi ON CONFLICT (id) \
         DO UPDATE SET last_event = excluded.last_event, checksum = excluded.checksum, events = excluded.events), "
    ));
    // Documents: namespace, name, checksum, content; those to remove.
    let arrays = sql.arrays(&["int4", "text", "int4", "bytea"]);
    let removed = sql.arrays(&["int4", "text"]);
    sql.push(&format!(
        "doc AS (INSERT INTO segno.documents (namespace, name, checksum, content) SELECT * FROM unnest({arrays}) \
         ON CONFLICT (namespace, name) DO UPDATE SET checksum = excluded.checksum, content = excluded.content), \
         ddo AS (DELETE FROM segno.documents d USING unnest({removed}) AS i(namespace, name) \
         WHERE d.namespace = i.namespace AND d.name = i.name), "
    ));
    // Whether all nodes have some of these documents in memory.
    let revises = sql.one("bool");
    sql.push(&format!("rev AS (UPDATE segno.revision SET revision = revision + {REVISION_STEP} WHERE {revises}), "));
    // Runs to delete.
    let deleted = sql.arrays(&["int8"]);
    sql.push(&format!(
        "dru AS (DELETE FROM segno.runs WHERE run_key = ANY({deleted})), \
         dat AS (DELETE FROM segno.attributes WHERE run_key = ANY({deleted})), \
         dhi AS (DELETE FROM segno.history h USING unnest({deleted}) AS d(k) \
         WHERE h.id >= d.k << 20 AND h.id <= (d.k << 20 | 1048575)), \
         dou AS (DELETE FROM segno.outbox o USING unnest({deleted}) AS d(k) \
         WHERE o.id >= d.k << 20 AND o.id <= (d.k << 20 | 1048575)), \
         dsc AS (DELETE FROM segno.script_states s USING unnest({deleted}) AS d(k) \
         WHERE s.id >= d.k << 2 AND s.id <= (d.k << 2 | 3)), "
    ));
    // What must be so and is not changed: versions of runs (0: absent), messages, pointers and batches that are not there.
    let versions = sql.arrays(&["int8", "int8"]);
    let messages = sql.arrays(&["int8"]);
    let pointers = sql.arrays(&["int4", "bytea"]);
    let batches = sql.arrays(&["int8"]);
    sql.push(&format!(
        "chk AS (SELECT NOT EXISTS (SELECT 1 FROM unnest({versions}) AS i(k, x) \
         LEFT JOIN segno.runs r ON r.run_key = i.k WHERE coalesce(r.version, 0) <> i.x) \
         AND NOT EXISTS (SELECT 1 FROM segno.outbox WHERE id = ANY({messages})) \
         AND NOT EXISTS (SELECT 1 FROM unnest({pointers}) AS i(namespace, workflow_id) JOIN segno.current c \
         ON c.namespace = i.namespace AND c.workflow_id = i.workflow_id) \
         AND NOT EXISTS (SELECT 1 FROM segno.history WHERE id = ANY({batches})) AS ok), "
    ));
    Some(deleted)
}
