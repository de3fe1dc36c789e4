//! Logs that commits fail, and that they succeed again, at most once in a few seconds.

use std::path::Path;
use std::time::{Duration, Instant};

use segno_store::CommitError;

/// A full disk fails every commit; one line in this time is enough.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// The failures since the last commit that succeeded.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    logged: Option<Instant>,
}

impl Failures {
    /// Notes how a transaction ended. A conflict is no failure of the store.
    pub(crate) fn note(&mut self, path: &Path, result: &Result<(), CommitError>) {
        match result {
            Ok(()) if self.count > 0 => {
                tracing::info!(path = %path.display(), failed = self.count, "commits succeed again");
                *self = Self::default();
            }
            Ok(()) | Err(CommitError::Conflict) => {}
            Err(error) => {
                self.count += 1;
                if self.logged.is_none_or(|logged| logged.elapsed() >= LOGGED_EVERY) {
                    self.logged = Some(Instant::now());
                    tracing::error!(path = %path.display(), failed = self.count, %error, "commits fail");
                }
            }
        }
    }
}
