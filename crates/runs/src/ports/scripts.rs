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

/// Work of scripts after their turns are stored. `None` if there is nothing to do.
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

/// A script that has a current version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentScript {
    /// The version.
    pub version: Version,
    /// Whether it executes its type also where workers do, see [`crate::executors`].
    pub takes_over: bool,
}

/// Executes the turns of runs that are scripts.
pub trait ScriptTurns: Send + Sync {
    /// Reads the names of all scripts from storage, at the start and when another node changed them.
    fn load<'a>(self: Arc<Self>, runs: &'a Arc<Runs>) -> Pending<'a, Result<(), CallError>>;

    /// The script of a name, with whose current version its new runs begin; `None` if there is none.
    fn current(&self, namespace: NamespaceKey, name: &str) -> Option<CurrentScript>;

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

    /// How far a script had come before an event; `None` if the run is not a script. `past` is the history up to that event.
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
pub struct NoScripts;

impl ScriptTurns for NoScripts {
    fn load<'a>(self: Arc<Self>, _: &'a Arc<Runs>) -> Pending<'a, Result<(), CallError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn current(&self, _: NamespaceKey, _: &str) -> Option<CurrentScript> {
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
        let error = CallError::NoScript(format!("workflow \"{}\" is not a script", key.workflow_id));
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
