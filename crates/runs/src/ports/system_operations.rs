//! What runs need of the edge: the operations of the server itself, which workflows call by the endpoint `__temporal_system`.

use std::sync::OnceLock;

use segno_engine::nexus::StartAnswer;
use segno_proto::{
    command::ScheduleNexusOperationCommandAttributes,
    common::{Link, Payload},
};

use super::PortFuture;

/// A call of an operation of the server.
#[derive(Clone, Debug)]
pub struct SystemCall {
    /// The namespace of the caller.
    pub namespace: String,
    /// The input.
    pub input: Option<Payload>,
    /// By which a repeated call is recognised.
    pub request_id: String,
    /// A link to the event that scheduled it.
    pub caller: Link,
}

/// The operations of the server itself.
pub trait SystemOperations: Send + Sync + 'static {
    /// Why the server does not have the operation that a workflow of a namespace calls, or does not take its input.
    fn check(&self, namespace: &str, call: &ScheduleNexusOperationCommandAttributes) -> Result<(), String>;

    /// Carries out an operation that was checked when it was scheduled.
    fn carry_out(&self, call: SystemCall) -> PortFuture<'_, StartAnswer>;
}

/// The operations of the server, set once when it begins to serve.
#[derive(Default)]
pub struct SystemOperationsPort(OnceLock<Box<dyn SystemOperations>>);

impl SystemOperationsPort {
    /// Sets the operations. Of several servers of one node the first one has them.
    pub fn set(&self, operations: Box<dyn SystemOperations>) {
        let _is_first = self.0.set(operations).is_ok();
    }

    /// The operations; `None` before the server serves.
    pub fn get(&self) -> Option<&dyn SystemOperations> {
        self.0.get().map(|operations| &**operations)
    }

    /// See [`SystemOperations::check`].
    pub fn check(&self, namespace: &str, call: &ScheduleNexusOperationCommandAttributes) -> Result<(), String> {
        match self.get() {
            Some(operations) => operations.check(namespace, call),
            None => Err(format!("endpoint {:?} not found", call.endpoint)),
        }
    }
}
