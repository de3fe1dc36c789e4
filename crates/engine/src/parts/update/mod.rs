//! Updates: calls into a running workflow that can be refused without a trace, or accepted and answered.
//!
//! An update is *admitted* and waits for a workflow task, is *sent* to the worker as a message, and is then *accepted*
//! (an event), *completed* (another one) or *rejected* (nothing at all). Until it is accepted it lives in memory, in
//! [`Updates`], a part of the run that is not stored; what is accepted is in the run's state.
//!
//! A transition that is not committed is thrown away with the run it made ([`crate::Applied`]), and no caller is answered
//! before the commit. So there are no provisional states to take back: an update has one state, and waiters look at it.
//!
//! [`admit`] takes an update in, [`deliver`] sends it, [`messages`] takes the worker's answers, [`abort`] ends what can
//! no longer be answered, [`status`] says how one stands, [`FinishedUpdates`] keeps those that are over.

pub mod abort;
pub mod admission;
pub mod admit;
pub mod deliver;
pub mod messages;
pub mod status;

pub use crate::{
    limits::UpdateLimits,
    state::{
        finished_updates::FinishedUpdates,
        updates::{ENDED_MAX, UpdateEnd, Updates, WaitingUpdate},
    },
};
pub use admission::*;
