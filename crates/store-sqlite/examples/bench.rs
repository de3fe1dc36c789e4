//! What a commit costs: groups of 64, each commit one run's state (600 bytes) and one history batch (400 bytes).
//!
//! `cargo run --release -p segno-store-sqlite --example bench [seconds] [runs open] [directory]` prints commits per
//! second, CPU per commit over all threads (writer and checkpoints), how far the log grew, and how long a scan of the
//! open runs takes. Linux only, as CPU time is read from /proc.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use segno_store::{Commit, HistoryBatch, RunKey, RunWrite, Store, Wait};
use segno_store_sqlite::{Options, SqliteStore};

const GROUP: u64 = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument =
        |place: usize, otherwise: u64| std::env::args().nth(place).map_or(Ok(otherwise), |text| text.parse());
    let seconds = argument(1, 10)?;
    let open_runs = argument(2, 100_000)?;
    let directory = std::env::args()
        .nth(3)
        .map_or_else(|| std::env::temp_dir().join(format!("segno-bench-{}", std::process::id())), PathBuf::from);
    let store = SqliteStore::open(&directory, Options::default())?;

    // Five commits per run, as a workflow with one activity makes; the last closes it.
    let mut next_key = store.reserve_run_keys(1 << 40).wait()?.0;
    let (mut commits, mut pages_max, mut slowest) = (0_u64, 0, Duration::ZERO);
    let (begun, cpu_begun) = (Instant::now(), cpu()?);
    while begun.elapsed().as_secs() < seconds {
        for step in 0..5 {
            let group: Vec<_> = (0..GROUP).map(|place| commit(next_key + place, step, step < 4)).collect();
            let group_begun = Instant::now();
            store.commit(group.to_vec()).wait().into_iter().collect::<Result<(), _>>()?;
            slowest = slowest.max(group_begun.elapsed());
            commits += GROUP;
        }
        next_key += GROUP;
        pages_max = pages_max.max(store.wal_status().pages);
    }
    let (wall, used) = (begun.elapsed(), cpu()? - cpu_begun);
    let per_second = commits as f64 / wall.as_secs_f64();
    println!("{commits} commits: {per_second:.0}/s, {:.1} us CPU each", used.as_micros() as f64 / commits as f64);
    println!("log at most {pages_max} pages, slowest group {slowest:?}, {:?}", store.wal_status());

    for first in (0..open_runs).step_by(GROUP as usize) {
        let group: Vec<_> = (0..GROUP.min(open_runs - first)).map(|i| commit(next_key + first + i, 0, true)).collect();
        store.commit(group.to_vec()).wait().into_iter().collect::<Result<(), _>>()?;
    }
    let (begun, cpu_begun, mut found, mut after) = (Instant::now(), cpu()?, 0, None);
    loop {
        let page = store.open_runs(after, 1_000).wait()?;
        let Some(last) = page.last() else { break };
        (found, after) = (found + page.len(), Some(last.key));
    }
    println!("{found} open runs scanned in {:?}, {:?} of CPU", begun.elapsed(), cpu()? - cpu_begun);
    let (begun, cpu_begun) = (Instant::now(), cpu()?);
    for place in 0..10_000 {
        store.load(RunKey(next_key + place * 7 % open_runs.max(1))).wait()?;
    }
    println!("a load takes {:?}, {:?} of CPU", begun.elapsed() / 10_000, (cpu()? - cpu_begun) / 10_000);
    store.close()?;
    let begun = Instant::now();
    drop(SqliteStore::open(&directory, Options::default())?);
    println!("opened and closed in {:?}", begun.elapsed());
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

fn commit(key: u64, step: u64, open: bool) -> Commit {
    let first_event_id = 1 + 3 * step as i64;
    let write = RunWrite {
        key: RunKey(key),
        expected_version: step,
        state: Bytes::from(vec![key as u8; 600]),
        open,
        wake_at: Some((key ^ step) as i64),
        dispatchable: step.is_multiple_of(2),
        batches: vec![HistoryBatch {
            first_event_id,
            last_event_id: first_event_id + 2,
            events: Bytes::from(vec![step as u8; 400]),
        }],
        visibility: None,
    };
    Commit { runs: vec![write], ..Commit::default() }
}

/// CPU time of this process, user and system, in ticks of 10 ms.
fn cpu() -> std::io::Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}
