//! Delivery of messages between runs: at least once, repeated until acknowledged, recognised by the receiver.
//!
//! Every message is a row in storage until it was delivered, so memory may drop it and read it again. Waiting messages
//! in memory ([`queue`]) are bounded. A message that cannot be delivered yet waits for its next attempt and does not
//! delay others: only attempts count towards the limit ([`attempts`]). Namespaces of senders are served round-robin,
//! and while several namespaces send, each has a few attempts at a time: a run that starts thousands of others does not
//! delay their messages or their calls. [`deliver`] has the kinds of messages.

mod attempts;
mod callbacks;
mod deliver;
mod operations;
mod queue;
mod scheduled;

pub use attempts::run;
pub use callbacks::{CallbackOutcome, CompletionError, DueReport};
pub use operations::{RefusedRequest, StartedScript};
pub use queue::Outbox;
