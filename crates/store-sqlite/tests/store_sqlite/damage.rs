//! Runs that are damaged in the file: they are told apart from the others, listed, and can be deleted.

use crate::common::{Directory, commit};
use rusqlite::Connection;
use segno_store::kit::{current, outbox_row, row};
use segno_store::visibility::{Attribute, Comparison, Filter, Kind, ListQuery, ListedRun, Order, Value};
use segno_store::{Commit, CurrentReset, NamespaceKey, ReadError, RunKey, Store, Wait};
use segno_store_sqlite::SqliteStore;

const NAMESPACE: NamespaceKey = NamespaceKey(1);

/// A store with three runs, the first of which has all that a run can have. `change` is made to its file.
fn changed(change: &str) -> (Directory, SqliteStore) {
    let directory = Directory::new();
    let store = directory.open();
    let mut one = commit(1, 0, 3_000);
    let facts = one.runs[0].visibility.as_mut().unwrap();
    facts.attributes.insert(1_000, Value::Text("x".to_owned()));
    facts.attributes.insert(1_001, Value::List(["a", "b", "a"].map(str::to_owned).into()));
    one.outbox_add.push(outbox_row(1, 3, "a message"));
    one.current.push(current("w-1", None, Some(1)));
    assert_eq!(store.commit(vec![one, commit(2, 0, 10), commit(3, 0, 10)]).wait(), [Ok(()), Ok(()), Ok(())]);
    assert_eq!(list(&store).len(), 3);
    store.close().unwrap();
    Connection::open(directory.database()).unwrap().execute_batch(change).unwrap();
    let store = directory.open();
    (directory, store)
}

fn list(store: &SqliteStore) -> Vec<ListedRun> {
    let filter = Filter::All(Vec::new());
    let query = ListQuery { namespace: NAMESPACE, filter, order: Order::Newest, as_of: 1, after: None, limit: 9 };
    store.list(&query).wait().unwrap().runs
}

fn rows(directory: &Directory, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    Connection::open(directory.database()).unwrap().query_row(&count, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_damaged_run_is_listed_among_the_others_and_its_facts_tell_what_it_is() {
    let (_directory, store) = changed("UPDATE runs SET state = x'00' WHERE run_key = 1");
    assert!(matches!(store.load(RunKey(1)).wait(), Err(ReadError::Damaged(_))));
    assert_eq!(store.version(RunKey(1)).wait(), Ok(Some(1)), "a write that replaces it can build on it");
    let listed = list(&store);
    assert_eq!(listed.iter().map(|run| run.key.0).collect::<Vec<_>>(), [3, 2, 1]);
    assert!(listed[0].state.is_ok() && listed[1].state.is_ok());
    assert!(matches!(listed[2].state, Err(ReadError::Damaged(_))), "{:?}", listed[2]);
    let facts = store.facts(RunKey(1)).wait().unwrap().unwrap();
    assert_eq!((facts.workflow_id, facts.run_id), (row(1).workflow_id, row(1).run_id));
    assert_eq!(store.runs_of_workflow(NAMESPACE, "w-1", 9).wait(), Ok(vec![RunKey(1)]));
}

#[test]
fn a_damaged_run_can_be_deleted_whatever_is_damaged() {
    let changes = [
        "UPDATE runs SET state = x'00' WHERE run_key = 1",
        "UPDATE runs SET recent_history = x'00' WHERE run_key = 1",
        "DELETE FROM runs WHERE run_key = 1",
        "UPDATE history SET checksum = 0",
        "UPDATE outbox SET message = x'00'",
        "UPDATE visibility SET attributes = '{\"1000' WHERE run_key = 1",
        "UPDATE visibility SET attributes = NULL, namespace = 7 WHERE run_key = 1",
        "UPDATE visibility SET status = 99999999999 WHERE run_key = 1",
        "UPDATE visibility SET start_time = 0 WHERE run_key = 1",
        "UPDATE attributes SET value = 'y' WHERE value = 'x'",
        "DELETE FROM attributes WHERE value = 'a'",
        "DELETE FROM visibility WHERE run_key = 1",
    ];
    for change in changes {
        let (directory, store) = changed(change);
        let reset = CurrentReset { namespace: NAMESPACE, workflow_id: "w-1".to_owned(), current: None };
        let delete = Commit { delete_runs: vec![RunKey(1)], current_reset: vec![reset], ..Commit::default() };
        assert_eq!(store.commit(vec![delete]).wait(), [Ok(())], "{change}");
        assert_eq!(list(&store).len(), 2, "{change}");
        assert_eq!(store.current(NAMESPACE, "w-1").wait(), Ok(None), "{change}");
        store.close().unwrap();
        for (table, left) in [("runs", 2), ("history", 0), ("outbox", 0), ("visibility", 2), ("attributes", 0)] {
            assert_eq!(rows(&directory, table), left, "{change}: {table}");
        }
    }
}

/// A changed pointer is told from a right one; what it should be is found without it.
#[test]
fn a_damaged_current_pointer_is_noticed_and_can_be_set_right() {
    for change in ["run_key = 2", "namespace = 1, run_key = 3", "checksum = checksum + 1"] {
        let (_directory, store) = changed(&format!("UPDATE current SET {change}"));
        let found = store.current(NAMESPACE, "w-1").wait();
        assert!(matches!(found, Err(ReadError::Damaged(_))), "{change}: {found:?}");
        let newest = store.runs_of_workflow(NAMESPACE, "w-1", 1).wait().unwrap().remove(0);
        let reset = CurrentReset { namespace: NAMESPACE, workflow_id: "w-1".to_owned(), current: Some(newest) };
        assert_eq!(store.commit(vec![Commit { current_reset: vec![reset], ..Commit::default() }]).wait(), [Ok(())]);
        assert_eq!(store.current(NAMESPACE, "w-1").wait(), Ok(Some(RunKey(1))));
    }
    // A row that says another workflow id.
    let (_directory, store) = changed("UPDATE current SET workflow_id = 'w-2'");
    assert!(matches!(store.current(NAMESPACE, "w-2").wait(), Err(ReadError::Damaged(_))));
}

/// Rows that lists read: a damaged one is noticed by the lists and counts that come across it.
#[test]
fn damaged_rows_of_lists_are_noticed() {
    let find = |text: &str| {
        let k = Attribute::Numbered(1_000, Kind::Keyword);
        Filter::Compare(k, Comparison::Equal, Value::Text(text.to_owned()))
    };
    for (change, filter) in [
        ("UPDATE attributes SET value = 'y' WHERE value = 'x'", find("y")),
        ("UPDATE attributes SET ended = 5 WHERE value = 'x'", find("x")),
        ("UPDATE attributes SET run_key = 2 WHERE value = 'x'", find("x")),
        ("UPDATE attributes SET checksum = 0", find("x")),
    ] {
        let (_directory, store) = changed(change);
        let query =
            ListQuery { namespace: NAMESPACE, filter, order: Order::Newest, as_of: 1_000, after: None, limit: 9 };
        let listed = store.list(&query).wait();
        assert!(matches!(listed, Err(ReadError::Damaged(_))), "{change}: {listed:?}");
        let counted = store.count(NAMESPACE, &query.filter, None).wait();
        assert!(matches!(counted, Err(ReadError::Damaged(_))), "{change}: {counted:?}");
        assert_eq!(list(&store).len(), 3, "{change}: others go on");
    }
    for change in ["status = 3", "workflow_type = 'other'", "task_failure = ''", "attributes = NULL", "checksum = 0"] {
        let (_directory, store) = changed(&format!("UPDATE visibility SET {change} WHERE run_key = 1"));
        let listed = list(&store);
        let damaged: Vec<_> = listed.iter().filter(|run| run.state.is_err()).map(|run| run.key.0).collect();
        assert_eq!((listed.len(), damaged), (3, vec![1]), "{change}");
        assert!(matches!(store.facts(RunKey(1)).wait(), Err(ReadError::Damaged(_))), "{change}");
    }
}
