//! Everything a store shows, as one value that can be compared.

use crate::{HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxRow, RunKey, RunRecord, Store};

/// What a store shows of some runs and names, and all of its scans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// State and history of each run asked for.
    pub runs: Vec<(Option<RunRecord>, Vec<HistoryBatch>)>,
    /// The current run under each name asked for.
    pub current: Vec<Option<RunKey>>,
    /// All open runs.
    pub open_runs: Vec<OpenRun>,
    /// All messages under way.
    pub outbox: Vec<OutboxRow>,
    /// All namespaces.
    pub namespaces: Vec<NamespaceRecord>,
}

impl Snapshot {
    /// Looks at a store. Reads must not fail.
    pub fn of(store: &dyn Store, runs: &[RunKey], names: &[(NamespaceKey, &str)]) -> Self {
        let run = |key: &RunKey| {
            (store.load(*key).unwrap(), store.history(*key, 0, i64::MAX, usize::MAX, usize::MAX).unwrap())
        };
        Self {
            runs: runs.iter().map(run).collect(),
            current: names.iter().map(|(namespace, name)| store.current(*namespace, name).unwrap()).collect(),
            open_runs: store.open_runs(None, usize::MAX).unwrap(),
            outbox: store.outbox(None, usize::MAX).unwrap(),
            namespaces: store.namespaces().unwrap(),
        }
    }
}
