//! Runs that cannot be read: set aside, so that other runs go on.
//!
//! A damaged run is logged once and counted; its tasks are not offered. It stays listed. Terminating it by its ids
//! closes it and frees its workflow id (see [`crate::runs::Runs::terminate_run`]), deleting it removes the rest of it
//! (see [`crate::runs::Runs::delete_run`]).

use std::{collections::BTreeMap, sync::Mutex};

use segno_environment::lock::lock;
use segno_store::RunKey;

/// Runs that are remembered; those beyond are logged again each time they are met.
const REMEMBERED_MAX: usize = 10_000;

/// All runs that were found damaged since the start.
#[derive(Default)]
pub(crate) struct DamagedRuns {
    runs: Mutex<BTreeMap<RunKey, String>>,
}

impl DamagedRuns {
    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.runs).len()
    }

    /// The run is gone.
    pub fn forget(&self, run: RunKey) {
        lock(&self.runs).remove(&run);
    }

    /// Whether this is news.
    pub fn add(&self, run: RunKey, why: &str) -> bool {
        let mut runs = lock(&self.runs);
        if runs.contains_key(&run) {
            return false;
        }
        if runs.len() < REMEMBERED_MAX {
            runs.insert(run, why.to_owned());
        }
        true
    }
}
