//! Code around what workflows receive and ask for.

use std::{collections::BTreeMap, sync::Arc};

use segno_proto::common::{Header, Payload};

use super::core::Shared;

/// What reaches a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum InboundKind {
    Run,
    Signal,
    Query,
    Update,
}

/// What a workflow asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum OutboundKind {
    Task,
    LocalTask,
    Child,
    Signal,
    ContinueAsNew,
}

/// The run that a call belongs to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InterceptedRun {
    /// The workflow's id.
    pub workflow_id: String,
    /// The run's id.
    pub run_id: String,
    /// The workflow's kind.
    pub kind: String,
    /// Whether the turn repeats what history has.
    pub is_replaying: bool,
    /// The headers that the run was started with.
    pub headers: BTreeMap<String, Payload>,
}

/// Something that reaches a workflow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InboundCall {
    /// What it is.
    pub kind: InboundKind,
    /// The name of the workflow's kind, or of the signal, query or update.
    pub name: String,
    /// What travelled along.
    pub headers: BTreeMap<String, Payload>,
}

/// Something that a workflow asks for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutboundCall {
    /// What it is.
    pub kind: OutboundKind,
    /// The kind of the task or workflow, or the name of the signal.
    pub name: String,
    /// What travels along. It does not pass the codecs.
    pub headers: BTreeMap<String, Payload>,
}

/// Code around what workflows receive and ask for:
/// [`WorkerBuilder::workflow_interceptor`](crate::WorkerBuilder::workflow_interceptor).
///
/// It is called in every replay, too, on the workflow's thread, so that it must not wait for anything. What it adds to
/// headers is not compared with history.
pub trait WorkflowInterceptor: Send + Sync + 'static {
    /// Before the workflow handles something.
    fn inbound(&self, run: &InterceptedRun, call: &InboundCall) {
        let _ = (run, call);
    }

    /// Before a command is queued. It may add headers.
    fn outbound(&self, run: &InterceptedRun, call: &mut OutboundCall) {
        let _ = (run, call);
    }
}

/// What holds for all workflows of a worker.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    /// In the order in which they were added.
    pub interceptors: Vec<Arc<dyn WorkflowInterceptor>>,
    /// Queue and input of tasks are compared with history, too.
    pub strict: bool,
}

impl Shared {
    fn intercepted_run(&self) -> InterceptedRun {
        let core = self.core();
        let info = &core.info;
        InterceptedRun {
            workflow_id: info.workflow_id.clone(),
            run_id: info.run_id().to_owned(),
            kind: info.kind.clone(),
            is_replaying: core.is_replaying(),
            headers: info.headers(),
        }
    }

    /// Tells the interceptors what comes.
    pub fn inbound(&self, kind: InboundKind, name: &str, header: Option<&Header>) {
        if self.rules.interceptors.is_empty() {
            return;
        }
        let headers = header.map(|header| header.fields.clone()).unwrap_or_default();
        let (run, call) = (self.intercepted_run(), InboundCall { kind, name: name.to_owned(), headers });
        for interceptor in &self.rules.interceptors {
            interceptor.inbound(&run, &call);
        }
    }

    /// What travels along with something that the workflow asks for.
    pub fn outbound(&self, kind: OutboundKind, name: &str) -> Option<Header> {
        if self.rules.interceptors.is_empty() && cfg!(not(feature = "otel")) {
            return None;
        }
        let run = self.intercepted_run();
        let mut call = OutboundCall { kind, name: name.to_owned(), headers: BTreeMap::new() };
        #[cfg(feature = "otel")]
        if let Some(trace) = run.headers.get(crate::telemetry::spans::HEADER) {
            call.headers.insert(crate::telemetry::spans::HEADER.to_owned(), trace.clone());
        }
        for interceptor in &self.rules.interceptors {
            interceptor.outbound(&run, &mut call);
        }
        (!call.headers.is_empty()).then_some(Header { fields: call.headers })
    }
}
