//! The request ids of the newest signals of a run, by which a repeated signal is recognised.
//!
//! Kept as digests of 8 bytes in one shared buffer: every transition makes a new state and stores it, so a thousand ids
//! must be cheap to copy and small. That two ids of one run have the same digest is as likely as 1 in 10^16 for each
//! signal.

use std::hash::Hasher;

use bytes::{Bytes, BytesMut};
use siphasher::sip::SipHasher24;

use crate::{limits::SIGNAL_REQUEST_IDS_MAX, state::RunState};

const DIGEST_BYTES: usize = 8;

fn digest(request_id: &str) -> [u8; DIGEST_BYTES] {
    let mut hasher = SipHasher24::new();
    hasher.write(request_id.as_bytes());
    hasher.finish().to_le_bytes()
}

/// Whether a signal with this request id came before. The empty id stands for none.
pub fn contains(state: &RunState, request_id: &str) -> bool {
    if request_id.is_empty() || state.signal_ids.is_empty() {
        return false;
    }
    let digest = digest(request_id);
    state.signal_ids.chunks_exact(DIGEST_BYTES).any(|known| known == digest)
}

/// Remembers a signal; the oldest is forgotten if there are too many.
pub(crate) fn add(state: &mut RunState, request_id: &str) {
    if request_id.is_empty() {
        return;
    }
    let known = &state.signal_ids;
    let kept = known.len().min((SIGNAL_REQUEST_IDS_MAX - 1) * DIGEST_BYTES);
    let mut ids = BytesMut::with_capacity(kept + DIGEST_BYTES);
    ids.extend_from_slice(&known[known.len() - kept..]);
    ids.extend_from_slice(&digest(request_id));
    state.signal_ids = ids.freeze();
}

/// Takes over what an older version stored.
pub(crate) fn upgrade(state: &mut RunState) {
    for request_id in std::mem::take(&mut state.old_signal_request_ids) {
        add(state, &request_id);
    }
    // Decoded from a larger buffer, which this would keep alive.
    state.signal_ids = Bytes::copy_from_slice(&state.signal_ids);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ids_are_known() {
        let mut state = RunState::default();
        for number in 0..SIGNAL_REQUEST_IDS_MAX + 10 {
            add(&mut state, &format!("id-{number}"));
        }
        assert_eq!(state.signal_ids.len(), SIGNAL_REQUEST_IDS_MAX * DIGEST_BYTES);
        assert!(!contains(&state, "id-9"));
        assert!((10..SIGNAL_REQUEST_IDS_MAX + 10).all(|number| contains(&state, &format!("id-{number}"))));
        assert!(!contains(&state, ""));
    }

    #[test]
    fn ids_of_an_older_version_are_known() {
        let mut state = RunState { old_signal_request_ids: vec!["a".to_owned(), "b".to_owned()], ..Default::default() };
        upgrade(&mut state);
        assert!(contains(&state, "a") && contains(&state, "b") && !contains(&state, "c"));
        assert!(state.old_signal_request_ids.is_empty());
    }
}
