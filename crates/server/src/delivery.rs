//! Detects that an answer with a task in it was not sent: the task is returned at once.
//!
//! A handler puts the [`Delivery`] of the task into the response's extensions; the connection keeps it in a [`Receipt`]
//! until the last byte of the answer is written. A receipt dropped before that means that the connection or the call
//! was gone, and the delivery returns the task.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::Extensions;
use segno_node::Delivery;

/// Counts calls under way, from their arrival until the last byte of their answer left.
#[derive(Clone, Debug, Default)]
pub struct CallsInProgress(Arc<AtomicUsize>);

impl CallsInProgress {
    /// How many calls are under way.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one call until it is dropped.
    pub fn one_more(&self) -> CallInProgress {
        self.0.fetch_add(1, Ordering::AcqRel);
        CallInProgress(self.0.clone())
    }
}

/// One call under way.
#[derive(Debug)]
pub struct CallInProgress(Arc<AtomicUsize>);

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The duties that an answer leaves behind until it is written.
pub(crate) struct Receipt {
    delivery: Option<Delivery>,
    _call: CallInProgress,
}

impl Receipt {
    /// The receipt of an answer, with what its handler left in the response.
    pub(crate) fn of(extensions: &mut Extensions, call: CallInProgress) -> Self {
        Self { delivery: extensions.remove(), _call: call }
    }

    /// The delivery in an answer that goes to another node.
    pub(crate) fn delivery_of(extensions: &mut Extensions) -> Option<Delivery> {
        extensions.remove()
    }

    /// The answer is on its way.
    pub(crate) fn delivered(self) {
        if let Some(delivery) = &self.delivery {
            delivery.delivered();
        }
    }
}
