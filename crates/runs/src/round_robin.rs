//! Commits that wait for the writer, round-robin over namespaces.
//!
//! As long as all waiting commits fit into one group, they are taken in the order of arrival. When more wait, each
//! group takes one commit of each namespace, then a second one of each, and so on: a namespace that commits a lot fills
//! the places that others leave free, and delays them by one group at most.
//!
//! What holds: commits of one namespace keep their order. A [`Share::Barrier`] keeps its place among all others,
//! because it may depend on any of them.

use std::collections::VecDeque;

use segno_store::NamespaceKey;

/// Among whom a commit takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    /// It changes runs, messages or documents of a namespace.
    Namespace(NamespaceKey),
    /// Anything else. What came before it is written before it, what came after it not before.
    Barrier,
}

/// What waits and did not fit into the last group.
#[derive(Debug)]
pub(crate) struct RoundRobin<T> {
    /// The next one's turn first.
    lanes: VecDeque<(Share, VecDeque<T>)>,
    /// What came with and after the first barrier that waits.
    behind: VecDeque<(Share, T)>,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> Self {
        Self { lanes: VecDeque::new(), behind: VecDeque::new() }
    }
}

impl<T> RoundRobin<T> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.behind.is_empty()
    }

    /// Adds something that arrived.
    pub fn push(&mut self, turn: Share, item: T) {
        match self.behind.is_empty() && turn != Share::Barrier {
            true => self.push_lane(turn, item),
            false => self.behind.push_back((turn, item)),
        }
    }

    fn push_lane(&mut self, turn: Share, item: T) {
        match self.lanes.iter_mut().find(|(of, _)| *of == turn) {
            Some((_, lane)) => lane.push_back(item),
            None => self.lanes.push_back((turn, VecDeque::from([item]))),
        }
    }

    /// Whether a barrier waits.
    pub(crate) fn has_barrier(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Who waits, not counting what is behind a barrier.
    pub fn waiting(&self) -> impl Iterator<Item = Share> {
        self.lanes.iter().map(|(turn, _)| *turn)
    }

    /// Takes the next one of those that may be taken.
    pub fn pop(&mut self, may: impl Fn(Share) -> bool) -> Option<T> {
        if self.lanes.is_empty() {
            return self.pass_barrier();
        }
        let place = self.lanes.iter().position(|(turn, _)| may(*turn))?;
        let (turn, mut lane) = self.lanes.remove(place)?;
        let item = lane.pop_front();
        if !lane.is_empty() {
            self.lanes.push_back((turn, lane));
        }
        item
    }

    /// Takes the barrier, and lets in what waits up to the next one.
    fn pass_barrier(&mut self) -> Option<T> {
        let (_, barrier) = self.behind.pop_front()?;
        while self.behind.front().is_some_and(|(turn, _)| *turn != Share::Barrier) {
            if let Some((turn, item)) = self.behind.pop_front() {
                self.push_lane(turn, item);
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
        let mut turns = RoundRobin::default();
        for letter in arrived.chars() {
            let turn = match letter {
                '-' => Share::Barrier,
                _ => Share::Namespace(NamespaceKey(u32::from(letter))),
            };
            turns.push(turn, letter);
        }
        let taken = std::iter::from_fn(|| turns.pop(|_| true)).collect();
        assert!(turns.is_empty());
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
        let mut turns = RoundRobin::default();
        let (a, b) = (Share::Namespace(NamespaceKey(1)), Share::Namespace(NamespaceKey(2)));
        for (turn, item) in [(a, 1), (a, 2), (b, 3), (b, 4)] {
            turns.push(turn, item);
        }
        let rests = |turns: &mut RoundRobin<i32>| turns.pop(|turn| turn != a);
        assert_eq!((rests(&mut turns), rests(&mut turns), rests(&mut turns)), (Some(3), Some(4), None));
        assert_eq!(turns.waiting().collect::<Vec<_>>(), [a]);
        assert_eq!(turns.pop(|_| true), Some(1));
    }

    #[test]
    fn nothing_passes_a_barrier() {
        assert_eq!(order("aab-aab"), "aba-aba");
        assert_eq!(order("-a--b"), "-a--b");
    }

    #[test]
    fn a_namespace_keeps_its_order() {
        let mut turns = RoundRobin::default();
        let mut random: u64 = 7;
        for number in 0..1000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let of = (random >> 60) as u32;
            let turn = if of == 0 { Share::Barrier } else { Share::Namespace(NamespaceKey(of)) };
            turns.push(turn, (of, number));
        }
        let mut last = [0; 16];
        let mut barrier = 0;
        while let Some((of, number)) = turns.pop(|_| true) {
            assert!(number >= last[of as usize] && number >= barrier);
            last[of as usize] = number;
            if of == 0 {
                assert!(last.iter().all(|before| *before <= number), "all before it were taken");
                barrier = number;
            }
        }
    }
}
