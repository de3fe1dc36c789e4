//! The futures that a context gives out. Each stands for one operation; dropping it cancels the operation.

use std::{
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context as TaskContext, Poll},
};

use futures_util::future::FusedFuture;
use segno_proto::common::{Payload, WorkflowExecution};
use serde::Serialize;

use super::{
    cancel,
    commands::{CommandRequest, ExpectedEvent},
    core::Shared,
    interceptor::OutboundKind,
    operation::{OpId, OpKind, Outcome},
    queue::RootId,
};
use crate::lock::lock;
use crate::{
    converter::{self, ConversionError},
    definition::Signal,
    failure::Failure,
};

pub(crate) type Decode<T> = fn(&[Payload]) -> Result<T, ConversionError>;

/// An operation that the code waits for.
pub(crate) struct Operation {
    pub shared: Arc<Shared>,
    pub id: OpId,
    pub done: bool,
}

impl Operation {
    pub fn new(shared: Arc<Shared>, id: OpId) -> Self {
        Self { shared, id, done: false }
    }

    pub fn poll(&mut self, context: &TaskContext<'_>, name: &str) -> Poll<Outcome> {
        assert!(!self.done, "{name} was polled after it was ready");
        let outcome = self.shared.core().poll(self.id, context);
        self.done = outcome.is_ready();
        outcome
    }

    pub fn cancel(&self) {
        if !self.done {
            cancel::cancel(&mut self.shared.core(), self.id);
        }
    }

    pub fn detach(mut self) {
        let mut core = self.shared.core();
        match core.ops.get_mut(&self.id) {
            Some(op) if op.outcome.is_none() => op.detached = true,
            _ => {
                core.forget(self.id);
            }
        }
        drop(core);
        self.done = true;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if !self.done && !self.shared.queue.is_torn_down() && self.shared.queue.is_polling() {
            cancel::drop_operation(&mut self.shared.core(), self.id);
        }
    }
}

macro_rules! operation_future {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[must_use = "it is cancelled when it is dropped: await it, or let it go with `detach()`"]
        pub struct $name<T> {
            pub(crate) operation: Operation,
            pub(crate) id: String,
            decode: Decode<T>,
            marker: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            pub(crate) fn new(operation: Operation, id: String, decode: Decode<T>) -> Self {
                Self { operation, id, decode, marker: PhantomData }
            }

            /// Its id.
            pub fn id(&self) -> &str {
                &self.id
            }

            /// Cancels it; awaiting it then says so.
            pub fn cancel(&self) {
                self.operation.cancel();
            }

            /// Lets it go on although its future is dropped.
            pub fn detach(self) {
                self.operation.detach();
            }
        }

        impl<T> Future for $name<T> {
            type Output = Result<T, Failure>;

            fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
                let outcome = match self.operation.poll(context, stringify!($name)) {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => return Poll::Pending,
                };
                match outcome.map(|payloads| (self.decode)(&payloads)) {
                    Ok(Ok(value)) => Poll::Ready(Ok(value)),
                    Err(failure) => Poll::Ready(Err(failure)),
                    Ok(Err(error)) => {
                        self.operation.shared.core().fail_task(Failure::application("Conversion", error.to_string()));
                        Poll::Pending
                    }
                }
            }
        }

        impl<T> FusedFuture for $name<T> {
            fn is_terminated(&self) -> bool {
                self.operation.done
            }
        }

        impl<T> Unpin for $name<T> {}
    };
}

pub(super) use operation_future;

operation_future!(
    /// A task that was scheduled.
    TaskFuture
);
operation_future!(
    /// A child workflow that was started.
    ChildWorkflowFuture
);
operation_future!(
    /// A value that a client provides.
    PromiseFuture
);
operation_future!(
    /// A side effect whose result is remembered.
    OperationFuture
);
operation_future!(
    /// The next signal of a name.
    SignalFuture
);

macro_rules! unit_future {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[must_use = "it does nothing unless it is awaited"]
        pub struct $name {
            pub(crate) operation: Operation,
            pub(crate) id: String,
        }

        impl $name {
            /// Its id.
            pub fn id(&self) -> &str {
                &self.id
            }

            /// Cancels it; awaiting it then says so.
            pub fn cancel(&self) {
                self.operation.cancel();
            }

            /// Lets it go on although its future is dropped.
            pub fn detach(self) {
                self.operation.detach();
            }
        }

        impl Future for $name {
            type Output = Result<(), Failure>;

            fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
                self.operation.poll(context, stringify!($name)).map(|outcome| outcome.map(|_| ()))
            }
        }

        impl FusedFuture for $name {
            fn is_terminated(&self) -> bool {
                self.operation.done
            }
        }
    };
}

unit_future!(
    /// A timer that was started.
    TimerFuture
);
unit_future!(
    /// A condition on the workflow's state.
    ConditionFuture
);
unit_future!(
    /// A signal to, or a cancellation of, another workflow.
    ExternalFuture
);

/// The cancellation of a scope.
#[must_use = "it does nothing unless it is awaited"]
pub struct CancelledFuture {
    pub(crate) operation: Operation,
}

impl Future for CancelledFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<()> {
        self.operation.poll(context, "CancelledFuture").map(|_| ())
    }
}

impl FusedFuture for CancelledFuture {
    fn is_terminated(&self) -> bool {
        self.operation.done
    }
}

/// The start of a child.
#[must_use = "it does nothing unless it is awaited"]
pub struct StartedFuture {
    operation: Operation,
}

impl Future for StartedFuture {
    type Output = Result<String, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.operation.poll(context, "StartedFuture").map(|outcome| {
            outcome
                .map(|payloads| payloads.first().and_then(|id| converter::decode_payload(id).ok()).unwrap_or_default())
        })
    }
}

impl<T> ChildWorkflowFuture<T> {
    /// Waits until the child was started, and gives its run id.
    pub fn started(&self) -> StartedFuture {
        let shared = self.operation.shared.clone();
        let mut core = shared.core();
        let child = self.operation.id;
        let (scope, known) = match core.ops.get(&child) {
            Some(op) => {
                let known = match (&op.kind, &op.outcome) {
                    (OpKind::Child { run_id, .. }, _) if !run_id.is_empty() => Some(Ok(run_id.clone())),
                    (_, Some((_, Err(failure)))) => Some(Err(failure.clone())),
                    _ => None,
                };
                (op.scope, known)
            }
            None => (super::scope_tree::ROOT, Some(Ok(String::new()))),
        };
        let id = core.add(scope, OpKind::ChildStarted { child });
        match known {
            Some(Ok(run_id)) => core.resolve(id, Ok(converter::encode_json(&run_id).into_iter().collect())),
            Some(Err(failure)) => core.resolve(id, Err(failure)),
            None => {}
        }
        drop(core);
        StartedFuture { operation: Operation::new(shared, id) }
    }

    /// Signals the child, as soon as it was started.
    pub fn signal<A: Serialize + 'static>(&self, signal: Signal<A>, value: A) -> ExternalFuture {
        let execution = WorkflowExecution { workflow_id: self.id.clone(), run_id: String::new() };
        let child = Some(self.operation.id);
        signal_external(&self.operation.shared, super::scope_tree::ROOT, execution, signal, value, child)
    }
}

pub(crate) fn signal_external<A: Serialize + 'static>(
    shared: &Arc<Shared>,
    scope: u64,
    execution: WorkflowExecution,
    signal: Signal<A>,
    value: A,
    child: Option<OpId>,
) -> ExternalFuture {
    let mut input = converter::encode(&value, signal.arguments());
    let header = input.as_mut().ok().and_then(|input| shared.outbound(OutboundKind::Signal, signal.name(), input));
    let mut core = shared.core();
    let workflow_id = execution.workflow_id.clone();
    let id = core.add(scope, OpKind::External { what: "signal", workflow_id: workflow_id.clone() });
    match input {
        _ if core.scopes.reason(scope).is_some() => core.resolve(id, Err(Failure::cancelled())),
        Err(error) => core.fail_task(Failure::application("Conversion", error.to_string())),
        Ok(input) => {
            let name = signal.name().to_owned();
            let expected =
                ExpectedEvent::SignalExternal { op: id, workflow_id: workflow_id.clone(), name: name.clone() };
            let ask = CommandRequest::SignalExternal { execution, name, input, header, child_only: child.is_some() };
            core.push_when_started(child, id, ask, expected);
        }
    }
    drop(core);
    ExternalFuture { operation: Operation::new(shared.clone(), id), id: workflow_id }
}

/// A future that goes on by itself. Dropping the handle lets it; [`abort`](Self::abort) ends it.
///
/// Its end takes part in races like any operation: the winner is what was first in history.
pub struct JoinHandle<T> {
    pub(crate) operation: Operation,
    pub(crate) root: RootId,
    pub(crate) value: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// Ends it: what it waits for is cancelled, as if it had been dropped.
    pub fn abort(&self) {
        let mut core = self.operation.shared.core();
        core.aborted.push(self.root);
        core.resolve(self.operation.id, Err(Failure::cancelled()));
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        let core = self.operation.shared.core();
        core.ops.get(&self.operation.id).is_none_or(|op| op.outcome.is_some())
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let outcome = match self.operation.poll(context, "JoinHandle") {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => return Poll::Pending,
        };
        let value = lock(&self.value).take();
        Poll::Ready(outcome.and_then(|_| value.ok_or_else(Failure::cancelled)))
    }
}

impl<T> FusedFuture for JoinHandle<T> {
    fn is_terminated(&self) -> bool {
        self.operation.done
    }
}

impl<T> Unpin for JoinHandle<T> {}

/// The time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct Elapsed;
