//! Raw calls of Temporal's protocol: connections, the few messages the harnesses send, and reading histories.
//!
//! No SDK: the harnesses must see every acknowledgement, choose every request id, and cost little next to the server
//! they share the machine with.

use std::{sync::LazyLock, time::Duration};

use anyhow::{Context, Result};
use segno_proto::{
    Rpc,
    codec::Codec,
    command::{
        Command, CompleteWorkflowExecutionCommandAttributes, ScheduleActivityTaskCommandAttributes, command::Attributes,
    },
    common::{ActivityType, Payload, Payloads, RetryPolicy, WorkflowExecution, WorkflowType},
    deployment::WorkerDeploymentOptions,
    enums::{CommandType, EventType, HistoryEventFilterType, TaskQueueKind, WorkflowIdReusePolicy},
    events::{HistoryEvent, history_event},
    nanos_duration,
    taskqueue::TaskQueue,
    workflowservice::{
        GetWorkflowExecutionHistoryRequest, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        StartWorkflowExecutionRequest,
    },
};
use tonic::{
    Request, Response, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

/// Makes the calls of all services on one connection.
#[derive(Clone)]
pub struct Client(Grpc<Channel>);

/// Pause after a failed poll.
pub const POLL_PAUSE: Duration = Duration::from_millis(10);

/// The namespace everything here runs in.
pub const NAMESPACE: &str = "default";
/// Deadline of calls that answer at once.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Deadline of calls that wait for something to happen.
pub const POLL_TIMEOUT: Duration = Duration::from_secs(30);

/// A client whose connection is made when first needed, and again whenever it broke.
pub fn client(port: u16) -> Result<Client> {
    Ok(Client(Grpc::new(channel(port)?)))
}

impl Client {
    /// Makes a call. It has a `grpc-timeout` header, which servers require of long polls.
    pub async fn call<Q: Rpc>(&mut self, message: Q, timeout: Duration) -> Result<Q::Response, Status> {
        let mut request = Request::new(message);
        request.set_timeout(timeout);
        if let Some(authorization) = &*AUTHORIZATION {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        self.0.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let reply = self.0.unary(request, PathAndQuery::from_static(Q::PATH), Codec::default()).await;
        reply.map(Response::into_inner)
    }
}

/// The connection is encrypted if `SEGNO_TLS_CA` names the roots of the server's certificate.
fn channel(port: u16) -> Result<Channel> {
    let endpoint = match std::env::var_os("SEGNO_TLS_CA") {
        None => Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?,
        Some(roots) => {
            let roots = Certificate::from_pem(std::fs::read(roots)?);
            let tls = ClientTlsConfig::new().ca_certificate(roots);
            Endpoint::from_shared(format!("https://127.0.0.1:{port}"))?.tls_config(tls)?
        }
    };
    let endpoint = endpoint
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_secs(2))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(8 << 20);
    Ok(endpoint.connect_lazy())
}

/// Who calls, if `SEGNO_API_KEY` says so.
static AUTHORIZATION: LazyLock<Option<MetadataValue<Ascii>>> =
    LazyLock::new(|| format!("Bearer {}", std::env::var("SEGNO_API_KEY").ok()?).parse().ok());

/// A span as the wire has it.
pub fn millis(millis: u64) -> prost_types::Duration {
    nanos_duration(millis as i64 * 1_000_000)
}

/// One JSON string as SDKs send it.
pub fn text(text: &str) -> Option<Payloads> {
    let metadata = [("encoding".to_owned(), "json/plain".into())].into();
    let data = format!("\"{text}\"").into_bytes().into();
    Some(Payloads { payloads: vec![Payload { metadata, data, ..Default::default() }] })
}

/// The text that [`text`] packed; empty when there is none.
pub fn untext(payloads: Option<&Payloads>) -> String {
    untext_one(payloads.and_then(|list| list.payloads.first()))
}

/// The text of one payload.
pub fn untext_one(payload: Option<&Payload>) -> String {
    let data = payload.map(|payload| payload.data.clone());
    String::from_utf8_lossy(&data.unwrap_or_default()).trim_matches('"').to_owned()
}

/// A task queue of the ordinary kind.
pub fn queue(name: &str) -> Option<TaskQueue> {
    Some(TaskQueue { name: name.to_owned(), kind: TaskQueueKind::Normal.into(), ..Default::default() })
}

/// Names a run; an empty run id means the current one.
pub fn execution(workflow_id: &str, run_id: &str) -> Option<WorkflowExecution> {
    Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() })
}

/// A start whose request id follows from the workflow id, so that repeating it is safe.
pub fn start(kind: &str, workflow_id: &str, task_queue: &str, input: &str) -> StartWorkflowExecutionRequest {
    StartWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_id: workflow_id.to_owned(),
        workflow_type: Some(WorkflowType { name: kind.to_owned() }),
        task_queue: queue(task_queue),
        input: text(input),
        identity: "segno-harness".to_owned(),
        request_id: format!("start-{workflow_id}"),
        workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate.into(),
        ..Default::default()
    }
}

/// The command that schedules the only activity of a workflow.
pub fn schedule_activity(task_queue: &str, input: &str, start_to_close: Duration) -> Command {
    schedule("1", task_queue, text(input), start_to_close)
}

/// The command that schedules an activity, retried quickly when its worker or the server is lost.
pub fn schedule(id: &str, task_queue: &str, input: Option<Payloads>, start_to_close: Duration) -> Command {
    let attributes = ScheduleActivityTaskCommandAttributes {
        activity_id: id.to_owned(),
        activity_type: Some(ActivityType { name: "echo".to_owned() }),
        task_queue: queue(task_queue),
        input,
        start_to_close_timeout: Some(millis(start_to_close.as_millis() as u64)),
        retry_policy: Some(RetryPolicy {
            initial_interval: Some(millis(20)),
            backoff_coefficient: 1.0,
            ..Default::default()
        }),
        ..Default::default()
    };
    command(CommandType::ScheduleActivityTask, Attributes::ScheduleActivityTaskCommandAttributes(attributes))
}

/// The command that completes a workflow.
pub fn complete(result: Option<Payloads>) -> Command {
    let attributes = CompleteWorkflowExecutionCommandAttributes { result };
    command(CommandType::CompleteWorkflowExecution, Attributes::CompleteWorkflowExecutionCommandAttributes(attributes))
}

/// A command from its parts.
pub fn command(kind: CommandType, attributes: Attributes) -> Command {
    Command { command_type: kind.into(), attributes: Some(attributes), ..Default::default() }
}

/// Polls until there is a workflow task, also if the server is killed meanwhile.
pub async fn poll_workflow_task(client: &mut Client, task_queue: &str) -> PollWorkflowTaskQueueResponse {
    poll_versioned_task(client, task_queue, None).await
}

/// The same for a worker of a version.
pub async fn poll_versioned_task(
    client: &mut Client,
    task_queue: &str,
    deployment_options: Option<WorkerDeploymentOptions>,
) -> PollWorkflowTaskQueueResponse {
    loop {
        let poll = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue(task_queue),
            identity: "segno-harness".to_owned(),
            deployment_options: deployment_options.clone(),
            ..Default::default()
        };
        match client.call(poll, POLL_TIMEOUT).await {
            Ok(reply) if reply.task_token.is_empty() => {}
            Ok(reply) => return reply,
            Err(_) => tokio::time::sleep(POLL_PAUSE).await,
        }
    }
}

/// Waits for the closing event of a run by long polls, as SDK clients do.
pub async fn wait_closed(client: &mut Client, workflow_id: &str, run_id: &str) -> Result<HistoryEvent, Status> {
    let mut token = Default::default();
    loop {
        let call = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(workflow_id, run_id),
            next_page_token: token,
            wait_new_event: true,
            history_event_filter_type: HistoryEventFilterType::CloseEvent.into(),
            skip_archival: true,
            ..Default::default()
        };
        let reply = client.call(call, POLL_TIMEOUT).await?;
        token = reply.next_page_token;
        let events = reply.history.unwrap_or_default().events();
        let last = events.map_err(|error| Status::data_loss(format!("history: {error}")))?.pop();
        match last {
            Some(event) if is_closing(&event) => return Ok(event),
            Some(_) if token.is_empty() => return Err(Status::data_loss("no closing event, yet no further page")),
            _ => {}
        }
    }
}

/// Every event of a run, page by page.
pub async fn history(client: &mut Client, workflow_id: &str, run_id: &str) -> Result<Vec<HistoryEvent>, Status> {
    let mut events = Vec::new();
    let mut token = Default::default();
    loop {
        let call = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(workflow_id, run_id),
            next_page_token: token,
            skip_archival: true,
            ..Default::default()
        };
        let reply = client.call(call, CALL_TIMEOUT).await?;
        let page = reply.history.unwrap_or_default().events();
        events.extend(page.map_err(|error| Status::data_loss(format!("history: {error}")))?);
        token = reply.next_page_token;
        if token.is_empty() {
            return Ok(events);
        }
    }
}

/// Whether an event ends its run.
pub fn is_closing(event: &HistoryEvent) -> bool {
    matches!(
        event.event_type(),
        EventType::WorkflowExecutionCompleted
            | EventType::WorkflowExecutionFailed
            | EventType::WorkflowExecutionTimedOut
            | EventType::WorkflowExecutionCanceled
            | EventType::WorkflowExecutionTerminated
            | EventType::WorkflowExecutionContinuedAsNew
    )
}

/// The result in a closing event, or the name of the event when it is not a completion.
pub fn closing_result(event: &HistoryEvent) -> String {
    match &event.attributes {
        Some(history_event::Attributes::WorkflowExecutionCompletedEventAttributes(done)) => {
            untext(done.result.as_ref())
        }
        _ => event.event_type().as_str_name().to_owned(),
    }
}

/// A runtime on one thread: the driver must leave the cores to the server.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("tokio runtime")
}
