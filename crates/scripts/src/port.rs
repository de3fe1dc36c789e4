//! Implements the port `Turn` of the runs.

use std::sync::Arc;

use segno_engine::{Run, Transition};
use segno_proto::{common::Payloads, events::HistoryEvent, query::WorkflowQuery};
use segno_runs::{
    error::CallError,
    ports::{AfterCommit, CurrentScript, Pending, ScriptAt, ScriptTurns},
    runs::Runs,
    slots::{Current, WorkflowKey},
};
use segno_store::{NamespaceKey, RunKey};
use tokio::time::Instant;

use super::host::{ScriptHost, Scripts};

impl ScriptTurns for ScriptHost {
    fn load<'a>(self: Arc<Self>, runs: &'a Arc<Runs>) -> Pending<'a, Result<(), CallError>> {
        Box::pin(async move { Scripts::new(self, runs).load().await })
    }

    fn current(&self, namespace: NamespaceKey, name: &str) -> Option<CurrentScript> {
        let record = self.registry.record(namespace, name)?;
        Some(CurrentScript { version: record.current()?, takes_over: !record.leaves_queues })
    }

    fn take_turns<'a>(
        self: Arc<Self>,
        runs: &'a Arc<Runs>,
        current: Option<&'a Current>,
        run: &'a mut Run,
        transition: &'a mut Transition,
    ) -> Pending<'a, AfterCommit> {
        Box::pin(async move { Scripts::new(self, runs).take_turns(current, run, transition).await })
    }

    fn offer(&self, run: &Run) {
        if !self.held_back.is_held_back(run) {
            self.resumes.offer(NamespaceKey(run.info.namespace_key), RunKey(run.info.run_key));
        }
    }

    fn waiting(&self) -> usize {
        self.resumes.len()
    }

    fn query<'a>(
        self: Arc<Self>,
        runs: &'a Arc<Runs>,
        key: &'a WorkflowKey,
        current: Arc<Current>,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Pending<'a, Result<Payloads, CallError>> {
        Box::pin(async move { Scripts::new(self, runs).query(key, current, query, deadline).await })
    }

    fn script_at<'a>(
        self: Arc<Self>,
        runs: &'a Arc<Runs>,
        base: &'a Current,
        past: &'a [Vec<HistoryEvent>],
        until: i64,
    ) -> Pending<'a, Result<Option<ScriptAt>, CallError>> {
        Box::pin(async move { Scripts::new(self, runs).script_at(base, past, until).await })
    }

    fn run_continued(self: Arc<Self>, runs: &Arc<Runs>, next: &Run) {
        Scripts::new(self, runs).run_continued(next);
    }

    fn run_deleted<'a>(self: Arc<Self>, runs: &'a Arc<Runs>, run: &'a Run) -> Pending<'a, ()> {
        Box::pin(async move { Scripts::new(self, runs).run_deleted(run).await })
    }

    fn follow_schedules<'a>(self: Arc<Self>, runs: &'a Arc<Runs>) -> Pending<'a, ()> {
        Box::pin(async move { Scripts::new(self, runs).follow_schedules().await })
    }
}
