//! Scopes of cancellation: a tree. Cancelling one cancels what is below it.

use std::{collections::BTreeMap, sync::Arc};

use super::{cancel, core::Shared};

/// The scope that is cancelled when the workflow is.
pub(crate) const ROOT: u64 = 0;
/// For what belongs to no scope.
pub(crate) const NO_SCOPE: u64 = u64::MAX;

pub(crate) struct Scopes {
    scopes: BTreeMap<u64, ScopeState>,
    next: u64,
}

struct ScopeState {
    parent: Option<u64>,
    reason: Option<String>,
}

impl Default for Scopes {
    fn default() -> Self {
        Self { scopes: BTreeMap::from([(ROOT, ScopeState { parent: None, reason: None })]), next: 1 }
    }
}

impl Scopes {
    pub fn add(&mut self, parent: Option<u64>) -> u64 {
        let id = self.next;
        self.next += 1;
        let reason = parent.and_then(|parent| self.reason(parent).map(str::to_owned));
        self.scopes.insert(id, ScopeState { parent, reason });
        id
    }

    /// Why it was cancelled, if it was.
    pub fn reason(&self, scope: u64) -> Option<&str> {
        self.scopes.get(&scope)?.reason.as_deref()
    }

    /// Cancels a scope and those below. Gives those that were not cancelled before.
    pub fn cancel(&mut self, scope: u64, reason: &str) -> Vec<u64> {
        let mut cancelled = Vec::new();
        let mut waiting = vec![scope];
        while let Some(scope) = waiting.pop() {
            let Some(state) = self.scopes.get_mut(&scope) else { continue };
            if state.reason.is_none() {
                state.reason = Some(reason.to_owned());
                cancelled.push(scope);
            }
            waiting.extend(self.scopes.iter().filter(|(_, state)| state.parent == Some(scope)).map(|(id, _)| *id));
        }
        cancelled
    }
}

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
