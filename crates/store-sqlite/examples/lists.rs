//! How long lists and counts take over many runs: `cargo run --release -p segno-store-sqlite --example lists`.
//!
//! Fills a store with runs that have five attributes each and prints median and best of each question, answered again
//! and again by one thread. Give the number of runs to have another than 200,000.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use segno_store::kit::{Random, row};
use segno_store::visibility::{
    Attribute, Closed, Kind, ListQuery, Names, Value, VisibilityRow, parse_count, parse_list,
};
use segno_store::{Commit, NamespaceKey, RunWrite, Store, Wait};
use segno_store_sqlite::{Options, SqliteStore};

const REPEATS: usize = 21;
const PAGE: usize = 100;

struct Custom;

impl Names for Custom {
    fn find(&self, name: &str) -> Option<Attribute> {
        let (number, kind) = match name {
            "Division" => (1, Kind::Keyword),
            "K" => (1_000, Kind::Keyword),
            "I" => (1_001, Kind::Int),
            "D" => (1_002, Kind::Double),
            "At" => (1_003, Kind::Datetime),
            "L" => (1_004, Kind::KeywordList),
            _ => return None,
        };
        Some(Attribute::Numbered(number, kind))
    }
}

/// One run in ten is open. A value of K has a fifth of the runs, of L a quarter, of I one in ten thousand.
fn write(key: u64, random: &mut Random) -> RunWrite {
    let start_time = i64::try_from(key).expect("a small number") * 1_000_000;
    let open = random.once_in(10);
    let closed = Closed {
        time: start_time + random.below(1 << 36) as i64,
        history_length: 11,
        history_bytes: 2_000,
        transitions: 7,
    };
    let attributes = BTreeMap::from([
        (1_000, Value::Text(format!("customer-{}", random.below(5)))),
        (1_001, Value::Int(random.below(10_000) as i64)),
        (1_002, Value::Double(random.below(1 << 40) as f64 / 7.0)),
        (1_003, Value::Int(start_time + random.below(1 << 40) as i64)),
        (1_004, Value::List(vec![format!("tag-{}", random.below(4)), format!("zone-{}", random.below(20))])),
    ]);
    let facts = VisibilityRow {
        workflow_id: format!("order-{key:08}"),
        start_time,
        execution_time: start_time,
        status: if open { 1 } else { [2, 2, 2, 2, 2, 2, 2, 3, 5, 7][random.below(10) as usize] },
        closed: (!open).then_some(closed),
        attributes,
        ..row(key)
    };
    RunWrite {
        key: facts.key,
        expected_version: 0,
        state: Bytes::from(vec![7; 1_000]),
        open,
        wake_at: None,
        dispatchable: false,
        batches: Vec::new(),
        visibility: Some(Box::new(facts)),
    }
}

/// Median, best, and what was found.
fn measure(mut work: impl FnMut() -> usize) -> (String, usize) {
    let mut found = 0;
    let mut times: Vec<Duration> = (0..REPEATS)
        .map(|_| {
            let began = Instant::now();
            found = work();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    (format!("{:.2?} / {:.2?}", times[REPEATS / 2], times[0]), found)
}

fn main() {
    let runs: u64 = std::env::args().nth(1).map_or(200_000, |runs| runs.parse().expect("a number"));
    let directory = std::env::temp_dir().join(format!("segno-lists-{}", std::process::id()));
    let mut options = Options::default();
    options.durable = false;
    let store = SqliteStore::open(&directory, options).expect("opens");
    let mut random = Random::new(1);
    let began = Instant::now();
    for first in (1..=runs).step_by(1_000) {
        let writes = (first..(first + 1_000).min(runs + 1)).map(|key| write(key, &mut random)).collect();
        assert_eq!(store.commit(vec![Commit { runs: writes, ..Commit::default() }]).wait(), [Ok(())]);
    }
    println!("{runs} runs written in {:?}", began.elapsed());
    let namespace = NamespaceKey(1);
    let lists = [
        "",
        "Division IS NULL",
        "ExecutionStatus = 'Running'",
        "ExecutionStatus = 'Failed'",
        "ExecutionStatus = 'Failed' OR ExecutionStatus = 'TimedOut'",
        "K = 'customer-1'",
        "K = 'customer-1' AND Division IS NULL",
        "K IN ('customer-1', 'customer-2') AND ExecutionStatus != 'Running'",
        "L = 'tag-1'",
        "L = 'tag-1' AND K = 'customer-1' AND I < 5000",
        "I = 77",
        "I BETWEEN 1000 AND 1100",
        "I > 5000",
        "D > 1000.5",
        "WorkflowType = 'Order'",
        "WorkflowId = 'order-00100000'",
        "WorkflowId STARTS_WITH 'order-0010'",
        "RunId = '00000001-86a0-8abc-8def-0123456789ab'",
        "ORDER BY I",
        "ORDER BY K DESC",
        "ORDER BY D DESC",
        "K = 'customer-1' ORDER BY I",
        "K = 'customer-1' ORDER BY D DESC",
        "K = 'customer-1' ORDER BY K",
        "I < 100 ORDER BY D",
        "ORDER BY StartTime",
        "ORDER BY CloseTime DESC",
        "ORDER BY HistoryLength",
        "K LIKE '%mer-1'",
        "WorkflowId LIKE '%99999'",
    ];
    println!("\n| list, pages of {PAGE} | first page | tenth page | runs |\n|---|---|---|---|");
    for text in lists {
        let (filter, order) = parse_list(text, &Custom).expect("a filter");
        let mut query = ListQuery { namespace, filter, order, as_of: i64::MAX - 1, after: None, limit: PAGE };
        let (first, found) = measure(|| store.list(&query).wait().expect("a page").runs.len());
        let mut deep = String::from("-");
        for page in 0..10 {
            match store.list(&query).wait().expect("a page").next {
                Some(next) => query.after = Some(next),
                None => break,
            }
            if page == 9 {
                deep = measure(|| store.list(&query).wait().expect("a page").runs.len()).0;
            }
        }
        println!("| `{text}` | {first} | {deep} | {found} |");
    }
    let counts = [
        "",
        "GROUP BY ExecutionStatus",
        "Division IS NULL GROUP BY ExecutionStatus",
        "ExecutionStatus = 'Running' AND Division IS NULL",
        "K = 'customer-1'",
        "K = 'customer-1' AND Division IS NULL",
        "K = 'customer-1' AND ExecutionStatus = 'Running'",
        "K = 'customer-1' GROUP BY ExecutionStatus",
        "WorkflowType = 'Order' GROUP BY ExecutionStatus",
        "GROUP BY K",
        "GROUP BY WorkflowType",
        "I < 100",
        "WorkflowId LIKE '%99999'",
    ];
    println!("\n| count | time | groups |\n|---|---|---|");
    for text in counts {
        let (filter, group_by) = parse_count(text, &Custom).expect("a filter");
        let (time, groups) = measure(|| store.count(namespace, &filter, group_by).wait().expect("counts").len());
        println!("| `{text}` | {time} | {groups} |");
    }
    drop(store);
    std::fs::remove_dir_all(directory).expect("removable");
}
