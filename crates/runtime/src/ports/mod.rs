//! What the runs need of the parts above them: a trait for each, which the part implements.

mod effects;
pub(crate) mod owner;
pub(crate) mod turn;

pub(crate) use effects::{Effects, EffectsPort};
use std::pin::Pin;

pub(crate) use turn::{AfterCommit, Pending, ScriptAt, Turn};

/// The future of a method of a port.
pub(crate) type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
