//! Contract tests of reads: history ranges, scans and paging, large values, reads beside writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Make, Test, batch, outbox_row, run};
use crate::visibility::{Filter, ListQuery, Order};
use crate::{
    Commit, HistoryBatch, NamespaceKey, OpenRun, OutboxKey, ReadError, ReadLimit, RunKey, RunWrite, Store, Wait,
};

pub(super) const TESTS: &[Test] = &[
    ("history by range", history_by_range),
    ("history within limits", history_within_limits),
    ("history backwards", history_backwards),
    ("open runs page, and go when closed", open_runs),
    ("the outbox pages, and rows go once removed", outbox),
    ("the version of a run counts its commits", versions),
    ("large values", large_values),
    ("reads beside writes see whole commits", reads_beside_writes),
    ("lists and counts stop at their limit", limited_lists),
];

fn store_runs(store: &dyn Store, runs: Vec<RunWrite>) {
    assert_eq!(store.commit(vec![Commit { runs, ..Commit::default() }]).wait(), [Ok(())]);
}

/// Runs 1 to 3, each with the events 1..=3, 4..=4, 5..=9 and 10..=10, stored by two commits.
fn with_history(store: &dyn Store) {
    for key in 1..=3 {
        store_runs(store, vec![RunWrite { batches: vec![batch(1, 3)], ..run(key, 0, "a") }]);
        let more = vec![batch(4, 4), batch(5, 9), batch(10, 10)];
        store_runs(store, vec![RunWrite { batches: more, ..run(key, 1, "b") }]);
    }
}

fn versions(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(store.version(RunKey(2)).wait(), Ok(None));
    with_history(&*store);
    assert_eq!(store.version(RunKey(2)).wait(), Ok(Some(2)));
    assert_eq!(store.version(RunKey(4)).wait(), Ok(None));
    assert_eq!(store.version(RunKey(u64::MAX)).wait(), Ok(None));
    store_runs(&*store, vec![run(2, 2, "c")]);
    assert_eq!(store.version(RunKey(2)).wait(), Ok(Some(3)));
}

fn firsts(batches: &[HistoryBatch]) -> Vec<i64> {
    batches.iter().map(|batch| batch.first_event_id).collect()
}

fn history_by_range(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(store.history(RunKey(2), 0, i64::MAX, 9, 999).wait(), Ok(Vec::new()));
    with_history(&*store);
    let range = |from, until| firsts(&store.history(RunKey(2), from, until, usize::MAX, usize::MAX).wait().unwrap());
    assert_eq!(range(0, i64::MAX), [1, 4, 5, 10]);
    assert_eq!(range(i64::MIN, i64::MAX), [1, 4, 5, 10]);
    assert_eq!(range(1, 11), [1, 4, 5, 10]);
    assert_eq!(range(2, 11), [1, 4, 5, 10], "from the middle of a batch");
    assert_eq!(range(3, 10), [1, 4, 5], "until is not included");
    assert_eq!(range(4, 6), [4, 5], "a batch that begins before until is whole");
    assert_eq!(range(4, 5), [4]);
    assert_eq!(range(7, 8), [5], "within one batch, which begins before both");
    assert_eq!(range(7, 7), [5], "the batch around both, even if no event is between them");
    assert_eq!(range(7, 6), [5]);
    assert_eq!(range(9, 10), [5]);
    assert_eq!(range(10, i64::MAX), [10]);
    assert_eq!(range(5, 5), [0; 0]);
    assert_eq!(range(7, 4), [0; 0]);
    assert_eq!(range(11, i64::MAX), [0; 0]);
    assert_eq!(range(1 << 20, i64::MAX), [0; 0], "this would be the next run");
    assert_eq!(range(i64::MAX, i64::MAX), [0; 0]);
    assert_eq!(range(i64::MIN, 1), [0; 0]);
    assert_eq!(store.history(RunKey(2), 5, 6, 9, 999).wait(), Ok(vec![batch(5, 9)]));
    assert_eq!(store.history(RunKey(u64::MAX), 0, 9, 9, 999).wait(), Ok(Vec::new()));
}

fn history_within_limits(make: Make<'_>) {
    let test = make();
    let store = test.store();
    with_history(&*store);
    let length = batch(1, 1).events.len();
    let limit = |batches, bytes| firsts(&store.history(RunKey(2), 2, 99, batches, bytes).wait().unwrap());
    assert_eq!(limit(0, usize::MAX), [0; 0]);
    assert_eq!(limit(1, usize::MAX), [1]);
    assert_eq!(limit(3, usize::MAX), [1, 4, 5]);
    assert_eq!(limit(9, 0), [1], "always one");
    assert_eq!(limit(9, length), [1]);
    assert_eq!(limit(9, 2 * length - 1), [1]);
    assert_eq!(limit(9, 2 * length), [1, 4]);
    assert_eq!(limit(9, 4 * length), [1, 4, 5, 10]);
    assert_eq!(limit(1, 4 * length), [1]);
    // Paging by limits gives everything once.
    let (mut from, mut all) = (1, Vec::new());
    while let Some(last) = store.history(RunKey(2), from, 99, 9, length).wait().unwrap().pop() {
        from = last.last_event_id + 1;
        all.push(last.first_event_id);
    }
    assert_eq!(all, [1, 4, 5, 10]);
}

fn history_backwards(make: Make<'_>) {
    let test = make();
    let store = test.store();
    with_history(&*store);
    let back = |until, batches| firsts(&store.history_reverse(RunKey(2), until, batches).wait().unwrap());
    assert_eq!(back(i64::MAX, usize::MAX), [10, 5, 4, 1]);
    assert_eq!(back(11, 2), [10, 5]);
    assert_eq!(back(10, 2), [5, 4]);
    assert_eq!(back(7, 1), [5], "a batch that begins before until is whole");
    assert_eq!(back(5, 9), [4, 1]);
    assert_eq!(back(1, 9), [0; 0]);
    assert_eq!(back(i64::MIN, 9), [0; 0]);
    assert_eq!(back(99, 0), [0; 0]);
    assert_eq!(store.history_reverse(RunKey(2), 5, 1).wait(), Ok(vec![batch(4, 4)]));
    assert_eq!(store.history_reverse(RunKey(9), 99, 9).wait(), Ok(Vec::new()));
}

fn open_runs(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(store.open_runs(None, 9).wait(), Ok(Vec::new()));
    let write = |key: u64, version| RunWrite {
        open: !key.is_multiple_of(4),
        wake_at: key.is_multiple_of(2).then_some(key as i64 * 1_000_000_007),
        dispatchable: key.is_multiple_of(3),
        ..run(key, version, "s")
    };
    store_runs(&*store, (1..=50).map(|key| write(key, 0)).collect());
    let wanted: Vec<_> = (1..=50)
        .filter(|key| key % 4 != 0)
        .map(|key| {
            let write = write(key, 0);
            OpenRun { key: write.key, wake_at: write.wake_at, dispatchable: write.dispatchable }
        })
        .collect();
    assert_eq!(store.open_runs(None, usize::MAX).wait(), Ok(wanted.clone()));
    for limit in [1, 3, 7, 100] {
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let page = store.open_runs(after, limit).wait().unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            all.extend(page);
        }
        assert_eq!(all, wanted, "in pages of {limit}");
    }
    assert_eq!(store.open_runs(Some(RunKey(4)), 1).wait().unwrap()[0].key, RunKey(5), "after a run that is not open");
    assert_eq!(store.open_runs(Some(RunKey(u64::MAX)), 9).wait(), Ok(Vec::new()));
    assert_eq!(store.open_runs(None, 0).wait(), Ok(Vec::new()));

    // What a run wants changes with each commit.
    store_runs(&*store, vec![RunWrite { wake_at: Some(i64::MAX), dispatchable: true, ..run(1, 1, "t") }]);
    let first = OpenRun { key: RunKey(1), wake_at: Some(i64::MAX), dispatchable: true };
    assert_eq!(store.open_runs(None, 1).wait(), Ok(vec![first]));
    store_runs(&*store, vec![RunWrite { open: false, ..run(1, 2, "u") }]);
    assert_eq!(store.open_runs(None, 1).wait().unwrap()[0].key, RunKey(2), "a closed run is gone");
    store_runs(&*store, vec![run(4, 1, "opened")]);
    assert_eq!(store.open_runs(Some(RunKey(3)), 1).wait().unwrap()[0].key, RunKey(4));
}

fn outbox(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(store.outbox(None, 9).wait(), Ok(Vec::new()));
    let mut rows = vec![];
    for sender in [9, 1, 5] {
        rows.extend([outbox_row(sender, 2, "b"), outbox_row(sender, 0, ""), outbox_row(sender, 700_000, "c")]);
    }
    let add = Commit { outbox_add: rows.clone(), ..Commit::default() };
    assert_eq!(store.commit(vec![add.clone()]).wait(), [Ok(())]);
    rows.sort_by_key(|row| row.key);
    assert_eq!(store.outbox(None, usize::MAX).wait(), Ok(rows.clone()));
    for limit in [1, 2, 4, 100] {
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let page = store.outbox(after, limit).wait().unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            all.extend(page);
        }
        assert_eq!(all, rows, "in pages of {limit}");
    }
    let after = |sender, sequence| {
        let rows = store.outbox(Some(OutboxKey { sender: RunKey(sender), sequence }), 1).wait().unwrap();
        rows.first().map(|row| (row.key.sender.0, row.key.sequence))
    };
    assert_eq!(after(1, 1), Some((1, 2)));
    assert_eq!(after(1, u32::MAX), Some((5, 0)));
    assert_eq!(after(9, 700_000), None);
    assert_eq!(after(u64::MAX, 0), None);

    let remove = vec![rows[0].key, rows[4].key, OutboxKey { sender: RunKey(77), sequence: 1 }];
    let remove = Commit { outbox_remove: remove, ..Commit::default() };
    assert_eq!(store.commit(vec![remove.clone(), remove]).wait(), [Ok(()), Ok(())], "removing again is no error");
    rows.remove(4);
    rows.remove(0);
    assert_eq!(store.outbox(None, 99).wait(), Ok(rows));
}

fn large_values(make: Make<'_>) {
    let mut test = make();
    let fill = |length: usize, seed: usize| -> Bytes { (0..length).map(|place| (place * 31 + seed) as u8).collect() };
    let lengths = [0, 1, 4_000, 8_192, 70_000, 5_000_000];
    let write = |place: usize, version: i64| RunWrite {
        state: fill(lengths[place], place),
        batches: vec![HistoryBatch { events: fill(lengths[place], place + 9), ..batch(1 + version, 1 + version) }],
        ..run(place as u64 + 1, version.unsigned_abs(), "")
    };
    let store = test.store();
    for version in 0..2 {
        store_runs(&*store, (0..lengths.len()).map(|place| write(place, version)).collect());
    }
    let check = |store: &dyn Store| {
        for (place, length) in lengths.iter().enumerate() {
            let key = RunKey(place as u64 + 1);
            assert!(store.load(key).wait().unwrap().unwrap().state == fill(*length, place));
            let history = store.history(key, 0, 9, 9, usize::MAX).wait().unwrap();
            assert!(history == [write(place, 0).batches, write(place, 1).batches].concat());
        }
    };
    check(&*store);
    drop(store);
    if test.reopen() {
        check(&*test.store());
    }
}

/// Two runs are always written together with the same state; a reader that loads the second first never finds the
/// first behind it, and history always holds what the loaded version says.
fn reads_beside_writes(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let write = |key, version: u64| {
        let event = version as i64 + 1;
        RunWrite { batches: vec![batch(event, event)], ..run(key, version, "s") }
    };
    store_runs(&*store, vec![write(1, 0), write(2, 0)]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let store = Arc::clone(&store);
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let second = store.load(RunKey(2)).wait().unwrap().unwrap().version;
                    let first = store.load(RunKey(1)).wait().unwrap().unwrap().version;
                    assert!(first >= second);
                    let last = store.history_reverse(RunKey(1), i64::MAX, 1).wait().unwrap().remove(0);
                    assert!(last.last_event_id.unsigned_abs() >= first);
                }
            });
        }
        for version in 1..100 {
            store_runs(&*store, vec![write(1, version), write(2, version)]);
            let seen = store.load(RunKey(2)).wait().unwrap().unwrap().version;
            assert_eq!(seen, version + 1, "a commit that returned is seen");
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn limited_lists(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(store.commit(vec![Commit { runs: vec![run(1, 0, "s")], ..Commit::default() }]).wait(), [Ok(())]);
    let (namespace, filter) = (NamespaceKey(1), Filter::All(Vec::new()));
    let list = |limit: &ReadLimit| {
        let (filter, order) = (filter.clone(), Order::Newest);
        let query = ListQuery { namespace, filter, order, as_of: i64::MAX - 1, after: None, limit: 9 };
        store.list_within(&query, limit).wait().map(|page| page.runs.len())
    };
    let count =
        |limit: &ReadLimit| store.count_within(namespace, &filter, None, limit).wait().map(|counts| counts.len());
    let (limit, caller) = ReadLimit::cancellable(Instant::now() + Duration::from_secs(3600));
    assert_eq!((list(&limit), count(&limit)), (Ok(1), Ok(1)));
    drop(caller);
    assert_eq!((list(&limit), count(&limit)), (Err(ReadError::Cancelled), Err(ReadError::Cancelled)));
    let late = ReadLimit::until(Instant::now());
    assert_eq!((list(&late), count(&late)), (Err(ReadError::DeadlineExceeded), Err(ReadError::DeadlineExceeded)));
    assert_eq!(list(&ReadLimit::none()), Ok(1), "later ones are not held back");
}
