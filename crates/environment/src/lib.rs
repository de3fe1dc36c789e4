//! What every part of a node is given: the clock, ids, counters, health, locks that survive a panic.
//!
//! Knows neither runs nor queues.

pub mod clock;
pub mod connection;
pub mod finish;
pub mod hash;
pub mod health;
pub mod ids;
mod labels;
pub mod lanes;
pub mod lock;
pub mod metrics;
pub mod sabotage;
pub mod skipping;
mod system_time;
pub mod vitals;

pub use clock::{Clock, DatabaseClock, SystemClock};
pub use connection::ConnectionId;
pub use hash::HashMap;
pub use health::{Health, HealthChanges};
pub use labels::{Family, Latency};
pub use metrics::{Histogram, Metrics};
pub use skipping::{NotLocked, SkippingClock};
