//! A limit of how many workers register in a second, for each namespace.
//!
//! A worker registers with the first call that names it. Workers that crash when they have begun register again and again;
//! those that are known are not affected by them. In a cluster each node counts the workers that it hears of.

use std::{fmt, sync::Mutex, time::Duration};

use segno_environment::{hash::HashMap, lock::lock, token_bucket::TokenBucket};
use segno_store::NamespaceKey;
use tokio::time::Instant;

use super::Workers;

/// How many seconds' worth of registrations may come at once, as they do when a server restarts.
const BURST_SECONDS: f64 = 10.0;

/// Too many workers register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationRefused {
    most: usize,
    /// When to try again.
    pub after: Duration,
}

impl fmt::Display for RegistrationRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} workers a second may register in the namespace; try again later, or raise \
             segno.limit.worker-registrations-per-second",
            self.most
        )
    }
}

/// The registrations of each namespace.
#[derive(Debug, Default)]
pub(crate) struct Registrations(Mutex<HashMap<NamespaceKey, TokenBucket>>);

impl Registrations {
    fn take(&self, namespace: NamespaceKey, most: usize, now: Instant) -> Result<(), RegistrationRefused> {
        let mut all = lock(&self.0);
        let bucket = all.entry(namespace).or_insert_with(|| TokenBucket::full(now));
        bucket.take(most, BURST_SECONDS, now).map_err(|after| RegistrationRefused { most, after })
    }

    pub fn forget_namespace(&self, namespace: NamespaceKey) {
        lock(&self.0).remove(&namespace);
    }
}

impl Workers {
    /// A worker is about to make a call. One that is not known registers with it, unless too many do.
    pub fn register(&self, namespace: NamespaceKey, worker: &str) -> Result<(), RegistrationRefused> {
        let settings = self.runs.namespaces.by_key(namespace).map(|namespace| namespace.settings).unwrap_or_default();
        let most = settings.registrations_per_second();
        if worker.is_empty() || most == 0 || !self.leases.would_register(namespace, worker) {
            return Ok(());
        }
        self.registrations.take(namespace, most, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_limits_of_their_own() {
        let (registrations, now) = (Registrations::default(), Instant::now());
        let (a, b) = (NamespaceKey(1), NamespaceKey(2));
        assert!((0..20).all(|_| registrations.take(a, 2, now).is_ok()), "ten seconds' worth");
        let refused = registrations.take(a, 2, now).expect_err("too many");
        assert_eq!(refused.after, Duration::from_millis(500));
        assert!(refused.to_string().starts_with("2 workers a second"));
        assert!(registrations.take(b, 2, now).is_ok());
        assert!(registrations.take(a, 2, now + Duration::from_secs(1)).is_ok());
        registrations.forget_namespace(a);
        assert!((0..20).all(|_| registrations.take(a, 2, now).is_ok()));
    }
}
