//! [`Node`]: the parts of a node, started together.

use std::sync::Arc;

use segno_cluster::{Cluster, ClusterObserver, LEASE_EXPIRED, NodeIdentity, Peers};
use segno_dispatch::{self, Dispatch};
use segno_environment::{Environment, environment::Listener};
use segno_http_sender::{HttpSettings, Sender};
use segno_matching::Matching;
use segno_operations::{AccessKeys, Batches, NamespaceOperations, Verifications};
use segno_runs::{
    error::CallError,
    loops,
    options::NodeOptions,
    ports::{
        PortFuture,
        owner::{Alone, Owner},
    },
    runs::Runs,
};
use segno_scripts::{ScriptHost, Scripts};
use segno_store::Store;
use segno_workers::{self, Workers};

/// A node of Segno.
pub struct Node {
    /// The runs that this node serves.
    pub runs: Arc<Runs>,
    /// Task queues.
    pub matching: Arc<Matching>,
    /// Workers.
    pub workers: Arc<Workers>,
    /// Tasks of runs on their way to workers.
    pub dispatch: Arc<Dispatch>,
    /// Changes of namespaces, and the deletion of what belongs to them.
    pub namespaces: Arc<NamespaceOperations>,
    /// Batch jobs.
    pub batches: Arc<Batches>,
    /// Trials of open runs on other versions of workers.
    pub verifications: Arc<Verifications>,
    /// Who may call.
    pub access_keys: Arc<AccessKeys>,
    /// Workflows that the node executes itself.
    pub scripts: Scripts,
    /// Requests to servers elsewhere.
    pub http_sender: Arc<Sender>,
    /// The other nodes on the same storage; `None` if there can be none.
    pub cluster: Option<Arc<Cluster>>,
}

impl Node {
    /// Starts a node on a store: recovers what is stored and begins to work.
    pub async fn start(
        store: Arc<dyn Store>,
        environment: Environment,
        options: NodeOptions,
    ) -> Result<Arc<Self>, CallError> {
        Self::start_among(store, environment, options, HttpSettings::default(), None).await
    }

    /// Starts a node on a store, reached by other nodes through a listener. They know it by the certificate of its
    /// identity, which is in the database.
    pub async fn start_among(
        store: Arc<dyn Store>,
        environment: Environment,
        options: NodeOptions,
        http: HttpSettings,
        listener: Option<(Box<dyn Listener>, NodeIdentity)>,
    ) -> Result<Arc<Self>, CallError> {
        let host = Arc::new(ScriptHost::new(&environment));
        let (listener, identity) =
            listener.map_or((None, None), |(listener, identity)| (Some(listener), Some(Arc::new(identity))));
        let peers = Peers::of(&*store, identity, &environment);
        let owner: Arc<dyn Owner> = match &peers {
            Some(peers) => peers.clone(),
            None => Arc::new(Alone),
        };
        let runs = Runs::new(store, &environment, options, owner, host.clone()).await?;
        let (clock, metrics, deployments) = (runs.clock.clone(), runs.metrics.clone(), runs.deployments.clone());
        let matching = Matching::new(options.queue_tasks_max, clock, metrics, deployments);
        let matching = Arc::new(matching.with_poller_ttl(options.deployments.poller_ttl));
        let workers = Arc::new(Workers::new(runs.clone(), matching.clone(), &options));
        let dispatch = Dispatch::new(runs.clone(), matching.clone(), workers.clone());
        let http_sender = Sender::new(runs.clone(), http);
        let access_keys = AccessKeys::new(runs.clone());
        let batches = Batches::new(runs.clone());
        let verifications = Verifications::new(runs.clone());
        let namespaces = NamespaceOperations::new(runs.clone(), batches.clone(), verifications.clone());
        let cluster = peers.map(|peers| {
            let parts = Parts {
                dispatch: dispatch.clone(),
                access_keys: access_keys.clone(),
                namespaces: namespaces.clone(),
                batches: batches.clone(),
                verifications: verifications.clone(),
            };
            let cluster = Cluster::new(dispatch.clone(), peers, Arc::new(parts));
            dispatch.set_remote_queues(&cluster);
            cluster
        });
        if let (Some(listener), Some(cluster)) = (listener, &cluster) {
            cluster.accept_nodes(listener);
        }
        dispatch.load_queue_configs().await?;
        access_keys.load().await?;
        loops::load_documents(&runs).await?;
        batches.load().await?;
        match &cluster {
            None => runs.recover().await?,
            Some(cluster) => cluster.join().await,
        }
        loops::start_loops(&runs);
        namespaces.start();
        runs.lifecycle.supervise("the watch over workers", segno_workers::watch(workers.clone()));
        runs.lifecycle.supervise("the refill of queues", segno_dispatch::refill(dispatch.clone()));
        runs.lifecycle.supervise("the notes of waits for versions", segno_dispatch::version_waits(dispatch.clone()));
        let scripts = Scripts::new(host, &runs);
        scripts.start();
        Ok(Arc::new(Self {
            runs,
            matching,
            workers,
            dispatch,
            namespaces,
            batches,
            verifications,
            access_keys,
            scripts,
            http_sender,
            cluster,
        }))
    }

    /// Stops handing out work: long polls end empty, new calls are refused.
    pub fn shut_down(&self) {
        self.runs.shut_down();
        self.namespaces.check_retention();
        self.dispatch.stop();
    }

    /// Refuses callers while this node may have lost its place, after waiting for a database that was away for a moment.
    pub async fn admit_callers(&self) -> Result<(), CallError> {
        match &self.cluster {
            None => Ok(()),
            Some(cluster) => cluster.admit_callers().await,
        }
    }

    /// Whether keys, scripts and namespaces were compared with the database's lately; always without other nodes.
    pub fn has_newest_documents(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.topology.is_within_lease())
    }

    /// Why the node should get no calls, if it should not: it stops, failed, may have lost its place or is degraded.
    pub fn ill_health(&self) -> Option<String> {
        if self.runs.is_stopping() {
            return Some("stopping".to_owned());
        }
        if let Some(why) = self.runs.lifecycle.failure() {
            return Some(format!("failed: {why}"));
        }
        if !self.has_newest_documents() {
            return Some(match self.runs.health.degraded() {
                Some(why) => format!("{LEASE_EXPIRED}; {why}"),
                None => LEASE_EXPIRED.to_owned(),
            });
        }
        self.runs.health.degraded().map(|why| format!("degraded: {why}"))
    }

    /// Nothing is served from now on: what still runs for other nodes ends.
    pub fn end(&self) {
        self.runs.lifecycle.end();
        if let Some(cluster) = &self.cluster {
            cluster.close();
        }
    }

    /// Bytes of cached runs, waiting tasks, armed wake-ups, workers, messages, damaged runs.
    pub fn gauges(&self) -> [(&'static str, &'static str, u64); 6] {
        self.runs.gauges(self.matching.backlog(), self.workers.leases.len())
    }
}

/// The parts that follow the cluster.
struct Parts {
    dispatch: Arc<Dispatch>,
    access_keys: Arc<AccessKeys>,
    namespaces: Arc<NamespaceOperations>,
    batches: Arc<Batches>,
    verifications: Arc<Verifications>,
}

impl ClusterObserver for Parts {
    fn reload(&self) -> PortFuture<'_, Result<(), CallError>> {
        Box::pin(async {
            let runs = &self.dispatch.runs;
            runs.namespaces.reload(&*runs.store).await?;
            self.dispatch.load_queue_configs().await?;
            self.access_keys.load().await?;
            runs.scripts.clone().load(runs).await?;
            runs.load_deployments().await?;
            runs.load_endpoints().await?;
            self.namespaces.resume();
            let runs = runs.clone();
            tokio::spawn(async move { runs.scripts.clone().follow_schedules(&runs).await });
            Ok(())
        })
    }

    fn shards_taken(&self) -> PortFuture<'_, ()> {
        Box::pin(async { self.dispatch.runs.scripts.clone().follow_schedules(&self.dispatch.runs).await })
    }

    fn homes_changed(&self) {
        self.namespaces.resume();
        self.batches.follow_leader();
        self.verifications.follow_leader();
    }
}
