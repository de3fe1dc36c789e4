//! The scope of cancellation that workflow code holds.

use std::sync::Arc;

use super::{cancel, core::Shared};

/// A scope that can be cancelled by the code that made it. Dropping it does nothing.
#[derive(Clone)]
pub struct Scope {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: u64,
}

impl Scope {
    /// Cancels everything in it.
    pub fn cancel(&self) {
        cancel::cancel_scope(&mut self.shared.core(), self.id, "the scope was cancelled");
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.shared.core().scopes.reason(self.id).is_some()
    }
}
