//! Counts workflow starts against the [limits](crate::start_limits) of their namespace.

use std::sync::Arc;

use segno_engine::start::Start;
use segno_store::NamespaceKey;
use tokio::time::Instant;

use crate::{error::CallError, list_limits::ListCaller, namespaces::Namespace, runs::Runs};

/// Children that the runs of a namespace may start in a second if nothing is set. A start by a client has no such limit.
const CHILDREN_PER_SECOND: usize = 1000;
/// Workflows that are open. Counts by status are kept, so that nothing is searched.
const OPEN: &str = "ExecutionStatus = 'Running' OR ExecutionStatus = 'Paused'";

/// A workflow that was counted as open, until it is stored.
pub struct CountedStart {
    runs: Arc<Runs>,
    namespace: NamespaceKey,
}

impl Drop for CountedStart {
    fn drop(&mut self) {
        self.runs.start_limits.end(self.namespace);
    }
}

impl Runs {
    /// Forgets the counted starts of a namespace that is deleted.
    pub fn forget_starts(&self, namespace: NamespaceKey) {
        self.start_limits.forget_namespace(namespace);
    }

    /// Counts a workflow that is to be created, unless its namespace has or starts too many. `replaces` says whether it takes
    /// the place of an open one. What is given back is kept until it is stored.
    pub(crate) async fn count_start(
        self: &Arc<Self>,
        start: &Start,
        replaces: bool,
    ) -> Result<Option<CountedStart>, CallError> {
        if start.options.schedule.is_some() || start.options.is_standalone() {
            return Ok(None);
        }
        let Some(namespace) = self.namespaces.by_key(NamespaceKey(start.namespace_key)) else { return Ok(None) };
        let limits = namespace.settings.calls;
        let per_second = match limits.starts_per_second {
            0 if start.parent.is_some() => CHILDREN_PER_SECOND,
            set => set,
        };
        if per_second > 0 {
            self.start_limits.take(namespace.key, per_second, Instant::now())?;
        }
        if limits.open_runs == 0 || replaces {
            return Ok(None);
        }
        self.count_open(&namespace, limits.open_runs).await?;
        Ok(Some(CountedStart { runs: self.clone(), namespace: namespace.key }))
    }

    async fn count_open(&self, namespace: &Arc<Namespace>, most: usize) -> Result<(), CallError> {
        if let Some(counted) = self.start_limits.open(namespace.key, most, Instant::now()) {
            return Ok(counted?);
        }
        let began = Instant::now();
        let under_way = self.start_limits.under_way(namespace.key, began);
        let (_, counts) = self.count(ListCaller::default(), namespace, OPEN).await?;
        let runs = counts.iter().map(|group| group.runs).sum::<u64>() + under_way;
        let counted_at = Instant::now();
        self.start_limits.note_open(namespace.key, began, counted_at, runs);
        let counted = self.start_limits.open(namespace.key, most, counted_at);
        // The namespace was forgotten meanwhile.
        Ok(counted.unwrap_or(Ok(()))?)
    }
}
