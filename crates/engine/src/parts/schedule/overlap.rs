//! What becomes of actions that are due, given what runs and what the overlap policies say.

use segno_proto::enums::ScheduleOverlapPolicy as Policy;

use crate::state::schedule::BufferedStart;

/// The decision about the actions that are due.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// To be started at once, beside those that run.
    pub overlapping: Vec<BufferedStart>,
    /// The one to be started that may not overlap with others.
    pub single: Option<BufferedStart>,
    /// To be looked at again when what runs has ended.
    pub buffered: Vec<BufferedStart>,
    /// Request cancellation of what runs.
    pub cancel: bool,
    /// Terminate what runs.
    pub terminate: bool,
    /// Actions that are not taken.
    pub skipped: i64,
}

/// Decides about the actions in a buffer, oldest first. `resolve` fills in the policy of the schedule where an action has
/// none; this is done as late as here so that changing the policy affects what is buffered.
pub(super) fn decide(buffer: Vec<BufferedStart>, runs: bool, resolve: impl Fn(Policy) -> Policy) -> Decision {
    let mut decision = Decision::default();
    for start in buffer {
        match resolve(start.policy()) {
            Policy::AllowAll => decision.overlapping.push(start),
            _ if !runs && decision.single.is_none() => decision.single = Some(start),
            Policy::BufferOne if decision.buffered.is_empty() => decision.buffered.push(start),
            Policy::BufferAll => decision.buffered.push(start),
            policy @ (Policy::CancelOther | Policy::TerminateOther) => {
                if runs {
                    decision.cancel |= policy == Policy::CancelOther;
                    decision.terminate |= policy == Policy::TerminateOther;
                    decision.buffered.push(start);
                } else {
                    // The other one was only about to start.
                    decision.single = Some(start);
                }
            }
            _ => decision.skipped += 1,
        }
    }
    if decision.cancel || decision.terminate {
        // They would be ended at once.
        decision.overlapping.clear();
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(policies: &[Policy]) -> Vec<BufferedStart> {
        let start = |(at, policy): (usize, &Policy)| BufferedStart {
            nominal: at as i64 + 1,
            actual: at as i64 + 1,
            policy: *policy as i32,
            ..Default::default()
        };
        policies.iter().enumerate().map(start).collect()
    }

    /// The decision, as the times of the actions.
    fn decision(policies: &[Policy], runs: bool) -> String {
        let decision = decide(starts(policies), runs, |policy| match policy {
            Policy::Unspecified => Policy::Skip,
            policy => policy,
        });
        let times = |starts: &[BufferedStart]| starts.iter().map(|start| start.nominal.to_string()).collect::<Vec<_>>();
        format!(
            "start {} {:?}, buffer {}, skip {}{}{}",
            times(&decision.overlapping).join(" "),
            decision.single.map(|start| start.nominal),
            times(&decision.buffered).join(" "),
            decision.skipped,
            if decision.cancel { ", cancel" } else { "" },
            if decision.terminate { ", terminate" } else { "" },
        )
    }

    #[test]
    fn each_policy_with_and_without_a_running_workflow() {
        use Policy::*;
        let cases = [
            (&[Unspecified, Skip, Skip][..], false, "start  Some(1), buffer , skip 2"),
            (&[Skip, Skip], true, "start  None, buffer , skip 2"),
            (&[BufferOne, BufferOne, BufferOne], false, "start  Some(1), buffer 2, skip 1"),
            (&[BufferOne, BufferOne], true, "start  None, buffer 1, skip 1"),
            (&[BufferAll, BufferAll, BufferAll], false, "start  Some(1), buffer 2 3, skip 0"),
            (&[BufferAll, BufferAll], true, "start  None, buffer 1 2, skip 0"),
            (&[CancelOther, CancelOther], false, "start  Some(2), buffer , skip 0"),
            (&[CancelOther], true, "start  None, buffer 1, skip 0, cancel"),
            (&[TerminateOther], true, "start  None, buffer 1, skip 0, terminate"),
            (&[AllowAll, AllowAll], true, "start 1 2 None, buffer , skip 0"),
            (&[AllowAll, Skip, AllowAll], false, "start 1 3 Some(2), buffer , skip 0"),
            (&[AllowAll, CancelOther], true, "start  None, buffer 2, skip 0, cancel"),
            (&[BufferAll, BufferOne], true, "start  None, buffer 1, skip 1"),
        ];
        for (policies, runs, expected) in cases {
            assert_eq!(decision(policies, runs), expected, "{policies:?} while something runs: {runs}");
        }
    }
}
