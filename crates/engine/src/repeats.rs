//! Answers to tasks that are sent twice because the first response was lost.
//!
//! A run remembers a digest of the request with which its last workflow task was completed, and of those that brought
//! the newest results of its activities. A request contains its task token, so that a digest stands for one task and one
//! answer. A token that fits no task any more is looked up here: the same request again hears what the first one heard,
//! as far as that still holds; a different one is refused as before.
//!
//! The digests are part of the state that the answer itself stores. They cost 9 bytes for the workflow task and 8 for
//! each result, and no commit.

use std::hash::Hasher;

use bytes::{Bytes, BytesMut};
use prost::Message;
use segno_proto::{enums::WorkflowTaskFailedCause, scratch::with_scratch};
use siphasher::sip::SipHasher13;

use crate::{
    complete_task::Completed,
    draft::Draft,
    error::{Rejection, TaskFailure},
    limits::RESULT_DIGESTS_MAX,
    run::{Applied, Context, Run},
    state::{CompletionReply, RunState},
    update::deliver,
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

/// Remembers the completion of a workflow task with what it was answered.
pub(crate) fn note_completion(applied: &mut Applied<Completed>, digest: Digest) {
    if digest.0 == 0 {
        return;
    }
    let reply = &applied.reply;
    let failure = reply.failure.as_ref();
    let kept = CompletionReply {
        failure_cause: failure.map_or(0, |failure| failure.cause as i32),
        failure_message: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
        terminated: failure.is_some_and(|failure| failure.terminate),
        heartbeat_timed_out: reply.heartbeat_timed_out,
        reset_history_event_id: reply.reset_history_event_id,
        task_started_time: reply.new_task.as_ref().map_or(0, |task| task.started_time),
        updates: reply.new_messages.iter().map(|message| message.protocol_instance_id.clone()).collect(),
        activities: reply.eager_activities.iter().map(|activity| activity.scheduled_event_id).collect(),
        activities_started_time: reply.eager_activities.first().map_or(0, |activity| activity.started_time),
    };
    let state = &mut applied.run.state;
    state.completion_digest = digest.0;
    state.completion_reply = (kept != CompletionReply::default()).then(|| Box::new(kept));
}

/// The first answer to a completion whose task is gone, or [`Rejection::TaskNotFound`] if that was another one.
pub(crate) fn completion(run: &Run, context: Context, digest: Digest) -> Result<Applied<Completed>, Rejection> {
    if digest.0 == 0 || run.state.completion_digest != digest.0 {
        return Err(Rejection::TaskNotFound);
    }
    let kept = run.state.completion_reply.as_deref().cloned().unwrap_or_default();
    let mut reply = Completed {
        repeated: true,
        failure: failure_of(&kept),
        heartbeat_timed_out: kept.heartbeat_timed_out,
        reset_history_event_id: kept.reset_history_event_id,
        ..Default::default()
    };
    // What the worker was given belongs to it as long as nothing has ended it.
    if run.is_running() {
        let task = run.state.task.as_ref().filter(|task| {
            kept.task_started_time != 0 && task.started_event_id != 0 && task.started_time == kept.task_started_time
        });
        if let Some(task) = task {
            reply.new_messages = deliver::messages_of(run, &kept.updates);
            reply.new_task = Some(task.clone());
        }
        let pending = kept.activities.iter().filter_map(|id| run.state.activities.get(id));
        let held = pending.filter(|activity| activity.started_time == kept.activities_started_time);
        reply.eager_activities = held.map(|activity| activity.clone().into_inner()).collect();
    }
    Ok(Draft::new(run, context).finish(reply))
}

fn failure_of(kept: &CompletionReply) -> Option<TaskFailure> {
    let cause = WorkflowTaskFailedCause::try_from(kept.failure_cause).ok()?;
    let message = kept.failure_message.clone();
    (kept.failure_cause != 0).then_some(TaskFailure { cause, message, terminate: kept.terminated })
}

/// What becomes of the result of an activity: it is remembered if it was taken, and recognised if its attempt is over
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

/// Digests that were decoded from a larger buffer, which they would keep alive, get their own.
pub(crate) fn detach(state: &mut RunState) {
    state.result_digests = Bytes::copy_from_slice(&state.result_digests);
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
