//! Lists and counts use the indexes meant for them: no scan if an index matches the filter, no sorting if one has the
//! order, and a later page does not read earlier ones again.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use segno_store::kit::row;
use segno_store::visibility::{
    Attribute, Closed, Kind, ListQuery, Names, Retry, Value, VisibilityRow, parse_count, parse_list,
};
use segno_store::{Commit, NamespaceKey, RunWrite, Store, Wait, kit};

use super::plans;
use crate::{Options, SqliteStore};
use segno_store::lock::lock;

const RUNS: u64 = 6_000;
const AS_OF: i64 = 1 << 40;

struct Custom;

impl Names for Custom {
    fn find(&self, name: &str) -> Option<Attribute> {
        let (number, kind) = match name {
            "Division" => (1, Kind::Keyword),
            "K" => (1_000, Kind::Keyword),
            "I" => (1_001, Kind::Int),
            "L" => (1_002, Kind::KeywordList),
            _ => return None,
        };
        Some(Attribute::Numbered(number, kind))
    }
}

struct Filled {
    directory: PathBuf,
    store: SqliteStore,
    /// No other test notes plans meanwhile.
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Filled {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

/// Half of the runs are open; each value of K has 1,200 runs, each of I has 60, Division has 3.
fn filled() -> Filled {
    static STORES: AtomicU32 = AtomicU32::new(0);
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = lock(&ALONE);
    let name = format!("segno-plans-{}-{}", std::process::id(), STORES.fetch_add(1, Ordering::Relaxed));
    let directory = std::env::temp_dir().join(name);
    let options = Options { durable: false, ..Options::default() };
    let store = SqliteStore::open(&directory, options).expect("opens");
    let write = |key: u64| {
        let number = i64::try_from(key).expect("small");
        let mut attributes = std::collections::BTreeMap::from([
            (1_000, Value::Text(format!("v{}", key % 5))),
            (1_001, Value::Int(number % 100)),
            (1_002, Value::List(vec![format!("t{}", key % 3), format!("u{}", key % 4)])),
        ]);
        if key % 2_000 == 7 {
            attributes.insert(1, Value::Text("division".to_owned()));
        }
        let closed = Closed { time: number * 11, history_length: 1, history_bytes: 1, transitions: 1 };
        let open = key.is_multiple_of(2);
        let facts = VisibilityRow {
            workflow_id: format!("w-{key}"),
            status: if open { 1 } else { 2 + i32::from(key % 100 == 1) },
            closed: (!open).then_some(closed),
            activity_retry: (key % 500 == 2).then_some(Retry { attempt: 3, failure: None }),
            attributes,
            ..row(key)
        };
        RunWrite { open, visibility: Some(Box::new(facts)), ..kit::run(key, 0, "s") }
    };
    let commit = Commit { runs: (1..=RUNS).map(write).collect(), ..Commit::default() };
    assert_eq!(store.commit(vec![commit]).wait(), [Ok(())]);
    Filled { directory, store, _alone: alone }
}

impl Filled {
    /// The plans of a first and a second page, without those of the few runs that closed after the first.
    fn list(&self, filter: &str) -> Vec<String> {
        let (filter, order) = parse_list(filter, &Custom).expect("a filter");
        let namespace = NamespaceKey(1);
        let mut query = ListQuery { namespace, filter, order, as_of: AS_OF, after: None, limit: 20 };
        plans::take();
        query.after = self.store.list(&query).wait().expect("a page").next;
        let mut found = plans::take();
        if query.after.is_some() {
            self.store.list(&query).wait().expect("a page");
            found.extend(plans::take());
        }
        found.retain(|plan| !plan.contains("ended>? AND ended<?"));
        found
    }

    fn count(&self, filter: &str) -> Vec<String> {
        let (filter, group_by) = parse_count(filter, &Custom).expect("a filter");
        plans::take();
        self.store.count(NamespaceKey(1), &filter, group_by).wait().expect("a count");
        plans::take()
    }
}

#[test]
fn indexes_are_used() {
    let filled = filled();
    // Filters and orders whose runs an index has in order, and that index.
    let in_order = [
        ("", "visibility_order (namespace=? AND ended=?"),
        ("Division IS NULL", "visibility_order (namespace=? AND ended=?"),
        ("StartTime > '2020-01-01T00:00:00Z'", "visibility_order (namespace=? AND ended=?"),
        ("CloseTime > 5", "visibility_order (namespace=? AND ended>? AND"),
        ("ExecutionStatus = 'Running'", "visibility_order (namespace=? AND ended=?"),
        ("ExecutionStatus = 'Completed'", "visibility_order (namespace=? AND ended<?"),
        ("ExecutionStatus = 'Failed'", "visibility_status (namespace=? AND status=? AND ended<?"),
        ("K = 'v1'", "SEARCH a USING PRIMARY KEY (attribute=? AND value=? AND ended=?"),
        ("K = 'v1' AND Division IS NULL", "SEARCH a USING PRIMARY KEY (attribute=? AND value=? AND ended=?"),
        ("K IN ('v1', 'v2')", "SEARCH a USING PRIMARY KEY (attribute=? AND value=? AND ended=?"),
        ("K = 'v1' OR I = 7", "SEARCH a USING PRIMARY KEY (attribute=? AND value=? AND ended=?"),
        ("L = 't1'", "SEARCH a USING PRIMARY KEY (attribute=? AND value=? AND ended=?"),
        ("I > 5", "visibility_order (namespace=? AND ended=?"),
        ("ORDER BY I", "SEARCH a USING PRIMARY KEY (attribute=?"),
        ("ORDER BY K DESC", "SEARCH a USING PRIMARY KEY (attribute=?"),
        ("K = 'v1' ORDER BY I DESC", "SEARCH a USING PRIMARY KEY (attribute=?"),
        ("I > 50 ORDER BY I", "SEARCH a USING PRIMARY KEY (attribute=? AND value>?"),
        ("ORDER BY CloseTime DESC", "visibility_order (namespace=? AND ended<?"),
    ];
    for (filter, index) in in_order {
        let plans = filled.list(filter);
        assert!(plans.iter().any(|plan| plan.contains(index)), "{filter}: {plans:#?}");
        for plan in &plans {
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{filter}: {plan}");
        }
    }
    // Those that lead to few runs, which are sorted.
    let sorted = [
        ("WorkflowId = 'w-17'", "visibility_workflow_id (namespace=? AND workflow_id=?)"),
        ("WorkflowId STARTS_WITH 'w-17'", "visibility_workflow_id (namespace=? AND workflow_id>? AND workflow_id<?)"),
        ("WorkflowId LIKE 'w-17%'", "visibility_workflow_id (namespace=? AND workflow_id>? AND workflow_id<?)"),
        ("RunId = '00000000-0011-8abc-8def-0123456789ab'", "SEARCH v USING INTEGER PRIMARY KEY"),
        ("ParentWorkflowId = 'p'", "visibility_parent (namespace=? AND parent_workflow_id=?)"),
        ("ActivityAttempts > 2", "visibility_retrying (namespace=?"),
        ("ActivityAttempts > 0 OR WorkflowTaskAttempts > 0", "visibility_retrying (namespace=?"),
        ("I BETWEEN 3 AND 5", "SEARCH a USING PRIMARY KEY (attribute=? AND value>? AND value<?)"),
        ("Division IS NOT NULL", "SEARCH a USING PRIMARY KEY (attribute=?)"),
        ("L STARTS_WITH 'x'", "SEARCH a USING PRIMARY KEY (attribute=? AND value>? AND value<?)"),
        ("K = 'v2' AND WorkflowId = 'w-17'", "visibility_workflow_id (namespace=? AND workflow_id=?)"),
        ("I = 7 ORDER BY K", "SEARCH a USING PRIMARY KEY (attribute=? AND value=?)"),
    ];
    for (filter, index) in sorted {
        let plans = filled.list(filter);
        assert!(plans.iter().any(|plan| plan.contains(index)), "{filter}: {plans:#?}");
        assert!(plans.iter().all(|plan| !plan.contains("SCAN")), "{filter}: {plans:#?}");
    }
}

#[test]
fn a_type_is_found_in_order_but_for_equal_starts() {
    let filled = filled();
    let plans = filled.list("WorkflowType = 'Order'");
    assert!(plans.iter().any(|plan| plan.contains("visibility_type (namespace=? AND workflow_type=? AND ended=?")));
    for plan in plans {
        assert!(!plan.contains("FOR ORDER BY") && !plan.contains("SCAN"), "{plan}");
    }
}

#[test]
fn counts_use_indexes() {
    let filled = filled();
    let cases = [
        ("", "SEARCH status_counts USING PRIMARY KEY (namespace=?)"),
        ("GROUP BY ExecutionStatus", "SEARCH status_counts USING PRIMARY KEY (namespace=?)"),
        ("ExecutionStatus != 'Running' AND Division IS NULL", "SEARCH status_counts USING PRIMARY KEY (namespace=?)"),
        ("K = 'v1'", "SEARCH a USING PRIMARY KEY (attribute=? AND value=?)"),
        ("K = 'v1' AND Division IS NULL", "SEARCH a USING PRIMARY KEY (attribute=? AND value=?)"),
        ("K = 'v1' AND ExecutionStatus = 'Running'", "(attribute=? AND value=? AND ended=?)"),
        ("L = 't1' GROUP BY ExecutionStatus", "SEARCH a USING PRIMARY KEY (attribute=? AND value=?)"),
        ("WorkflowType = 'Order' GROUP BY ExecutionStatus", "COVERING INDEX visibility_type"),
        ("GROUP BY K", "SEARCH a USING PRIMARY KEY (attribute=?)"),
        ("I IN (1, 2)", "SEARCH v USING INTEGER PRIMARY KEY"),
    ];
    for (filter, index) in cases {
        let plans = filled.count(filter);
        assert!(plans.iter().any(|plan| plan.contains(index)), "{filter}: {plans:#?}");
    }
    for filter in ["", "K = 'v1'", "K = 'v1' AND Division IS NULL"] {
        let plans = filled.count(filter);
        assert!(plans.iter().all(|plan| !plan.contains(" v ")), "{filter} needs no rows: {plans:#?}");
    }
}
