//! Interceptors around the messages and commands of workflows.

use std::{collections::BTreeMap, sync::Arc};

use segno_proto::common::Payload;

use crate::converter::Arguments;

/// The kind of a message to a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum InboundKind {
    Run,
    Signal,
    Query,
    /// An update that may still be rejected. It may come more than once, and a replay may leave it out.
    Validate,
    Update,
}

/// The kind of a command of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum OutboundKind {
    Task,
    LocalTask,
    Child,
    Signal,
    /// A Nexus operation, named `Service.operation`. Headers that are texts in JSON become headers of the request.
    Nexus,
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
    /// Whether the workflow task repeats what history has.
    pub is_replaying: bool,
    /// The headers that the run was started with.
    pub headers: BTreeMap<String, Payload>,
}

/// A message to a workflow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InboundCall {
    /// Its kind.
    pub kind: InboundKind,
    /// The name of the workflow's kind, or of the signal, query or update.
    pub name: String,
    /// Its arguments.
    pub arguments: Arguments,
    /// Its headers.
    pub headers: BTreeMap<String, Payload>,
}

/// A command of a workflow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutboundCall {
    /// Its kind.
    pub kind: OutboundKind,
    /// The kind of the task or workflow, or the name of the signal.
    pub name: String,
    /// Its arguments.
    pub arguments: Arguments,
    /// Its headers. They do not pass the codecs.
    pub headers: BTreeMap<String, Payload>,
}

/// Code around what workflows receive and ask for:
/// [`WorkerBuilder::workflow_interceptor`](crate::WorkerBuilder::workflow_interceptor).
///
/// It is called in every replay, too, on the workflow's thread, so that it must not wait for anything. What it adds to
/// headers is not compared with history; what it makes of arguments must be the same each time.
pub trait WorkflowInterceptor: Send + Sync + 'static {
    /// Called before the workflow handles a message. It may change the arguments: the code then gets those.
    fn inbound(&self, run: &InterceptedRun, call: &mut InboundCall) {
        let _ = (run, call);
    }

    /// Called before a command is queued. It may change the arguments and add headers.
    fn outbound(&self, run: &InterceptedRun, call: &mut OutboundCall) {
        let _ = (run, call);
    }
}

/// Rules for all workflows of a worker.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    /// In the order in which they were added.
    pub interceptors: Vec<Arc<dyn WorkflowInterceptor>>,
    /// Queue and input of tasks are compared with history, too.
    pub strict: bool,
}
