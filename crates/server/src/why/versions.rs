//! A task that waits for workers of a version: of which one, why of that one, and which workers poll meanwhile.

use segno_engine::state::RunInfo;
use segno_node::{QueueService, WorkerVersion};
use segno_proto::{Nanos, segno_workflow::Reason};

use super::{command, queue::WaitingTask, reason, time, words};

/// Versions that are named in a sentence.
const VERSIONS_NAMED_MAX: usize = 3;

/// Workers of one version at a queue.
#[derive(Clone, Debug)]
pub(crate) struct LaneSnapshot {
    /// The version; `None` for workers without one.
    pub(crate) version: Option<WorkerVersion>,
    /// Polls and tasks.
    pub(crate) service: QueueService,
    /// Workers that polled lately and did not shut down.
    pub(crate) pollers: usize,
}

/// Workers of which version get a task, on a queue that versions use.
#[derive(Clone, Debug)]
pub(crate) struct TaskTarget {
    /// The version; `None`: workers without one.
    pub(crate) version: Option<WorkerVersion>,
    /// Why of that one.
    pub(crate) cause: TargetCause,
    /// Whether the version is registered.
    pub(crate) is_registered: bool,
    /// The workers at the queue, by version.
    pub(crate) lanes: Vec<LaneSnapshot>,
}

/// Why a task goes to a version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TargetCause {
    /// The run is pinned to it.
    Pinned,
    /// The routing of the queue.
    Current,
    /// The run belongs to the share of this many percent that the version gets.
    Ramping(f32),
}

impl TaskTarget {
    /// The workers of the target at the queue, if there were any.
    pub(crate) fn lane(&self) -> Option<&LaneSnapshot> {
        self.lanes.iter().find(|lane| lane.version == self.version)
    }

    /// A version other than the target whose workers poll the queue.
    fn polling_version(&self) -> Option<&WorkerVersion> {
        let polled = self.lanes.iter().filter(|lane| lane.pollers > 0 && lane.version != self.version);
        polled.filter_map(|lane| lane.version.as_ref()).next()
    }

    /// Versions other than the target that poll the queue, in words.
    fn others(&self) -> Vec<String> {
        let polled = self.lanes.iter().filter(|lane| lane.pollers > 0 || lane.service.polls_waiting > 0);
        polled.filter(|lane| lane.version != self.version).map(|lane| workers_of(lane.version.as_ref())).collect()
    }
}

/// The command that makes a version current.
fn set_current(info: &RunInfo, version: &WorkerVersion) -> String {
    let arguments = [("", version.deployment_name.as_str()), ("--build-id", version.build_id.as_str())];
    command::command(&info.namespace, "deployment set-current", &arguments)
}

/// A version as `name:build`.
fn name(version: &WorkerVersion) -> String {
    words::text(&format!("{}:{}", version.deployment_name, version.build_id))
}

fn workers_of(version: Option<&WorkerVersion>) -> String {
    match version {
        Some(version) => format!("workers of {}", name(version)),
        None => "workers without a version".to_owned(),
    }
}

/// Why a task waits whose version has no worker; `None` if there is one. `waits` begins the sentence.
pub(super) fn waiting(waits: &str, task: &WaitingTask<'_>, target: &TaskTarget, now: Nanos) -> Option<Reason> {
    let WaitingTask { kind, info, since, .. } = *task;
    let lane = target.lane();
    if lane.is_some_and(|lane| lane.pollers > 0 || lane.service.polls_waiting > 0) {
        return None;
    }
    let queue = words::quoted(task.queue);
    let last_poll = lane.and_then(|lane| lane.service.last_poll);
    let silence = match (target.is_registered, last_poll) {
        (false, _) => {
            format!("is not registered (it was deleted, or never polled) and has no worker on task queue {queue}")
        }
        (true, Some(last)) => {
            format!(
                "has had no worker on task queue {queue} for {kind}s since {} ({} ago)",
                words::clock(last),
                words::span(now - last)
            )
        }
        (true, None) => format!("has had no worker on task queue {queue} for {kind}s since the server started"),
    };
    let (text, mut hint) = match &target.version {
        Some(version) => of_version(version, target, &silence, info),
        None => unversioned(target, last_poll.is_some(), &queue, kind, info),
    };
    let others = target.others();
    let mut text = format!("{waits}: {text}.");
    if !others.is_empty() {
        text.push_str(&format!(" Meanwhile {} poll the queue.", list(&others)));
    }
    if target.version.is_some() && others.iter().any(|other| *other == workers_of(None)) {
        hint.push_str(" Workers without a version get nothing while a version is current.");
    }
    Some(Reason { since: time(since), hint, ..reason("WAITS_FOR_VERSION", text) })
}

fn of_version(version: &WorkerVersion, target: &TaskTarget, silence: &str, info: &RunInfo) -> (String, String) {
    let named = name(version);
    let start = format!("Start workers of version {named}");
    match target.cause {
        TargetCause::Pinned => {
            let behavior = [("--versioning-override-behavior", "auto_upgrade")];
            let update = command::of_workflow(info, "workflow update-options", &behavior);
            let hint = format!("{start}, or move the run: {update} sends it to the current version.");
            (format!("the run is pinned to version {named}, which {silence}"), hint)
        }
        TargetCause::Current => {
            let hint = match target.polling_version() {
                Some(other) => {
                    let set = set_current(info, other);
                    format!("{start}, or make a version current that has workers: {set}.")
                }
                None => format!("{start}."),
            };
            (format!("it goes to the current version {named}, which {silence}"), hint)
        }
        TargetCause::Ramping(percentage) => {
            let arguments = [("", version.deployment_name.as_str()), ("--delete", "")];
            let end = command::command(&info.namespace, "deployment set-ramping", &arguments);
            let hint = format!("{start}, or end the ramp: {end}.");
            (format!("it belongs to the {percentage} % that go to version {named}, which {silence}"), hint)
        }
    }
}

/// No version is current for the queue, and no worker without a version polls it.
fn unversioned(target: &TaskTarget, has_polled: bool, queue: &str, kind: &str, info: &RunInfo) -> (String, String) {
    let polls = if has_polled { "polls now" } else { "has polled since the server started" };
    let text =
        format!("no version is current for task queue {queue}, and no worker without a version {polls} for {kind}s");
    let hint = match target.polling_version() {
        Some(version) => format!("{} sends tasks to the workers that poll.", set_current(info, version)),
        None => "Start workers, and make their version current.".to_owned(),
    };
    (text, hint)
}

/// `a, b and 2 more`.
fn list(names: &[String]) -> String {
    let more = names.len().saturating_sub(VERSIONS_NAMED_MAX);
    let shown = names[..names.len() - more].join(", ");
    match more {
        0 => match shown.rsplit_once(", ") {
            Some((first, last)) => format!("{first} and {last}"),
            None => shown,
        },
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use segno_node::named_version;

    use super::*;

    const SECOND: Nanos = 1_000_000_000;
    /// 2001-09-09T01:46:40Z.
    const NOW: Nanos = 1_000_000_000 * SECOND;

    fn version(build: &str) -> Option<WorkerVersion> {
        Some(named_version("x".to_owned(), build.to_owned()))
    }

    fn lane(version: Option<WorkerVersion>, pollers: usize, last_poll: Option<Nanos>) -> LaneSnapshot {
        LaneSnapshot { version, service: QueueService { last_poll, ..QueueService::default() }, pollers }
    }

    fn target(version: Option<WorkerVersion>, cause: TargetCause, lanes: Vec<LaneSnapshot>) -> TaskTarget {
        TaskTarget { version, cause, is_registered: true, lanes }
    }

    fn reason_of(target: &TaskTarget) -> Option<Reason> {
        let info = RunInfo { workflow_id: "order-7".to_owned(), ..Default::default() };
        let task = WaitingTask {
            what: "The workflow task",
            kind: "workflow task",
            queue: "orders",
            namespace: None,
            info: &info,
            since: NOW - 30 * SECOND,
        };
        waiting("It waits", &task, target, NOW)
    }

    #[test]
    fn a_pinned_run_waits_for_its_version() {
        let lanes =
            vec![lane(None, 0, None), lane(version("1"), 0, Some(NOW - 60 * SECOND)), lane(version("2"), 3, Some(NOW))];
        let mut pinned = target(version("1"), TargetCause::Pinned, lanes);
        let reason = reason_of(&pinned).expect("a reason");
        assert_eq!(reason.kind, "WAITS_FOR_VERSION");
        assert_eq!(
            reason.text,
            "It waits: the run is pinned to version x:1, which has had no worker on task queue \"orders\" for workflow tasks since \
             2001-09-09T01:45:40Z (1 min ago). Meanwhile workers of x:2 poll the queue."
        );
        assert!(
            reason.hint.contains(
                "`segno workflow update-options --workflow-id order-7 --versioning-override-behavior auto_upgrade`"
            ),
            "{}",
            reason.hint
        );
        pinned.is_registered = false;
        assert!(reason_of(&pinned).expect("a reason").text.contains("which is not registered"));
        pinned.lanes[1].pollers = 1;
        assert_eq!(reason_of(&pinned), None);
    }

    #[test]
    fn the_current_version_and_a_ramp_have_no_workers() {
        let lanes = vec![lane(None, 1, Some(NOW)), lane(version("1"), 1, Some(NOW))];
        let reason = reason_of(&target(version("2"), TargetCause::Current, lanes.clone())).expect("a reason");
        assert_eq!(
            reason.text,
            "It waits: it goes to the current version x:2, which has had no worker on task queue \"orders\" for workflow tasks since \
             the server started. Meanwhile workers without a version and workers of x:1 poll the queue."
        );
        assert!(reason.hint.contains("`segno deployment set-current x --build-id 1`"), "{}", reason.hint);
        assert!(reason.hint.ends_with("Workers without a version get nothing while a version is current."));
        let reason = reason_of(&target(version("2"), TargetCause::Ramping(10.0), lanes)).expect("a reason");
        assert!(reason.text.contains("it belongs to the 10 % that go to version x:2"), "{}", reason.text);
        assert!(reason.hint.contains("`segno deployment set-ramping x --delete`"), "{}", reason.hint);
    }

    #[test]
    fn no_version_is_current() {
        let lanes = vec![lane(None, 0, None), lane(version("1"), 2, Some(NOW))];
        let mut unversioned = target(None, TargetCause::Current, lanes);
        let reason = reason_of(&unversioned).expect("a reason");
        assert_eq!(
            reason.text,
            "It waits: no version is current for task queue \"orders\", and no worker without a version has polled since the server \
             started for workflow tasks. Meanwhile workers of x:1 poll the queue."
        );
        assert_eq!(reason.hint, "`segno deployment set-current x --build-id 1` sends tasks to the workers that poll.");
        unversioned.lanes[0].pollers = 1;
        assert_eq!(reason_of(&unversioned), None);
    }

    #[test]
    fn many_versions_are_counted() {
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(list(&names[..1]), "a");
        assert_eq!(list(&names[..3]), "a, b and c");
        assert_eq!(list(&names), "a, b, c and 2 more");
    }
}
