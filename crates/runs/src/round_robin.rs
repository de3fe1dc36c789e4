//! Commits that wait for the writer, round-robin over namespaces.
//!
//! As long as all waiting commits fit into one group, they are taken in the order of arrival. When more wait, each
//! group takes one commit of each namespace, then a second one of each, and so on: a namespace that commits a lot fills
//! the places that others leave free, and delays them by one group at most.
//!
//! What holds: commits of one namespace keep their order. A [`Share::Barrier`] keeps its place among all others,
//! because it may depend on any of them.

use std::collections::VecDeque;

use segno_environment::namespace_queues::NamespaceQueues;
use segno_store::NamespaceKey;

/// The order that a commit keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    /// It changes runs, messages or documents of a namespace.
    Namespace(NamespaceKey),
    /// Anything else. What came before it is written before it, what came after it not before.
    Barrier,
}

/// Commits that wait: they did not fit into the last group.
pub(crate) struct RoundRobin<T> {
    queues: NamespaceQueues<T>,
    /// The first barrier that waits, and all commits after it.
    behind: VecDeque<(Share, T)>,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> Self {
        Self { queues: NamespaceQueues::default(), behind: VecDeque::new() }
    }
}

impl<T> RoundRobin<T> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.behind.is_empty()
    }

    /// Adds a commit that arrived.
    pub fn push(&mut self, share: Share, item: T) {
        match share {
            Share::Namespace(namespace) if self.behind.is_empty() => self.queues.push(namespace, item),
            _ => self.behind.push_back((share, item)),
        }
    }

    /// Whether a barrier waits.
    pub(crate) fn has_barrier(&self) -> bool {
        !self.behind.is_empty()
    }

    /// The namespaces with waiting commits, except for those behind a barrier.
    pub fn waiting(&self) -> impl Iterator<Item = Share> {
        self.queues.keys().map(Share::Namespace)
    }

    /// Takes the next commit of those that may be taken.
    pub fn pop(&mut self, may: impl Fn(Share) -> bool) -> Option<T> {
        if self.queues.is_empty() {
            return self.pass_barrier();
        }
        self.queues.take(|namespace| may(Share::Namespace(namespace))).map(|(_, item)| item)
    }

    /// Takes the barrier, and lets in what waits up to the next one.
    fn pass_barrier(&mut self) -> Option<T> {
        let (_, barrier) = self.behind.pop_front()?;
        while let Some((Share::Namespace(namespace), _)) = self.behind.front() {
            let namespace = *namespace;
            if let Some((_, item)) = self.behind.pop_front() {
                self.queues.push(namespace, item);
            }
        }
        Some(barrier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are namespaces, `-` is a barrier; with their places among those of the same kind.
    fn order(arrived: &str) -> String {
        let mut waiting = RoundRobin::default();
        for letter in arrived.chars() {
            let share = match letter {
                '-' => Share::Barrier,
                _ => Share::Namespace(NamespaceKey(u32::from(letter))),
            };
            waiting.push(share, letter);
        }
        let taken = std::iter::from_fn(|| waiting.pop(|_| true)).collect();
        assert!(waiting.is_empty());
        taken
    }

    #[test]
    fn namespaces_take_turns() {
        assert_eq!(order("aaaaaab"), "abaaaaa");
        assert_eq!(order("aaaabbc"), "abcabaa");
        assert_eq!(order(""), "");
    }

    #[test]
    fn who_rests_lets_others_pass() {
        let mut waiting = RoundRobin::default();
        let (a, b) = (Share::Namespace(NamespaceKey(1)), Share::Namespace(NamespaceKey(2)));
        for (share, item) in [(a, 1), (a, 2), (b, 3), (b, 4)] {
            waiting.push(share, item);
        }
        let rests = |waiting: &mut RoundRobin<i32>| waiting.pop(|share| share != a);
        assert_eq!((rests(&mut waiting), rests(&mut waiting), rests(&mut waiting)), (Some(3), Some(4), None));
        assert_eq!(waiting.waiting().collect::<Vec<_>>(), [a]);
        assert_eq!(waiting.pop(|_| true), Some(1));
    }

    #[test]
    fn nothing_passes_a_barrier() {
        assert_eq!(order("aab-aab"), "aba-aba");
        assert_eq!(order("-a--b"), "-a--b");
    }

    #[test]
    fn a_namespace_keeps_its_order() {
        let mut waiting = RoundRobin::default();
        let mut random: u64 = 7;
        for number in 0..1000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let of = (random >> 60) as u32;
            let share = if of == 0 { Share::Barrier } else { Share::Namespace(NamespaceKey(of)) };
            waiting.push(share, (of, number));
        }
        let mut last = [0; 16];
        let mut barrier = 0;
        while let Some((of, number)) = waiting.pop(|_| true) {
            assert!(number >= last[of as usize] && number >= barrier);
            last[of as usize] = number;
            if of == 0 {
                assert!(last.iter().all(|before| *before <= number), "all before it were taken");
                barrier = number;
            }
        }
    }
}
