//! Tasks of runs on their way to workers: offered to queues, started for polls, given back; and queries.
//!
//! Above the runs, the queues and the workers, all of which it holds. The runs reach it through the port [`Effects`].

mod commands;
mod complete;
mod delivery;
mod direct_calls;
mod direct_queries;
mod nexus;
mod offers;
mod polls;
mod query;
mod queue_config;
mod queue_uses;
mod refill;
mod remote_queues;
mod script_requests;
mod starts;
mod tasks;
mod trials;
mod version_waits;
mod versions;

use std::sync::{Arc, OnceLock, Weak};

use direct_calls::DirectCalls;
use direct_queries::DirectQueries;
use script_requests::ScriptRequests;
use segno_engine::{ActivityStop, Run};
use segno_matching::Matching;
use segno_runs::{
    ports::{Effects, PortFuture},
    runs::Runs,
};
use segno_store::NamespaceKey;
use segno_workers::{OtherNodes, Workers};

pub use complete::CompletedTask;
pub use delivery::Delivery;
pub use delivery::HeldWork;
pub use direct_calls::{CallAnswer, DIRECT_CALLS_MAX, DirectCall, DirectCallError, StartedCall};
pub use nexus::{StartedNexusTask, StartedRequest};
pub use offers::{QueueGauge, VersionGauge};
pub use polls::{Poll, WorkerTask};
pub use refill::run as refill;
pub use remote_queues::{ForwardedCall, PollOutcome};
pub use remote_queues::{RemoteHold, RemoteQueues};
pub use tasks::{StartedActivity, StartedTask};
pub use trials::{TrialCandidate, TrialFailure, TrialOutcome, failure_type, trial_task_events};
pub use version_waits::run as version_waits;
pub use versions::route_of;

/// Hands the tasks of runs to workers.
pub struct Dispatch {
    /// The runs of this node.
    pub runs: Arc<Runs>,
    /// The queues whose home is this node.
    pub matching: Arc<Matching>,
    /// The workers of this node's runs.
    pub workers: Arc<Workers>,
    /// Queries whose answers callers of this node wait for.
    pub direct_queries: DirectQueries,
    /// Direct calls to handlers of Nexus operations whose callers wait at this node.
    pub direct_calls: DirectCalls,
    /// Requests to scripts that handle Nexus operations.
    script_requests: ScriptRequests,
    /// One configuration of a queue is changed at a time.
    configuring: tokio::sync::Mutex<()>,
    /// Queues and polls of other nodes. Set when the node starts, if there can be others.
    remote_queues: OnceLock<Weak<dyn RemoteQueues>>,
}

impl Dispatch {
    /// The part that hands tasks of these runs to workers. From now on it carries out what follows from transitions, and says who uses
    /// queues.
    pub fn new(runs: Arc<Runs>, matching: Arc<Matching>, workers: Arc<Workers>) -> Arc<Self> {
        let (direct_queries, direct_calls) = (DirectQueries::default(), DirectCalls::default());
        let dispatch = Arc::new(Self {
            runs,
            matching,
            workers,
            direct_queries,
            direct_calls,
            script_requests: ScriptRequests::default(),
            configuring: tokio::sync::Mutex::default(),
            remote_queues: OnceLock::new(),
        });
        let effects: Weak<Self> = Arc::downgrade(&dispatch);
        dispatch.runs.effects.set(effects.clone());
        dispatch.runs.queue_uses.set(effects);
        dispatch
    }

    /// Connects the queues, polls and workers of other nodes.
    pub fn set_remote_queues(&self, remote: &Arc<impl RemoteQueues>) {
        let queues: Arc<dyn RemoteQueues> = remote.clone();
        let workers: Arc<dyn OtherNodes> = remote.clone();
        let _ = self.remote_queues.set(Arc::downgrade(&queues));
        self.workers.set_other_nodes(Arc::downgrade(&workers));
    }

    /// Queues and polls of other nodes; `None` if there can be none, or this node has ended.
    fn remote_queues(&self) -> Option<Arc<dyn RemoteQueues>> {
        self.remote_queues.get()?.upgrade()
    }

    /// The node stops: polls end empty, and the loops see that it stops.
    pub fn stop(&self) {
        self.matching.dismiss_all();
        self.direct_calls.end();
        self.workers.end_polls(&|_| true);
        self.workers.leases.earlier.notify_one();
        self.matching.refills.wake();
    }
}

impl Effects for Dispatch {
    fn offer_workflow_task(&self, run: &Run) {
        self.queue_workflow_task(run);
    }

    fn offer_activity(&self, run: &Run, scheduled_event_id: i64) {
        self.queue_activity(run, scheduled_event_id);
    }

    fn offer_nexus_request(&self, run: &Run, scheduled_event_id: i64) {
        self.queue_nexus_request(run, scheduled_event_id);
    }

    fn endpoint_moved(self: Arc<Self>, endpoint_id: &str) {
        self.offer_requests_of(endpoint_id.to_owned());
    }

    fn stop_activity(&self, run: &Run, stop: ActivityStop) {
        self.workers.send_stop(run, stop);
    }

    fn note_holds(&self, before: Option<&Run>, after: &Run, changed: Option<&[i64]>) {
        let clock = &*self.runs.clock;
        match changed {
            Some(activities) => self.workers.leases.note_changed_holds(before, after, activities, clock),
            None => self.workers.leases.note_holds(before, after, clock),
        }
    }

    fn release_holds(&self, run: &Run) {
        self.workers.leases.release_holds(run, None);
    }

    fn restore_holds(&self, run: &Run) {
        self.workers.leases.restore_holds(run, self.runs.clock.monotonic());
    }

    fn end_polls(&self, namespace: NamespaceKey) {
        self.matching.forget_namespace(namespace);
        self.workers.end_polls(&|queue| queue.namespace == namespace);
    }

    fn forget_namespace(&self, namespace: NamespaceKey) {
        self.end_polls(namespace);
        self.workers.forget_namespace(namespace);
    }

    fn offers_settle(&self) -> PortFuture<'_, ()> {
        Box::pin(async {
            if let Some(remote) = self.remote_queues() {
                remote.offers_settle().await;
            }
        })
    }

    fn routing_changed(&self, namespace: NamespaceKey) {
        self.matching.routing_changed(namespace);
    }

    fn clock_moved(&self) {
        self.workers.leases.earlier.notify_one();
    }
}
