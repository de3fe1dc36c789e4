//! Tasks: their context, and the registry that executes them.

mod cancel;
mod context;
mod heartbeat;
mod info;
mod registry;

pub use cancel::CancelReason;
pub use context::TaskContext;
pub use info::TaskInfo;
pub use registry::{TaskFn, TaskRegistry};

pub(crate) use cancel::{Cancellation, CancelledAnswer, cancelled};
pub(crate) use heartbeat::{Answer, Heartbeats, interval};
pub(crate) use registry::DYNAMIC;
#[doc(hidden)]
pub use registry::blocking;
