//! Updates that earlier runs of a chain completed, by which a run that follows recognises a repeated update.
//!
//! A run carries digests of the newest ids, and which run completed each. A digest is the first four bytes of SipHash-2-4
//! of the id with a key of zeros, and must stay so, because it is stored. Four bytes are enough: a digest only says in which
//! run to look, and that run has the whole id. It does not say that an update is there.

use std::hash::Hasher;

use bytes::{Bytes, BytesMut};
use siphasher::sip::SipHasher24;

use crate::limits::EARLIER_UPDATES_MAX;

const DIGEST_BYTES: usize = 4;

fn digest(id: &str) -> [u8; DIGEST_BYTES] {
    let mut hasher = SipHasher24::new();
    hasher.write(id.as_bytes());
    (hasher.finish() as u32).to_le_bytes()
}

/// The newest updates that earlier runs of a chain completed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EarlierUpdates {
    /// The runs that completed them, oldest first.
    #[prost(uint64, repeated, tag = "1")]
    pub run_keys: Vec<u64>,
    /// How many of the digests belong to each of these runs.
    #[prost(uint32, repeated, tag = "2")]
    pub counts: Vec<u32>,
    /// Digests of the ids, newest last.
    #[prost(bytes = "bytes", tag = "3")]
    pub digests: Bytes,
}

impl EarlierUpdates {
    /// The updates that the run after `run_key` carries: those that it carried, and those that it completed itself, each with the event
    /// that completed it. The oldest are forgotten if there are too many.
    pub(crate) fn after<'a>(
        before: Option<&Self>,
        run_key: u64,
        completed: impl Iterator<Item = (i64, &'a str)>,
    ) -> Option<Box<Self>> {
        let mut own: Vec<_> = completed.map(|(event_id, id)| (event_id, digest(id))).collect();
        own.sort_unstable_by_key(|(event_id, _)| *event_id);
        let own = &own[own.len().saturating_sub(EARLIER_UPDATES_MAX)..];
        if own.is_empty() {
            return before.cloned().map(Box::new);
        }
        let known = before.map_or(&[][..], |before| &before.digests[..]);
        let kept = known.len().min((EARLIER_UPDATES_MAX - own.len()) * DIGEST_BYTES);
        let mut forgotten = (known.len() - kept) / DIGEST_BYTES;
        let mut runs: Vec<(u64, u32)> = before.iter().flat_map(|before| before.runs()).collect();
        runs.retain_mut(|(_, count)| {
            let gone = forgotten.min(*count as usize);
            forgotten -= gone;
            *count -= gone as u32;
            *count > 0
        });
        runs.push((run_key, own.len() as u32));
        let mut digests = BytesMut::with_capacity(kept + own.len() * DIGEST_BYTES);
        digests.extend_from_slice(&known[known.len() - kept..]);
        own.iter().for_each(|(_, digest)| digests.extend_from_slice(digest));
        let (run_keys, counts) = runs.into_iter().unzip();
        Some(Box::new(Self { run_keys, counts, digests: digests.freeze() }))
    }

    /// Runs that may have completed the update of an id, newest first, but for those in `searched`.
    pub(crate) fn runs_of(&self, id: &str, searched: &[u64]) -> Vec<u64> {
        let wanted = digest(id);
        let mut rest = &self.digests[..];
        let mut found = Vec::new();
        for (run_key, count) in self.runs() {
            let (own, later) = rest.split_at(rest.len().min(count as usize * DIGEST_BYTES));
            rest = later;
            if !searched.contains(&run_key) && own.chunks_exact(DIGEST_BYTES).any(|known| known == wanted) {
                found.push(run_key);
            }
        }
        found.reverse();
        found
    }

    fn runs(&self) -> impl Iterator<Item = (u64, u32)> {
        self.run_keys.iter().copied().zip(self.counts.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn after(before: Option<&EarlierUpdates>, run_key: u64, ids: &[String]) -> Option<Box<EarlierUpdates>> {
        // In no particular order, as a run has them.
        let completed = ids.iter().enumerate().map(|(place, id)| (place as i64 + 5, id.as_str())).rev();
        EarlierUpdates::after(before, run_key, completed)
    }

    fn ids(prefix: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{prefix}{number}")).collect()
    }

    #[test]
    fn a_digest_is_the_same_for_ever() {
        assert_eq!((digest(""), digest("one")), ([0xd7, 0x00, 0x77, 0x73], [0x9f, 0x12, 0x05, 0xe7]));
    }

    #[test]
    fn a_run_without_updates_carries_what_it_was_given() {
        assert_eq!(after(None, 1, &[]), None);
        let first = after(None, 1, &ids("a", 2));
        assert_eq!(after(first.as_deref(), 2, &[]), first);
    }

    #[test]
    fn the_newest_are_known_by_their_runs() {
        let first = after(None, 7, &ids("a", 600));
        let second = after(first.as_deref(), 8, &ids("b", 300));
        let third = after(second.as_deref(), 9, &ids("c", 300)).expect("there are updates");
        assert_eq!((&third.run_keys[..], &third.counts[..]), (&[7, 8, 9][..], &[400, 300, 300][..]));
        assert_eq!(third.digests.len(), EARLIER_UPDATES_MAX * DIGEST_BYTES);
        let known = |id: &str, searched: &[u64]| third.runs_of(id, searched);
        assert!((0..200).all(|number| known(&format!("a{number}"), &[]).is_empty()), "the oldest are forgotten");
        assert!((200..600).all(|number| known(&format!("a{number}"), &[]).contains(&7)));
        assert!((0..300).all(|number| known(&format!("b{number}"), &[]).contains(&8)));
        assert!((0..300).all(|number| known(&format!("c{number}"), &[]).contains(&9)));
        assert_eq!((known("c5", &[9]), known("unknown", &[])), (Vec::new(), Vec::new()));
        let many = after(Some(&third), 10, &ids("d", 1500)).expect("there are updates");
        assert_eq!((&many.run_keys[..], &many.counts[..]), (&[10][..], &[1000][..]));
        assert!(many.runs_of("d499", &[]).is_empty() && many.runs_of("d500", &[]) == [10]);
    }

    #[test]
    fn a_thousand_updates_take_four_kilobytes() {
        let mut carried = None;
        for run_key in 1_000_000..1_000_100 {
            carried = after(carried.as_deref(), run_key, &ids(&format!("{run_key}-"), 10));
        }
        let carried = carried.expect("there are updates");
        assert_eq!(carried.digests.len(), 4000);
        assert_eq!(carried.encoded_len(), 4408);
    }
}
