//! Deployed scripts by their names. Names with their versions are few and small, so all of them are in memory.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use segno_engine::script::Version;
use segno_environment::hash::HashMap;
use segno_runs::{error::no_script, namespaces::Namespace};
use segno_store::NamespaceKey;
use tokio::sync::{Mutex, MutexGuard};

use super::{error::ScriptError, records::ScriptRecord};

/// The scripts of a namespace.
pub(super) type Names = BTreeMap<String, Arc<ScriptRecord>>;

/// See the module.
#[derive(Default)]
pub(super) struct Registry {
    names: RwLock<HashMap<NamespaceKey, Names>>,
    /// How often names were changed by this node.
    changes: AtomicU64,
    /// One deployment at a time.
    changing: Mutex<()>,
}

impl Registry {
    fn names(&self) -> RwLockReadGuard<'_, HashMap<NamespaceKey, Names>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn record(&self, namespace: NamespaceKey, name: &str) -> Option<Arc<ScriptRecord>> {
        self.names().get(&namespace)?.get(name).cloned()
    }

    /// The record of a name that a caller gave.
    pub fn known(&self, namespace: &Namespace, name: &str) -> Result<Arc<ScriptRecord>, ScriptError> {
        let unknown = || ScriptError::NotFound(no_script(name, &namespace.name));
        self.record(namespace.key, name).ok_or_else(unknown)
    }

    /// The current version of a script.
    pub fn current(&self, namespace: NamespaceKey, name: &str) -> Option<Version> {
        self.names().get(&namespace)?.get(name)?.current()
    }

    /// The version of a script that some digits name; the current one if there are none.
    pub fn find_version(&self, namespace: &Namespace, name: &str, digits: &str) -> Result<Version, ScriptError> {
        let known = self.known(namespace, name)?;
        match digits.is_empty() {
            false => known.find(digits),
            true => known.current().ok_or_else(|| ScriptError::NotFound(no_script(name, &namespace.name))),
        }
    }

    /// At most so many scripts whose names follow `after`.
    pub fn page(&self, namespace: NamespaceKey, after: &str, limit: usize) -> Vec<Arc<ScriptRecord>> {
        let names = self.names();
        let Some(names) = names.get(&namespace) else { return Vec::new() };
        let range = (Bound::Excluded(after.to_owned()), Bound::Unbounded);
        let page = if after.is_empty() { names.range::<String, _>(..) } else { names.range(range) };
        page.take(limit).map(|(_, record)| Arc::clone(record)).collect()
    }

    /// The names of scripts that have or had a schedule.
    pub fn scheduled(&self, namespace: NamespaceKey) -> Vec<String> {
        let names = self.names();
        let scheduled = names.get(&namespace).into_iter().flatten().filter(|(_, record)| record.scheduled);
        scheduled.map(|(name, _)| name.clone()).collect()
    }

    /// Replaces the record of a name; `None` if it was removed.
    pub fn remember(&self, namespace: NamespaceKey, name: &str, record: Option<ScriptRecord>) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        // Before the lock is released: what was read until now is not put in the place of this.
        self.changes.fetch_add(1, Ordering::Release);
        let names = names.entry(namespace).or_default();
        match record {
            Some(record) => names.insert(name.to_owned(), Arc::new(record)),
            None => names.remove(name),
        };
    }

    /// How often names were changed by this node.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Replaces all names by those that were read since there were `changes`. `false` if there are more by now: what was
    /// deployed here meanwhile may be newer than what was read.
    pub fn replace(&self, stored: HashMap<NamespaceKey, Names>, changes: u64) -> bool {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let is_newest = self.changes() == changes;
        if is_newest {
            *names = stored;
        }
        is_newest
    }

    /// As long as this is held, no version is added or removed.
    pub(crate) async fn hold_versions(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }
}
