//! The port [`Owner`] of runs: answered from the topology, and by requests to the node that serves a workflow.

use std::collections::BTreeMap;

use prost::Message;
use segno_deployments::{DeploymentError, PinTimes, calls::Registration};
use segno_engine::outbox::OutboxMessage;
use segno_runs::{
    error::CallError,
    ports::{
        PortFuture,
        owner::{DeliveryResult, OwnPage, Owner, Place},
    },
    slots::WorkflowKey,
};
use segno_store::{NamespaceKey, OpenRun, OutboxKey, OutboxRow, RunKey, cluster::NodeId};
use tokio::time::{Duration, Instant};

use super::{
    link::RequestError,
    peers::Peers,
    wire::{
        DeleteRun, DeliverMessage, DeliveryOutcome, OutcomeKind, PinReport, RequestBody, ResponseBody, VersionQueue,
    },
};

/// How long the receiver's half of a message, or a deletion, may take.
const RESPONSE_MAX: Duration = Duration::from_secs(15);

/// The outcome of a message, from the response of the receiver's node.
fn outcome_of(outcome: DeliveryOutcome) -> Result<DeliveryResult, CallError> {
    match outcome.kind() {
        OutcomeKind::Done => Ok(DeliveryResult::Done),
        OutcomeKind::Started => Ok(DeliveryResult::Started(outcome.run_id)),
        OutcomeKind::Rejected => Ok(DeliveryResult::Rejected(outcome.cause)),
        OutcomeKind::NotYet => Err(CallError::NotReady("the message waits for another".to_owned())),
        OutcomeKind::Unknown => {
            Err(CallError::OutcomeUnknown("the response of another node is not known here".to_owned()))
        }
    }
}

impl Peers {
    /// Sends a change to the node that serves the workflow. The response is one of success.
    async fn change(&self, at: NodeId, body: RequestBody) -> Result<ResponseBody, CallError> {
        match self.request(at, body, Instant::now() + RESPONSE_MAX).await.map(|response| response.body) {
            Ok(ResponseBody::Moved(_)) => Err(CallError::Moved),
            // The text says more, but nodes do not tell each other whether a failed change was made.
            Ok(ResponseBody::Failed(why)) => Err(CallError::OutcomeUnknown(why)),
            Ok(body) => Ok(body),
            Err(RequestError::NotSent) => {
                Err(CallError::Unavailable("the node that serves the workflow cannot be reached".to_owned()))
            }
            Err(RequestError::Broken | RequestError::TimedOut) => {
                Err(CallError::OutcomeUnknown("the node that serves the workflow did not answer".to_owned()))
            }
        }
    }
}

fn unexpected() -> CallError {
    CallError::OutcomeUnknown("the response of another node is not known here".to_owned())
}

impl Owner for Peers {
    fn node(&self) -> u64 {
        self.topology.me.0
    }

    fn place(&self, workflow: &WorkflowKey) -> Place {
        self.topology.place(workflow)
    }

    fn home(&self, namespace: NamespaceKey, name: &str) -> Place {
        self.topology.home(namespace, name)
    }

    fn admit(&self, workflow: &WorkflowKey) -> Result<(), CallError> {
        self.topology.admit(workflow)
    }

    fn admit_when_available<'a>(
        &'a self,
        workflow: &'a WorkflowKey,
        refusal: CallError,
    ) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(self.topology.admit_when_available(workflow, refusal))
    }

    fn count_commit(&self, workflow: &WorkflowKey) {
        self.topology.count_commit(workflow);
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> OwnPage<OpenRun> {
        Some(self.topology.membership.open_runs_of(&self.topology.served(), after, limit))
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> OwnPage<OutboxRow> {
        Some(self.topology.membership.outbox_of(&self.topology.served(), after, limit))
    }

    fn deliver<'a>(
        &'a self,
        to: NodeId,
        message: &'a OutboxMessage,
        key: OutboxKey,
    ) -> PortFuture<'a, Result<DeliveryResult, CallError>> {
        Box::pin(async move {
            let OutboxKey { sender, sequence } = key;
            let body = DeliverMessage { sender: sender.0, sequence, message: message.encode_to_vec().into() };
            match self.change(to, RequestBody::Deliver(body)).await {
                Ok(ResponseBody::Outcome(outcome)) => outcome_of(outcome),
                Ok(_) => Err(unexpected()),
                // The sender's run is still here.
                Err(CallError::Moved) => {
                    Err(CallError::Unavailable("the receiver is moving to another node".to_owned()))
                }
                Err(error) => Err(error),
            }
        })
    }

    fn delete_run<'a>(
        &'a self,
        at: NodeId,
        workflow: &'a WorkflowKey,
        run_id: &'a str,
    ) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let body = DeleteRun {
                namespace: workflow.namespace.0,
                workflow_id: workflow.workflow_id.to_string(),
                run_id: run_id.to_owned(),
            };
            match self.change(at, RequestBody::Delete(body)).await? {
                ResponseBody::Done(_) => Ok(()),
                _ => Err(unexpected()),
            }
        })
    }

    fn register_poller<'a>(
        &'a self,
        leader: NodeId,
        namespace: NamespaceKey,
        registration: &'a Registration,
    ) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let request = VersionQueue::of(namespace, registration);
            match self.change(leader, RequestBody::RegisterPoller(request)).await? {
                ResponseBody::Done(_) => Ok(()),
                ResponseBody::LimitReached(text) => Err(DeploymentError::LimitReached(text).into()),
                _ => Err(unexpected()),
            }
        })
    }

    fn report_pins<'a>(
        &'a self,
        leader: NodeId,
        namespace: NamespaceKey,
        deployment: &'a str,
        times: &'a BTreeMap<String, PinTimes>,
    ) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let report = PinReport::of(namespace, deployment, times);
            match self.change(leader, RequestBody::ReportPins(report)).await? {
                ResponseBody::Done(_) => Ok(()),
                _ => Err(unexpected()),
            }
        })
    }

    fn publish_namespaces(&self) -> PortFuture<'_, ()> {
        Box::pin(async { drop(self.publish_changes(None).await) })
    }
}
