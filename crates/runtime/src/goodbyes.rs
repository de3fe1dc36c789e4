//! Workers that said goodbye: a poll of theirs that was on its way ends at once.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::hash::HashMap;

/// Goodbyes are remembered for half a minute.
const GOODBYE_MEMORY: Duration = Duration::from_secs(30);

/// Workers that said goodbye lately: their polls are over.
#[derive(Debug, Default)]
pub(crate) struct Goodbyes {
    at: HashMap<String, Instant>,
    /// The oldest first, including some that were said again.
    order: VecDeque<(Instant, String)>,
}

impl Goodbyes {
    /// A worker says goodbye.
    pub(crate) fn add(&mut self, worker: &str) {
        let now = Instant::now();
        while let Some((at, worker)) = self.order.front().filter(|(at, _)| now.duration_since(*at) >= GOODBYE_MEMORY) {
            if self.at.get(worker) == Some(at) {
                self.at.remove(worker);
            }
            self.order.pop_front();
        }
        self.at.insert(worker.to_owned(), now);
        self.order.push_back((now, worker.to_owned()));
    }

    /// Whether a worker said so lately.
    pub(crate) fn has(&self, worker: &str) -> bool {
        self.at.get(worker).is_some_and(|at| at.elapsed() < GOODBYE_MEMORY)
    }
}
