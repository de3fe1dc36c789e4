//! What the runs need of scripts. A turn is one execution of a script's code.
//!
//! The runs hold the implementation, which gets the runs with each call: it holds no reference to them, so that a
//! stopped node is freed. The engine knows whether a run needs a turn, so a run without a script costs only the lookup
//! of its name when it starts.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use segno_engine::{Run, Transition, reset::ScriptPast, script::Version};
use segno_proto::{common::Payloads, events::HistoryEvent, query::WorkflowQuery};
use segno_store::NamespaceKey;
use tokio::time::Instant;

use crate::{
    error::CallError,
    runs::Runs,
    slots::{Current, WorkflowKey},
};

/// A future that borrows what it was made of.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What scripts do once their turns are stored. `None` if there is nothing to do.
pub type AfterCommit = Option<Box<dyn FnOnce() + Send>>;

/// A script as it was before an event.
pub struct ScriptAt {
    /// How far it had come.
    pub past: ScriptPast,
    /// Its state; `None` before its first turn.
    pub state: Option<Bytes>,
    /// The checkpoint with which its history begins: its slot and its content, to be stored with a run that begins there.
    pub checkpoint: Option<(u32, Bytes)>,
}

/// Executes the turns of runs that are scripts.
pub trait ScriptTurns: Send + Sync {
    /// Reads the names of all scripts from storage, at the start and when another node changed them.
    fn load<'a>(self: Arc<Self>, runs: &'a Arc<Runs>) -> Pending<'a, Result<(), CallError>>;

    /// The current version of a script, with which new runs of that name begin; `None` if there is no such script.
    fn current_version(&self, namespace: NamespaceKey, name: &str) -> Option<Version>;

    /// Adds the turns that follow from a transition to it, as many as can be taken at once. `current` is the run as it is
    /// stored, unless it is new. What it gives is called after the commit.
    fn take_turns<'a>(
        self: Arc<Self>,
        runs: &'a Arc<Runs>,
        current: Option<&'a Current>,
        run: &'a mut Run,
        transition: &'a mut Transition,
    ) -> Pending<'a, AfterCommit>;

    /// A run has a turn to take that was not taken with a commit.
    fn offer(&self, run: &Run);

    /// How many turns were offered and wait.
    fn waiting(&self) -> usize;

    /// Answers a query from the state of a script.
    fn query<'a>(
        self: Arc<Self>,
        runs: &'a Arc<Runs>,
        key: &'a WorkflowKey,
        current: Arc<Current>,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Pending<'a, Result<Payloads, CallError>>;

    /// How far a script had come before an event; `None` if the run is no script. `past` is the history up to that event.
    fn script_at<'a>(
        self: Arc<Self>,
        runs: &'a Arc<Runs>,
        base: &'a Current,
        past: &'a [Vec<HistoryEvent>],
        until: i64,
    ) -> Pending<'a, Result<Option<ScriptAt>, CallError>>;

    /// A run of a script was followed by another one: this one.
    fn run_continued(self: Arc<Self>, runs: &Arc<Runs>, next: &Run);

    /// A run of a script was deleted.
    fn run_deleted<'a>(self: Arc<Self>, runs: &'a Arc<Runs>, run: &'a Run) -> Pending<'a, ()>;

    /// Makes the runs of all schedules of scripts what the current versions say: shards came, or versions changed elsewhere.
    fn follow_schedules<'a>(self: Arc<Self>, runs: &'a Arc<Runs>) -> Pending<'a, ()>;
}

/// No scripts: no name has a version, and no run has a turn that can be taken.
#[cfg(test)]
struct NoScripts;

#[cfg(test)]
impl ScriptTurns for NoScripts {
    fn load<'a>(self: Arc<Self>, _: &'a Arc<Runs>) -> Pending<'a, Result<(), CallError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn current_version(&self, _: NamespaceKey, _: &str) -> Option<Version> {
        None
    }

    fn take_turns<'a>(
        self: Arc<Self>,
        _: &'a Arc<Runs>,
        _: Option<&'a Current>,
        _: &'a mut Run,
        _: &'a mut Transition,
    ) -> Pending<'a, AfterCommit> {
        Box::pin(std::future::ready(None))
    }

    fn offer(&self, _: &Run) {}

    fn waiting(&self) -> usize {
        0
    }

    fn query<'a>(
        self: Arc<Self>,
        _: &'a Arc<Runs>,
        key: &'a WorkflowKey,
        _: Arc<Current>,
        _: WorkflowQuery,
        _: Instant,
    ) -> Pending<'a, Result<Payloads, CallError>> {
        let error = CallError::NoScript(format!("workflow \"{}\" is no script", key.workflow_id));
        Box::pin(std::future::ready(Err(error)))
    }

    fn script_at<'a>(
        self: Arc<Self>,
        _: &'a Arc<Runs>,
        _: &'a Current,
        _: &'a [Vec<HistoryEvent>],
        _: i64,
    ) -> Pending<'a, Result<Option<ScriptAt>, CallError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn run_continued(self: Arc<Self>, _: &Arc<Runs>, _: &Run) {}

    fn run_deleted<'a>(self: Arc<Self>, _: &'a Arc<Runs>, _: &'a Run) -> Pending<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn follow_schedules<'a>(self: Arc<Self>, _: &'a Arc<Runs>) -> Pending<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use segno_engine::{
        script,
        start::{Start, StartOptions},
    };
    use segno_environment::Environment;
    use segno_proto::{common::WorkflowType, taskqueue::TaskQueue};
    use segno_store::MemoryStore;

    use super::*;
    use crate::{namespaces::Namespace, options::NodeOptions, ports::owner::Alone};

    fn start(namespace: &Namespace, queue: &str) -> Start {
        namespace.start(StartOptions {
            namespace: namespace.name.clone(),
            workflow_id: "w".to_owned(),
            workflow_type: Some(WorkflowType { name: "w".to_owned() }),
            task_queue: Some(TaskQueue { name: queue.to_owned(), ..Default::default() }),
            request_id: queue.to_owned(),
            ..Default::default()
        })
    }

    #[tokio::test]
    async fn runs_need_no_scripts() {
        let store = Arc::new(MemoryStore::default());
        let (environment, options) = (Environment::of_machine(), NodeOptions::default());
        let runs =
            Runs::new(store, &environment, options, Arc::new(Alone), Arc::new(NoScripts)).await.expect("they are made");
        crate::loops::load_documents(&runs).await.expect("documents are read");
        runs.recover().await.expect("nothing is damaged");
        crate::loops::start_loops(&runs);
        let namespace = runs.namespaces.get("default").expect("every store has it");
        let started = runs.start_workflow(start(&namespace, "queue")).await.expect("it starts");
        assert!(started.started && started.run.state().script.is_none());
        let refused = runs.start_workflow(start(&namespace, script::QUEUE)).await.map(|_| ());
        assert!(matches!(refused, Err(CallError::NoScript(_))), "{refused:?}");
        runs.shut_down();
        runs.end();
        let freed = Arc::downgrade(&runs);
        drop((started, runs));
        let until_freed = async {
            while freed.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), until_freed).await.expect("nothing holds them");
    }
}
