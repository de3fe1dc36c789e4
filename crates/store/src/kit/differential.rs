//! Random steps on a backend and on the store in memory, side by side.
//!
//! A small world (few runs, few names) makes steps collide: versions are often wrong, pointers often differ, runs are
//! deleted and created again. After each step everything that can be read is compared.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Make, Random, Snapshot, row};
use crate::visibility::{Closed, Value, VisibilityRow};
use crate::{
    Commit, CurrentReset, CurrentWrite, DocumentWrite, HistoryBatch, MemoryStore, NamespaceKey, NamespaceRecord,
    OutboxKey, OutboxRow, RunKey, RunWrite, ScriptWrite, Store, Wait,
};

const RUNS: u64 = 6;
const NAMES: [&str; 3] = ["a", "b", "ä/\0 long enough to be no prefix of anything"];

/// `steps` steps of the sequence that `seed` gives.
pub(super) fn run(make: Make<'_>, seed: u64, steps: u64) {
    let mut test = make();
    let model = MemoryStore::new();
    let mut random = Random::new(seed);
    let runs: Vec<_> = (0..=RUNS).map(RunKey).collect();
    let names: Vec<_> = (1..=2).flat_map(|space| NAMES.map(|name| (NamespaceKey(space), name))).collect();
    for step in 0..steps {
        if random.once_in(200) {
            test.reopen();
        }
        let store = test.store();
        let place = format!("seed {seed}, step {step}");
        if random.once_in(20) {
            let namespace = NamespaceRecord {
                key: NamespaceKey(random.below(4) as u32),
                name: NAMES[random.below(3) as usize].to_owned(),
                detail: value(&mut random),
            };
            assert_eq!(
                store.put_namespace(&namespace).wait(),
                model.put_namespace(&namespace).wait(),
                "{place}: {namespace:?}"
            );
        } else {
            let size = if random.once_in(10) { random.below(20) } else { random.below(4) };
            let group: Vec<_> = (0..size).map(|_| commit(&mut random, &model)).collect();
            assert_eq!(store.commit(group.to_vec()).wait(), model.commit(group.to_vec()).wait(), "{place}: {group:?}");
        }
        let (seen, wanted) = (Snapshot::of(&*store, &runs, &names), Snapshot::of(&model, &runs, &names));
        assert_eq!(seen, wanted, "{place}");
        compare_pages(&*store, &model, &mut random, &place);
    }
}

/// Reads with random limits.
fn compare_pages(store: &dyn Store, model: &MemoryStore, random: &mut Random, place: &str) {
    for _ in 0..3 {
        let key = RunKey(random.below(RUNS + 2));
        let (from, until) = (random.below(40) as i64 - 2, random.below(40) as i64 - 2);
        let (batches, bytes) = (random.below(6) as usize, random.below(200) as usize);
        let read = |store: &dyn Store| store.history(key, from, until, batches, bytes).wait();
        assert_eq!(read(store), read(model), "{place}: history {key:?} {from} {until} {batches} {bytes}");
        let read = |store: &dyn Store| store.history_reverse(key, until, batches).wait();
        assert_eq!(read(store), read(model), "{place}: history_reverse {key:?} {until} {batches}");
        let (after, limit) = ((!random.once_in(4)).then_some(key), random.below(5) as usize);
        let read = |store: &dyn Store| store.open_runs(after, limit).wait();
        assert_eq!(read(store), read(model), "{place}: open_runs {after:?} {limit}");
        let after = after.map(|sender| OutboxKey { sender, sequence: random.below(6) as u32 });
        let read = |store: &dyn Store| store.outbox(after, limit).wait();
        assert_eq!(read(store), read(model), "{place}: outbox {after:?} {limit}");
    }
}

fn commit(random: &mut Random, model: &MemoryStore) -> Commit {
    let mut commit = Commit::default();
    for _ in 0..[0, 1, 1, 1, 2][random.below(5) as usize] {
        commit.runs.push(run_write(random, model));
    }
    if random.once_in(3) {
        commit.current.push(current_write(random, model));
    }
    if random.once_in(20) {
        let CurrentWrite { namespace, workflow_id, current, .. } = current_write(random, model);
        commit.current_reset.push(CurrentReset { namespace, workflow_id, current });
    }
    while random.once_in(3) {
        commit.outbox_add.push(OutboxRow { key: outbox_key(random), message: value(random) });
    }
    while random.once_in(3) {
        commit.outbox_remove.push(outbox_key(random));
    }
    while random.once_in(4) {
        commit.scripts.push(ScriptWrite { run: run_key(random), slot: random.below(4) as u8, state: value(random) });
    }
    while random.once_in(6) {
        let content = (!random.once_in(4)).then(|| value(random));
        let (namespace, name) = (NamespaceKey(1 + random.below(2) as u32), NAMES[random.below(3) as usize].to_owned());
        commit.documents.push(DocumentWrite { namespace, name, content });
    }
    while random.once_in(6) {
        commit.delete_runs.push(run_key(random));
    }
    commit
}

/// Mostly right for the run as it is before the group; later commits of a group then often conflict.
fn run_write(random: &mut Random, model: &MemoryStore) -> RunWrite {
    let key = run_key(random);
    let stored = model.load(key).wait().unwrap().map_or(0, |run| run.version);
    let newest = model.history_reverse(key, i64::MAX, 1).wait().unwrap().pop();
    let mut next = newest.map_or(1, |batch| batch.last_event_id + 1);
    let mut batches = Vec::new();
    while random.once_in(2) {
        let last_event_id = next + random.below(3) as i64;
        batches.push(HistoryBatch { first_event_id: next, last_event_id, events: value(random) });
        next = last_event_id + 1;
    }
    let expected_version = if random.once_in(8) { random.below(5) } else { stored + random.below(8) / 6 };
    let open = !random.once_in(4);
    RunWrite {
        key,
        expected_version,
        state: value(random),
        open,
        wake_at: random.once_in(2).then(|| random.next_u64() as i64),
        dispatchable: random.once_in(2),
        batches,
        // What does not change after the start follows from the key.
        visibility: (expected_version == 0 || random.once_in(2)).then(|| {
            let closed = Closed { time: 1_000 + random.below(20) as i64, ..CLOSED };
            Box::new(VisibilityRow {
                namespace: NamespaceKey(1 + (key.0 % 2) as u32),
                status: if open { 1 } else { 2 + random.below(6) as i32 },
                closed: (!open).then_some(closed),
                attributes: attributes(random),
                ..row(key.0)
            })
        }),
    }
}

const CLOSED: Closed = Closed { time: 0, history_length: 3, history_bytes: 300, transitions: 4 };

fn attributes(random: &mut Random) -> BTreeMap<u32, Value> {
    let mut attributes = BTreeMap::new();
    while random.once_in(2) {
        let value = match random.below(5) {
            0 => Value::Text(NAMES[random.below(3) as usize].to_owned()),
            1 => Value::List(NAMES[..random.below(4) as usize].iter().map(|name| (*name).to_owned()).collect()),
            2 => Value::Int(random.next_u64() as i64),
            3 => Value::Double(random.next_u64() as f64 / 3.0),
            _ => Value::Bool(random.once_in(2)),
        };
        attributes.insert(random.below(4) as u32, value);
    }
    attributes
}

fn current_write(random: &mut Random, model: &MemoryStore) -> CurrentWrite {
    let namespace = NamespaceKey(1 + random.below(2) as u32);
    let workflow_id = NAMES[random.below(3) as usize].to_owned();
    let stored = model.current(namespace, &workflow_id).wait().unwrap();
    let some_run = |random: &mut Random| (!random.once_in(3)).then(|| run_key(random));
    let expected = if random.once_in(4) { some_run(random) } else { stored };
    CurrentWrite { namespace, workflow_id, expected, current: some_run(random) }
}

fn run_key(random: &mut Random) -> RunKey {
    RunKey(1 + random.below(RUNS))
}

fn outbox_key(random: &mut Random) -> OutboxKey {
    OutboxKey { sender: run_key(random), sequence: random.below(5) as u32 }
}

fn value(random: &mut Random) -> Bytes {
    // Now and then longer than a page of any backend.
    let length = if random.once_in(100) { random.below(30_000) } else { random.below(80) };
    let mut bytes = vec![random.below(256) as u8; length as usize];
    bytes.iter_mut().step_by(1_000).for_each(|byte| *byte = random.below(256) as u8);
    bytes.into()
}
