//! The checks with subtle rules: defaults and caps, inherited values, texts with printed values.

use std::collections::{BTreeMap, BTreeSet};

use segno_proto::command::{self, Command};
use segno_proto::enums::{CommandType, TaskQueueKind, WorkflowTaskFailedCause as Cause};

use super::*;
use crate::search_attributes::Rules;

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

fn queue(name: &str) -> Option<taskqueue::TaskQueue> {
    Some(taskqueue::TaskQueue { name: name.into(), ..Default::default() })
}

fn text(result: Result<(), Invalid>) -> String {
    result.unwrap_err().0
}

#[test]
fn durations() {
    assert_eq!(duration(None), Ok(()));
    assert_eq!(text(duration(Some(&mut Duration { seconds: -1, nanos: 0 }))), "negative duration");
    assert_eq!(
        text(duration(Some(&mut Duration { seconds: 1, nanos: -1 }))),
        "duration has seconds and nanos with different signs"
    );
    let mut long = Duration { seconds: i64::MAX, nanos: 5 };
    assert_eq!(duration(Some(&mut long)), Ok(()));
    assert_eq!(long, Duration { seconds: 3_153_600_000, nanos: 0 });
}

#[test]
fn retry_policies() {
    let mut policy = common::RetryPolicy { initial_interval: seconds(3), ..Default::default() };
    assert_eq!(retry_policy(&mut policy), Ok(()));
    assert_eq!((policy.maximum_interval, policy.backoff_coefficient), (seconds(300), 2.0));

    let refused = |policy: common::RetryPolicy| text(retry_policy(&mut policy.clone()));
    let negative = common::RetryPolicy { initial_interval: seconds(-1), ..Default::default() };
    assert_eq!(refused(negative.clone()), "invalid InitialInterval set on retry policy: negative duration");
    assert_eq!(retry_policy(&mut common::RetryPolicy { maximum_attempts: 1, ..negative }), Ok(()));
    let low = common::RetryPolicy { backoff_coefficient: 0.5, ..Default::default() };
    assert_eq!(refused(low), "BackoffCoefficient cannot be less than 1 on retry policy.");
    let types = |name: &str| common::RetryPolicy {
        non_retryable_error_types: vec!["Mine".into(), format!("TemporalTimeout:{name}")],
        ..Default::default()
    };
    assert_eq!(retry_policy(&mut types("StartToClose")), Ok(()));
    assert_eq!(retry_policy(&mut types("TIMEOUT_TYPE_HEARTBEAT")), Ok(()));
    assert_eq!(refused(types("Lunch")), "Invalid timeout type value: Lunch.");
    assert_eq!(refused(types("Unspecified")), "Invalid timeout type value: Unspecified.");
}

#[test]
fn task_queues() {
    assert_eq!(text(task_queue(None, "x")), "taskQueue is not set");
    assert_eq!(text(task_queue(queue("").as_mut(), "")), "missing task queue name");
    let mut inherited = queue("");
    assert_eq!(task_queue(inherited.as_mut(), "parent"), Ok(()));
    assert_eq!(inherited.map(|q| (q.name, q.kind)), Some(("parent".into(), TaskQueueKind::Normal as i32)));
    assert_eq!(text(task_queue(queue(&"x".repeat(1001)).as_mut(), "")), "taskQueue length exceeds limit");
    assert_eq!(
        text(task_queue(queue("/_sys/x/1").as_mut(), "")),
        "task queue name cannot start with reserved prefix /_sys/"
    );
    assert_eq!(
        text(task_queue_user_defined(queue("temporal-sys-per-ns-tq").as_mut(), "", "mine")),
        "cannot use internal per-namespace task queue:temporal-sys-per-ns-tq (in parent component task queue: mine)"
    );
}

#[test]
fn activity_timeouts_are_filled_in() {
    // schedule-to-close, schedule-to-start, start-to-close, heartbeat, run; and the four that result.
    let cases = [
        ([100, 0, 0, 0], 0, [100, 100, 100, 0]),
        ([100, 10, 200, 300], 0, [100, 10, 100, 100]),
        ([0, 0, 10, 20], 0, [0, 0, 10, 10]),
        ([0, 0, 10, 5], 60, [60, 60, 10, 5]),
        ([0, 7, 100, 90], 60, [60, 7, 60, 60]),
        ([100, 0, 0, 0], 60, [60, 60, 60, 0]),
    ];
    let activity = |given: [i64; 4]| command::ScheduleActivityTaskCommandAttributes {
        activity_id: "a".into(),
        activity_type: Some(common::ActivityType { name: "t".into() }),
        task_queue: queue("q"),
        schedule_to_close_timeout: seconds(given[0]),
        schedule_to_start_timeout: seconds(given[1]),
        start_to_close_timeout: seconds(given[2]),
        heartbeat_timeout: seconds(given[3]),
        ..Default::default()
    };
    for (given, run, want) in cases {
        let mut attributes = activity(given);
        assert_eq!(schedule_activity(&mut attributes, run * SECOND, "q"), Ok(()));
        let got = [
            attributes.schedule_to_close_timeout,
            attributes.schedule_to_start_timeout,
            attributes.start_to_close_timeout,
            attributes.heartbeat_timeout,
        ];
        assert_eq!(got, want.map(seconds), "{given:?} {run}");
        assert_eq!(attributes.retry_policy.map(|policy| policy.maximum_interval), Some(seconds(100)));
    }
    assert_eq!(
        text(schedule_activity(&mut activity([0, 9, 0, 9]), 60 * SECOND, "q")),
        "a valid StartToCloseTimeout or ScheduleToCloseTimeout must be set on the activity. ActivityId=a ActivityType=t"
    );
    assert_eq!(
        text(schedule_activity(&mut activity([-1, 0, 0, 0]), 0, "q")),
        "invalid ScheduleToCloseTimeout: negative duration"
    );
}

#[test]
fn nothing_may_follow_a_closing_command() {
    let commands = |kinds: &[CommandType]| -> Vec<Command> {
        kinds.iter().map(|kind| Command { command_type: *kind as i32, ..Default::default() }).collect()
    };
    let fine = commands(&[CommandType::StartTimer, CommandType::CompleteWorkflowExecution]);
    assert_eq!(commands::command_sequence(&fine), Ok(()));
    let bad = commands(&[CommandType::CompleteWorkflowExecution, CommandType::StartTimer]);
    assert_eq!(
        text(commands::command_sequence(&bad)),
        "invalid command sequence: [CompleteWorkflowExecution, StartTimer], \
         command CompleteWorkflowExecution must be the last command."
    );
    let unknown = [Command { command_type: 99, ..Default::default() }];
    assert_eq!(text(commands::command_sequence(&unknown)), "unknown command type: 99");
    assert_eq!(text(commands::command_sequence(&[Command::default()])), "unknown command type: Unspecified");
}

#[test]
fn continue_as_new_inherits_and_caps() {
    let custom = BTreeMap::new();
    let rules = Rules { namespace: "default", custom: &custom };
    let inherited = workflow_commands::InheritedOptions {
        workflow_type: "Kind",
        task_queue: "q",
        run_timeout: 100 * SECOND,
        execution_timeout: 60 * SECOND,
        task_timeout: 20 * SECOND,
    };
    let mut attributes = command::ContinueAsNewWorkflowExecutionCommandAttributes::default();
    assert_eq!(workflow_commands::continue_as_new(Some(&mut attributes), inherited, &rules), Ok(()));
    assert_eq!(attributes.workflow_type.as_ref().map(|kind| kind.name.as_str()), Some("Kind"));
    assert_eq!(attributes.task_queue.as_ref().map(|queue| queue.name.as_str()), Some("q"));
    assert_eq!((attributes.workflow_run_timeout, attributes.workflow_task_timeout), (seconds(60), seconds(20)));

    attributes.workflow_run_timeout = seconds(-1);
    let refused = workflow_commands::continue_as_new(Some(&mut attributes), inherited, &rules);
    let want = "Invalid WorkflowRunTimeout on ContinueAsNewWorkflowExecutionCommand: negative duration. \
                WorkflowType=Kind TaskQueue=name:\"q\"  kind:TASK_QUEUE_KIND_NORMAL";
    assert_eq!(refused, Err((Cause::BadContinueAsNewAttributes, Invalid::new(want))));
}

#[test]
fn children_are_checked_and_get_their_timeouts() {
    let custom = BTreeMap::new();
    let rules = Rules { namespace: "default", custom: &custom };
    let child = command::StartChildWorkflowExecutionCommandAttributes {
        workflow_id: "w".into(),
        workflow_type: Some(common::WorkflowType { name: "K".into() }),
        workflow_execution_timeout: seconds(5),
        ..Default::default()
    };
    let check = |child: &mut command::StartChildWorkflowExecutionCommandAttributes, target: &str| {
        workflow_commands::start_child(Some(child), "default", target, "q", &rules)
    };
    let mut fine = child.clone();
    assert_eq!(check(&mut fine, "default"), Ok(()));
    assert_eq!((fine.workflow_run_timeout, fine.workflow_task_timeout), (seconds(5), seconds(5)));

    let cause = Cause::BadStartChildExecutionAttributes;
    let mut cron = command::StartChildWorkflowExecutionCommandAttributes { cron_schedule: "x".into(), ..child.clone() };
    let want = "invalid CronSchedule on StartChildWorkflowExecutionCommand: invalid CronSchedule.. \
                WorkflowId=w WorkflowType=K Namespace=default";
    assert_eq!(check(&mut cron, "default"), Err((cause, Invalid::new(want))));
    let want = "cross namespace commands are not allowed";
    assert_eq!(check(&mut child.clone(), "other"), Err((cause, Invalid::new(want))));
}

#[test]
fn a_child_started_by_the_same_task_cannot_be_cancelled() {
    let mut attributes = command::RequestCancelExternalWorkflowExecutionCommandAttributes {
        workflow_id: "w".into(),
        run_id: "not-a-uuid".into(),
        ..Default::default()
    };
    let children = BTreeSet::from(["w".to_owned()]);
    let mut check = |run: &str| {
        attributes.run_id = run.into();
        commands::request_cancel_external(Some(&mut attributes), "ns", "ns", &children).unwrap_err().1.0
    };
    assert_eq!(
        check("nope"),
        "Invalid RunId set on RequestCancelExternalWorkflowExecutionCommand. WorkflowId=w RunId=nope Namespace="
    );
    assert_eq!(
        check(""),
        "Start and RequestCancel for child workflow is not allowed in same workflow task. WorkflowId=w RunId= Namespace="
    );
}

#[test]
fn uuids_in_all_their_forms() {
    let plain = "0190d3c4-7f7b-7c2e-b8f5-0123456789ab";
    assert!(is_uuid(plain) && is_uuid(&plain.replace('-', "")));
    assert!(is_uuid(&format!("{{{plain}}}")) && is_uuid(&format!("URN:UUID:{plain}")));
    assert!(!is_uuid("") && !is_uuid("run") && !is_uuid(&plain.replace('-', "0")) && !is_uuid(&plain[1..]));
}
