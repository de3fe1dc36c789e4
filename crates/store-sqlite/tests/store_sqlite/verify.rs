//! What `segno doctor` finds in a file that SQLite itself finds nothing wrong with.

use bytes::Bytes;
use rusqlite::Connection;
use segno_store::kit::{current, row};
use segno_store::visibility::{Closed, Value};
use segno_store::{Commit, HistoryBatch, RunKey, RunWrite, StateFacts, Store, Wait};
use segno_store_sqlite::inspect;

use crate::common::Directory;

/// A state that says `key last_event running`.
fn state(key: u64, last_event: i64, running: bool) -> Bytes {
    format!("{key} {last_event} {running}").into()
}

fn facts(state: Bytes) -> Result<StateFacts, String> {
    let text = String::from_utf8(state.to_vec()).map_err(|error| error.to_string())?;
    let parts: Vec<&str> = text.split(' ').collect();
    let [key, last_event, running] = parts[..] else { return Err("it has other parts".to_owned()) };
    let (key, is_running) = (key.parse().unwrap(), running == "true");
    let row = row(key);
    Ok(StateFacts {
        namespace: row.namespace,
        workflow_id: row.workflow_id,
        run_id: row.run_id,
        status: if is_running { 1 } else { 2 },
        is_running,
        last_event_id: last_event.parse().unwrap(),
    })
}

fn write(key: u64, version: u64, events: (i64, i64), bytes: usize, running: bool) -> RunWrite {
    let mut facts = row(key);
    facts.attributes.insert(1_000, Value::Text("x".to_owned()));
    facts.attributes.insert(1_001, Value::List(["a", "b", "a"].map(str::to_owned).into()));
    facts.attributes.insert(1_002, Value::Bool(true));
    facts.attributes.insert(1_003, Value::Double(0.1));
    if !running {
        facts.status = 2;
        facts.closed = Some(Closed { time: 5, history_length: events.1, history_bytes: 9, transitions: 1 });
    }
    RunWrite {
        key: RunKey(key),
        expected_version: version,
        state: state(key, events.1, running),
        open: running,
        wake_at: None,
        dispatchable: false,
        batches: vec![HistoryBatch {
            first_event_id: events.0,
            last_event_id: events.1,
            events: vec![7; bytes].into(),
        }],
        visibility: Some(Box::new(facts)),
    }
}

/// A running run with history in rows of its own, a closed one with all of it in its row, and one that is new.
fn filled() -> Directory {
    let directory = Directory::new();
    let store = directory.open();
    let run = |write: RunWrite| Commit { runs: vec![write], ..Commit::default() };
    let first = |write: RunWrite| Commit {
        current: vec![current(&row(write.key.0).workflow_id, None, Some(write.key.0))],
        ..run(write)
    };
    let commits = [
        first(write(1, 0, (1, 2), 3_000, true)),
        run(write(1, 1, (3, 5), 3_000, true)),
        run(write(1, 2, (6, 7), 3_000, true)),
        first(write(2, 0, (1, 3), 10, true)),
        run(write(2, 1, (4, 5), 10, false)),
        first(write(3, 0, (1, 2), 10, true)),
    ];
    for commit in commits {
        assert_eq!(store.commit(vec![commit]).wait(), [Ok(())]);
    }
    // Lists all facts.
    assert_eq!(store.runs_of_workflow(row(1).namespace, "w-1", 9).wait(), Ok(vec![RunKey(1)]));
    store.close().unwrap();
    directory
}

/// What is found after a change of the file.
fn found(change: &str) -> Vec<String> {
    let directory = filled();
    Connection::open(directory.database()).unwrap().execute_batch(change).unwrap();
    let seen = inspect(&directory.0, false, facts).unwrap();
    assert!(seen.is_read);
    seen.damage
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(found(""), Vec::<String>::new());
    let directory = filled();
    let store = directory.open();
    let write = write(3, 1, (3, 4), 10, false);
    assert_eq!(store.commit(vec![Commit { runs: vec![write], ..Commit::default() }]).wait(), [Ok(())]);
    let seen = inspect(&directory.0, true, facts).unwrap();
    assert!(seen.in_use && seen.is_read && seen.damage.is_empty(), "beside a server, with facts that wait: {seen:?}");
}

#[test]
fn each_kind_of_damage_is_found() {
    let shift = "<< 20";
    let changes: &[(&str, &str)] = &[
        (
            &format!("DELETE FROM history WHERE id = 1 {shift} | 6"),
            "run 1 has had 7 events, but its history ends with event 5",
        ),
        (&format!("DELETE FROM history WHERE id = 1 {shift} | 3"), "goes on with event 6 instead of 3"),
        (&format!("DELETE FROM history WHERE id = 1 {shift} | 1"), "goes on with event 3 instead of 1"),
        (
            "UPDATE runs SET recent_history = x'' WHERE run_key = 3",
            "run 3 has had 2 events, but its history ends with event 0",
        ),
        ("UPDATE runs SET recent_history = x'0102' WHERE run_key = 3", "newest history of run 3 does not match"),
        ("UPDATE history SET events = x'00' WHERE id & 7 = 3", "from event 3 on does not match its checksum"),
        ("UPDATE runs SET state = x'00' WHERE run_key = 2", "run 2 does not match its checksum"),
        ("UPDATE runs SET open = 1 WHERE run_key = 2", "run 2 does not match its checksum"),
        ("DELETE FROM runs WHERE run_key = 1", "history names run 1, which is not there"),
        ("DELETE FROM current WHERE workflow_id = 'w-1'", "does not lead to it"),
        ("UPDATE current SET run_key = 3 WHERE workflow_id = 'w-1'", "current pointer of w-1 does not match"),
        ("DELETE FROM runs WHERE run_key = 3", "current pointer of a workflow id names run 3"),
        ("DELETE FROM visibility WHERE run_key = 1", "run 1 (workflow id \"w-1\") is in no list"),
        ("UPDATE visibility SET status = 2 WHERE run_key = 1", "status 2, which it does not have"),
        ("UPDATE visibility SET workflow_type = 'T' WHERE run_key = 1", "row of lists of run 1 does not match"),
        (
            "UPDATE visibility SET start_time = 7 WHERE run_key = 1",
            "run 1 is not found by one of its search attributes",
        ),
        ("UPDATE attributes SET value = 'y' WHERE value = 'x'", "search attribute of run 1 does not match"),
        ("DELETE FROM attributes WHERE value = 'b'", "run 2 is not found by one of its search attributes"),
        ("DELETE FROM attributes WHERE value = 0.1", "run 3 is not found by one of its search attributes"),
        ("UPDATE status_counts SET runs = runs + 1 WHERE status = 2", "namespace 1 with status 2 is wrong"),
        ("DELETE FROM status_counts WHERE status = 1", "namespace 1 with status 1 is wrong"),
        ("UPDATE pending_facts SET slot = zeroblob(2000)", "wait to be listed"),
    ];
    for (change, expected) in changes {
        let found = found(change);
        assert!(found.iter().any(|text| text.contains(expected)), "{change}: {found:?}");
    }
}

#[test]
fn an_index_that_lost_an_entry_is_found() {
    let change = "PRAGMA writable_schema = ON; \
                  UPDATE sqlite_schema SET sql = 'CREATE INDEX visibility_type ON visibility (namespace, workflow_id, ended, start_time, status)' \
                  WHERE name = 'visibility_type'; PRAGMA writable_schema = OFF;";
    assert!(!found(change).is_empty());
}

#[test]
fn much_damage_is_told_in_part() {
    let mut found = found(
        "UPDATE attributes SET checksum = 0; UPDATE history SET checksum = 0; UPDATE current SET checksum = 0; \
                           UPDATE visibility SET start_time = 1;",
    );
    assert!(found.len() <= 21);
    assert!(found.pop().is_some_and(|last| last.starts_with("and ")), "{found:?}");
}
