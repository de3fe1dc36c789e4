//! Workflows: the context, its futures, and what executes them.
//!
//! - `context`, `context_trait`, `schedule`, `futures`, `handlers`, `outcome`, `state`, `scope`: what workflows use
//! - `operation`, `last_call`, `signals`, `scope_tree`, `interceptor`, `local`: what `core` is made of
//! - `core`: what they share; which operation becomes ready; `cancel`, `chosen_ids`, `delivery`, `interception`: what acts on it
//! - `instance`: roots and polls; `events`: what an event means; `execution`: history in, commands out
//! - `history`, `commands`, `matching`, `violation`: workflow tasks, and their comparison with history

pub(crate) mod cancel;
mod chosen_ids;
pub(crate) mod commands;
mod context;
mod context_trait;
pub(crate) mod continue_as_new;
pub(crate) mod core;
mod delivery;
pub(crate) mod events;
pub(crate) mod execution;
#[cfg(test)]
mod execution_tests;
mod futures;
pub mod handlers;
pub(crate) mod history;
mod info;
pub(crate) mod instance;
mod interception;
mod interceptor;
pub(crate) mod last_call;
pub(crate) mod local;
pub(crate) mod matching;
pub(crate) mod nexus;
pub(crate) mod nexus_events;
mod nexus_start;
mod nexus_target;
mod operation;
mod outcome;
mod query;
mod queue;
pub(crate) mod random;
mod registry;
pub(crate) mod sabotage;
mod schedule;
mod scope;
mod scope_tree;
mod signals;
mod sorted;
mod state;
mod violation;

pub use context::{Context, ExternalWorkflow, RandomStream, SignalStream};
pub use context_trait::WorkflowContext;
pub use continue_as_new::ContinueAsNew;
pub use futures::{
    CancelledFuture, ChildWorkflowFuture, ConditionFuture, Elapsed, ExternalFuture, JoinHandle, OperationFuture,
    PromiseFuture, SignalFuture, StartedFuture, TaskFuture, TimerFuture,
};
pub use info::{UpdateInfo, WorkflowInfo};
pub use interceptor::{InboundCall, InboundKind, InterceptedRun, OutboundCall, OutboundKind, WorkflowInterceptor};
pub use nexus::{NexusClient, NexusFuture, NexusStartedFuture, NexusStub};
pub use outcome::{AtOnce, Later, LaterNothing, SignalOutcome, UpdateOutcome};
pub use registry::WorkflowRegistry;
pub use schedule::AsyncOperation;
pub use scope::Scope;
pub use state::{Ref, RefMut};
pub use violation::{DeterminismViolation, ViolationKind};
