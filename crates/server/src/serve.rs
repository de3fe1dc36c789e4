//! Binding ports, serving, and stopping cleanly.

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use segno_node::Node;
use segno_proto::{DESCRIPTORS, testservice::test_service_server::TestServiceServer};
use segno_web::{Codec, ProcessFigures, Web};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tonic::{codec::CompressionEncoding, service::Routes};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    calls,
    connections::{self, AbortOnDrop, ConnectionLimits, FairShare, Services},
    delivery::CallsInProgress,
    edge::Edge,
    grpc::TimeSkipping,
    http::{self, Guard},
    in_process::InProcess,
    metrics::{calls as counts, disk},
    otel::{self, TraceOptions},
    security::{
        AuthenticationOptions, Security, SecurityOptions,
        audit::Audit,
        tls::{Tls, TlsError},
    },
};

/// Time for calls under way when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for connections to close after the last call: a graceful shutdown takes a round trip.
const CLOSE_TIME: Duration = Duration::from_millis(200);
/// Time for the last traces to be sent.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// The services whose health is reported over gRPC; the empty name stands for the server.
const HEALTH_SERVICES: [&str; 3] = ["", calls::WORKFLOW_SERVICE, calls::OPERATOR_SERVICE];
/// How often it is looked at.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

/// Where to listen, and to how many.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// gRPC.
    pub grpc: SocketAddr,
    /// HTTP.
    pub http: SocketAddr,
    /// Limits of gRPC connections.
    pub limits: ConnectionLimits,
    /// Encryption and authentication.
    pub security: SecurityOptions,
    /// Where traces of calls go.
    pub traces: Option<TraceOptions>,
}

/// Why a server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A port could not be had.
    #[error("cannot listen on {address} for {what}: {error}. {}", bind_advice(error, flag))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// gRPC or HTTP.
        what: &'static str,
        /// The flag that changes it.
        flag: &'static str,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The audit log cannot be written.
    #[error("the audit log {} cannot be opened: {error}. Choose another file with --audit-log", path.display())]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The codec server has no usable address.
    #[error(
        "--ui-codec-endpoint {endpoint} is not an address: it looks like https://codec.example or http://127.0.0.1:8081/{{namespace}}"
    )]
    CodecEndpoint {
        /// The endpoint in the options.
        endpoint: String,
    },
    /// Reflection could not be set up.
    #[error("reflection could not be set up: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Advice for an address that cannot be bound.
fn bind_advice(error: &std::io::Error, flag: &str) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => {
            "This machine does not have that address: choose one of its own with --ip, or 0.0.0.0 for all".to_owned()
        }
        std::io::ErrorKind::PermissionDenied => {
            format!("Ports below 1024 need a privilege: choose another with {flag}")
        }
        _ => format!("Is another server running? Choose another port with {flag}"),
    }
}

/// A server with its ports bound.
pub struct Server {
    grpc: TcpListener,
    http: TcpListener,
    limits: ConnectionLimits,
    tls: Option<Arc<Tls>>,
    authentication: Option<AuthenticationOptions>,
    audit: Option<Audit>,
    codec: Option<Codec>,
    traces: Option<TraceOptions>,
    carries_out_jobs: bool,
}

impl Server {
    /// Binds both ports, so that a taken one is noticed before anything else happens.
    pub async fn bind(options: ServerOptions) -> Result<Self, ServeError> {
        let bind = async |address, what, flag| {
            TcpListener::bind(address).await.map_err(|error| ServeError::Bind { address, what, flag, error })
        };
        let grpc = bind(options.grpc, "gRPC", "--port").await?;
        let http = bind(options.http, "HTTP", "--http-port").await?;
        let security = options.security;
        let tls = security.tls.map(Tls::load).transpose()?.map(Arc::new);
        let audit = match security.audit_log {
            None => None,
            Some(path) => Some(
                Audit::open(&path, security.audit_required).map_err(|error| ServeError::AuditLog { path, error })?,
            ),
        };
        let codec = match security.codec_endpoint {
            None => None,
            Some(endpoint) => Some(Codec::parse(&endpoint).ok_or(ServeError::CodecEndpoint { endpoint })?),
        };
        let (authentication, traces) = (security.authentication, options.traces);
        let (limits, carries_out_jobs) = (options.limits, true);
        Ok(Self { grpc, http, limits, tls, authentication, audit, codec, traces, carries_out_jobs })
    }

    /// Leaves batch operations and verifications to another server of the same node: steps of them are calls of the server that
    /// carries them out, which must not end before the node does.
    pub fn without_jobs(mut self) -> Self {
        self.carries_out_jobs = false;
        self
    }

    /// The addresses in use: gRPC and HTTP.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.grpc.local_addr()?, self.http.local_addr()?))
    }

    /// Serves until `stop` is done, then lets calls under way finish.
    pub async fn run(self, node: Arc<Node>, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        if let Some(traces) = self.traces.clone() {
            otel::start(traces);
        }
        let addresses = self.addresses().map(|(grpc, http)| (grpc.to_string(), http.to_string())).unwrap_or_default();
        let edge = Edge::new(&node, addresses);
        if self.carries_out_jobs {
            edge.carry_out_jobs(&node);
        }
        let handlers = edge.handlers.clone();
        let (health, health_service) = tonic_health::server::health_reporter();
        let health_service = health_service.accept_compressed(CompressionEncoding::Gzip);
        report_health(&node, &health).await;
        let reflection =
            || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);

        // Ends with this call, however that ends.
        let mut web = JoinSet::new();
        web.spawn(follow_health(node.clone(), health));
        let _following = self.tls.as_ref().map(|tls| {
            AbortOnDrop(
                node.runs.lifecycle.supervise_to_its_end("the watch over certificates", tls.clone().follow_files()),
            )
        });
        let mut audit = self.audit;
        if let Some(audit) = &mut audit {
            audit.report_to(node.runs.health.clone(), node.runs.metrics.clone());
            let (writing, failing) = (audit.watch(), node.clone());
            web.spawn(async move {
                writing.await;
                failing.runs.lifecycle.fail("the audit log", "its thread panicked");
            });
        }
        let security = Arc::new(Security::new(node.clone(), calls::rules(), self.authentication, audit));
        let is_loopback = self.http.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let guard = Guard { tls: self.tls.clone(), security: security.clone(), is_loopback };
        let (stopped, mut drained) = watch::channel(false);
        let stopping = node.clone();
        let graceful = async move {
            stop.await;
            // Other nodes take over the shards of this one while it still serves all callers.
            if let Some(cluster) = &stopping.cluster {
                cluster.leave().await;
            }
            // Long polls end at once; new calls are answered that they should go to another node.
            stopping.shut_down();
            let _ = stopped.send(true);
        };
        let under_way = CallsInProgress::default();
        let counted = under_way.clone();
        let mut others = Routes::new(health_service)
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?);
        if let Some(time_skipping) = TimeSkipping::new(&node) {
            let service = TestServiceServer::new(time_skipping).accept_compressed(CompressionEncoding::Gzip);
            others = others.add_service(service);
        }
        let others = others.prepare();
        let services = Services {
            handlers: handlers.clone(),
            others,
            under_way,
            node: node.clone(),
            security,
            fair_share: Arc::new(FairShare::new(node.runs.is_remote())),
        };
        let in_process = Arc::new(InProcess(handlers.clone()));
        let figures = ProcessFigures { call_times: counts::times, disk_free: disk::disk_free };
        let pages = Web::new(node.clone(), in_process.clone(), figures, self.tls.is_some(), self.codec);
        web.spawn(http::serve(self.http, Arc::new(services.clone()), in_process, pages, guard));
        edge.serve_other_nodes(&node);
        let serving = connections::serve(self.grpc, services, self.limits, self.tls, drained.clone());
        let patience = async move {
            let _ = drained.wait_for(|stopped| *stopped).await;
            let until = tokio::time::Instant::now() + DRAIN_TIMEOUT;
            while counted.count() > 0 && tokio::time::Instant::now() < until {
                tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
            }
            // The last responses still have to be written, and connections to be closed.
            tokio::time::sleep(CLOSE_TIME).await;
        };
        // Everything that runs ends with this call: connections, the small HTTP side, and the wait for the signal.
        web.spawn(graceful);
        tokio::select! {
            () = serving => {}
            // Clients that keep their connections open without a call do not keep the server up.
            () = patience => {}
        }
        let _ = tokio::time::timeout(LAST_TRACES, otel::flush()).await;
        Ok(())
    }
}

/// Reports the node's health over gRPC.
async fn report_health(node: &Node, health: &HealthReporter) {
    let status = match node.ill_health() {
        None => ServingStatus::Serving,
        Some(_) => ServingStatus::NotServing,
    };
    for service in HEALTH_SERVICES {
        health.set_service_status(service, status).await;
    }
}

/// Reports it again whenever it changes. Among other nodes it is looked at every so often: a lease ends without an event.
async fn follow_health(node: Arc<Node>, health: HealthReporter) {
    let mut changes = node.runs.health.watch();
    loop {
        match &node.cluster {
            None => changes.next().await,
            Some(_) => drop(tokio::time::timeout(HEALTH_INTERVAL, changes.next()).await),
        }
        report_health(&node, &health).await;
    }
}
