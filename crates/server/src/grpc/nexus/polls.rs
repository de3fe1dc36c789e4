//! Polls for requests to the handlers of Nexus operations, and for commands to workers.

use std::collections::BTreeMap;

use segno_engine::{
    nexus::{operation_time, request_time},
    standalone_nexus,
};
use segno_nexus::{USER_AGENT, go_duration, milliseconds, read_span, to_event, to_operation, to_url};
use segno_node::{
    CONTROL_QUEUES, Caller, Namespace, NexusCallToken, NexusTaskToken, Poll, PollOutcome, PollerVersion, QueueKey,
    QueueKind, QueueType, StartedCall, StartedNexusTask, StartedRequest, Token,
};
use segno_proto::{
    Nanos,
    enums::EventType,
    nanos_timestamp,
    nexus::{
        CancelOperationRequest, Request as NexusRequest, StartOperationRequest,
        request::{Capabilities, Variant},
    },
    workflowservice::{PollNexusTaskQueueRequest, PollNexusTaskQueueResponse},
};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::commands;
use crate::{
    deadline,
    grpc::{Workflows, failed, refused, routing::answer_there, workflow_tasks::scaling},
    peers::CallMetadata,
    security, validate,
};

/// Headers of workflows that are those of connections, and mean nothing to handlers.
const DROPPED_HEADERS: [&str; 3] = ["accept-encoding", "x-forwarded-for", "temporal-nexus-failure-support"];
/// The header with the time that the operation has, in milliseconds even if the user wrote it in another unit.
const OPERATION_TIMEOUT: &str = "operation-timeout";
/// Headers with this prefix go with the callback.
const CALLBACK_PREFIX: &str = "nexus-callback-";

impl Workflows {
    /// Waits like any other poll, and ends when its time is up or its worker shuts down.
    pub(crate) async fn poll_nexus_task(
        &self,
        request: Request<PollNexusTaskQueueRequest>,
    ) -> Result<Response<PollNexusTaskQueueResponse>, Status> {
        security::check_worker_queue(&request, request.get_ref().task_queue.as_ref())?;
        let (until, metadata) = (deadline::poll(&request), CallMetadata::of(&request));
        let (task, call) = self.poll_among_nodes(&request);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::worker::poll_nexus_task(&mut request).map_err(refused)?;
        let connection = metadata.connection;
        if !request.worker_heartbeat.is_empty() {
            self.tell_everybody(&request.namespace, &request.worker_heartbeat, connection);
            self.report_workers(namespace.key, request.worker_heartbeat, connection)?;
        }
        let name = request.task_queue.unwrap_or_default().name;
        let is_control = name.starts_with(CONTROL_QUEUES);
        let kind = if is_control { QueueKind::WorkerCommand } else { QueueKind::Nexus };
        let poll = Poll {
            queue: QueueKey { namespace: namespace.key, kind, name },
            identity: request.identity,
            caller: Caller { worker: request.worker_instance_key, control_queue: String::new(), connection },
            sticky: false,
            version: PollerVersion {
                capabilities: request.worker_version_capabilities,
                deployment: request.deployment_options,
            },
            sdk: metadata.sdk(),
            deadline: until?,
            tasks_per_second: None,
        };
        if is_control {
            return self.poll_command(&namespace, &poll).await;
        }
        let begun = Instant::now();
        let polled: Option<PollOutcome<StartedNexusTask>> = match task {
            Some(task) => {
                self.node.dispatch.begin_for(&poll, None, &task).await.map_err(failed)?.map(PollOutcome::Here)
            }
            None => {
                self.register_worker(namespace.key, &poll.caller.worker)?;
                self.register_member(&poll, QueueType::Nexus).await?;
                self.node.dispatch.poll(&poll, None, call.as_ref()).await.map_err(failed)?
            }
        };
        let started = match polled {
            Some(PollOutcome::Here(started)) => started,
            Some(PollOutcome::There { body, delivery }) => return answer_there(body, delivery),
            None => return Ok(Response::new(PollNexusTaskQueueResponse::default())),
        };
        let delivery = match &started {
            StartedNexusTask::Request(request) => request.delivery.clone(),
            StartedNexusTask::Call(call) => call.delivery.clone(),
        };
        let poller_scaling_decision = scaling(self.node.matching.advice(&poll.queue, &poll.version, begun.elapsed()));
        let task = match started {
            StartedNexusTask::Request(request) => self.task_of(&namespace, *request),
            StartedNexusTask::Call(call) => self.task_of_call(&namespace, *call),
        };
        let mut response = Response::new(PollNexusTaskQueueResponse { poller_scaling_decision, ..task });
        response.extensions_mut().insert(delivery);
        Ok(response)
    }

    async fn poll_command(
        &self,
        namespace: &Namespace,
        poll: &Poll,
    ) -> Result<Response<PollNexusTaskQueueResponse>, Status> {
        let Some((command, delivery)) = self.node.dispatch.poll_command(poll).await else {
            return Ok(Response::new(PollNexusTaskQueueResponse::default()));
        };
        let mut response = Response::new(commands::task_of(namespace, command));
        response.extensions_mut().insert(delivery);
        Ok(response)
    }

    /// A direct call as the wire has it.
    fn task_of_call(&self, namespace: &Namespace, started: StartedCall) -> PollNexusTaskQueueResponse {
        let StartedCall { id, call, .. } = started;
        let token = NexusCallToken { call: id, node: self.node.runs.node_number };
        let mut request = call.request;
        let left = call.deadline.saturating_duration_since(Instant::now());
        add_times(&mut request.header, Nanos::try_from(left.as_nanos()).unwrap_or(Nanos::MAX));
        PollNexusTaskQueueResponse {
            task_token: token.seal(&namespace.token_key),
            request: Some(request),
            ..Default::default()
        }
    }

    /// A request as the wire has it. `namespace` is that of the handler.
    fn task_of(&self, namespace: &Namespace, started: StartedRequest) -> PollNexusTaskQueueResponse {
        let (info, operation, request) = (&started.run.info, &started.operation, started.request);
        let now = self.node.runs.clock_now();
        let token = NexusTaskToken {
            namespace: info.namespace_key,
            workflow_id: info.workflow_id.clone(),
            run_id: info.run_id.clone(),
            scheduled_event_id: request.scheduled_event_id,
            stamp: request.stamp,
            cancel: request.cancel,
            taken_time: now,
        };
        let mut header = started.scheduled.nexus_header.clone();
        header.retain(|name, _| !DROPPED_HEADERS.contains(&name.as_str()) && !name.starts_with("xdc-redirection"));
        add_times(&mut header, request_time(operation, now));
        header.insert("user-agent".to_owned(), USER_AGENT.to_owned());
        let variant = match request.cancel {
            true => Variant::CancelOperation(CancelOperationRequest {
                service: operation.service.clone(),
                operation: operation.operation.clone(),
                operation_id: operation.token.clone(),
                operation_token: operation.token.clone(),
            }),
            false => Variant::StartOperation(self.start_of(&started, &mut header, now)),
        };
        let scheduled_time = open_since(&started);
        PollNexusTaskQueueResponse {
            task_token: token.seal(&namespace.token_key),
            request: Some(NexusRequest {
                header,
                scheduled_time: Some(nanos_timestamp(scheduled_time)),
                // As with Temporal, what handlers of cancellations say is in the older form.
                capabilities: Some(Capabilities { temporal_failure_responses: !request.cancel }),
                endpoint: started.endpoint,
                variant: Some(variant),
            }),
            ..Default::default()
        }
    }

    fn start_of(
        &self,
        started: &StartedRequest,
        header: &mut BTreeMap<String, String>,
        now: Nanos,
    ) -> StartOperationRequest {
        let (info, operation) = (&started.run.info, &started.operation);
        let id = operation.scheduled_event_id;
        let token = self.node.runs.callback_token(&started.run, operation);
        let link = to_url(&match standalone_nexus::id_of(&started.run) {
            Some(operation_id) => to_operation(&info.namespace, operation_id, &info.run_id),
            None => {
                let kind = EventType::NexusOperationScheduled;
                to_event(&info.namespace, &info.workflow_id, &info.run_id, id, kind)
            }
        });
        header.insert("nexus-request-id".to_owned(), operation.request_id.clone());
        if let Some(link) = &link {
            header.insert("nexus-link".to_owned(), format!("<{}>; type=\"{}\"", link.url, link.r#type));
        }
        header.retain(|name, _| !name.starts_with("content-"));
        let of_callback =
            |(name, value): (&String, &String)| Some((name.strip_prefix(CALLBACK_PREFIX)?.to_owned(), value.clone()));
        let mut callback_header: BTreeMap<String, String> = header.iter().filter_map(of_callback).collect();
        header.retain(|name, _| !name.starts_with(CALLBACK_PREFIX));
        callback_header.insert(segno_engine::callbacks::TOKEN_HEADER.to_owned(), token);
        let time = match header.get(OPERATION_TIMEOUT) {
            // What is no time stays as the user wrote it.
            Some(text) => read_span(text),
            None => operation_time(operation, now),
        };
        if let Some(time) = time {
            header.insert(OPERATION_TIMEOUT.to_owned(), milliseconds(time));
        }
        StartOperationRequest {
            service: operation.service.clone(),
            operation: operation.operation.clone(),
            request_id: operation.request_id.clone(),
            callback: segno_engine::callbacks::SYSTEM.to_owned(),
            payload: Some(started.scheduled.input.clone().unwrap_or_else(segno_engine::nexus::no_value)),
            callback_header,
            links: link.into_iter().collect(),
        }
    }
}

/// The time that is left, under both spellings that SDKs look for.
fn add_times(header: &mut BTreeMap<String, String>, left: Nanos) {
    for name in ["request-timeout", "Request-Timeout"] {
        header.insert(name.to_owned(), go_duration(left));
    }
}

/// Since when the request waits.
fn open_since(started: &StartedRequest) -> Nanos {
    let operation = &started.operation;
    let since = match &operation.cancellation {
        Some(cancellation) if started.request.cancel => cancellation.requested_time,
        _ => operation.scheduled_time,
    };
    operation.open_request().map_or(since, |(open, _)| since.max(open.due_time))
}
