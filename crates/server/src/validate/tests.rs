//! The checks whose order, defaults or replacements are easy to get wrong.

use std::collections::BTreeMap;

use prost_types::Duration;
use segno_engine::{limits::Limits, search_attributes::Rules};
use segno_node::AllowedTargets;
use segno_proto::common::{Link, Payload, Payloads, WorkflowExecution, WorkflowType, link};
use segno_proto::enums::{TaskQueueKind, WorkflowIdConflictPolicy as Conflict, WorkflowIdReusePolicy as Reuse};
use segno_proto::failure::{ApplicationFailureInfo, Failure, failure::FailureInfo};
use segno_proto::taskqueue::TaskQueue;
use segno_proto::workflowservice::*;

use super::{size::Sizes, *};

fn payloads(size: usize) -> Option<Payloads> {
    Some(Payloads { payloads: vec![Payload { data: vec![b'x'; size].into(), ..Default::default() }] })
}

fn queue() -> Option<TaskQueue> {
    Some(TaskQueue { name: "q".into(), ..Default::default() })
}

fn start_request() -> StartWorkflowExecutionRequest {
    StartWorkflowExecutionRequest {
        namespace: "default".into(),
        workflow_id: "w".into(),
        workflow_type: Some(WorkflowType { name: "K".into() }),
        task_queue: queue(),
        ..Default::default()
    }
}

fn sizes() -> Sizes {
    Limits::default().into()
}

fn start(request: &mut StartWorkflowExecutionRequest) -> Result<(), RequestError> {
    let custom = BTreeMap::new();
    let rules = Rules { namespace: "default", custom: &custom };
    start::start_workflow(request, &rules, sizes(), &AllowedTargets::default(), &|| "new-id".to_owned())
}

fn start_text(change: impl FnOnce(&mut StartWorkflowExecutionRequest)) -> String {
    let mut request = start_request();
    change(&mut request);
    start(&mut request).unwrap_err().text
}

#[test]
fn start_fills_in_defaults() {
    let mut request = start_request();
    request.workflow_execution_timeout = Some(Duration { seconds: 5, nanos: 0 });
    assert_eq!(start(&mut request), Ok(()));
    assert_eq!(request.request_id, "new-id");
    assert_eq!(request.task_queue.map(|queue| queue.kind), Some(TaskQueueKind::Normal as i32));
    assert_eq!(request.workflow_run_timeout, Some(Duration { seconds: 5, nanos: 0 }));
    assert_eq!(request.workflow_task_timeout, Some(Duration { seconds: 5, nanos: 0 }));
    assert_eq!(request.workflow_id_reuse_policy, Reuse::AllowDuplicate as i32);
    assert_eq!(request.workflow_id_conflict_policy, Conflict::Fail as i32);

    let mut request = start_request();
    request.workflow_id_reuse_policy = 4; // TERMINATE_IF_RUNNING
    assert_eq!(start(&mut request), Ok(()));
    assert_eq!(request.workflow_run_timeout, None);
    assert_eq!(request.workflow_task_timeout, Some(Duration { seconds: 10, nanos: 0 }));
    assert_eq!(request.workflow_id_reuse_policy, Reuse::AllowDuplicate as i32);
    assert_eq!(request.workflow_id_conflict_policy, Conflict::TerminateExisting as i32);
}

#[test]
fn start_refuses() {
    assert_eq!(start_text(|r| r.workflow_id.clear()), "WorkflowId is not set on request.");
    assert_eq!(
        start_text(|r| r.workflow_id = "x".repeat(1001)),
        "WorkflowId exceeds maximum allowed length (1001/1000)"
    );
    assert_eq!(start_text(|r| r.workflow_type = None), "WorkflowType is not set on request.");
    assert_eq!(start_text(|r| r.task_queue = None), "taskQueue is not set");
    assert_eq!(start_text(|r| r.cron_schedule = "x".into()), "invalid CronSchedule.");
    assert_eq!(
        start_text(|r| r.workflow_run_timeout = Some(Duration { seconds: -1, nanos: 0 })),
        "An invalid WorkflowRunTimeoutSeconds is set on request. cause: negative duration"
    );
    assert_eq!(
        start_text(|r| {
            r.cron_schedule = "x".into();
            r.workflow_start_delay = Some(Duration::default());
        }),
        "CronSchedule and WorkflowStartDelay may not be used together."
    );
    assert_eq!(
        start_text(|r| {
            r.workflow_id_reuse_policy = Reuse::RejectDuplicate as i32;
            r.workflow_id_conflict_policy = Conflict::TerminateExisting as i32;
        }),
        "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE cannot be used together with \
         WorkflowIdConflictPolicy WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING"
    );
    assert_eq!(start_text(|r| r.input = payloads(2 << 20)), "Blob data size exceeds limit.");
    let mut request = start_request();
    request.time_skipping_config = Some(Default::default());
    assert_eq!(start(&mut request).unwrap_err().code, Code::Unimplemented);
}

#[test]
fn signal_with_start_has_its_own_words() {
    let custom = BTreeMap::new();
    let rules = Rules { namespace: "default", custom: &custom };
    let mut request = SignalWithStartWorkflowExecutionRequest { workflow_id: "w".into(), ..Default::default() };
    let mut check = |change: &dyn Fn(&mut SignalWithStartWorkflowExecutionRequest)| {
        change(&mut request);
        let result = start::signal_with_start(&mut request, &rules, sizes(), &|| "new-id".to_owned());
        (result.map_err(|refused| refused.text), request.workflow_id_conflict_policy)
    };
    assert_eq!(check(&|_| {}).0, Err("signal not set".into()));
    assert_eq!(check(&|r| r.signal_name = "s".into()).0, Err("workflow type not set".into()));
    let no_queue = check(&|r| r.workflow_type = Some(WorkflowType { name: "K".into() }));
    assert_eq!(no_queue.0, Err("taskQueue is not set".into()));
    let refused = check(&|r| {
        r.task_queue = queue();
        r.workflow_id_conflict_policy = Conflict::Fail as i32;
    });
    assert_eq!(
        refused.0,
        Err("Invalid WorkflowIDConflictPolicy: WORKFLOW_ID_CONFLICT_POLICY_FAIL is not supported for this operation."
            .into())
    );
    let fine = check(&|r| r.workflow_id_conflict_policy = Conflict::Unspecified as i32);
    assert_eq!(fine, (Ok(()), Conflict::UseExisting as i32));
}

#[test]
fn links_are_complete_and_few() {
    let to = |run_id: &str| Link {
        variant: Some(link::Variant::Workflow(link::Workflow {
            namespace: "n".into(),
            workflow_id: "w".into(),
            run_id: run_id.into(),
            ..Default::default()
        })),
    };
    let text = |links: &[Link]| links::check(links).unwrap_err().text;
    assert_eq!(links::check(&[to("r")]), Ok(()));
    assert_eq!(text(&[to("")]), "workflow link must not have an empty run ID field");
    assert_eq!(text(&[Link::default()]), "unsupported link variant");
    assert_eq!(text(&vec![to("r"); 11]), "cannot attach more than 10 links per request, got 11");
    assert_eq!(text(&[to(&"r".repeat(4000))]), "link exceeds allowed size of 4000, got 4012");
}

#[test]
fn executions() {
    let of =
        |workflow_id: &str, run_id: &str| WorkflowExecution { workflow_id: workflow_id.into(), run_id: run_id.into() };
    let text = |of: Option<&WorkflowExecution>| execution(of).unwrap_err().text;
    assert_eq!(text(None), "Execution is not set on request.");
    assert_eq!(text(Some(&of("", "x"))), "WorkflowId is not set on request.");
    assert_eq!(text(Some(&of("w", "x"))), "Invalid RunId.");
    assert_eq!(execution(Some(&of("w", ""))), Ok(()));
}

#[test]
fn history_pages_have_a_size() {
    let execution = Some(WorkflowExecution { workflow_id: "w".into(), ..Default::default() });
    for (asked, given) in [(0, 256), (-1, 256), (10, 10), (1000, 256)] {
        let mut request = GetWorkflowExecutionHistoryRequest {
            execution: execution.clone(),
            maximum_page_size: asked,
            ..Default::default()
        };
        assert_eq!(workflow::history(&mut request), Ok(()));
        assert_eq!(request.maximum_page_size, given);
    }
}

#[test]
fn a_failure_too_large_is_replaced() {
    let inner = Failure { message: "ä".repeat(2 << 20), ..Default::default() };
    let info = ApplicationFailureInfo { r#type: "T".into(), non_retryable: true, ..Default::default() };
    let mut request = RespondActivityTaskFailedRequest {
        failure: Some(Failure {
            message: "outer".into(),
            cause: Some(Box::new(inner)),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
            ..Default::default()
        }),
        last_heartbeat_details: payloads(3 << 20),
        ..Default::default()
    };
    let said = activity::failed(&mut request, sizes()).unwrap();
    let messages: Vec<&str> = said.iter().map(|failure| failure.message.as_str()).collect();
    assert_eq!(messages, ["Heartbeat details exceed size limit.", "Failure exceeds size limit."]);
    assert_eq!(request.last_heartbeat_details, None);
    let outer = request.failure.unwrap().cause.unwrap();
    assert_eq!(outer.message, "outer");
    let kept = outer.cause.unwrap().message.len();
    assert!(kept.is_multiple_of(2) && (500_000..=512 * 1024).contains(&kept), "{kept}");
}

#[test]
fn activity_outcomes() {
    let mut request = RespondActivityTaskFailedRequest { failure: Some(Failure::default()), ..Default::default() };
    assert_eq!(activity::failed(&mut request, sizes()).unwrap_err().text, "Failure must have ApplicationFailureInfo.");
    let delay = Duration { seconds: 1, nanos: -1 };
    let info = ApplicationFailureInfo { next_retry_delay: Some(delay), ..Default::default() };
    request.failure =
        Some(Failure { failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Default::default() });
    assert_eq!(
        activity::failed(&mut request, sizes()).unwrap_err().text,
        "NextRetryDelay is not a valid duration: proto: duration (seconds:1 nanos:-1) \
         has seconds and nanos with different signs"
    );
    let mut by_id = RespondActivityTaskCompletedByIdRequest { activity_id: "a".into(), ..Default::default() };
    assert!(activity::completed_by_id(&mut by_id, sizes()).is_ok(), "without a workflow it is a standalone activity");
    by_id.workflow_id = "w".into();
    by_id.result = payloads(2 << 20);
    let instead = activity::completed_by_id(&mut by_id, sizes()).unwrap().unwrap();
    assert_eq!(instead.message, "Complete result exceeds size limit.");
}

#[test]
fn versioned_workers_name_their_version() {
    let mut poll = PollWorkflowTaskQueueRequest { task_queue: queue(), ..Default::default() };
    assert_eq!(worker::poll_workflow_task(&mut poll), Ok(()));
    let mut text = |name: &str, build: &str| {
        poll.deployment_options = Some(segno_proto::deployment::WorkerDeploymentOptions {
            deployment_name: name.into(),
            build_id: build.into(),
            worker_versioning_mode: 2,
        });
        worker::poll_workflow_task(&mut poll).map_err(|refused| refused.text)
    };
    assert_eq!(text("d", "1.0"), Ok(()));
    assert_eq!(text("d", ""), Err("Deployment name and build id must be set together.".into()));
    assert_eq!(text("a.b", "1"), Err("worker deployment name cannot contain '.'".into()));
    assert_eq!(text("d", "__1"), Err("BuildID cannot start with '__'".into()));
    let older = |series: &str, build: &str| {
        let mut poll = PollWorkflowTaskQueueRequest { task_queue: queue(), ..Default::default() };
        poll.worker_version_capabilities = Some(segno_proto::common::WorkerVersionCapabilities {
            build_id: build.into(),
            use_versioning: true,
            deployment_series_name: series.into(),
        });
        worker::poll_workflow_task(&mut poll).map_err(|refused| refused.text)
    };
    assert_eq!(older("d", "1.0"), Ok(()));
    assert_eq!(older("", "a:b"), Ok(()), "a build without a deployment");
    assert_eq!(older("a:b", "1"), Err("worker deployment name cannot contain ':'".into()));
    assert_eq!(older("__a", "1"), Err("WorkerDeploymentName cannot start with '__'".into()));
    assert_eq!(older("d", "__1"), Err("BuildID cannot start with '__'".into()));
    poll.task_queue = Some(TaskQueue { name: "s".into(), kind: TaskQueueKind::Sticky as i32, ..Default::default() });
    assert_eq!(
        worker::poll_workflow_task(&mut poll).unwrap_err().text,
        "NormalName must be set on sticky queue when UseVersioning is true or DeploymentOptions are set."
    );
}
