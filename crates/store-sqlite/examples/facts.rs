//! What a one-activity workflow costs here: `cargo run --release -p segno-store-sqlite --example facts [workflows]`.
//!
//! Each makes five commits, three of them with searchable facts, as it starts, sets an attribute and closes; 32 are
//! under way at a time, in groups of ten commits. Prints the bytes written to the log for each. Without syncs,
//! checkpoints and clocks, so that it writes the same each time and instructions can be counted
//! (`valgrind --tool=callgrind`). Linux only, as the bytes are read from /proc.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use segno_store::kit::run_id;
use segno_store::visibility::{Closed, Filter, Value, VisibilityRow};
use segno_store::{Commit, CurrentWrite, HistoryBatch, NamespaceKey, RunKey, RunWrite, Store, Wait};
use segno_store_sqlite::{Options, SqliteStore};

const CONCURRENT: u64 = 32;
const GROUP: usize = 10;
const COMMITS: u64 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workflows = std::env::args().nth(1).map_or(Ok(2_000), |text| text.parse())?;
    let directory = std::env::temp_dir().join(format!("segno-facts-{}", std::process::id()));
    let mut options = Options::default();
    options.durable = false;
    options.checkpoint_pages = u32::MAX >> 1;
    let store = SqliteStore::open(&directory, options)?;
    let written = bytes_written()?;

    let mut under_way: VecDeque<(u64, u64)> = (1..=CONCURRENT.min(workflows)).map(|key| (key, 0)).collect();
    let mut next_key = CONCURRENT + 1;
    while !under_way.is_empty() {
        let group: Vec<_> = under_way.drain(..GROUP.min(under_way.len())).collect();
        let commits: Vec<_> = group.iter().map(|(key, step)| commit(*key, *step)).collect();
        store.commit(commits.to_vec()).wait().into_iter().collect::<Result<(), _>>()?;
        for (key, step) in group {
            if step + 1 < COMMITS {
                under_way.push_back((key, step + 1));
            } else if next_key <= workflows {
                under_way.push_back((next_key, 0));
                next_key += 1;
            }
        }
    }
    let bytes = bytes_written()? - written;
    let listed = store.count(NamespaceKey(1), &Filter::All(Vec::new()), None).wait()?;
    println!("{} workflows, {:.2} KiB written for each", listed[0].runs, bytes as f64 / 1_024.0 / workflows as f64);
    drop(store);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

fn commit(key: u64, step: u64) -> Commit {
    let first_event_id = 1 + 2 * step as i64;
    let workflow_id = format!("load-1763262000000-{key}");
    let open = step + 1 < COMMITS;
    let current = (step == 0).then(|| CurrentWrite {
        namespace: NamespaceKey(1),
        workflow_id: workflow_id.clone(),
        expected: None,
        current: Some(RunKey(key)),
    });
    let write = RunWrite {
        key: RunKey(key),
        expected_version: step,
        state: Bytes::from(vec![key as u8; 500]),
        open,
        wake_at: Some((key ^ step) as i64),
        dispatchable: step.is_multiple_of(2),
        batches: vec![HistoryBatch {
            first_event_id,
            last_event_id: first_event_id + 1,
            events: Bytes::from(vec![step as u8; 350]),
        }],
        visibility: step.is_multiple_of(2).then(|| Box::new(facts(key, workflow_id, step))),
    };
    Commit { runs: vec![write], current: current.into_iter().collect(), ..Commit::default() }
}

fn facts(key: u64, workflow_id: String, step: u64) -> VisibilityRow {
    let start_time = 1_763_262_000_000_000_000 + key as i64 * 1_000_003;
    let closed = Closed { time: start_time + 20_000_000, history_length: 11, history_bytes: 1_750, transitions: 5 };
    let build_ids = vec!["unversioned".to_owned(), "unversioned:0123456789abcdef0123456789abcdef".to_owned()];
    VisibilityRow {
        key: RunKey(key),
        namespace: NamespaceKey(1),
        workflow_id,
        run_id: run_id(key),
        workflow_type: "OneActivity".to_owned(),
        task_queue: "load-queue".to_owned(),
        status: if step == 4 { 2 } else { 1 },
        start_time,
        execution_time: start_time,
        closed: (step == 4).then_some(closed),
        parent: None,
        root: None,
        activity_retry: None,
        task_retry: None,
        attributes: if step == 0 { BTreeMap::new() } else { BTreeMap::from([(2, Value::List(build_ids))]) },
    }
}

/// What this process wrote, to files or elsewhere.
fn bytes_written() -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("no wchar")?;
    Ok(line.parse()?)
}
