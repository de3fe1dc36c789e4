//! Messages between runs on their way: at least once, recognised by the receiver, tried again until they arrive.
//!
//! Every message is a row in storage until it has arrived, so memory may forget it and read it again. What waits in memory
//! ([`queue`]) is bounded. A message that cannot be delivered yet waits for its next attempt and takes nothing from the
//! others: only an attempt counts towards the limit ([`attempts`]). Namespaces of senders take turns, and while several
//! namespaces are at work each has a few attempts at a time: a run that starts thousands of others does not hold up their
//! messages or their calls. [`deliver`] says what each kind of message does.

mod attempts;
mod deliver;
mod queue;
mod scheduled;

pub use attempts::run;
pub use queue::Outbox;
