//! Waiting work, in a queue for each namespace. The queues are served round-robin, each with an optional limit of
//! work under way.
//!
//! Used for work that a node does for namespaces: calls, commits, messages between runs, turns of scripts, wake-ups.

use std::{collections::VecDeque, hash::Hash};

use crate::hash::HashMap;

use segno_store::NamespaceKey;

/// Waiting work by namespace.
pub type NamespaceQueues<T> = FairQueues<NamespaceKey, T>;

/// Waiting work by a key.
pub struct FairQueues<K, T> {
    waiting: HashMap<K, VecDeque<T>>,
    /// Keys with waiting work, the next one first.
    order: VecDeque<K>,
}

impl<K, T> Default for FairQueues<K, T> {
    fn default() -> Self {
        Self { waiting: HashMap::default(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, T> FairQueues<K, T> {
    /// Adds work behind the other work of its key.
    pub fn push(&mut self, key: K, work: T) {
        let queue = self.waiting.entry(key).or_default();
        if queue.is_empty() {
            self.order.push_back(key);
        }
        queue.push_back(work);
    }

    /// Takes the work of the next key that may have some; that key is the last one from then on.
    pub fn take(&mut self, may: impl Fn(K) -> bool) -> Option<(K, T)> {
        let place = self.order.iter().position(|key| may(*key))?;
        let key = self.order.remove(place)?;
        let queue = self.waiting.get_mut(&key)?;
        let work = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.order.push_back(key);
        }
        Some((key, work))
    }

    /// How much of a key waits.
    pub fn of(&self, key: K) -> usize {
        self.waiting.get(&key).map_or(0, VecDeque::len)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The keys with waiting work, the next one first.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.order.iter().copied()
    }

    /// How much waits.
    pub fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

/// How much is under way, by namespace.
#[derive(Default)]
pub struct UnderWay(HashMap<NamespaceKey, usize>);

impl UnderWay {
    /// How much a namespace has under way.
    pub fn of(&self, namespace: NamespaceKey) -> usize {
        self.0.get(&namespace).copied().unwrap_or(0)
    }

    /// How much is under way in all.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Work of a namespace begins.
    pub fn begin(&mut self, namespace: NamespaceKey) {
        *self.0.entry(namespace).or_default() += 1;
    }

    /// Work of a namespace has ended.
    pub fn end(&mut self, namespace: NamespaceKey) {
        if let Some(count) = self.0.get_mut(&namespace) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NamespaceKey = NamespaceKey(1);
    const B: NamespaceKey = NamespaceKey(2);

    #[test]
    fn namespaces_take_turns_and_keep_their_order() {
        let mut queues = NamespaceQueues::default();
        for (namespace, work) in [(A, "a1"), (A, "a2"), (A, "a3"), (B, "b1"), (B, "b2")] {
            queues.push(namespace, work);
        }
        assert_eq!(queues.len(), 5);
        let order: Vec<_> = std::iter::from_fn(|| queues.take(|_| true)).map(|(_, work)| work).collect();
        assert_eq!(order, ["a1", "b1", "a2", "b2", "a3"]);
        assert_eq!(queues.len(), 0);
    }

    #[test]
    fn a_namespace_with_its_share_under_way_lets_others_pass() {
        let (mut queues, mut under_way) = (NamespaceQueues::default(), UnderWay::default());
        for number in 0..100 {
            queues.push(A, number);
        }
        for _ in 0..4 {
            let (namespace, _) = queues.take(|namespace| under_way.of(namespace) < 4).expect("below its share");
            under_way.begin(namespace);
        }
        queues.push(B, 7);
        assert_eq!(queues.take(|namespace| under_way.of(namespace) < 4), Some((B, 7)));
        assert_eq!(queues.take(|namespace| under_way.of(namespace) < 4), None);
        under_way.end(A);
        assert_eq!(queues.take(|namespace| under_way.of(namespace) < 4), Some((A, 4)));
    }
}
