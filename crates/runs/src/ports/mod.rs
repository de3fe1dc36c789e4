//! What the runs need of the crates above them: a trait (*port*) for each, which that crate implements.

mod effects;
mod http_sender;
pub mod owner;
pub mod queue_use;
pub mod scripts;
mod system_operations;

pub use effects::{Effects, EffectsPort};
pub use http_sender::{DueCallback, HttpSender, HttpSenderPort};
use std::pin::Pin;

pub use scripts::{AfterCommit, CurrentScript, Pending, ScriptAt, ScriptTurns};
pub use system_operations::{SystemCall, SystemOperations, SystemOperationsPort};

/// The future of a method of a port.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
