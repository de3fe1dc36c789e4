//! Answers to tasks that are sent twice because the first response was lost.
//!
//! A run remembers a digest of the request with which its last workflow task was completed, and of those that brought
//! the newest results of its activities. A request contains its task token, so that a digest stands for one task and one
//! answer. A token that no longer fits a task is looked up here: the same request again gets the answer of the first one,
//! as far as that still holds; a different one is refused as before.
//!
//! The digests are part of the state that the answer itself stores. They cost 9 bytes for the workflow task and 8 for
//! each result, and no commit.

use std::hash::Hasher;

use bytes::BytesMut;
use prost::Message;
use segno_proto::scratch::with_scratch;
use siphasher::sip::SipHasher13;

use crate::{
    error::Rejection,
    limits::RESULT_DIGESTS_MAX,
    state::{RunState, run::Run},
    transition::{Applied, Context, draft::Draft},
};

const DIGEST_BYTES: usize = 8;

/// Stands for the whole of a request; 0 for one that is not to be recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub u64);

/// The calls whose requests are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// A workflow task was completed.
    TaskCompleted = 1,
    /// An activity succeeded.
    ActivityCompleted = 2,
    /// An activity failed.
    ActivityFailed = 3,
    /// An activity obeyed a cancellation.
    ActivityCanceled = 4,
}

impl Digest {
    /// The digest of a request, which is encoded once more for it: SDKs that encode a request anew to repeat it may
    /// change the order of a map's entries, and here that order is always the same.
    pub fn of(call: Call, request: &impl Message) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write_u8(call as u8);
        with_scratch(|buffer| request.encode_raw(buffer), |encoded| hasher.write(encoded));
        Self(hasher.finish().max(1))
    }
}

/// Handles the result of an activity: it is remembered if it was taken, and recognised if its attempt is over
/// because it was taken before.
pub fn result(
    run: &Run,
    context: Context,
    digest: Digest,
    outcome: Result<Applied<()>, Rejection>,
) -> Result<Applied<()>, Rejection> {
    match outcome {
        Ok(mut applied) => {
            add_result(&mut applied.run.state, digest);
            Ok(applied)
        }
        Err(Rejection::ActivityNotFound | Rejection::Closed) if has_result(&run.state, digest) => {
            Ok(Draft::new(run, context).finish(()))
        }
        refused => refused,
    }
}

fn has_result(state: &RunState, digest: Digest) -> bool {
    digest.0 != 0 && state.result_digests.chunks_exact(DIGEST_BYTES).any(|known| known == digest.0.to_le_bytes())
}

/// The oldest is forgotten if there are too many.
fn add_result(state: &mut RunState, digest: Digest) {
    if digest.0 == 0 {
        return;
    }
    let known = &state.result_digests;
    let kept = known.len().min((RESULT_DIGESTS_MAX - 1) * DIGEST_BYTES);
    let mut digests = BytesMut::with_capacity(kept + DIGEST_BYTES);
    digests.extend_from_slice(&known[known.len() - kept..]);
    digests.extend_from_slice(&digest.0.to_le_bytes());
    state.result_digests = digests.freeze();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_results_are_known() {
        let mut state = RunState::default();
        let all = RESULT_DIGESTS_MAX as u64 + 10;
        for number in 1..=all {
            add_result(&mut state, Digest(number));
        }
        assert_eq!(state.result_digests.len(), RESULT_DIGESTS_MAX * DIGEST_BYTES);
        assert!(!has_result(&state, Digest(10)) && (11..=all).all(|number| has_result(&state, Digest(number))));
        add_result(&mut state, Digest(0));
        assert!(has_result(&state, Digest(11)) && !has_result(&state, Digest(0)));
    }
}
