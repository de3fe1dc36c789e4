//! A node: its parts, started together and connected. What they do is theirs.

use std::{
    ops::Deref,
    sync::{Arc, Weak},
};

use segno_store::{Storage, Store};
use tokio::net::TcpListener;

use crate::{
    clock::Clock,
    cluster::{Cluster, ClusterObserver, LEASE_EXPIRED, NodeIdentity, Peers},
    error::CallError,
    local::Local,
    options::NodeOptions,
    ports::{
        PortFuture,
        elsewhere::Elsewhere,
        owner::{Alone, Owner},
    },
    runs::Runs,
};

/// A node of Segno.
pub struct Node {
    /// The runs that this node serves.
    pub runs: Arc<Runs>,
    /// The other nodes on the same storage; `None` if there can be none.
    pub cluster: Option<Arc<Cluster>>,
}

// Until callers name the part that they mean.
impl Deref for Node {
    type Target = Arc<Runs>;

    fn deref(&self) -> &Arc<Runs> {
        &self.runs
    }
}

impl Node {
    /// Starts a node on a store in this process: recovers what is stored and begins to work.
    pub async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
    ) -> Result<Arc<Self>, CallError> {
        Self::start_on(Arc::new(Local::new(store)), clock, options).await
    }

    /// Starts a node on any storage.
    pub async fn start_on(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
    ) -> Result<Arc<Self>, CallError> {
        Self::start_among(storage, clock, options, None).await
    }

    /// Starts a node on any storage, reached by other nodes through a listener. They know it by the certificate of its
    /// identity, which is in the database.
    pub async fn start_among(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
        listener: Option<(TcpListener, NodeIdentity)>,
    ) -> Result<Arc<Self>, CallError> {
        let (listener, identity) =
            listener.map_or((None, None), |(listener, identity)| (Some(listener), Some(Arc::new(identity))));
        let peers = Peers::of(&*storage, identity);
        let owner = peers.clone().map_or_else(|| Arc::new(Alone) as Arc<dyn Owner>, |peers| peers);
        let runs = Runs::open(storage, clock, options, owner).await?;
        let cluster = peers.map(|peers| {
            let cluster = Cluster::new(runs.clone(), peers, Arc::new(Parts(runs.clone())));
            let elsewhere: Weak<dyn Elsewhere> = Arc::downgrade(&(cluster.clone() as Arc<dyn Elsewhere>));
            runs.set_elsewhere(elsewhere);
            cluster
        });
        if let (Some(listener), Some(cluster)) = (listener, &cluster) {
            cluster.accept_nodes(listener);
        }
        runs.load_documents().await?;
        match &cluster {
            None => runs.recover().await?,
            Some(cluster) => cluster.join().await,
        }
        runs.start_loops();
        Ok(Arc::new(Self { runs, cluster }))
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
        if self.is_stopping() {
            return Some("stopping".to_owned());
        }
        if let Some(why) = self.failure() {
            return Some(format!("failed: {why}"));
        }
        if !self.has_newest_documents() {
            return Some(match self.health.degraded() {
                Some(why) => format!("{LEASE_EXPIRED}; {why}"),
                None => LEASE_EXPIRED.to_owned(),
            });
        }
        self.health.degraded().map(|why| format!("degraded: {why}"))
    }

    /// Nothing is served from now on: what still runs for other nodes ends.
    pub fn end(&self) {
        self.runs.end();
        if let Some(cluster) = &self.cluster {
            cluster.close();
        }
    }
}

/// The parts that follow the cluster.
struct Parts(Arc<Runs>);

impl ClusterObserver for Parts {
    fn reload(&self) -> PortFuture<'_, Result<(), CallError>> {
        Box::pin(async {
            let runs = &self.0;
            runs.with_registry(|runs| runs.namespaces.reload(&*runs.store)).await?;
            runs.load_queue_configs().await?;
            runs.load_access_keys().await?;
            runs.load_flows().await?;
            runs.retention_changed.notify_one();
            runs.resume_deletions();
            let runs = runs.clone();
            tokio::spawn(async move { runs.follow_schedules().await });
            Ok(())
        })
    }

    fn shards_taken(&self) -> PortFuture<'_, ()> {
        Box::pin(self.0.follow_schedules())
    }

    fn homes_changed(&self) {
        self.0.retention_changed.notify_one();
        self.0.resume_deletions();
        self.0.lead_batches();
    }
}
