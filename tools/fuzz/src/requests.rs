//! Requests of every method, to a server in this process: no panic, and INTERNAL only for what is no message at all.
//!
//! The server keeps what earlier inputs made, so that calls find workflows, schedules and keys; a finding may therefore
//! need more than its last input.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use segno_node::{Environment, Node, NodeOptions};
use segno_proto::{
    METHODS,
    codec::BytesCodec,
    common::{WorkflowExecution, WorkflowType},
    schedule::{Schedule, ScheduleAction, ScheduleSpec, schedule_action::Action},
    taskqueue::TaskQueue,
    workflow::NewWorkflowExecutionInfo,
    workflowservice as api,
};
use segno_server::{ConnectionLimits, SecurityOptions, Server, ServerOptions};
use segno_store::MemoryStore;
use tokio::runtime::Runtime;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{Channel, Endpoint},
};

/// Long enough for calls that answer, short for those that wait.
const DEADLINE: Duration = Duration::from_millis(40);
const NAMESPACE: &str = "default";

/// A server in this process, and a connection to it.
struct FuzzServer {
    runtime: Runtime,
    channel: Channel,
}

static SERVER: LazyLock<FuzzServer> = LazyLock::new(|| start().expect("a server in memory starts"));

fn start() -> anyhow::Result<FuzzServer> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let address = runtime.block_on(async {
        let node =
            Node::start(Arc::new(MemoryStore::default()), Environment::of_machine(), NodeOptions::default()).await?;
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::bind(ServerOptions {
            grpc: anywhere,
            http: anywhere,
            limits: ConnectionLimits::default(),
            security: SecurityOptions::default(),
            traces: None,
        })
        .await?;
        let (address, _) = server.addresses()?;
        tokio::spawn(server.run(node, std::future::pending()));
        anyhow::Ok(address)
    })?;
    let channel = runtime.block_on(async {
        Endpoint::from_shared(format!("http://{address}"))?.connect().await.map_err(anyhow::Error::from)
    })?;
    let running = FuzzServer { runtime, channel };
    let register = api::RegisterNamespaceRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution_retention_period: Some(prost_types::Duration { seconds: 86_400, nanos: 0 }),
        ..Default::default()
    };
    if let Err(status) = running.call("RegisterNamespace", &register.encode_to_vec(), Duration::from_secs(10)) {
        anyhow::ensure!(status.code() == Code::AlreadyExists, "{status}");
    }
    Ok(running)
}

impl FuzzServer {
    fn call(&self, name: &str, message: &[u8], deadline: Duration) -> Result<Bytes, Status> {
        let (service, method) = METHODS.iter().find(|(_, method)| *method == name).expect("a method of the protocol");
        let path = format!("/{service}/{method}").parse().expect("a path");
        self.runtime.block_on(async {
            let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let mut request = Request::new(Bytes::copy_from_slice(message));
            request.set_timeout(deadline);
            Ok(client.unary(request, path, BytesCodec).await?.into_inner())
        })
    }
}

/// The first byte is the number of the method, the rest the message.
pub(crate) fn run(input: &[u8]) {
    let Some((number, message)) = input.split_first() else { return };
    let (_, method) = METHODS[usize::from(*number) % METHODS.len()];
    if let Err(status) = SERVER.call(method, message, DEADLINE) {
        let is_ours = status.code() == Code::Internal && !status.message().contains("decode");
        assert!(!is_ours, "{method}: {status}");
    }
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let namespace = || NAMESPACE.to_owned();
    let workflow_type = || Some(WorkflowType { name: "t".to_owned() });
    let task_queue = || Some(TaskQueue { name: "q".to_owned(), ..Default::default() });
    let execution = || Some(WorkflowExecution { workflow_id: "w".to_owned(), run_id: String::new() });
    let start = api::StartWorkflowExecutionRequest {
        namespace: namespace(),
        workflow_id: "w".to_owned(),
        workflow_type: workflow_type(),
        task_queue: task_queue(),
        request_id: "r".to_owned(),
        ..Default::default()
    };
    let action = NewWorkflowExecutionInfo {
        workflow_id: "s".to_owned(),
        workflow_type: workflow_type(),
        task_queue: task_queue(),
        ..Default::default()
    };
    let schedule = Schedule {
        spec: Some(ScheduleSpec { cron_string: vec!["* * * * *".to_owned()], ..Default::default() }),
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(action)) }),
        ..Default::default()
    };
    let calls: Vec<(&str, Vec<u8>)> = vec![
        ("StartWorkflowExecution", start.encode_to_vec()),
        (
            "SignalWorkflowExecution",
            api::SignalWorkflowExecutionRequest {
                namespace: namespace(),
                workflow_execution: execution(),
                signal_name: "s".to_owned(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "DescribeWorkflowExecution",
            api::DescribeWorkflowExecutionRequest { namespace: namespace(), execution: execution() }.encode_to_vec(),
        ),
        (
            "GetWorkflowExecutionHistory",
            api::GetWorkflowExecutionHistoryRequest {
                namespace: namespace(),
                execution: execution(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "PollWorkflowTaskQueue",
            api::PollWorkflowTaskQueueRequest {
                namespace: namespace(),
                task_queue: task_queue(),
                identity: "i".to_owned(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "ListWorkflowExecutions",
            api::ListWorkflowExecutionsRequest {
                namespace: namespace(),
                query: "WorkflowId = 'w'".to_owned(),
                page_size: 1,
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "CreateSchedule",
            api::CreateScheduleRequest {
                namespace: namespace(),
                schedule_id: "s".to_owned(),
                schedule: Some(schedule),
                request_id: "c".to_owned(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "TerminateWorkflowExecution",
            api::TerminateWorkflowExecutionRequest {
                namespace: namespace(),
                workflow_execution: execution(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
    ];
    let seed = |(name, message): (&str, Vec<u8>)| {
        let number = METHODS.iter().position(|(_, method)| *method == name).expect("a method of the protocol");
        (name.to_owned(), [&[number as u8], &message[..]].concat())
    };
    let mut seeds: Vec<_> = calls.into_iter().map(seed).collect();
    // All the others begin with the namespace.
    let message = [&[0x0a, NAMESPACE.len() as u8], NAMESPACE.as_bytes()].concat();
    for (number, (_, method)) in METHODS.iter().enumerate() {
        if !seeds.iter().any(|(name, _)| name == method) {
            seeds.push(((*method).to_owned(), [&[number as u8], &message[..]].concat()));
        }
    }
    seeds
}
