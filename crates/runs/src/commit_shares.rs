//! Shares of the writer: how much a namespace may commit while others commit, too.
//!
//! As long as one namespace commits, it has all places of each group. While several do ([`RECENT`]),
//!
//! - a namespace has a quarter of the places of a group, or a sixteenth if it wrote a lot lately, so that groups stay short;
//! - one that wrote a lot pauses in proportion to the time that its bytes took ([`LARGE_REST`]);
//! - one that had a group for itself pauses as long as that took, unless another one commits first: then the writer is free
//!   half of the time when the others come.
//!
//! Commits of a paused namespace are in the queue of the writer, so a caller that leaves changes nothing. Barriers are
//! not delayed by pauses. Time is measured by the writer and given to this module.

use std::time::Duration;

use segno_environment::hash::HashMap;
use segno_store::NamespaceKey;
use tokio::time::Instant;

use crate::round_robin::Share;

/// Another namespace counts as present for so long after its last commit.
const RECENT: Duration = Duration::from_secs(1);
/// A namespace that had a group for itself rests only if another one committed so lately: one that commits now and then does
/// not cost the others half of the writer.
const VERY_RECENT: Duration = Duration::from_millis(100);
/// More than this in a group is a lot for a namespace.
const LARGE_BYTES: usize = 64 * 1024;
/// A namespace that wrote a lot rests so many times as long as that took.
const LARGE_REST: u32 = 6;
/// The longest rest.
const REST_MAX: Duration = Duration::from_millis(500);
/// A namespace that wrote a lot has few places for so long.
const LARGE_RECENT: Duration = Duration::from_secs(1);
/// Bytes of one namespace in a group, whether others commit or not. One commit may be larger.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes that a commit counts for besides its content.
const COMMIT_BYTES: usize = 4096;
/// Namespaces that are remembered; those without a rest are forgotten first.
const NAMESPACES_MAX: usize = 1024;

/// A namespace that wrote a lot.
struct LargeWriter {
    rests_until: Instant,
    wrote_at: Instant,
}

/// The part of a group that belongs to a namespace.
#[derive(Clone, Copy, Default)]
struct NamespaceShare {
    commits: usize,
    bytes: usize,
}

impl NamespaceShare {
    fn weight(self) -> usize {
        self.bytes + self.commits * COMMIT_BYTES
    }
}

/// See the module.
pub(crate) struct CommitShares {
    /// The namespace that committed last, and the last one before that was another.
    last: Option<(NamespaceKey, Instant)>,
    other: Option<(NamespaceKey, Instant)>,
    large: HashMap<NamespaceKey, LargeWriter>,
    /// The namespace that had the last group for itself, and until when it rests.
    alone: Option<(NamespaceKey, Instant)>,
    /// The shares of the group that is being put together.
    group: HashMap<Share, NamespaceShare>,
    group_max: usize,
}

impl CommitShares {
    pub fn new(group_max: usize) -> Self {
        Self { last: None, other: None, large: HashMap::default(), alone: None, group: HashMap::default(), group_max }
    }

    /// A commit has arrived.
    pub fn arrive(&mut self, share: Share, now: Instant) {
        let Share::Namespace(namespace) = share else { return };
        match &mut self.last {
            Some((last, at)) if *last == namespace => *at = now,
            last => self.other = last.replace((namespace, now)).or(self.other),
        }
        if self.alone.is_some_and(|(resting, _)| resting != namespace) {
            self.alone = None;
        }
    }

    /// Whether several namespaces commit.
    pub fn is_shared(&self, now: Instant) -> bool {
        self.is_other_within(RECENT, now)
    }

    fn is_other_within(&self, time: Duration, now: Instant) -> bool {
        self.other.is_some_and(|(_, at)| now.saturating_duration_since(at) < time)
    }

    /// Until when a namespace rests.
    fn rest(&self, namespace: NamespaceKey) -> Option<Instant> {
        let alone = self.alone.filter(|(resting, _)| *resting == namespace).map(|(_, until)| until);
        self.large.get(&namespace).map(|large| large.rests_until).into_iter().chain(alone).max()
    }

    /// Whether the next commit of a lane has a place in the group that is being put together.
    pub(crate) fn has_place(&self, share: Share, now: Instant) -> bool {
        let Share::Namespace(namespace) = share else { return true };
        let part = self.group.get(&share).copied().unwrap_or_default();
        if part.bytes >= GROUP_BYTES_MAX {
            return false;
        }
        if !self.is_shared(now) {
            return true;
        }
        let wrote_a_lot = self
            .large
            .get(&namespace)
            .is_some_and(|large| now.saturating_duration_since(large.wrote_at) < LARGE_RECENT);
        let places = if wrote_a_lot { self.group_max / 16 } else { self.group_max / 4 };
        part.commits < places
            && (part.commits == 0 || part.bytes < LARGE_BYTES)
            && self.rest(namespace).is_none_or(|until| until <= now)
    }

    /// A commit has its place in the group.
    pub fn take_place(&mut self, share: Share, bytes: usize) {
        let part = self.group.entry(share).or_default();
        part.commits += 1;
        part.bytes += bytes;
    }

    /// The first moment at which one of these lanes has rested.
    pub(crate) fn next_end(&self, waiting: impl Iterator<Item = Share>) -> Option<Instant> {
        let rest = |share| match share {
            Share::Namespace(namespace) => self.rest(namespace),
            Share::Barrier => None,
        };
        waiting.filter_map(rest).min()
    }

    /// The group was written; it took this long.
    pub fn written(&mut self, took: Duration, now: Instant) {
        let total: usize = self.group.values().map(|part| part.weight()).sum();
        let only = self.group.len() == 1;
        let rests_alone = self.is_other_within(VERY_RECENT, now);
        if self.large.len() > NAMESPACES_MAX {
            self.large.retain(|_, large| now.saturating_duration_since(large.wrote_at) < LARGE_RECENT);
        }
        for (share, part) in self.group.drain() {
            let Share::Namespace(namespace) = share else { continue };
            if part.bytes > LARGE_BYTES {
                let own = took.mul_f64(part.weight() as f64 / total.max(1) as f64);
                let rests_until = now + (own * LARGE_REST).min(REST_MAX);
                self.large.insert(namespace, LargeWriter { rests_until, wrote_at: now });
            }
            self.alone = (only && rests_alone).then(|| (namespace, now + took.min(REST_MAX)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Share = Share::Namespace(NamespaceKey(1));
    const B: Share = Share::Namespace(NamespaceKey(2));
    const MS: Duration = Duration::from_millis(1);

    /// How many commits of so many bytes have a place in a group.
    fn places(shares: &mut CommitShares, share: Share, bytes: usize, now: Instant) -> usize {
        let mut places = 0;
        while places < 64 && shares.has_place(share, now) {
            shares.take_place(share, bytes);
            places += 1;
        }
        places
    }

    #[test]
    fn alone_a_namespace_has_every_place() {
        let (mut shares, now) = (CommitShares::new(64), Instant::now());
        for round in 0..10 {
            shares.arrive(A, now + round * MS);
            assert_eq!(places(&mut shares, A, 100, now + round * MS), 64);
            shares.written(10 * MS, now + round * MS);
        }
        assert!(!shares.is_shared(now));
        assert_eq!(places(&mut shares, A, 4 << 20, now), 2, "a group is not larger than it has to be");
    }

    #[test]
    fn beside_others_it_has_a_quarter_and_rests_as_long_as_its_group_took() {
        let (mut shares, begun) = (CommitShares::new(64), Instant::now());
        shares.arrive(B, begun);
        shares.arrive(A, begun);
        assert_eq!(places(&mut shares, A, 100, begun), 16);
        assert_eq!(places(&mut shares, B, 100, begun), 16);
        shares.written(3 * MS, begun);
        assert_eq!(places(&mut shares, A, 100, begun), 16, "the group was not its own");
        shares.written(3 * MS, begun);
        assert_eq!(places(&mut shares, A, 100, begun), 0);
        assert_eq!(shares.next_end([A].into_iter()), Some(begun + 3 * MS));
        assert_eq!(places(&mut shares, A, 100, begun + 3 * MS), 16);
        shares.written(3 * MS, begun + 3 * MS);
        shares.arrive(B, begun + 3 * MS);
        assert_eq!(places(&mut shares, A, 100, begun + 3 * MS), 16, "another one came");
        shares.written(3 * MS, begun + 3 * MS);
        assert_eq!(places(&mut shares, A, 100, begun + 2 * RECENT), 64, "the other one is gone");
    }

    #[test]
    fn large_commits_rest_in_proportion_to_what_they_took() {
        let (mut shares, begun) = (CommitShares::new(64), Instant::now());
        shares.arrive(B, begun);
        shares.arrive(A, begun);
        assert_eq!(places(&mut shares, A, 4 << 20, begun), 1, "one large commit is enough");
        assert_eq!(places(&mut shares, B, 100, begun), 16);
        shares.written(20 * MS, begun);
        shares.arrive(B, begun);
        assert_eq!(places(&mut shares, A, 100, begun + 50 * MS), 0);
        assert_eq!(places(&mut shares, B, 100, begun + 50 * MS), 16, "the other one does not rest");
        shares.written(MS, begun + 50 * MS);
        let end = shares.next_end([A].into_iter()).expect("it rests");
        assert!(end > begun + 100 * MS && end <= begun + 120 * MS, "{:?}", end - begun);
        shares.arrive(B, begun + 120 * MS);
        assert_eq!(places(&mut shares, A, 100, begun + 120 * MS), 4, "few places after it");
        shares.written(MS, begun + 120 * MS);
        shares.arrive(A, begun + LARGE_RECENT);
        shares.arrive(B, begun + LARGE_RECENT);
        assert_eq!(places(&mut shares, A, 100, begun + LARGE_RECENT), 16);
    }
}
