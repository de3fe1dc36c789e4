//! What every part of a node is given: the clock, random bits, threads, connections, ids, counters, health, locks that survive
//! a panic.
//!
//! Knows neither runs nor queues.

pub mod clock;
pub mod connection;
pub mod environment;
pub mod finish;
pub mod hash;
pub mod health;
pub mod ids;
mod labels;
mod machine;
pub mod metrics;
pub mod namespace_queues;
pub mod skipping;
mod system_time;
pub mod token_bucket;
pub mod vitals;

pub use clock::{Clock, DatabaseClock, RuntimeClock, SystemClock};
pub use connection::ConnectionId;
pub use environment::Environment;
pub use hash::HashMap;
pub use health::{Health, HealthChanges};
pub use labels::{Family, Latency};
pub use metrics::{Histogram, Metrics};
pub use namespace_queues::FairQueues;
pub use segno_store::lock;
pub use skipping::{NotLocked, SkippingClock};
