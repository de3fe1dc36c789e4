//! DescribeWorkflowExecution.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use segno_engine::{
    Run, activity, builds,
    state::{self as engine, Activity, RunState, WorkflowTask},
};
use segno_node::Namespace;
use segno_proto::{
    Nanos,
    activity::ActivityOptions,
    common::{ActivityType, Memo, SearchAttributes, WorkflowType},
    deployment::WorkerDeploymentVersion,
    enums::{EventType, PendingActivityState, PendingWorkflowTaskState, TaskQueueKind, VersioningBehavior},
    nanos_duration, nanos_timestamp,
    taskqueue::TaskQueue,
    workflow::{
        DeploymentVersionTransition, PendingActivityInfo, PendingChildExecutionInfo, PendingWorkflowTaskInfo,
        RequestIdInfo, ResetPoints, VersioningOverride, WorkflowExecutionConfig, WorkflowExecutionExtendedInfo,
        WorkflowExecutionInfo, WorkflowExecutionPauseInfo, WorkflowExecutionVersioningInfo,
        pending_activity_info::{
            PauseInfo,
            pause_info::{Manual, PausedBy, Rule},
        },
        versioning_override::Override,
    },
    workflowservice::{DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse},
};
use tonic::Status;

use super::{
    Workflows, failed, key_of,
    nexus::describe::{callbacks_of, operations_of},
    refused,
};
use crate::validate;

/// No version, as older clients read it.
const UNVERSIONED: &str = "__unversioned__";
/// Go's text for "no time".
const YEAR_ONE: Timestamp = Timestamp { seconds: -62_135_596_800, nanos: 0 };

impl Workflows {
    pub(crate) async fn describe(
        &self,
        mut request: DescribeWorkflowExecutionRequest,
    ) -> Result<DescribeWorkflowExecutionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::describe(&mut request).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.execution.as_ref());
        let run = self.node.runs.snapshot(&key, &run_id).await.map_err(failed)?.run.clone();
        let now = self.node.runs.clock_now();
        Ok(DescribeWorkflowExecutionResponse {
            execution_config: Some(config(&run)),
            workflow_execution_info: Some(info(&run)),
            pending_activities: run
                .state()
                .activities
                .values()
                .map(|activity| pending_activity(activity, now, &namespace))
                .collect(),
            pending_children: run
                .state()
                .children
                .values()
                .map(|child| PendingChildExecutionInfo {
                    workflow_id: child.workflow_id.clone(),
                    run_id: child.run_id.clone(),
                    workflow_type_name: child.workflow_type.clone(),
                    initiated_id: child.initiated_event_id,
                    parent_close_policy: child.parent_close_policy,
                })
                .collect(),
            pending_workflow_task: run.state().task.as_ref().map(pending_task),
            workflow_extended_info: Some(extended(&run)),
            pending_nexus_operations: operations_of(&run, now, &self.node.http_sender),
            callbacks: callbacks_of(&run, now, &self.node.http_sender),
        })
    }
}

/// A time on the wire; none if there is none.
pub(crate) fn time(nanos: Nanos) -> Option<Timestamp> {
    (nanos != 0).then(|| nanos_timestamp(nanos))
}

fn config(run: &Run) -> WorkflowExecutionConfig {
    let info = &run.info;
    // Runs that an older version stored do not say whether it was given.
    let has_execution_timeout = info.execution_timeout_given || info.execution_timeout != 0;
    WorkflowExecutionConfig {
        task_queue: Some(TaskQueue {
            name: info.task_queue.clone(),
            kind: TaskQueueKind::Normal as i32,
            normal_name: String::new(),
        }),
        workflow_execution_timeout: has_execution_timeout.then(|| nanos_duration(info.execution_timeout)),
        workflow_run_timeout: info.run_timeout_given.then(|| nanos_duration(info.run_timeout)),
        default_workflow_task_timeout: Some(nanos_duration(info.task_timeout)),
        user_metadata: info.user_metadata.clone(),
    }
}

/// The description of a run as a whole.
fn info(run: &Run) -> WorkflowExecutionInfo {
    let (info, state) = (&run.info, run.state());
    let parent = info.parent.as_ref();
    let closed = !run.is_running();
    WorkflowExecutionInfo {
        execution: Some(info.execution()),
        r#type: Some(WorkflowType { name: info.workflow_type.clone() }),
        start_time: time(info.start_time),
        close_time: time(state.close_time),
        status: state.status,
        history_length: state.next_event_id - 1,
        parent_namespace_id: parent.map(|parent| parent.namespace_id.clone()).unwrap_or_default(),
        parent_execution: parent.map(|parent| parent.execution.clone()),
        execution_time: time(info.execution_time()),
        memo: Some(Memo { fields: state.memo.clone() }),
        search_attributes: Some(SearchAttributes { indexed_fields: state.search_attributes.clone() }),
        auto_reset_points: Some(ResetPoints { points: state.reset_points.clone() }),
        task_queue: info.task_queue.clone(),
        state_transition_count: state.transitions,
        history_size_bytes: state.history_bytes,
        most_recent_worker_version_stamp: state.worker_version.clone(),
        execution_duration: closed.then(|| nanos_duration(state.close_time - info.execution_time())),
        root_execution: info.root.clone(),
        first_run_id: info.first_run_id.clone(),
        worker_deployment_name: builds::deployment_name(state).to_owned(),
        priority: info.priority.clone(),
        versioning_info: versioning(state),
        ..Default::default()
    }
}

/// The versioning of a run. Describing spells versions in the older way, too.
#[allow(deprecated)]
fn versioning(state: &RunState) -> Option<WorkflowExecutionVersioningInfo> {
    let known = state.versioning.as_deref()?;
    Some(WorkflowExecutionVersioningInfo {
        behavior: known.behavior,
        version: known.version.as_ref().map(dotted).unwrap_or_default(),
        deployment_version: known.version.clone(),
        versioning_override: known.versioning_override.clone().map(in_both_forms),
        version_transition: known.transition.as_ref().map(|transition| DeploymentVersionTransition {
            version: transition.version.as_ref().map_or_else(|| UNVERSIONED.to_owned(), dotted),
            deployment_version: transition.version.clone(),
        }),
        revision_number: known.revision,
        continue_as_new_initial_versioning_behavior: known.initial_behavior,
        ..Default::default()
    })
}

#[allow(deprecated)]
fn in_both_forms(known: VersioningOverride) -> VersioningOverride {
    match &known.r#override {
        Some(Override::AutoUpgrade(_)) => {
            VersioningOverride { behavior: VersioningBehavior::AutoUpgrade as i32, ..known }
        }
        Some(Override::Pinned(pinned)) => VersioningOverride {
            behavior: VersioningBehavior::Pinned as i32,
            pinned_version: dotted(&pinned.version.clone().unwrap_or_default()),
            ..known
        },
        _ => known,
    }
}

/// A version in one word, as older clients read it.
fn dotted(version: &WorkerDeploymentVersion) -> String {
    format!("{}.{}", version.deployment_name, version.build_id)
}

fn pending_task(task: &WorkflowTask) -> PendingWorkflowTaskInfo {
    let state = match task.started_event_id {
        0 => PendingWorkflowTaskState::Scheduled,
        _ => PendingWorkflowTaskState::Started,
    };
    PendingWorkflowTaskInfo {
        state: state as i32,
        scheduled_time: time(task.scheduled_time),
        original_scheduled_time: time(task.original_scheduled_time),
        started_time: time(task.started_time),
        attempt: task.attempt,
    }
}

/// Who paused an activity. A rule is described with its creator and reason, as long as it is there.
fn paused_by(pause: &engine::PauseInfo, namespace: &Namespace) -> PausedBy {
    if pause.rule_id.is_empty() {
        return PausedBy::Manual(Manual { identity: pause.identity.clone(), reason: pause.reason.clone() });
    }
    let rule = namespace.detail.workflow_rules.get(&pause.rule_id);
    PausedBy::Rule(Rule {
        rule_id: pause.rule_id.clone(),
        identity: rule.map(|rule| rule.created_by_identity.clone()).unwrap_or_default(),
        reason: rule.map(|rule| rule.description.clone()).unwrap_or_default(),
    })
}

#[allow(deprecated)]
fn pending_activity(activity: &Activity, now: Nanos, namespace: &Namespace) -> PendingActivityInfo {
    let state = match (activity.cancel_requested, activity.started_time, &activity.pause) {
        (true, _, _) => PendingActivityState::CancelRequested,
        (false, 0, None) => PendingActivityState::Scheduled,
        (false, 0, Some(_)) => PendingActivityState::Paused,
        (false, _, None) => PendingActivityState::Started,
        (false, _, Some(_)) => PendingActivityState::PauseRequested,
    };
    let backing_off = activity.started_time == 0 && activity.pause.is_none() && activity.scheduled_time > now;
    let retry = backing_off.then_some(activity);
    let mut policy = activity.retry_policy.clone();
    if let Some(policy) = &mut policy {
        // Not an option that can be changed, so not shown among them.
        policy.non_retryable_error_types.clear();
    }
    let deadline = activity::retry_deadline(activity);
    PendingActivityInfo {
        activity_id: activity.activity_id.clone(),
        activity_type: Some(ActivityType { name: activity.activity_type.clone() }),
        state: state as i32,
        heartbeat_details: activity.heartbeat_details.clone(),
        last_heartbeat_time: time(activity.last_heartbeat_time),
        last_started_time: time(activity.started_time),
        attempt: activity.attempt,
        maximum_attempts: policy.as_ref().map_or(0, |policy| policy.maximum_attempts),
        scheduled_time: time(activity.scheduled_time),
        expiration_time: (deadline > 0).then(|| nanos_timestamp(deadline)),
        last_failure: activity.last_failure.clone(),
        last_worker_identity: activity.last_identity.clone(),
        last_deployment_version: activity.deployment_version.as_deref().cloned(),
        last_worker_deployment_version: activity.deployment_version.as_deref().map(dotted).unwrap_or_default(),
        current_retry_interval: retry.map(|a| nanos_duration(a.scheduled_time - a.last_attempt_end)),
        last_attempt_complete_time: time(activity.last_attempt_end),
        next_attempt_schedule_time: retry.and_then(|a| time(a.scheduled_time)),
        priority: activity.priority.clone(),
        paused: activity.pause.is_some(),
        pause_info: activity
            .pause
            .as_ref()
            .map(|pause| PauseInfo { pause_time: time(pause.time), paused_by: Some(paused_by(pause, namespace)) }),
        activity_options: Some(ActivityOptions {
            task_queue: Some(TaskQueue {
                name: activity.queue.clone(),
                kind: TaskQueueKind::Unspecified as i32,
                normal_name: activity.queue.clone(),
            }),
            schedule_to_close_timeout: Some(nanos_duration(activity.schedule_to_close)),
            schedule_to_start_timeout: Some(nanos_duration(activity.schedule_to_start)),
            start_to_close_timeout: Some(nanos_duration(activity.start_to_close)),
            heartbeat_timeout: Some(nanos_duration(activity.heartbeat)),
            retry_policy: policy,
            priority: activity.priority.clone(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn extended(run: &Run) -> WorkflowExecutionExtendedInfo {
    let info = &run.info;
    // The request of a signal-with-start points at its signal, under the type of the start.
    let with_signal = segno_engine::signal_ids::contains(run.state(), &info.create_request_id);
    let created = RequestIdInfo {
        event_type: EventType::WorkflowExecutionStarted as i32,
        event_id: if with_signal { 2 } else { 1 },
        buffered: false,
    };
    let mut request_id_infos = BTreeMap::from([(info.create_request_id.clone(), created)]);
    for (id, event_id) in &run.state().attached_request_ids {
        let attached = RequestIdInfo {
            event_type: EventType::WorkflowExecutionOptionsUpdated as i32,
            event_id: *event_id,
            buffered: *event_id == 0,
        };
        request_id_infos.insert(id.clone(), attached);
    }
    for registered in run.state().callbacks.iter().filter(|registered| !registered.update_id.is_empty()) {
        let accepted = run.update_record(&registered.update_id).map_or(0, |record| record.accepted_event_id);
        let of_update = RequestIdInfo {
            event_type: EventType::WorkflowExecutionUpdateAccepted as i32,
            event_id: accepted,
            buffered: false,
        };
        request_id_infos.insert(registered.request_id.clone(), of_update);
    }
    WorkflowExecutionExtendedInfo {
        execution_expiration_time: time(info.execution_deadline),
        run_expiration_time: time(info.run_deadline).or(Some(YEAR_ONE)),
        cancel_requested: run.state().cancel_requested,
        original_start_time: time(info.original_start_time),
        last_reset_time: time(run.state().last_reset_time),
        reset_run_id: run.state().reset_run_id.clone(),
        request_id_infos,
        pause_info: run.state().pause.as_deref().map(|pause| WorkflowExecutionPauseInfo {
            identity: pause.identity.clone(),
            paused_time: time(pause.time),
            reason: pause.reason.clone(),
        }),
        ..Default::default()
    }
}
