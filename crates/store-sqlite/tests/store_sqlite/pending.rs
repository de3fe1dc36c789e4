//! Facts that wait to be listed: what a crash, a conflict or a flipped byte leaves of them.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{Directory, commit};
use rusqlite::Connection;
use segno_store::kit::row;
use segno_store::visibility::{Attribute, Closed, Filter, Value, VisibilityRow};
use segno_store::{Commit, CommitError, NamespaceKey, RunKey, Store, Wait};
use segno_store_sqlite::{OpenError, Options, SqliteStore};

/// A commit with facts that have an attribute and tell the version.
fn with_facts(key: u64, version: u64, text: &str) -> Commit {
    let mut commit = commit(key, version, 10);
    let number = i64::try_from(version).unwrap();
    let closed = Closed { time: 1_000 + number, history_length: number, history_bytes: 1, transitions: 1 };
    let is_closed = version % 2 == 1;
    commit.runs[0].visibility = Some(Box::new(VisibilityRow {
        status: if is_closed { 2 } else { 1 },
        closed: is_closed.then_some(closed),
        attributes: BTreeMap::from([(1_000, Value::Text(text.to_owned())), (1_001, Value::Int(number))]),
        ..row(key)
    }));
    commit
}

/// What the tables that lists read say, but for counts of nothing.
fn tables(directory: &Directory) -> Vec<String> {
    let file = Connection::open(directory.database()).unwrap();
    let mut all = Vec::new();
    for select in [
        "SELECT * FROM visibility ORDER BY run_key",
        "SELECT * FROM attributes ORDER BY attribute, value, run_key",
        "SELECT * FROM status_counts WHERE runs <> 0 ORDER BY namespace, status",
    ] {
        let mut statement = file.prepare(select).unwrap();
        let columns = statement.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            Ok((0..columns)
                .map(|column| format!("{:?} ", row.get::<_, rusqlite::types::Value>(column).unwrap()))
                .collect::<String>())
        };
        all.extend(statement.query_map([], text).unwrap().map(Result::unwrap));
    }
    all
}

/// Has everything listed, closes the store and reads the tables.
fn listed(store: SqliteStore, directory: &Directory) -> Vec<String> {
    count(&store);
    store.close().unwrap();
    tables(directory)
}

fn count(store: &SqliteStore) -> Vec<(Option<Value>, u64)> {
    let every = Filter::All(Vec::new());
    let counts = store.count(NamespaceKey(1), &every, Some(Attribute::ExecutionStatus)).wait().unwrap();
    counts.into_iter().map(|count| (count.group, count.runs)).collect()
}

/// The files as they are while the server runs, as a kill leaves them.
fn copied(directory: &Directory) -> Directory {
    let copy = Directory::new();
    fs::create_dir(&copy.0).unwrap();
    for name in ["segno.db", "segno.db-wal"] {
        if directory.0.join(name).exists() {
            fs::copy(directory.0.join(name), copy.0.join(name)).unwrap();
        }
    }
    copy
}

/// Whenever the server is killed, the next one lists the same as if each commit had been listed at once.
#[test]
fn facts_survive_a_hard_stop() {
    let (waiting, prompt) = (Directory::new(), Directory::new());
    let (store, other) = (waiting.open(), prompt.open());
    // Long enough that there are several slots, all facts are listed several times, and a fact lies in two of them.
    let text = "x".repeat(300);
    for step in 0..90 {
        let (key, version) = (1 + step % 30, step / 30);
        for store in [&store, &other] {
            let group = [with_facts(key, version, &text), with_facts(100 + step, 0, "short")];
            assert_eq!(store.commit(group.to_vec()).wait(), [Ok(()), Ok(())]);
        }
        count(&other);
        if step % 5 == 4 {
            let copy = copied(&waiting);
            let expected = copied(&prompt);
            assert_eq!(listed(copy.open(), &copy), listed(expected.open(), &expected), "after step {step}");
        }
        if step % 40 == 39 {
            // Asked for in between, it begins anew.
            assert_eq!(count(&store), count(&other));
        }
    }
    assert_eq!(listed(store, &waiting), listed(other, &prompt));
}

#[test]
fn a_clean_stop_keeps_what_waits() {
    let directory = Directory::new();
    for key in 1..5 {
        let store = directory.open();
        assert_eq!(store.commit(vec![with_facts(key, 0, "a")]).wait(), [Ok(())]);
        store.close().unwrap();
    }
    assert_eq!(count(&directory.open()), [(Some(Value::Int(1)), 4)]);
}

/// A group whose facts are longer than the slots is listed at once, and the next ones wait again.
#[test]
fn much_is_listed_at_once() {
    let directory = Directory::new();
    let store = directory.open();
    let long = "y".repeat(40_000);
    for key in 1..4 {
        assert_eq!(
            store.commit(vec![with_facts(2 * key, 0, "short"), with_facts(2 * key + 1, 0, &long)]).wait(),
            [Ok(()), Ok(())]
        );
        let copy = copied(&directory);
        assert_eq!(count(&copy.open()), [(Some(Value::Int(1)), 2 * key)]);
        assert_eq!(
            store.commit(vec![with_facts(100 + key, 0, "short"), with_facts(100 + key, 1, "short")]).wait(),
            [Ok(()), Ok(())]
        );
        assert_eq!(
            store.commit(vec![Commit { delete_runs: vec![RunKey(100 + key)], ..Commit::default() }]).wait(),
            [Ok(())]
        );
    }
    let file = Connection::open(directory.database()).unwrap();
    let slots: i64 = file.query_row("SELECT count(*) FROM pending_facts", [], |row| row.get(0)).unwrap();
    assert!(slots <= 12, "{slots} slots");
}

#[test]
fn a_conflict_leaves_no_facts() {
    let directory = Directory::new();
    let store = directory.open();
    assert_eq!(store.commit(vec![with_facts(1, 0, "first"), with_facts(2, 0, "first")]).wait(), [Ok(()), Ok(())]);
    // It writes facts before it turns out to be in conflict; of the others, one has what waits listed.
    let mut late = with_facts(3, 0, "never");
    late.runs.extend(with_facts(1, 7, "never").runs);
    let mut deleting = with_facts(4, 0, "fourth");
    deleting.delete_runs.push(RunKey(2));
    let group =
        [late.clone(), with_facts(1, 1, "second"), deleting, with_facts(1, 1, "never"), late, with_facts(5, 0, "last")];
    let conflict = Err(CommitError::Conflict);
    assert_eq!(
        store.commit(group.to_vec()).wait(),
        [conflict.clone(), Ok(()), Ok(()), conflict.clone(), conflict, Ok(())]
    );

    let copy = copied(&directory);
    assert_eq!(listed(copy.open(), &copy), listed(store, &directory));
    let all = tables(&directory).join("\n");
    assert!(all.contains("second") && all.contains("fourth") && all.contains("last"), "{all}");
    assert!(!all.contains("never") && !all.contains("first"), "{all}");
    assert_eq!(count(&directory.open()), [(Some(Value::Int(1)), 2), (Some(Value::Int(2)), 1)]);
}

#[test]
fn a_flipped_byte_in_a_slot_is_found() {
    let directory = Directory::new();
    let store = directory.open();
    assert_eq!(store.commit(vec![with_facts(1, 0, "easy to find")]).wait(), [Ok(())]);
    store.close().unwrap();
    let mut content = fs::read(directory.database()).unwrap();
    let place = content.windows(12).position(|window| window == b"easy to find").expect("stored as it is");
    content[place] ^= 0x10;
    fs::write(directory.database(), content).unwrap();
    let error = SqliteStore::open(&directory.0, Options::default()).expect_err("must be refused");
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
}

/// A file of the version before, in which facts waited as rows.
#[test]
fn what_waited_in_an_older_file_is_listed() {
    let directory = Directory::new();
    let store = directory.open();
    let value = |key: u64| match key {
        2 => Value::Bool(true),
        3 => Value::Double(0.1 + 0.2),
        4 => Value::List(vec!["a".to_owned(), "b\"c".to_owned()]),
        _ => Value::Double(2.0),
    };
    for version in 0..2 {
        let group: Vec<_> = (1..=5)
            .map(|key| {
                let mut commit = with_facts(key, version, "text");
                commit.runs[0].visibility.as_mut().unwrap().attributes.insert(1_002, value(key));
                commit
            })
            .collect();
        assert!(store.commit(group.to_vec()).wait().iter().all(Result::is_ok));
    }
    let expected = listed(store, &directory);

    // Of run 1 nothing waited. Run 2 was not listed, of run 3 its start was; of run 4 three facts waited; run 5 was
    // listed as it is.
    let file = Connection::open(directory.database()).unwrap();
    file.execute_batch(include_str!("facts_of_schema_3.sql")).unwrap();
    drop(file);
    assert_ne!(tables(&directory), expected);
    let store = directory.open();
    assert_eq!(listed(store, &directory), expected);
    // And can be changed and removed.
    let store = directory.open();
    for key in 1..=5 {
        assert_eq!(
            store.commit(vec![with_facts(key, 2, "after"), with_facts(key, 3, "after")]).wait(),
            [Ok(()), Ok(())]
        );
        assert_eq!(store.commit(vec![Commit { delete_runs: vec![RunKey(key)], ..Commit::default() }]).wait(), [Ok(())]);
    }
    assert_eq!(listed(store, &directory), Vec::<String>::new());
}
