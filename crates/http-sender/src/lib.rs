//! Requests over HTTP that follow from transitions of runs: to handlers of Nexus operations at a URL, and callbacks to a URL.
//!
//! Above the runs, which reach it through the port [`HttpSender`](segno_runs::ports::HttpSender). Nothing here is stored: a request that
//! was lost with the process is derived again from its run, or from its message of the outbox. Each destination has a queue, limits and a
//! [`breaker`] of its own ([`queue`]); what a request is and what its answer means to its run is in [`handlers`] and [`callbacks`].

mod breaker;
mod callbacks;
mod handlers;
mod queue;
mod sender;
mod settings;

pub use segno_http_client::{AllowedTargets, BadPattern, RefusedTarget};
pub use sender::Sender;
pub use settings::{CallbackUrl, HttpSettings};

/// The text by which descriptions say that a breaker is open.
pub const BLOCKED_REASON: &str = "The circuit breaker is open.";
