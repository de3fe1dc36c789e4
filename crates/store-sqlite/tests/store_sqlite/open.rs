//! Opening: who is refused and with which words, and what a crash leaves.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use crate::common::{Directory, commit};
use rusqlite::Connection;
use segno_store::visibility::{Attribute, Comparison, Filter, Kind, ListQuery, Order, Value};
use segno_store::{NamespaceKey, ReadError, RunKey, Store, Wait};
use segno_store_sqlite::{OpenError, Options, SqliteStore};

fn refused(directory: &Directory) -> OpenError {
    SqliteStore::open(&directory.0, Options::default()).expect_err("must be refused")
}

#[test]
fn a_second_server_is_refused() {
    let directory = Directory::new();
    let store = directory.open();
    let error = refused(&directory);
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(directory.0.to_str().unwrap()) && message.contains("Stop that server"), "{message}");
    assert!(message.contains(&format!("(process {})", std::process::id())), "{message}");
    assert_eq!(store.commit(vec![commit(1, 0, 10)]).wait(), [Ok(())], "the first one goes on");
    drop(store);
    directory.open();
}

#[test]
fn files_are_private() {
    let directory = Directory::new();
    let store = directory.open();
    assert_eq!(store.commit(vec![commit(1, 0, 10)]).wait(), [Ok(())]);
    assert_eq!(fs::metadata(&directory.0).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&directory.0).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
}

#[test]
fn what_is_no_data_directory_is_refused() {
    let directory = Directory::new();
    fs::create_dir(&directory.0).unwrap();
    fs::write(directory.0.join("file"), "x").unwrap();
    let inside = SqliteStore::open(&directory.0.join("file"), Options::default()).expect_err("a file");
    assert!(matches!(inside, OpenError::NotADirectory { .. }), "{inside:?}");
    fs::create_dir(directory.database()).unwrap();
    assert!(matches!(refused(&directory), OpenError::Unusable { .. }));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_kept() {
    let directory = Directory::new();
    fs::create_dir(&directory.0).unwrap();
    for content in [&b"hello"[..], &[7; 10_000]] {
        fs::write(directory.database(), content).unwrap();
        assert!(matches!(refused(&directory), OpenError::NotADatabase { .. }));
        assert_eq!(fs::read(directory.database()).unwrap(), content);
    }
}

#[test]
fn a_foreign_database_is_refused_and_kept() {
    let directory = Directory::new();
    fs::create_dir(&directory.0).unwrap();
    let foreign = Connection::open(directory.database()).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (a); PRAGMA user_version = 1;").unwrap();
    drop(foreign);
    let before = fs::read(directory.database()).unwrap();
    assert!(matches!(refused(&directory), OpenError::NotSegno { .. }));
    assert_eq!(fs::read(directory.database()).unwrap(), before);
}

#[test]
fn a_newer_schema_is_refused_and_kept() {
    let directory = Directory::new();
    drop(directory.open());
    Connection::open(directory.database()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(directory.database()).unwrap();
    let error = refused(&directory);
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
    assert_eq!(fs::read(directory.database()).unwrap(), before);
}

#[test]
fn a_damaged_file_is_refused() {
    let directory = Directory::new();
    let store = directory.open();
    for key in 1..200 {
        assert_eq!(store.commit(vec![commit(key, 0, 600)]).wait(), [Ok(())]);
    }
    drop(store);
    let whole = fs::read(directory.database()).unwrap();

    // Cut short, at a page and within one.
    for length in [whole.len() - 8_192, whole.len() - 10_000, 60] {
        fs::write(directory.database(), &whole[..length]).unwrap();
        let error = refused(&directory);
        assert!(matches!(error, OpenError::Damaged { .. }), "{length} bytes: {error:?}");
    }
    // The table of contents overwritten.
    let mut damaged = whole.clone();
    damaged[100..2_000].fill(0xAA);
    fs::write(directory.database(), &damaged).unwrap();
    let error = refused(&directory);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    // Gone, but its log is there.
    fs::remove_file(directory.database()).unwrap();
    fs::write(directory.0.join("segno.db-wal"), [1; 100]).unwrap();
    assert!(matches!(refused(&directory), OpenError::Damaged { .. }));
}

/// Flips one byte of what is found in the file and lets `read` look.
fn flipped(pattern: &[u8], read: impl Fn(&SqliteStore) -> Option<ReadError>) {
    let directory = Directory::new();
    let store = directory.open();
    let mut one = commit(1, 0, 0);
    one.runs[0].state = "a state that is easy to find".into();
    one.runs[0].batches[0].events = "events that are easy to find".into();
    one.outbox_add.push(segno_store::kit::outbox_row(1, 3, "a message that is easy to find"));
    assert_eq!(store.commit(vec![one, commit(2, 0, 10)]).wait(), [Ok(()), Ok(())]);
    assert_eq!(read(&store), None);
    drop(store);
    let content = fs::read(directory.database()).unwrap();
    let place = content.windows(pattern.len()).position(|window| window == pattern).expect("stored as it is");
    let file = fs::File::options().write(true).open(directory.database()).unwrap();
    file.write_all_at(&[content[place] ^ 0x10], place as u64).unwrap();
    let store = directory.open();
    assert!(matches!(read(&store), Some(ReadError::Damaged(_))), "{:?}", read(&store));
    assert!(store.load(RunKey(2)).wait().unwrap().is_some(), "others are as before");
}

#[test]
fn a_flipped_byte_in_a_state_is_found() {
    flipped(b"a state that", |store| store.load(RunKey(1)).wait().err());
}

#[test]
fn a_flipped_byte_in_events_is_found() {
    flipped(b"events that", |store| store.history(RunKey(1), 0, 9, 9, 99).wait().err());
    flipped(b"events that", |store| store.history_reverse(RunKey(1), 9, 9).wait().err());
}

#[test]
fn a_flipped_byte_in_a_message_is_found() {
    flipped(b"a message that", |store| store.outbox(None, 9).wait().err());
}

/// A row that was moved, or a column that changed, is as damaged as its state.
#[test]
fn a_changed_column_is_found() {
    for change in ["version = version + 1", "open = 0", "wake_at = NULL", "run_key = 9", "wake_at = wake_at + 1"] {
        let directory = Directory::new();
        let store = directory.open();
        assert_eq!(store.commit(vec![commit(1, 0, 10)]).wait(), [Ok(())]);
        drop(store);
        let file = Connection::open(directory.database()).unwrap();
        file.execute_batch(&format!("UPDATE runs SET {change}")).unwrap();
        drop(file);
        let store = directory.open();
        let loaded = store.load(RunKey(1)).wait().and_then(|_| store.load(RunKey(9)).wait());
        assert!(matches!(loaded, Err(ReadError::Damaged(_))), "{change}: {loaded:?}");
    }
}

/// What a kill leaves: the files as they are while the server runs.
#[test]
fn reopens_after_a_hard_stop() {
    let directory = Directory::new();
    let store = directory.open();
    for version in 0..50 {
        assert_eq!(store.commit(vec![commit(1, version, 3_000), commit(2, version, 10)]).wait(), [Ok(()), Ok(())]);
        if version % 10 != 9 {
            continue;
        }
        let copy = Directory::new();
        fs::create_dir(&copy.0).unwrap();
        for name in ["segno.db", "segno.db-wal"] {
            fs::copy(directory.0.join(name), copy.0.join(name)).unwrap();
        }
        let reopened = copy.open();
        for key in [RunKey(1), RunKey(2)] {
            assert_eq!(reopened.load(key).wait(), store.load(key).wait());
            let all = |store: &SqliteStore| store.history(key, 0, 999, 999, usize::MAX).wait().unwrap();
            assert_eq!(all(&reopened), all(&store));
        }
        // The facts of the two may still have been pending.
        let every = Filter::All(Vec::new());
        let listed = |store: &SqliteStore| store.count(NamespaceKey(1), &every, None).wait().unwrap()[0].runs;
        assert_eq!((listed(&reopened), listed(&store)), (2, 2));
        assert_eq!(reopened.commit(vec![commit(1, version + 1, 1)]).wait(), [Ok(())]);
    }
}

/// A file without recent history in its runs' rows and without pending facts.
#[test]
fn a_file_of_the_version_before_goes_on() {
    let directory = Directory::new();
    let store = directory.open();
    for version in 0..2 {
        // Too long for a row: it is in the table of histories already.
        let mut one = commit(1, version, 3_000);
        if let Some(facts) = &mut one.runs[0].visibility {
            facts.attributes.insert(1_000, Value::Text("x".to_owned()));
            one.current.push(segno_store::kit::current("w", None, Some(1)));
        }
        assert_eq!(store.commit(vec![one]).wait(), [Ok(())]);
    }
    assert_eq!(store.count(NamespaceKey(1), &Filter::All(Vec::new()), None).wait().unwrap()[0].runs, 1);
    let all = |store: &SqliteStore| store.history(RunKey(1), 0, 999, 999, usize::MAX).wait().unwrap();
    let before = all(&store);
    store.close().unwrap();
    let older = "DROP TABLE pending_facts; DROP TABLE script_states; DROP TABLE documents; ALTER TABLE runs DROP COLUMN recent_history; \
                 ALTER TABLE runs DROP COLUMN last_event; ALTER TABLE current DROP COLUMN checksum; \
                 ALTER TABLE attributes DROP COLUMN checksum; ALTER TABLE visibility DROP COLUMN checksum; \
                 PRAGMA user_version = 2";
    Connection::open(directory.database()).unwrap().execute_batch(older).unwrap();
    let store = directory.open();
    assert_eq!(all(&store), before);
    assert_eq!(store.current(NamespaceKey(1), "w").wait(), Ok(Some(RunKey(1))), "pointers got their checksums");
    let (k, every) = (Attribute::Numbered(1_000, Kind::Keyword), Filter::All(Vec::new()));
    let value = Value::Text("x".to_owned());
    let find = Filter::Compare(k, Comparison::Equal, value);
    assert_eq!(store.count(NamespaceKey(1), &find, None).wait().unwrap()[0].runs, 1, "and so did entries");
    let (namespace, order) = (NamespaceKey(1), Order::Newest);
    let query = ListQuery { namespace, filter: every, order, as_of: 1_000, after: None, limit: 9 };
    assert!(store.list(&query).wait().unwrap().runs[0].state.is_ok(), "and so did facts");
    assert_eq!(store.commit(vec![commit(1, 2, 10)]).wait(), [Ok(())]);
    assert_eq!(store.commit(vec![commit(1, 3, 3_000)]).wait(), [Ok(())]);
    let after = all(&store);
    assert_eq!((after[..2].to_vec(), after.len()), (before, 4));
}

/// A first start that was cut short leaves an empty file; the next one begins again.
#[test]
fn an_empty_file_is_a_new_one() {
    let directory = Directory::new();
    fs::create_dir(&directory.0).unwrap();
    fs::write(directory.database(), "").unwrap();
    assert_eq!(directory.open().commit(vec![commit(1, 0, 10)]).wait(), [Ok(())]);
}
