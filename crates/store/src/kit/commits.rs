//! Contract tests of writes: commits, run keys, namespaces, and their durability over a restart.

use bytes::Bytes;

use super::{Make, Snapshot, Test, batch, current, outbox_row, row, run};
use crate::limits::{EVENT_ID_END, RUN_KEY_END};
use crate::{
    Commit, CommitError, CurrentReset, DocumentWrite, NamespaceKey, NamespaceRecord, RunKey, RunWrite, ScriptWrite,
    Store, Wait,
};

pub(super) const TESTS: &[Test] = &[
    ("a commit creates, then replaces", creates_then_replaces),
    ("a wrong version conflicts", wrong_version_conflicts),
    ("a conflict leaves nothing", conflict_leaves_nothing),
    ("a conflict spares the rest of its group", conflict_spares_the_rest),
    ("commits of a group see those before", group_is_in_order),
    ("two runs in one commit", two_runs_in_one_commit),
    ("the current pointer moves only from where it is expected", current_pointer),
    ("a reset sets the current pointer from any value", current_reset),
    ("a run is found by its workflow id without a pointer", found_without_a_pointer),
    ("history is never overwritten", history_is_never_overwritten),
    ("deleting a run removes all of it", delete_removes_all),
    ("numbers out of range are refused", out_of_range),
    ("an empty group and an empty commit", empty),
    ("run keys are never handed out twice", run_keys),
    ("namespaces and their names", namespaces),
    ("everything survives a restart", survives_restart),
];

fn of(runs: Vec<RunWrite>) -> Commit {
    Commit { runs, ..Commit::default() }
}

fn commit_one(store: &dyn Store, commit: Commit) -> Result<(), CommitError> {
    let mut outcomes = store.commit(vec![commit]).wait();
    assert_eq!(outcomes.len(), 1, "one result per commit");
    outcomes.remove(0)
}

fn state(store: &dyn Store, key: u64) -> Option<(u64, Bytes)> {
    store.load(RunKey(key)).wait().unwrap().map(|run| (run.version, run.state))
}

fn creates_then_replaces(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(store.load(RunKey(1)).wait(), Ok(None));
    let first = RunWrite { wake_at: Some(-5), dispatchable: true, ..run(1, 0, "one") };
    assert_eq!(commit_one(&*store, of(vec![first])), Ok(()));
    let found = store.load(RunKey(1)).wait().unwrap().unwrap();
    assert_eq!((found.key, found.version, &found.state[..]), (RunKey(1), 1, &b"one"[..]));
    assert_eq!((found.open, found.wake_at, found.dispatchable), (true, Some(-5), true));

    let second = RunWrite { open: false, ..run(1, 1, "") };
    assert_eq!(commit_one(&*store, of(vec![second])), Ok(()));
    let found = store.load(RunKey(1)).wait().unwrap().unwrap();
    assert_eq!((found.version, &found.state[..]), (2, &b""[..]));
    assert_eq!((found.open, found.wake_at, found.dispatchable), (false, None, false));

    assert_eq!(commit_one(&*store, of(vec![run(1, 2, "open again")])), Ok(()));
    assert!(store.load(RunKey(1)).wait().unwrap().unwrap().open);
}

fn wrong_version_conflicts(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(commit_one(&*store, of(vec![run(1, 1, "absent")])), Err(CommitError::Conflict));
    assert_eq!(commit_one(&*store, of(vec![run(1, 0, "one")])), Ok(()));
    for version in [0, 2, 3, i64::MAX as u64, u64::MAX] {
        for open in [true, false] {
            let write = RunWrite { open, ..run(1, version, "wrong") };
            assert_eq!(commit_one(&*store, of(vec![write])), Err(CommitError::Conflict), "version {version}");
        }
    }
    assert_eq!(state(&*store, 1), Some((1, Bytes::from("one"))));
}

fn conflict_leaves_nothing(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let names = [(NamespaceKey(1), "a"), (NamespaceKey(1), "b")];
    let look = |store: &dyn Store| Snapshot::of(store, &[RunKey(1), RunKey(2)], &names);
    let start = Commit {
        runs: vec![RunWrite { batches: vec![batch(1, 2)], ..run(1, 0, "one") }],
        current: vec![current("a", None, Some(1))],
        outbox_add: vec![outbox_row(1, 1, "m")],
        ..Commit::default()
    };
    assert_eq!(commit_one(&*store, start), Ok(()));
    let before = look(&*store);
    // All that a commit can do, with the reason to fail in each place where there can be one.
    let good = Commit {
        runs: vec![RunWrite { batches: vec![batch(3, 3)], ..run(1, 1, "two") }, run(2, 0, "other")],
        current: vec![current("a", Some(1), Some(2)), current("b", None, Some(1))],
        outbox_add: vec![outbox_row(1, 2, "n"), outbox_row(2, 0, "o")],
        outbox_remove: vec![outbox_row(1, 1, "").key],
        delete_runs: vec![RunKey(7)],
        ..Commit::default()
    };
    let spoil: [fn(&mut Commit); 6] = [
        |commit| commit.runs[0].expected_version = 5,
        |commit| commit.runs[1].expected_version = 1,
        |commit| commit.current[0].expected = None,
        |commit| commit.current[1].expected = Some(RunKey(9)),
        |commit| commit.outbox_add[1].key = outbox_row(1, 1, "").key,
        |commit| commit.runs[0].batches = vec![batch(1, 1), batch(3, 3)],
    ];
    for (place, spoil) in spoil.iter().enumerate() {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert_eq!(commit_one(&*store, bad), Err(CommitError::Conflict), "spoilt in place {place}");
        assert_eq!(look(&*store), before, "spoilt in place {place}");
    }
    assert_eq!(commit_one(&*store, good), Ok(()));
    assert_ne!(look(&*store), before);
}

fn conflict_spares_the_rest(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let group = [
        of(vec![run(1, 0, "a")]),
        of(vec![run(2, 7, "conflict")]),
        of(vec![run(3, 0, "c")]),
        Commit { current: vec![current("w", Some(1), None)], ..of(vec![run(4, 0, "conflict")]) },
        of(vec![run(5, 0, "e")]),
    ];
    let conflict = Err(CommitError::Conflict);
    assert_eq!(store.commit(group.to_vec()).wait(), [Ok(()), conflict.clone(), Ok(()), conflict, Ok(())]);
    let there: Vec<_> = (1..=5).map(|key| state(&*store, key).is_some()).collect();
    assert_eq!(there, [true, false, true, false, true]);
}

fn group_is_in_order(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let group =
        [of(vec![run(1, 0, "a")]), of(vec![run(1, 1, "b")]), of(vec![run(1, 1, "too late")]), of(vec![run(1, 2, "c")])];
    assert_eq!(store.commit(group.to_vec()).wait(), [Ok(()), Ok(()), Err(CommitError::Conflict), Ok(())]);
    assert_eq!(state(&*store, 1), Some((3, Bytes::from("c"))));
    // A commit whose ground was taken away by the conflict of the one before.
    let group = [of(vec![run(1, 9, "wrong")]), of(vec![run(1, 10, "on top of it")]), of(vec![run(1, 3, "d")])];
    assert_eq!(store.commit(group.to_vec()).wait(), [Err(CommitError::Conflict), Err(CommitError::Conflict), Ok(())]);
    assert_eq!(state(&*store, 1), Some((4, Bytes::from("d"))));
}

fn two_runs_in_one_commit(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let start = Commit { current: vec![current("w", None, Some(1))], ..of(vec![run(1, 0, "first")]) };
    assert_eq!(commit_one(&*store, start), Ok(()));
    let closes = RunWrite { open: false, batches: vec![batch(1, 3)], ..run(1, 1, "continued") };
    let begins = RunWrite { batches: vec![batch(1, 2)], ..run(2, 0, "second") };
    let go_on = Commit { current: vec![current("w", Some(1), Some(2))], ..of(vec![closes, begins]) };
    assert_eq!(commit_one(&*store, go_on), Ok(()));
    assert_eq!(state(&*store, 1), Some((2, Bytes::from("continued"))));
    assert_eq!(state(&*store, 2), Some((1, Bytes::from("second"))));
    assert_eq!(store.current(NamespaceKey(1), "w").wait(), Ok(Some(RunKey(2))));
    assert_eq!(store.history(RunKey(1), 0, 9, 9, 99).wait(), Ok(vec![batch(1, 3)]));
    assert_eq!(store.history(RunKey(2), 0, 9, 9, 99).wait(), Ok(vec![batch(1, 2)]));
}

fn current_pointer(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let go =
        |expected, to| commit_one(&*store, Commit { current: vec![current("w", expected, to)], ..Commit::default() });
    let at = || store.current(NamespaceKey(1), "w").wait().unwrap().map(|key| key.0);
    let conflict = Err(CommitError::Conflict);
    assert_eq!((go(None, None), at()), (Ok(()), None));
    assert_eq!((go(Some(1), Some(2)), at()), (conflict.clone(), None));
    assert_eq!((go(Some(1), None), at()), (conflict.clone(), None));
    assert_eq!((go(None, Some(1)), at()), (Ok(()), Some(1)));
    assert_eq!((go(None, Some(2)), at()), (conflict.clone(), Some(1)));
    assert_eq!((go(None, None), at()), (conflict.clone(), Some(1)));
    assert_eq!((go(Some(2), Some(3)), at()), (conflict.clone(), Some(1)));
    assert_eq!((go(Some(2), None), at()), (conflict, Some(1)));
    assert_eq!((go(Some(1), Some(1)), at()), (Ok(()), Some(1)));
    assert_eq!((go(Some(1), Some(4)), at()), (Ok(()), Some(4)));
    assert_eq!(store.current(NamespaceKey(2), "w").wait(), Ok(None), "another namespace");
    for name in ["W", "", "w ", "w\0", "w\u{301}"] {
        assert_eq!(store.current(NamespaceKey(1), name).wait(), Ok(None), "another name: {name:?}");
        let other = Commit { current: vec![current(name, None, Some(9))], ..Commit::default() };
        assert_eq!(commit_one(&*store, other), Ok(()));
        assert_eq!(store.current(NamespaceKey(1), name).wait(), Ok(Some(RunKey(9))));
    }
    assert_eq!((go(Some(4), None), at()), (Ok(()), None));
}

fn history_is_never_overwritten(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(commit_one(&*store, of(vec![RunWrite { batches: vec![batch(1, 2)], ..run(1, 0, "a") }])), Ok(()));
    let again = RunWrite { batches: vec![batch(1, 5)], ..run(1, 1, "b") };
    assert_eq!(commit_one(&*store, of(vec![again])), Err(CommitError::Conflict));
    assert_eq!(store.history(RunKey(1), 0, 9, 9, 99).wait(), Ok(vec![batch(1, 2)]));
    assert_eq!(state(&*store, 1), Some((1, Bytes::from("a"))));
}

fn delete_removes_all(make: Make<'_>) {
    let test = make();
    let store = test.store();
    for key in 1..=3 {
        let whole = Commit {
            outbox_add: vec![outbox_row(key, 0, "m"), outbox_row(key, (1 << 20) - 1, "n")],
            scripts: [0, 3].map(|slot| ScriptWrite { run: RunKey(key), slot, state: Bytes::from("x") }).into(),
            ..of(vec![RunWrite { batches: vec![batch(1, 2), batch(3, EVENT_ID_END - 1)], ..run(key, 0, "s") }])
        };
        assert_eq!(commit_one(&*store, whole), Ok(()));
    }
    let others = [RunKey(1), RunKey(3)];
    let look = |key: RunKey| (store.load(key).wait().unwrap(), store.history(key, 0, i64::MAX, 9, 99).wait().unwrap());
    let before = others.map(look);
    let forget = Commit { delete_runs: vec![RunKey(2), RunKey(44), RunKey(u64::MAX)], ..Commit::default() };
    assert_eq!(commit_one(&*store, forget.clone()), Ok(()));
    assert_eq!(look(RunKey(2)), (None, Vec::new()));
    assert_eq!(others.map(look), before);
    for (key, left) in [(1, true), (2, false), (3, true)] {
        assert!(
            [0, 3].iter().all(|slot| store.script_state(RunKey(key), *slot).wait().unwrap().is_some() == left),
            "{key}"
        );
    }
    let senders: Vec<_> = store.outbox(None, 99).wait().unwrap().iter().map(|row| row.key.sender.0).collect();
    assert_eq!(senders, [1, 1, 3, 3]);
    assert!(store.open_runs(None, 99).wait().unwrap().iter().all(|run| run.key != RunKey(2)));
    assert_eq!(commit_one(&*store, forget), Ok(()), "deleting again is no error");
    assert_eq!(commit_one(&*store, of(vec![run(2, 0, "anew")])), Ok(()));
}

fn out_of_range(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let with_batches = |batches| of(vec![RunWrite { batches, ..run(1, 0, "s") }]);
    let bad = [
        of(vec![run(RUN_KEY_END, 0, "s")]),
        of(vec![run(u64::MAX, 0, "s")]),
        with_batches(vec![batch(1, EVENT_ID_END)]),
        with_batches(vec![batch(EVENT_ID_END, EVENT_ID_END)]),
        with_batches(vec![batch(-1, 1)]),
        with_batches(vec![batch(2, 1)]),
        with_batches(vec![batch(3, 4), batch(4, 5)]),
        with_batches(vec![batch(3, 4), batch(1, 2)]),
        Commit { outbox_add: vec![outbox_row(1, 1 << 20, "m")], ..Commit::default() },
        Commit { outbox_add: vec![outbox_row(RUN_KEY_END, 0, "m")], ..Commit::default() },
        Commit { current: vec![current("w", None, Some(RUN_KEY_END))], ..Commit::default() },
    ];
    for bad in bad {
        let group = [of(vec![run(5, 0, "good")]), bad.clone()];
        let outcomes = store.commit(group.to_vec()).wait();
        assert_eq!(outcomes[0], Ok(()));
        assert!(matches!(outcomes[1], Err(CommitError::Unknown(_))), "{bad:?}");
        assert_eq!(commit_one(&*store, Commit { delete_runs: vec![RunKey(5)], ..Commit::default() }), Ok(()));
    }
    let seen = Snapshot::of(&*store, &[RunKey(1), RunKey(5), RunKey(RUN_KEY_END), RunKey(u64::MAX)], &[]);
    assert!(seen.runs.iter().all(|(run, history)| run.is_none() && history.is_empty()));
    assert!(seen.open_runs.is_empty() && seen.outbox.is_empty());
    // The largest that fit.
    let last = RUN_KEY_END - 1;
    let largest = Commit {
        outbox_add: vec![outbox_row(last, (1 << 20) - 1, "m")],
        ..of(vec![RunWrite { batches: vec![batch(EVENT_ID_END - 1, EVENT_ID_END - 1)], ..run(last, 0, "s") }])
    };
    assert_eq!(commit_one(&*store, largest.clone()), Ok(()));
    assert_eq!(store.history(RunKey(last), 0, i64::MAX, 9, 99).wait(), Ok(largest.runs[0].batches.clone()));
    assert_eq!(store.outbox(None, 9).wait(), Ok(largest.outbox_add));
    assert_eq!(store.open_runs(Some(RunKey(last - 1)), 9).wait().unwrap().len(), 1);
}

fn current_reset(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let reset = |to: Option<u64>| CurrentReset {
        namespace: NamespaceKey(1),
        workflow_id: "w".to_owned(),
        current: to.map(RunKey),
    };
    let go = |to| commit_one(&*store, Commit { current_reset: vec![reset(to)], ..Commit::default() });
    let at = || store.current(NamespaceKey(1), "w").wait().unwrap().map(|key| key.0);
    for to in [None, Some(4), Some(4), Some(5), None, Some(6)] {
        assert_eq!((go(to), at()), (Ok(()), to));
    }
    // It goes with the rest of its commit.
    let conflict = Commit { current_reset: vec![reset(Some(9))], ..of(vec![run(1, 3, "wrong version")]) };
    assert_eq!((commit_one(&*store, conflict), at()), (Err(CommitError::Conflict), Some(6)));
    // A move comes first and must find what it expects; the reset has the last word.
    let both = Commit {
        current: vec![current("w", Some(6), Some(7))],
        current_reset: vec![reset(Some(8))],
        ..Commit::default()
    };
    assert_eq!((commit_one(&*store, both), at()), (Ok(()), Some(8)));
    assert!(matches!(go(Some(RUN_KEY_END)), Err(CommitError::Unknown(_))));
}

fn found_without_a_pointer(make: Make<'_>) {
    let test = make();
    let store = test.store();
    // By the kit's rows, these three have the workflow id w-1.
    let closed = RunWrite { open: false, ..run(1, 0, "a") };
    assert_eq!(commit_one(&*store, of(vec![closed, run(8, 0, "b"), run(15, 0, "c"), run(2, 0, "d")])), Ok(()));
    let found = |limit| store.runs_of_workflow(NamespaceKey(1), "w-1", limit).wait().unwrap();
    assert_eq!(found(9), [RunKey(15), RunKey(8), RunKey(1)]);
    assert_eq!(found(2), [RunKey(15), RunKey(8)]);
    assert_eq!(store.runs_of_workflow(NamespaceKey(2), "w-1", 9).wait(), Ok(Vec::new()));
    assert_eq!(store.facts(RunKey(8)).wait(), Ok(Some(row(8))));
    assert_eq!(commit_one(&*store, Commit { delete_runs: vec![RunKey(8)], ..Commit::default() }), Ok(()));
    assert_eq!((store.facts(RunKey(8)).wait(), found(9)), (Ok(None), vec![RunKey(15), RunKey(1)]));
    assert_eq!(store.facts(RunKey(u64::MAX)).wait(), Ok(None));
}

fn empty(make: Make<'_>) {
    let test = make();
    let store = test.store();
    assert_eq!(store.commit(vec![]).wait(), []);
    assert_eq!(store.commit(vec![Commit::default(), Commit::default()]).wait(), [Ok(()), Ok(())]);
}

fn run_keys(make: Make<'_>) {
    let mut test = make();
    let mut next = 1;
    for round in 0..3 {
        let store = test.store();
        for count in [1, 10, 1, 1_000_000] {
            let first = store.reserve_run_keys(count).wait().unwrap().0;
            assert!(first >= next, "round {round}: {first} was handed out before");
            next = first + count;
        }
        assert!(store.reserve_run_keys(u64::MAX).wait().is_err(), "there are not that many");
        drop(store);
        if !test.reopen() {
            break;
        }
    }
}

fn namespaces(make: Make<'_>) {
    let test = make();
    let store = test.store();
    let namespace = |key, name: &str, detail: &'static str| NamespaceRecord {
        key: NamespaceKey(key),
        name: name.to_owned(),
        detail: Bytes::from(detail),
    };
    assert_eq!(store.namespaces().wait(), Ok(Vec::new()));
    assert_eq!(store.put_namespace(&namespace(2, "two", "b")).wait(), Ok(()));
    assert_eq!(store.put_namespace(&namespace(1, "one", "a")).wait(), Ok(()));
    assert_eq!(store.put_namespace(&namespace(3, "one", "c")).wait(), Err(CommitError::Conflict));
    assert_eq!(store.put_namespace(&namespace(1, "two", "c")).wait(), Err(CommitError::Conflict));
    assert_eq!(store.namespaces().wait(), Ok(vec![namespace(1, "one", "a"), namespace(2, "two", "b")]));
    assert_eq!(store.put_namespace(&namespace(1, "one", "changed")).wait(), Ok(()));
    assert_eq!(store.put_namespace(&namespace(2, "renamed", "")).wait(), Ok(()));
    assert_eq!(store.put_namespace(&namespace(u32::MAX, "two", "")).wait(), Ok(()));
    let wanted = vec![namespace(1, "one", "changed"), namespace(2, "renamed", ""), namespace(u32::MAX, "two", "")];
    assert_eq!(store.namespaces().wait(), Ok(wanted));
}

fn survives_restart(make: Make<'_>) {
    let mut test = make();
    let store = test.store();
    let runs: Vec<_> = (1..=20).map(RunKey).collect();
    let names = [(NamespaceKey(1), "w")];
    for key in 1_u64..=20 {
        let write = RunWrite {
            open: !key.is_multiple_of(3),
            wake_at: key.is_multiple_of(2).then_some(key as i64),
            dispatchable: key.is_multiple_of(5),
            batches: vec![batch(1, 4), batch(5, 5)],
            ..run(key, 0, "s")
        };
        let scripts = vec![ScriptWrite { run: RunKey(key), slot: (key % 4) as u8, state: Bytes::from("x") }];
        let documents = vec![DocumentWrite {
            namespace: NamespaceKey(1),
            name: format!("d/{key}"),
            content: Some(Bytes::from("c")),
        }];
        let outbox_add = vec![outbox_row(key, 3, "m")];
        let commit = Commit { outbox_add, scripts, documents, ..of(vec![write]) };
        assert_eq!(commit_one(&*store, commit), Ok(()));
    }
    assert_eq!(commit_one(&*store, Commit { current: vec![current("w", None, Some(4))], ..Commit::default() }), Ok(()));
    let namespace = NamespaceRecord { key: NamespaceKey(1), name: "n".to_owned(), detail: Bytes::from("d") };
    assert_eq!(store.put_namespace(&namespace).wait(), Ok(()));
    let before = Snapshot::of(&*store, &runs, &names);
    drop(store);
    if test.reopen() {
        assert_eq!(Snapshot::of(&*test.store(), &runs, &names), before);
        assert_eq!(commit_one(&*test.store(), of(vec![run(1, 1, "goes on")])), Ok(()));
    }
}
