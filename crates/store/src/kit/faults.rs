//! Every kind of failure at every position of a workload.
//!
//! The workload does what a node does: groups of commits built on the state before, repeated after a failure from what
//! a reload shows. After each failure at each place, a reload must show each commit of the failed group entirely or not at
//! all, and the workload must end where it ends without failures.

use super::{Make, Snapshot, batch, current, outbox_row, run};
use crate::fault::{FaultPlan, FaultStore, WriteFault};
use crate::{Commit, CommitError, MemoryStore, NamespaceKey, ReadError, RunKey, RunWrite, Store, Wait};

const FAULTS: [WriteFault; 6] = [
    WriteFault::NotDone,
    WriteFault::DoneButUnknown,
    WriteFault::PartlyDone(1),
    WriteFault::PartlyDone(2),
    WriteFault::PartlyDone(3),
    WriteFault::Full,
];

/// All faults at all positions.
pub(super) fn run_faults(make: Make<'_>) {
    println!("faults: without any");
    let wanted = work(make, FaultPlan::new());
    let positions = workload().len() as u64;
    for fault in FAULTS {
        println!("faults: {fault:?} at each of {positions} positions");
        for nth in 1..=positions {
            let plan = FaultPlan::new();
            plan.fail_write(nth, fault);
            assert_eq!(work(make, plan.clone()), wanted, "{fault:?} at {nth}");
            assert!(plan.calls().writes >= positions, "{fault:?} at {nth}");
            // And the first repetition fails as well.
            let plan = FaultPlan::new();
            plan.fail_write(nth, fault);
            plan.fail_write(nth + 1, WriteFault::DoneButUnknown);
            assert_eq!(work(make, plan), wanted, "{fault:?} at {nth}, twice");
        }
    }
    println!("faults: run keys and reads");
    run_keys(make);
    reads(make);
}

fn run_keys(make: Make<'_>) {
    let test = make();
    let plan = FaultPlan::new();
    let store = FaultStore::new(test.store(), plan.clone());
    let mut next = 1;
    for fault in FAULTS {
        plan.fail_next_write(fault);
        assert!(store.reserve_run_keys(10).wait().is_err());
        let first = store.reserve_run_keys(10).wait().unwrap().0;
        assert!(first >= next, "after {fault:?}");
        next = first + 10;
    }
}

fn reads(make: Make<'_>) {
    let test = make();
    let plan = FaultPlan::new();
    let store = FaultStore::new(test.store(), plan.clone());
    let error = ReadError::Failed("injected".to_owned());
    plan.fail_read(2, error.clone());
    assert_eq!(store.load(RunKey(1)).wait(), Ok(None));
    assert_eq!(store.load(RunKey(1)).wait(), Err(error.clone()));
    assert_eq!(store.load(RunKey(1)).wait(), Ok(None));
    plan.fail_all_reads(Some(error.clone()));
    assert_eq!(store.current(NamespaceKey(1), "w").wait(), Err(error.clone()));
    assert_eq!(store.history(RunKey(1), 0, 9, 9, 9).wait(), Err(error.clone()));
    assert_eq!(store.history_reverse(RunKey(1), 9, 9).wait(), Err(error.clone()));
    assert_eq!(store.open_runs(None, 9).wait(), Err(error.clone()));
    assert_eq!(store.outbox(None, 9).wait(), Err(error.clone()));
    assert_eq!(store.namespaces().wait(), Err(error));
    plan.clear();
    assert_eq!(store.namespaces().wait(), Ok(Vec::new()));
    assert_eq!((plan.calls().reads, plan.calls().writes), (10, 0));
}

/// Groups whose commits touch different things, so that any part of a group may have happened without the rest.
fn workload() -> Vec<Vec<Commit>> {
    let of = |runs| Commit { runs, ..Commit::default() };
    let events = |write: RunWrite, first, last| RunWrite { batches: vec![batch(first, last)], ..write };
    let start = |key, name: &str| Commit {
        current: vec![current(name, None, Some(key))],
        ..of(vec![events(run(key, 0, "started"), 1, 2)])
    };
    vec![
        vec![start(1, "a"), start(2, "b"), start(3, "c")],
        vec![
            Commit { outbox_add: vec![outbox_row(1, 0, "hello")], ..of(vec![events(run(1, 1, "sends"), 3, 5)]) },
            of(vec![events(RunWrite { wake_at: Some(9), dispatchable: true, ..run(2, 1, "waits") }, 3, 3)]),
            of(vec![events(RunWrite { open: false, ..run(3, 1, "done") }, 3, 4)]),
        ],
        vec![of(vec![events(run(2, 2, "received"), 4, 4)])],
        vec![
            Commit {
                outbox_remove: vec![outbox_row(1, 0, "").key],
                current: vec![current("a", Some(1), Some(4))],
                ..of(vec![
                    events(RunWrite { open: false, ..run(1, 2, "continued") }, 6, 6),
                    events(run(4, 0, "began"), 1, 2),
                ])
            },
            Commit { current: vec![current("c", Some(3), None)], delete_runs: vec![RunKey(3)], ..Commit::default() },
        ],
        vec![of(vec![run(4, 1, "x")]), of(vec![events(RunWrite { open: false, ..run(2, 3, "closed") }, 5, 6)])],
    ]
}

/// Does the workload on a new store; gives what it shows in the end.
fn work(make: Make<'_>, plan: FaultPlan) -> Snapshot {
    let mut test = make();
    let mut model = MemoryStore::new();
    for (position, group) in workload().into_iter().enumerate() {
        let mut left: Vec<_> = (0..group.len()).collect();
        for attempt in 0.. {
            assert!(attempt < 4, "position {position} does not come to an end");
            let store = FaultStore::new(test.store(), plan.clone());
            let commits: Vec<_> = left.iter().map(|place| group[*place].clone()).collect();
            let outcomes = store.commit(commits.to_vec()).wait();
            if outcomes.iter().all(Result::is_ok) {
                break;
            }
            assert!(!outcomes.contains(&Err(CommitError::Conflict)), "position {position}: {outcomes:?}");
            drop(store);
            // A node that lost its memory as well sees the same.
            test.reopen();
            let seen = look(&*test.store());
            left = missing(position, &group, &seen);
            if left.is_empty() {
                break;
            }
        }
        model = replay(position, &group, usize::MAX).0;
        assert_eq!(look(&*test.store()), look(&model), "after position {position}");
    }
    look(&model)
}

/// Which commits of a group did not happen, judged by what a reload shows.
fn missing(position: usize, group: &[Commit], seen: &Snapshot) -> Vec<usize> {
    for chosen in 0..1_usize << group.len() {
        let (model, left) = replay(position, group, chosen);
        if look(&model) == *seen {
            return left;
        }
    }
    panic!("position {position}: no choice of whole commits explains {seen:?}");
}

/// The store before a position, and the commits of the group that the bits of `chosen` name.
fn replay(position: usize, group: &[Commit], chosen: usize) -> (MemoryStore, Vec<usize>) {
    let model = MemoryStore::new();
    for group in workload().into_iter().take(position) {
        assert!(model.commit(group.to_vec()).wait().iter().all(Result::is_ok));
    }
    let (done, left): (Vec<_>, Vec<_>) = (0..group.len()).partition(|place| chosen >> place & 1 == 1);
    for place in done {
        assert_eq!(model.commit(group[place..=place].to_vec()).wait(), [Ok(())]);
    }
    (model, left)
}

fn look(store: &dyn Store) -> Snapshot {
    let names = ["a", "b", "c"].map(|name| (NamespaceKey(1), name));
    Snapshot::of(store, &[RunKey(1), RunKey(2), RunKey(3), RunKey(4)], &names)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The harness must catch a store that breaks the promise: one that does half a commit.
    #[test]
    #[should_panic(expected = "no choice of whole commits explains")]
    fn half_a_commit_is_noticed() {
        let group = workload().remove(0);
        let half = Commit { current: Vec::new(), ..group[0].clone() };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        assert_eq!(store.commit(vec![half]).wait(), [Ok(())]);
        missing(0, &group, &look(&*store));
    }
}
