//! Clients: starting workflows and speaking to them.
//!
//! A [`Client`] is a connection and a namespace. [`Client::queue`] is where workflows are started and workers are made;
//! a [`Handle`] is one workflow, a [`TaskHandle`] one task without a workflow.

mod batch;
mod builder;
mod completion;
mod connection;
mod deployment;
mod describe;
mod dial;
mod eager;
pub(crate) mod error;
mod handle;
mod interceptor;
mod keep_alive;
mod list;
mod metered;
mod pages;
#[cfg(feature = "envconfig")]
mod profile;
mod proxy;
mod queue;
mod result;
mod standalone;
mod start;
mod task_description;
#[cfg(feature = "tls")]
mod tls;
mod tls_options;
mod transport;
pub(crate) mod unary;
mod update;

use std::{future::Future, sync::Arc};

use segno_proto::{
    common::{Payload, Payloads},
    failure as wire,
};
use tonic::{Response, Status};

pub use batch::{Batch, BatchJob, BatchProgress};
pub use builder::ClientBuilder;
pub use completion::{TaskCompletion, TaskHeartbeat};
pub(crate) use connection::{Service, Waits, WorkerService, is_retryable};
pub use deployment::{DeploymentDescription, DeploymentHandle, VersionStatus, VersionSummary};
pub(crate) use describe::time;
pub use describe::{WorkflowDescription, WorkflowStatus};
pub(crate) use eager::{EagerOffer, EagerPlace};
pub use error::ClientError;
pub(crate) use error::detail;
pub use handle::{Handle, RawWorkflow, ResetOptions};
pub use interceptor::{ClientCall, ClientCallKind, ClientInterceptor};
pub use list::{WorkflowCount, WorkflowList};
pub(crate) use pages::{PAGE, Pages};
pub use proxy::HttpProxy;
pub use queue::Queue;
pub use standalone::{RawTask, StartTaskOptions, TaskHandle};
pub use start::StartOptions;
pub use task_description::{TaskDescription, TaskList, TaskStatus};
pub use tls_options::TlsOptions;
pub use update::{UpdateHandle, UpdateOptions};

pub use crate::{priority::Priority, versioning::VersioningOverride};

use crate::{
    converter::{self, codec::Codecs},
    definition::{TaskDefinition, WorkflowDefinition},
    failure::Failure,
    telemetry::Metrics,
};

/// A connection to a server, for one namespace. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connection: connection::Connection,
    namespace: Arc<str>,
    identity: String,
    codecs: Codecs,
    interceptors: interceptor::Interceptors,
    eager: eager::EagerWorkers,
}

impl Client {
    /// Connects to a server: `http://host:port`.
    pub async fn connect(target: impl Into<String>) -> Result<Self, ClientError> {
        Self::builder().target(target).connect().await
    }

    /// Connects as the environment says; see [`ClientBuilder::from_env`]. Without any setting: `http://127.0.0.1:7233` and
    /// the namespace `default`.
    pub async fn from_env() -> Result<Self, ClientError> {
        ClientBuilder::from_env()?.connect().await
    }

    /// A client with settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A task queue: where workflows are started and workers are made.
    pub fn queue(&self, name: impl Into<String>) -> Queue {
        Queue::new(self.clone(), name.into())
    }

    /// A workflow that was started before: whichever run of it is current.
    pub fn handle<W: WorkflowDefinition>(&self, workflow_id: impl Into<String>) -> Handle<W> {
        Handle::of_current(self.clone(), workflow_id.into())
    }

    /// One run of a workflow.
    pub fn handle_of_run<W: WorkflowDefinition>(
        &self,
        workflow_id: impl Into<String>,
        run_id: impl Into<String>,
    ) -> Handle<W> {
        Handle::of_run(self.clone(), workflow_id.into(), run_id.into())
    }

    /// A workflow of which no type is known.
    pub fn handle_raw(&self, workflow_id: impl Into<String>) -> Handle<RawWorkflow> {
        self.handle(workflow_id)
    }

    /// A task that was started without a workflow: whichever run of it is current.
    pub fn task_handle<T: TaskDefinition>(&self, task_id: impl Into<String>) -> TaskHandle<T> {
        TaskHandle::of_run(self.clone(), task_id.into(), String::new())
    }

    /// One run of such a task.
    pub fn task_handle_of_run<T: TaskDefinition>(
        &self,
        task_id: impl Into<String>,
        run_id: impl Into<String>,
    ) -> TaskHandle<T> {
        TaskHandle::of_run(self.clone(), task_id.into(), run_id.into())
    }

    /// Such a task of which no type is known.
    pub fn task_handle_raw(&self, task_id: impl Into<String>) -> TaskHandle<RawTask> {
        self.task_handle(task_id)
    }

    /// The namespace of all calls.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// The same, for those who keep it.
    pub(crate) fn shared_namespace(&self) -> Arc<str> {
        self.0.namespace.clone()
    }

    /// Who this is, for histories and logs.
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Temporal's service; what is called is not repeated.
    pub(crate) fn service(&self) -> Service {
        self.0.connection.service()
    }

    pub(crate) fn worker_service(&self) -> WorkerService {
        self.0.connection.worker_service()
    }

    /// The clock of a server for tests.
    #[cfg(feature = "testing")]
    pub(crate) fn test_service(&self) -> connection::TestService {
        self.0.connection.test_service()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn operator_service(&self) -> connection::OperatorService {
        self.0.connection.operator_service()
    }

    /// A call that is repeated while the server cannot be reached or is too busy. The closure must send the same request
    /// each time, with the same request id: it has an effect once.
    pub(crate) async fn call<T, F, C>(&self, call: C) -> Result<T, Status>
    where
        C: FnMut(Service) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.0.connection.call(call).await
    }

    /// A call that workers make all the time, repeated likewise.
    pub(crate) async fn send<Q, A>(&self, method: &unary::Method<Q, A>, request: &Q) -> Result<A, Status>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        self.0.connection.send(method, request).await
    }

    /// One attempt of such a call.
    pub(crate) async fn once<Q, A>(
        &self,
        method: &unary::Method<Q, A>,
        request: &Q,
        limit: std::time::Duration,
    ) -> Result<A, Status>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        self.0.connection.once(method, request, limit).await
    }

    /// One attempt of a call that was encoded before.
    pub(crate) async fn once_encoded(
        &self,
        call: &unary::EncodedCall,
        limit: std::time::Duration,
    ) -> Result<bytes::Bytes, Status> {
        self.0.connection.once_encoded(call, limit).await
    }

    /// As [`Client::call`], for a call that waits for news.
    pub(crate) async fn long_poll<T, F, C>(&self, call: C) -> Result<T, Status>
    where
        C: FnMut(Service) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.0.connection.long_poll(call).await
    }

    /// Where this client and its workers count.
    pub(crate) fn metrics(&self) -> Option<&Metrics> {
        self.0.connection.channel.metrics()
    }

    /// The codecs of this client.
    pub(crate) fn codecs(&self) -> &Codecs {
        &self.0.codecs
    }

    async fn outgoing(&self, payloads: Vec<Payload>) -> Result<Option<Payloads>, ClientError> {
        Ok(converter::list(self.codecs().encode(payloads).await?))
    }

    async fn incoming(&self, payloads: Option<Payloads>) -> Result<Vec<Payload>, ClientError> {
        Ok(self.codecs().decode(payloads.map(|list| list.payloads).unwrap_or_default()).await?)
    }

    async fn incoming_failure(&self, failure: Option<wire::Failure>) -> Result<Failure, ClientError> {
        Ok(Failure::from_wire(self.codecs().decode_failure(failure.unwrap_or_default()).await?))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("namespace", &self.namespace()).field("identity", &self.identity()).finish()
    }
}
