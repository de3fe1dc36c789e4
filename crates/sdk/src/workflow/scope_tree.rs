//! Scopes of cancellation: a tree. Cancelling one cancels what is below it.

/// The scope that is cancelled when the workflow is.
pub(crate) const ROOT: u64 = 0;
/// For what belongs to no scope.
pub(crate) const NO_SCOPE: u64 = u64::MAX;

/// By id: scopes are few, and never removed.
pub(crate) struct Scopes(Vec<ScopeState>);

struct ScopeState {
    parent: Option<u64>,
    reason: Option<String>,
}

impl Default for Scopes {
    fn default() -> Self {
        Self(vec![ScopeState { parent: None, reason: None }])
    }
}

impl Scopes {
    pub fn add(&mut self, parent: Option<u64>) -> u64 {
        let reason = parent.and_then(|parent| self.reason(parent).map(str::to_owned));
        self.0.push(ScopeState { parent, reason });
        self.0.len() as u64 - 1
    }

    fn get(&self, scope: u64) -> Option<&ScopeState> {
        self.0.get(usize::try_from(scope).ok()?)
    }

    /// Why it was cancelled, if it was.
    pub fn reason(&self, scope: u64) -> Option<&str> {
        self.get(scope)?.reason.as_deref()
    }

    /// Cancels a scope and those below. Gives those that were not cancelled before.
    pub fn cancel(&mut self, scope: u64, reason: &str) -> Vec<u64> {
        let mut cancelled = Vec::new();
        // A scope is younger than the one that it stands in.
        let mut inside = vec![scope];
        for (id, state) in (0_u64..).zip(&mut self.0) {
            if id != scope && !state.parent.is_some_and(|parent| inside.contains(&parent)) {
                continue;
            }
            inside.push(id);
            if state.reason.is_none() {
                state.reason = Some(reason.to_owned());
                cancelled.push(id);
            }
        }
        cancelled
    }
}
