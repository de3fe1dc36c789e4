//! `segno workflow describe`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::{
    common::{Payload, callback::Variant},
    enums::NexusOperationCancellationState,
    segno_workflow::TaskFailure,
    workflow::{CallbackInfo, PendingActivityInfo, PendingNexusOperationInfo, WorkflowExecutionInfo},
    workflowservice::{DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse},
};

use crate::{
    client::{Client, ClientError},
    commands::{Target, watch::Watch},
    output::{
        dynamic::{decoded, short_name},
        failure,
        fields::Fields,
        payload, status,
        table::{Cell, Table},
        time,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow describe --workflow-id order-7")]
pub struct Describe {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    watch: Watch,
}

impl Describe {
    /// Prints what the server knows.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let watch = self.watch.clone();
        watch.repeat(client, async |client: &mut Client| self.look(client).await).await
    }

    async fn look(&self, client: &mut Client) -> anyhow::Result<()> {
        let answer = client.describe(&self.target.workflow_id, &self.target.run_id).await?;
        let run_id = answer.workflow_execution_info.as_ref().and_then(|info| info.execution.as_ref());
        let run_id = run_id.map(|execution| execution.run_id.clone()).unwrap_or_default();
        let failure = match answer.pending_workflow_task.is_some() && !client.is_json() {
            true => client.explain_if_possible(&self.target.workflow_id, &run_id).await?,
            false => None,
        };
        let failure = failure.and_then(|explained| explained.last_task_failure);
        client.print(
            || text(&answer, failure.as_ref(), &client.namespace, client.colors, Timestamp::now()),
            || {
                let name = "temporal.api.workflowservice.v1.DescribeWorkflowExecutionResponse";
                decoded(name, &answer)
            },
        )
    }
}

impl Client {
    /// How a workflow stands.
    pub async fn describe(
        &mut self,
        workflow_id: &str,
        run_id: &str,
    ) -> Result<DescribeWorkflowExecutionResponse, ClientError> {
        let target = Target { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() };
        let message =
            DescribeWorkflowExecutionRequest { namespace: self.namespace.clone(), execution: Some(target.execution()) };
        self.call("describe the workflow", message).await
    }
}

fn text(
    answer: &DescribeWorkflowExecutionResponse,
    task_failure: Option<&TaskFailure>,
    namespace: &str,
    colors: bool,
    now: Timestamp,
) -> String {
    let mut fields = Fields::new(colors);
    let info = answer.workflow_execution_info.clone().unwrap_or_default();
    fields.section("Workflow");
    about(&mut fields, &info, namespace, now);
    if let Some(config) = &answer.execution_config {
        fields.add("ExecutionTimeout", time::span(config.workflow_execution_timeout.as_ref()));
        fields.add("RunTimeout", time::span(config.workflow_run_timeout.as_ref()));
        fields.add("TaskTimeout", time::span(config.default_workflow_task_timeout.as_ref()));
    }
    if answer.workflow_extended_info.as_ref().is_some_and(|info| info.cancel_requested) {
        fields.add("CancelRequested", "true");
    }
    if let Some(task) = &answer.pending_workflow_task {
        fields.section("Workflow task");
        fields.add("State", short_name("PendingWorkflowTaskState", task.state().as_str_name()));
        fields.add("ScheduledTime", time::both(task.scheduled_time.as_ref(), now));
        fields.add("StartedTime", time::both(task.started_time.as_ref(), now));
        fields.add("Attempt", task.attempt.to_string());
        if let Some(failure) = task_failure {
            fields.add("FailuresInARow", failure.failures.to_string());
            fields.add("LastFailureTime", time::both(failure.time.as_ref(), now));
            fields.add("LastFailureCause", &failure.cause);
            fields.add("LastFailureBy", &failure.identity);
            failure.chain.iter().for_each(|line| fields.add("LastFailure", line));
        }
    }
    if !answer.pending_activities.is_empty() {
        fields.section(&format!("Pending activities: {}", answer.pending_activities.len()));
        let headers = ["ActivityId", "Type", "State", "Attempt", "Worker", "Next", "LastFailure"];
        let rows: Vec<_> = answer.pending_activities.iter().map(|activity| row(activity, now)).collect();
        fields.block(&Table::new(&headers, colors).render(&rows));
    }
    if !answer.pending_children.is_empty() {
        fields.section(&format!("Pending children: {}", answer.pending_children.len()));
        let rows: Vec<_> = answer
            .pending_children
            .iter()
            .map(|child| vec![(&child.workflow_id).into(), (&child.workflow_type_name).into(), (&child.run_id).into()])
            .collect();
        fields.block(&Table::new(&["WorkflowId", "Type", "RunId"], colors).render(&rows));
    }
    if !answer.pending_nexus_operations.is_empty() {
        fields.section(&format!("Pending Nexus operations: {}", answer.pending_nexus_operations.len()));
        let rows: Vec<_> =
            answer.pending_nexus_operations.iter().map(|operation| operation_row(operation, now)).collect();
        let headers = ["Endpoint", "Service", "Operation", "State", "Attempt", "Cancellation", "Next", "LastFailure"];
        fields.block(&Table::new(&headers, colors).render(&rows));
    }
    if !answer.callbacks.is_empty() {
        fields.section(&format!("Callbacks: {}", answer.callbacks.len()));
        let rows: Vec<_> = answer.callbacks.iter().map(|callback| callback_row(callback, now)).collect();
        fields.block(&Table::new(&["Url", "State", "Attempt", "Next", "LastFailure"], colors).render(&rows));
    }
    fields.finish()
}

/// Of an operation that is being cancelled, the next attempt and the last failure are those of the request to cancel it.
fn operation_row(operation: &PendingNexusOperationInfo, now: Timestamp) -> Vec<Cell> {
    let cancellation = operation.cancellation_info.as_ref();
    let canceling = cancellation.map(|known| match known.state() {
        NexusOperationCancellationState::Unspecified => "Waits for the start".to_owned(),
        state => short_name("NexusOperationCancellationState", state.as_str_name()),
    });
    let next = operation.next_attempt_schedule_time.as_ref();
    let next = next.or(cancellation.and_then(|known| known.next_attempt_schedule_time.as_ref()));
    let failure = operation.last_attempt_failure.as_ref();
    let failure = failure.or(cancellation.and_then(|known| known.last_attempt_failure.as_ref()));
    vec![
        (&operation.endpoint).into(),
        (&operation.service).into(),
        (&operation.operation).into(),
        short_name("PendingNexusOperationState", operation.state().as_str_name()).into(),
        operation.attempt.to_string().into(),
        canceling.unwrap_or_default().into(),
        time::relative(next, now).into(),
        failure.map(|failure| failure::chain(failure).swap_remove(0)).unwrap_or_default().into(),
    ]
}

fn callback_row(info: &CallbackInfo, now: Timestamp) -> Vec<Cell> {
    let url = match info.callback.as_ref().and_then(|callback| callback.variant.as_ref()) {
        Some(Variant::Nexus(nexus)) => nexus.url.as_str(),
        _ => "",
    };
    let failure = info.last_attempt_failure.as_ref().map(|failure| failure::chain(failure).swap_remove(0));
    vec![
        url.into(),
        short_name("CallbackState", info.state().as_str_name()).into(),
        info.attempt.to_string().into(),
        time::relative(info.next_attempt_schedule_time.as_ref(), now).into(),
        failure.unwrap_or_default().into(),
    ]
}

fn about(fields: &mut Fields, info: &WorkflowExecutionInfo, namespace: &str, now: Timestamp) {
    let execution = info.execution.clone().unwrap_or_default();
    fields.add("WorkflowId", &execution.workflow_id);
    fields.add("RunId", &execution.run_id);
    fields.add("Type", info.r#type.as_ref().map_or("", |kind| &kind.name));
    fields.add("Namespace", namespace);
    fields.add("TaskQueue", &info.task_queue);
    fields.styled("Status", status::word(info.status()), status::style(info.status()));
    fields.add("StartTime", time::both(info.start_time.as_ref(), now));
    if info.execution_time != info.start_time {
        fields.add("ExecutionTime", time::both(info.execution_time.as_ref(), now));
    }
    fields.add("CloseTime", time::both(info.close_time.as_ref(), now));
    fields.add("HistoryLength", info.history_length.to_string());
    fields.add("HistorySize", format!("{} bytes", info.history_size_bytes));
    fields.add("Memo", map(info.memo.iter().flat_map(|memo| &memo.fields)));
    fields.add("SearchAttributes", map(info.search_attributes.iter().flat_map(|all| &all.indexed_fields)));
    if let Some(parent) = &info.parent_execution {
        fields.add("Parent", format!("{} (run {})", parent.workflow_id, parent.run_id));
    }
}

/// `a=1, b="x"`.
fn map<'a>(entries: impl Iterator<Item = (&'a String, &'a Payload)>) -> String {
    entries.map(|(name, value)| format!("{name}={}", payload::text(value))).collect::<Vec<_>>().join(", ")
}

fn row(activity: &PendingActivityInfo, now: Timestamp) -> Vec<Cell> {
    let attempts = match activity.maximum_attempts {
        0 => activity.attempt.to_string(),
        most => format!("{} of {most}", activity.attempt),
    };
    let failure = activity.last_failure.as_ref().map(|failure| failure::chain(failure).swap_remove(0));
    vec![
        (&activity.activity_id).into(),
        activity.activity_type.as_ref().map_or("", |kind| &kind.name).into(),
        short_name("PendingActivityState", activity.state().as_str_name()).into(),
        attempts.into(),
        (&activity.last_worker_identity).into(),
        time::relative(activity.next_attempt_schedule_time.as_ref(), now).into(),
        failure.unwrap_or_default().into(),
    ]
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        common::{Memo, WorkflowExecution, WorkflowType},
        enums::{PendingActivityState, PendingNexusOperationState, WorkflowExecutionStatus},
        failure::Failure,
        nanos_timestamp,
        workflow::{NexusOperationCancellationInfo, PendingChildExecutionInfo},
    };

    use super::*;

    #[test]
    fn a_workflow_under_way() {
        let answer = DescribeWorkflowExecutionResponse {
            workflow_execution_info: Some(WorkflowExecutionInfo {
                execution: Some(WorkflowExecution { workflow_id: "w".to_owned(), run_id: "r".to_owned() }),
                r#type: Some(WorkflowType { name: "W".to_owned() }),
                status: WorkflowExecutionStatus::Running as i32,
                start_time: Some(nanos_timestamp(1_000_000_000_000_000_000)),
                execution_time: Some(nanos_timestamp(1_000_000_000_000_000_000)),
                memo: Some(Memo { fields: [("k".to_owned(), payload::of_json("\"v\""))].into() }),
                ..Default::default()
            }),
            pending_activities: vec![PendingActivityInfo {
                activity_id: "1".to_owned(),
                state: PendingActivityState::Scheduled as i32,
                attempt: 2,
                maximum_attempts: 5,
                last_failure: Some(Failure { message: "broke".to_owned(), ..Default::default() }),
                next_attempt_schedule_time: Some(nanos_timestamp(1_000_000_090_000_000_000)),
                ..Default::default()
            }],
            pending_children: vec![PendingChildExecutionInfo { workflow_id: "c".to_owned(), ..Default::default() }],
            ..Default::default()
        };
        let now = Timestamp::from_second(1_000_000_060).expect("a time");
        let expected = "\
Workflow
  WorkflowId     w
  RunId          r
  Type           W
  Namespace      n
  Status         Running
  StartTime      2001-09-09T01:46:40.000Z (1 minute ago)
  HistoryLength  0
  HistorySize    0 bytes
  Memo           k=\"v\"

Pending activities: 1
  ActivityId  Type  State      Attempt  Worker  Next           LastFailure
  1                 Scheduled  2 of 5           in 30 seconds  broke

Pending children: 1
  WorkflowId  Type  RunId
  c
";
        assert_eq!(text(&answer, None, "n", false, now), expected);
    }

    #[test]
    fn a_cancellation_is_shown_with_its_operation() {
        let operation = PendingNexusOperationInfo {
            endpoint: "e".to_owned(),
            service: "s".to_owned(),
            operation: "o".to_owned(),
            state: PendingNexusOperationState::Started as i32,
            attempt: 1,
            cancellation_info: Some(NexusOperationCancellationInfo {
                state: NexusOperationCancellationState::BackingOff as i32,
                attempt: 3,
                next_attempt_schedule_time: Some(nanos_timestamp(1_000_000_090_000_000_000)),
                last_attempt_failure: Some(Failure { message: "not now".to_owned(), ..Default::default() }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let early = PendingNexusOperationInfo {
            state: PendingNexusOperationState::Scheduled as i32,
            attempt: 0,
            cancellation_info: Some(NexusOperationCancellationInfo::default()),
            ..operation.clone()
        };
        let answer = DescribeWorkflowExecutionResponse {
            pending_nexus_operations: vec![operation, early],
            ..Default::default()
        };
        let shown = text(&answer, None, "n", false, Timestamp::from_second(1_000_000_060).expect("a time"));
        let expected = "\
Pending Nexus operations: 2
  Endpoint  Service  Operation  State      Attempt  Cancellation         Next           LastFailure
  e         s        o          Started    1        BackingOff           in 30 seconds  not now
  e         s        o          Scheduled  0        Waits for the start
";
        assert!(shown.ends_with(expected), "{shown}");
    }
}
