//! Runs that are kept in memory between their workflow tasks; the least recently used is evicted first.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::workflow::execution::Execution;

pub(crate) struct Cache {
    entries: HashMap<Arc<str>, Entry>,
    by_use: BTreeMap<u64, Arc<str>>,
    next_use: u64,
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
}

struct Entry {
    execution: Box<Execution>,
    used: u64,
    bytes: usize,
}

impl Cache {
    pub fn new(count_max: usize, bytes_max: usize) -> Self {
        Self { entries: HashMap::new(), by_use: BTreeMap::new(), next_use: 0, bytes: 0, count_max, bytes_max }
    }

    pub fn is_enabled(&self) -> bool {
        self.count_max > 0
    }

    /// Runs that are in memory.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes a run out, to work on it.
    pub fn take(&mut self, run_id: &str) -> Option<Box<Execution>> {
        let entry = self.entries.remove(run_id)?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry.execution)
    }

    /// Puts a run back. Gives those that there is no room for, to be dropped on their threads.
    #[must_use]
    pub fn put(&mut self, run_id: String, mut execution: Box<Execution>) -> Vec<(String, Box<Execution>)> {
        let mut evicted = Vec::new();
        if let Some(other) = self.take(&run_id) {
            // A query and a workflow task of one run were answered at the same time: the instance that knows more
            // stays.
            if other.last_event() > execution.last_event() {
                evicted.push((run_id.clone(), std::mem::replace(&mut execution, other)));
            } else {
                evicted.push((run_id.clone(), other));
            }
        }
        let bytes = execution.bytes();
        let used = self.next_use;
        self.next_use += 1;
        let run_id: Arc<str> = run_id.into();
        self.by_use.insert(used, run_id.clone());
        self.bytes += bytes;
        self.entries.insert(run_id, Entry { execution, used, bytes });
        while self.entries.len() > self.count_max || self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.bytes;
                evicted.push((oldest.to_string(), entry.execution));
            }
        }
        evicted
    }
}
