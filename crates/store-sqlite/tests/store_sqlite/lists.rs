//! Lists and counts that take long: nothing else waits for them, and they end with their callers.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Directory, commit};
use segno_store::kit::current;
use segno_store::visibility::{Attribute, Count, Filter, Names, parse_count};
use segno_store::{NamespaceKey, ReadError, ReadLimit, RunKey, Store, Wait};
use segno_store_sqlite::SqliteStore;

const NAMESPACE: NamespaceKey = NamespaceKey(1);
const RUNS: u64 = 3_000;

fn filled(directory: &Directory) -> SqliteStore {
    let store = directory.open();
    let mut group: Vec<_> = (1..=RUNS).map(|key| commit(key, 0, 10)).collect();
    group[0].current.push(current("w", None, Some(1)));
    assert!(store.commit(group.to_vec()).wait().iter().all(Result::is_ok));
    store
}

/// As many patterns as a filter may have, none of which fits: minutes of work for all runs in a build without
/// optimisation, and most of a minute in an optimised one.
fn long() -> Filter {
    let pattern = |number| Filter::Like(Attribute::RunId, format!("%{}%{number}x", "a%b_".repeat(20)));
    Filter::Any((0..800).map(pattern).collect())
}

/// Ten callers that count for a long time hold all connections of lists. Loads, histories, look-ups and commits go on,
/// and when the callers leave, everything of theirs ends.
#[test]
fn nothing_waits_for_lists_and_they_end_with_their_callers() {
    let directory = Directory::new();
    let store = filled(&directory);
    thread::scope(|scope| {
        let mut callers = Vec::new();
        let mut counts = Vec::new();
        for _ in 0..10 {
            let (limit, caller) = ReadLimit::cancellable((Instant::now() + Duration::from_secs(600)).into());
            callers.push(caller);
            let store = &store;
            counts.push(scope.spawn(move || store.count_within(NAMESPACE, &long(), None, &limit).wait()));
        }
        thread::sleep(Duration::from_millis(300));
        for version in 1..20 {
            assert_eq!(store.commit(vec![commit(2, version, 10)]).wait(), [Ok(())]);
            assert_eq!(store.current(NAMESPACE, "w").wait(), Ok(Some(RunKey(1))));
            assert_eq!(store.load(RunKey(2)).wait().unwrap().unwrap().version, version + 1);
            assert!(!store.history(RunKey(2), 1, 99, 99, usize::MAX).wait().unwrap().is_empty());
            assert_eq!(store.runs_of(NAMESPACE, None, 9).wait().unwrap().len(), 9);
        }
        assert!(counts.iter().all(|count| !count.is_finished()), "the counts were over too soon to prove anything");
        drop(callers);
        for count in counts {
            assert_eq!(count.join().unwrap(), Err(ReadError::Cancelled));
        }
    });
    // Their connections are free again.
    let all = store.count(NAMESPACE, &Filter::All(Vec::new()), None).wait().unwrap();
    assert_eq!(all, [Count { group: None, runs: RUNS }]);
}

#[test]
fn a_count_ends_at_its_deadline() {
    let directory = Directory::new();
    let store = filled(&directory);
    let limit = ReadLimit::until((Instant::now() + Duration::from_millis(100)).into());
    assert_eq!(store.count_within(NAMESPACE, &long(), None, &limit).wait(), Err(ReadError::DeadlineExceeded));
}

struct NoNames;

impl Names for NoNames {
    fn find(&self, _: &str) -> Option<Attribute> {
        None
    }
}

/// The largest filters that are accepted can be answered; SQLite limits the depth of expressions.
#[test]
fn the_largest_filters_have_an_answer() {
    let directory = Directory::new();
    let store = directory.open();
    assert_eq!(store.commit(vec![commit(1, 0, 10)]).wait(), [Ok(())]);
    let many = |count: usize, joint: &str| vec!["WorkflowId != 'x'"; count].join(joint);
    let nested = format!("{}{}{}", "NOT (".repeat(49), many(800, " OR "), ")".repeat(49));
    for text in [many(800, " AND "), many(800, " OR "), nested] {
        let (filter, _) = parse_count(&text, &NoNames).unwrap();
        let counts = store.count(NAMESPACE, &filter, None).wait();
        assert!(counts.is_ok(), "{counts:?}");
    }
    assert!(parse_count(&many(801, " AND "), &NoNames).is_err());
}
