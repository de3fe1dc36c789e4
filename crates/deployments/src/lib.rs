//! Worker deployments: which versions of workers there are, which queues their workers poll, and to which version the tasks of a
//! queue go.
//!
//! Does no IO and knows no runs: what is stored, and when a change takes effect, is decided by the crates above. [`calls`] are
//! functions on a [`Deployment`]; the [`Registry`] has all deployments and the routing that follows from them.

pub mod calls;
mod deployment;
mod derive;
mod describe;
mod error;
mod fingerprint;
mod limits;
pub mod names;
mod records;
mod registry;
mod routing;

pub use deployment::{
    Deployment, Drainage, DrainageView, LoadedDeployments, PinTimes, Pins, StoredDeployments, VersionUse,
};
pub use derive::RoutingSource;
pub use describe::PinnedCounts;
pub use error::DeploymentError;
pub use fingerprint::hash_of;
pub use limits::DeploymentLimits;
pub use records::{BuildRecord, DeploymentRecord, PREFIX, VersionRecord};
pub use registry::{NamespaceRouting, Registry};
pub use routing::{MemberQueue, QueueRouting, QueueType, Ramp, Target, Version, named_version};
