//! Requests to the handlers of Nexus operations: offered to the queue of their endpoint, taken by workers, given back.
//!
//! The queue is one of the namespace of the handler, the run may be of another one. Taking a request writes nothing; see
//! [`segno_engine::nexus`].

use std::sync::Arc;

use segno_deployments::hash_of;
use segno_engine::{
    Run,
    nexus::{self, RequestRef},
    script,
    state::nexus::Operation,
};
use segno_environment::{finish::finish, metrics::count};
use segno_matching::{PRIORITY_DEFAULT, QueueKey, QueueKind, QueuePlace, TaskOffer, TaskRoute};
use segno_proto::{common::WorkerVersionStamp, events::NexusOperationScheduledEventAttributes};
use segno_runs::{
    NamespaceName, TakenRequest,
    endpoints::{Endpoint, EndpointTarget},
    error::CallError,
    slots::{RunSelector, WorkflowKey},
};
use segno_store::{NamespaceKey, OpenRun, RunKey};

use super::{
    Dispatch,
    delivery::{Delivery, HeldWork},
    direct_calls::StartedCall,
    polls::{Poll, WorkerTask},
};

/// Open runs looked at with one read.
const PAGE: usize = 1000;

/// A request that a worker may have.
#[derive(Clone, Debug)]
pub struct StartedRequest {
    /// The run.
    pub run: Arc<Run>,
    /// The operation.
    pub operation: Operation,
    /// The attributes with which it was scheduled.
    pub scheduled: NexusOperationScheduledEventAttributes,
    /// The attempt.
    pub request: RequestRef,
    /// The endpoint, as it is named now.
    pub endpoint: String,
    /// Gives it back unless it is delivered.
    pub delivery: Delivery,
}

/// A task of the handlers of Nexus operations, taken by a worker.
#[derive(Clone, Debug)]
pub enum StartedNexusTask {
    /// The request of an operation of a run.
    Request(Box<StartedRequest>),
    /// A direct call.
    Call(Box<StartedCall>),
}

/// A request that is on its way to a worker.
#[derive(Clone, Debug)]
pub struct HeldRequest {
    run: Arc<Run>,
    request: RequestRef,
}

/// Where the request of an operation goes.
enum Destination {
    /// To workers that poll a queue.
    Queue(QueueKey),
    /// The server carries it out: its handler is a script, or the server itself.
    Server,
    /// Its endpoint has a URL.
    External(Arc<Endpoint>),
    /// Its endpoint does not exist.
    Gone,
}

impl WorkerTask for StartedNexusTask {
    async fn begin(
        dispatch: &Arc<Dispatch>,
        poll: &Poll,
        _: Option<WorkerVersionStamp>,
        offer: TaskOffer,
        delivery: Delivery,
    ) -> Result<Option<Self>, CallError> {
        let (run, request) = match offer {
            TaskOffer::Call { id } => {
                return Ok(dispatch.start_call(id, delivery).map(|call| Self::Call(Box::new(call))));
            }
            TaskOffer::Nexus { run, scheduled_event_id, stamp, cancel } => {
                (run, RequestRef { scheduled_event_id, cancel, stamp })
            }
            _ => return Ok(None),
        };
        let (dispatch, queue) = (dispatch.clone(), poll.queue.clone());
        finish(async move {
            let started = dispatch.start_request(run, request, &queue, &delivery).await;
            let started = dispatch.unless_over(run, started, &delivery).await?;
            Ok(started.map(|started| Self::Request(Box::new(started))))
        })
        .await
    }
}

impl Dispatch {
    fn destination(&self, operation: &Operation) -> Destination {
        if operation.is_of_server() {
            return Destination::Server;
        }
        match self.runs.endpoints.find(&operation.endpoint_id, &operation.endpoint) {
            None => Destination::Gone,
            Some(endpoint) => self.queue_of(&endpoint),
        }
    }

    fn queue_of(&self, endpoint: &Arc<Endpoint>) -> Destination {
        match &endpoint.target {
            Some(EndpointTarget::Worker(target)) => {
                match self.runs.namespaces.find(&NamespaceName::Id(target.namespace_id.clone())) {
                    Some(_) if target.queue == script::QUEUE => Destination::Server,
                    Some(namespace) => Destination::Queue(QueueKey {
                        namespace: namespace.key,
                        kind: QueueKind::Nexus,
                        name: target.queue.clone(),
                    }),
                    None => Destination::Gone,
                }
            }
            Some(EndpointTarget::External(_)) => Destination::External(endpoint.clone()),
            None => Destination::Gone,
        }
    }

    /// Whether the request of an operation goes to a queue.
    pub(super) fn is_for(&self, operation: &Operation, queue: &QueueKey) -> bool {
        matches!(self.destination(operation), Destination::Queue(key) if key == *queue)
    }

    /// Puts the open request of an operation on the queue of its endpoint, or lets it go where its handler is otherwise.
    pub(super) fn queue_nexus_request(&self, run: &Run, scheduled_event_id: i64) {
        let Some(operation) = run.state().operations.get(&scheduled_event_id) else { return };
        let Some((open, cancel)) = operation.open_request() else { return };
        let request = RequestRef { scheduled_event_id, cancel, stamp: open.stamp };
        match self.destination(operation) {
            Destination::Queue(key) => {
                let run_key = RunKey(run.info.run_key);
                let offer = TaskOffer::Nexus { run: run_key, scheduled_event_id, stamp: open.stamp, cancel };
                let route = TaskRoute { pinned: None, hash: hash_of(&operation.request_id), uses_ramp: false };
                self.offer(key, offer, QueuePlace { priority: PRIORITY_DEFAULT, fairness: None, route }, run);
            }
            Destination::Server => self.serve_request(RunKey(run.info.run_key), request),
            Destination::External(endpoint) => {
                let (namespace, run_key) = (NamespaceKey(run.info.namespace_key), RunKey(run.info.run_key));
                if let Some(sender) = self.runs.http_sender.get() {
                    sender.send_request(namespace, run_key, request, &endpoint);
                }
            }
            Destination::Gone => self.refuse_request(run, request, "endpoint not registered"),
        }
    }

    /// Ends a request that cannot be made.
    fn refuse_request(&self, run: &Run, request: RequestRef, why: &'static str) {
        let runs = self.runs.clone();
        let key = WorkflowKey::new(NamespaceKey(run.info.namespace_key), &run.info.workflow_id);
        let selector = RunSelector::run(run.info.run_id.clone());
        tokio::spawn(async move {
            let refuse = move |run: &Run, context| nexus::refuse(run, context, request, why);
            if let Err(error) = runs.apply(&key, &selector, refuse).await {
                tracing::debug!(%error, "a request of a Nexus operation was over before it was refused");
            }
        });
    }

    /// Offers the requests of an endpoint anew whose handlers are elsewhere now, or gone.
    pub(super) fn offer_requests_of(self: &Arc<Self>, endpoint_id: String) {
        let dispatch = self.clone();
        tokio::spawn(async move {
            if let Err(error) = dispatch.offer_open_requests(&endpoint_id).await {
                tracing::warn!(%error, "requests of a Nexus endpoint that has changed were not offered anew");
            }
        });
    }

    async fn offer_open_requests(&self, endpoint_id: &str) -> Result<(), CallError> {
        let mut after = None;
        loop {
            let page: Vec<OpenRun> = self.runs.own_open_runs(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.key);
            let now = self.runs.clock.now();
            for open in page {
                // A request whose back-off ended since the last commit, or that was given back, is not marked as waiting.
                let may_wait = open.dispatchable || open.wake_at.is_some_and(|at| at <= now);
                let run = match self.runs.slots.run_in_memory(open.key) {
                    Some(run) => run,
                    None if !may_wait => continue,
                    None => match self.runs.load_run(open.key).await? {
                        Some(current) => current.run.clone(),
                        None => continue,
                    },
                };
                let waiting = run.state().operations.values();
                let waiting =
                    waiting.filter(|operation| operation.endpoint_id == endpoint_id && operation.is_waiting(now));
                waiting.for_each(|operation| self.queue_nexus_request(&run, operation.scheduled_event_id));
            }
        }
    }

    async fn start_request(
        self: &Arc<Self>,
        run: RunKey,
        request: RequestRef,
        polled: &QueueKey,
        delivery: &Delivery,
    ) -> Result<Option<StartedRequest>, CallError> {
        let Some(TakenRequest { operation, current }) = self.runs.take_request(run, request).await? else {
            return Ok(None);
        };
        delivery.hold(HeldWork::Request(HeldRequest { run: current.run.clone(), request }));
        let endpoint = self.runs.endpoints.find(&operation.endpoint_id, &operation.endpoint);
        let endpoint = endpoint.filter(|endpoint| match self.queue_of(endpoint) {
            Destination::Queue(queue) => queue == *polled,
            _ => false,
        });
        let Some(endpoint) = endpoint else {
            // The endpoint changed while the request waited here: it is offered where its handlers are now.
            self.give_back_request(&HeldRequest { run: current.run.clone(), request }).await;
            return Ok(None);
        };
        let scheduled = self.runs.scheduled_operation(&current, request.scheduled_event_id).await?;
        self.runs.metrics.nexus_requests_by_endpoint.count([&current.run.info.namespace, &endpoint.name]);
        let (run, endpoint, delivery) = (current.run.clone(), endpoint.name.clone(), delivery.clone());
        Ok(Some(StartedRequest { run, operation, scheduled, request, endpoint, delivery }))
    }

    /// The worker's connection was gone before it got the request.
    pub(super) async fn give_back_request(self: &Arc<Self>, held: &HeldRequest) {
        count(&self.runs.metrics.tasks_given_back);
        let info = &held.run.info;
        let key = WorkflowKey::new(NamespaceKey(info.namespace_key), &info.workflow_id);
        let (selector, request) = (RunSelector::run(info.run_id.clone()), held.request);
        let call = move |run: &Run, context| nexus::give_back(run, context, request);
        self.repeat(|| self.runs.apply(&key, &selector, call)).await;
    }
}
