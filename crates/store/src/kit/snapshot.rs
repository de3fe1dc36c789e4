//! Everything a store shows, as one value that can be compared.

use bytes::Bytes;

use crate::limits::SCRIPT_SLOTS;
use crate::visibility::{Attribute, Filter, ListQuery, Order};
use crate::{
    Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxRow, RunKey, RunRecord, Store, Wait,
};

/// The answers of a store about some runs and names, and all of its scans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// State and history of each run asked for.
    pub runs: Vec<(Option<RunRecord>, Vec<HistoryBatch>)>,
    /// The script states of each run asked for.
    pub scripts: Vec<Vec<Option<Bytes>>>,
    /// The documents of namespaces 1 and 2.
    pub documents: Vec<Document>,
    /// The searchable facts of each run asked for, as text: numbers need not be comparable for equality.
    pub facts: Vec<String>,
    /// The current run under each name asked for.
    pub current: Vec<Option<RunKey>>,
    /// All open runs.
    pub open_runs: Vec<OpenRun>,
    /// All messages under way.
    pub outbox: Vec<OutboxRow>,
    /// All namespaces.
    pub namespaces: Vec<NamespaceRecord>,
    /// The results of searches in namespaces 1 and 2.
    pub searched: Vec<SearchSnapshot>,
}

/// The results of the searches in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchSnapshot {
    /// All runs with their states.
    pub listed: Vec<(RunKey, Bytes)>,
    /// How many runs there are of each status.
    pub counts: Vec<(String, u64)>,
    /// All closed runs.
    pub closed: Vec<RunKey>,
    /// When the first of them closed.
    pub first_close: Option<i64>,
    /// All runs by their keys.
    pub keys: Vec<RunKey>,
    /// The runs of each workflow id that the kit's rows have.
    pub by_workflow: Vec<Vec<RunKey>>,
}

impl SearchSnapshot {
    fn of(store: &dyn Store, namespace: NamespaceKey) -> Self {
        let filter = Filter::All(Vec::new());
        let counts = store.count(namespace, &filter, Some(Attribute::ExecutionStatus)).wait().unwrap();
        let query =
            ListQuery { namespace, filter, order: Order::Newest, as_of: i64::MAX - 1, after: None, limit: usize::MAX };
        let listed = store.list(&query).wait().unwrap().runs;
        Self {
            listed: listed.into_iter().map(|run| (run.key, run.state.unwrap())).collect(),
            counts: counts.into_iter().map(|count| (format!("{:?}", count.group), count.runs)).collect(),
            closed: store.closed_runs(namespace, i64::MAX, usize::MAX).wait().unwrap(),
            first_close: store.first_close(namespace).wait().unwrap(),
            by_workflow: (0..7)
                .map(|number| store.runs_of_workflow(namespace, &format!("w-{number}"), usize::MAX).wait().unwrap())
                .collect(),
            keys: store.runs_of(namespace, None, usize::MAX).wait().unwrap(),
        }
    }
}

/// All documents of a namespace, read in pages and one by one.
fn documents(store: &dyn Store, namespace: NamespaceKey) -> Vec<Document> {
    let all = store.documents(namespace, "", None, usize::MAX).wait().unwrap();
    let mut after: Option<String> = None;
    for document in &all {
        let page = store.documents(namespace, "", after.as_deref(), 1).wait().unwrap();
        assert_eq!(page.first(), Some(document), "the page after {after:?}");
        assert_eq!(store.document(namespace, &document.name).wait().unwrap().as_ref(), Some(&document.content));
        let named = store.documents(namespace, &document.name, None, usize::MAX).wait().unwrap();
        assert!(named.contains(document) && named.iter().all(|found| found.name.starts_with(&document.name)));
        after = Some(document.name.clone());
    }
    assert_eq!(store.document(namespace, "not there").wait().unwrap(), None);
    all
}

impl Snapshot {
    /// Looks at a store. Reads must not fail.
    pub fn of(store: &dyn Store, runs: &[RunKey], names: &[(NamespaceKey, &str)]) -> Self {
        let run = |key: &RunKey| {
            (store.load(*key).wait().unwrap(), store.history(*key, 0, i64::MAX, usize::MAX, usize::MAX).wait().unwrap())
        };
        Self {
            runs: runs.iter().map(run).collect(),
            scripts: runs
                .iter()
                .map(|key| (0..SCRIPT_SLOTS).map(|slot| store.script_state(*key, slot).wait().unwrap()).collect())
                .collect(),
            documents: [1, 2].into_iter().flat_map(|namespace| documents(store, NamespaceKey(namespace))).collect(),
            facts: runs.iter().map(|key| format!("{:?}", store.facts(*key).wait().unwrap())).collect(),
            current: names.iter().map(|(namespace, name)| store.current(*namespace, name).wait().unwrap()).collect(),
            open_runs: store.open_runs(None, usize::MAX).wait().unwrap(),
            outbox: store.outbox(None, usize::MAX).wait().unwrap(),
            namespaces: store.namespaces().wait().unwrap(),
            searched: [1, 2].map(|namespace| SearchSnapshot::of(store, NamespaceKey(namespace))).into(),
        }
    }
}
