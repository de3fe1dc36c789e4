//! What a commit costs: CPU of PostgreSQL's backends and of this process, time and write-ahead log, by size of group.
//!
//! `cargo run -p segno-store-postgres --features test-support --example commit_cost [rounds]`. It starts a PostgreSQL of its
//! own, with `fsync` on. Workflows are five commits, as with one activity: a start, three updates, a close.

use std::time::{Duration, Instant};

use bytes::Bytes;
use segno_store::visibility::{Closed, VisibilityRow};
use segno_store::{Commit, CurrentWrite, HistoryBatch, NamespaceKey, RunKey, RunWrite, Store};
use segno_store_postgres::testing::Postgres;
use segno_store_postgres::{Options, PostgresStore};

fn facts(key: u64) -> VisibilityRow {
    let time = 1_700_000_000_000_000_000 + i64::try_from(key).expect("keys are small");
    VisibilityRow {
        key: RunKey(key),
        namespace: NamespaceKey(1),
        workflow_id: format!("order-{key}"),
        run_id: format!("{:08x}-{:04x}-7abc-8def-0123456789ab", (key >> 16) as u32, key as u16),
        workflow_type: "Order".to_owned(),
        task_queue: "orders".to_owned(),
        status: 1,
        start_time: time,
        execution_time: time,
        closed: None,
        parent: None,
        root: None,
        activity_retry: None,
        task_retry: None,
        attributes: Default::default(),
    }
}

/// The commit with this number, from 0, of a workflow.
fn commit(key: u64, number: u64) -> Commit {
    let bytes = |length: usize, salt: u64| -> Bytes {
        let mut seed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt;
        let next = |_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as u8
        };
        (0..length).map(next).collect()
    };
    let events = i64::try_from(number * 3 + 1).expect("there are five");
    let closed = Closed { time: 1_800_000_000_000_000_000, history_length: 11, history_bytes: 1_500, transitions: 5 };
    let visibility = match number {
        0 => Some(Box::new(facts(key))),
        4 => Some(Box::new(VisibilityRow { status: 2, closed: Some(closed), ..facts(key) })),
        _ => None,
    };
    let write = RunWrite {
        key: RunKey(key),
        expected_version: number,
        state: bytes(350, number),
        open: number < 4,
        wake_at: (number < 4).then_some(1_900_000_000_000_000_000),
        dispatchable: number < 4,
        batches: vec![HistoryBatch {
            first_event_id: events,
            last_event_id: events + 2,
            events: bytes(300, number + 9),
        }],
        visibility,
    };
    let pointer = CurrentWrite {
        namespace: NamespaceKey(1),
        workflow_id: format!("order-{key}"),
        expected: None,
        current: Some(RunKey(key)),
    };
    Commit { runs: vec![write], current: if number == 0 { vec![pointer] } else { Vec::new() }, ..Commit::default() }
}

/// CPU time of a process and its threads so far.
fn cpu(process: &str) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let postgres = Postgres::start(&[("shared_buffers", "256MB"), ("max_wal_size", "4GB")]);
    let database = postgres.database();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = PostgresStore::open(&postgres.url(&database), Options::default()).await.expect("a store");
        let mut next = 1;
        println!("group  commits/s  PostgreSQL µs/commit  client µs/commit  WAL B/workflow  HOT updates");
        for size in [1_u64, 8, 64, 256] {
            let rounds = rounds * (64 / size).clamp(1, 16);
            // The first workflows prepare the statements and warm the caches.
            for warm in [true, false] {
                let sql = "SELECT pg_current_wal_lsn() - '0/0', (SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = \
                           'runs'), (SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'runs'), \
                           (SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE application_name LIKE 'segno/%')";
                let look = || {
                    std::thread::sleep(Duration::from_millis(if warm { 0 } else { 1_200 }));
                    let found = postgres.psql(&database, sql).expect("statistics");
                    let fields: Vec<String> = found.split('|').map(str::to_owned).collect();
                    let backends: Duration = fields[3].split(',').map(cpu).sum();
                    let number = |place: usize| fields[place].parse::<f64>().expect("a number");
                    (number(0), number(1), number(2), backends, cpu("self"))
                };
                let before = look();
                let begun = Instant::now();
                let count = if warm { 2 } else { rounds };
                for _ in 0..count {
                    for number in 0..5 {
                        let group: Vec<_> = (next..next + size).map(|key| commit(key, number)).collect();
                        let results = store.commit(group).await;
                        assert!(results.iter().all(Result::is_ok), "{results:?}");
                    }
                    next += size;
                }
                let elapsed = begun.elapsed();
                let after = look();
                if warm {
                    continue;
                }
                let (commits, workflows) = ((count * size * 5) as f64, (count * size) as f64);
                let micros = |time: Duration| time.as_secs_f64() * 1e6 / commits;
                println!(
                    "{size:5}  {:9.0}  {:20.1}  {:16.1}  {:14.0}  {:9.0} %",
                    commits / elapsed.as_secs_f64(),
                    micros(after.3 - before.3),
                    micros(after.4 - before.4),
                    (after.0 - before.0) / workflows,
                    100.0 * (after.2 - before.2) / (after.1 - before.1).max(1.0),
                );
            }
        }
        store.close().await;
    });
}
