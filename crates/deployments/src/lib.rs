//! Worker deployments: which versions of workers there are, which queues their workers poll, and to which version the tasks of a
//! queue go.
//!
//! Does no IO and knows no runs: what is stored, and when a change takes effect, is decided by the crates above.

mod fingerprint;
mod registry;
mod routing;

pub use fingerprint::hash_of;
pub use registry::{NamespaceRouting, Registry};
pub use routing::{MemberQueue, QueueRouting, QueueType, Ramp, Target, Version};
