//! Requests and one-way messages of other nodes, carried out here.

use std::sync::Arc;

use prost::Message;
use segno_dispatch::Delivery;
use segno_engine::outbox::OutboxMessage;
use segno_runs::{error::CallError, ports::owner::DeliveryResult, slots::WorkflowKey};
use segno_store::{NamespaceKey, OutboxKey, RunKey, cluster::NodeId, sabotage};

use super::{
    Cluster,
    accept::RequestHandler,
    offers::queue_of,
    wire::{
        DeleteRun, DeliverMessage, DeliveryOutcome, Notification, NotificationBody, Offer, OutcomeKind, Request,
        RequestBody, ResponseBody,
    },
};

fn failed(error: &CallError) -> ResponseBody {
    match error {
        CallError::Moved => ResponseBody::Moved(Default::default()),
        error => ResponseBody::Failed(error.to_string()),
    }
}

impl RequestHandler for Cluster {
    fn take_offer(&self, offer: Offer) -> (ResponseBody, bool) {
        self.accept_offer(offer)
    }

    async fn respond(self: Arc<Self>, from: NodeId, request: Request) -> (ResponseBody, Option<Delivery>) {
        let body = match request.body {
            Some(RequestBody::Call(call)) => return self.make_call(call).await,
            Some(RequestBody::Take(take)) => return self.give_task(from, take).await,
            Some(RequestBody::Offer(offer)) => self.accept_offer(offer).0,
            Some(RequestBody::Deliver(message)) => self.deliver_here(message).await,
            Some(RequestBody::Reload(_)) => match self.observer.reload().await {
                Ok(()) => ResponseBody::Done(Default::default()),
                Err(error) => failed(&error),
            },
            Some(RequestBody::OfferAgain(queue)) => {
                if let Some(key) = queue_of(queue) {
                    tokio::spawn(async move { self.offer_queue_again(&key).await });
                }
                ResponseBody::Done(Default::default())
            }
            Some(RequestBody::Delete(delete)) => self.delete_here(delete).await,
            Some(RequestBody::RegisterPoller(request)) => self.register_here(request).await,
            Some(RequestBody::QueueUse(request)) => self.queue_use_here(request),
            Some(RequestBody::ReportPins(report)) => self.note_pins_here(report).await,
            Some(RequestBody::NoteWaits(waits)) => self.note_waits_here(waits).await,
            None => ResponseBody::Failed("the node does not know this request".to_owned()),
        };
        (body, None)
    }

    fn notified(self: &Arc<Self>, notification: Notification) {
        match notification.body {
            Some(NotificationBody::WorkerSighting(sighting)) => self.note_sighting(sighting),
            Some(NotificationBody::ConnectionClosed(closed)) => self.note_closed(closed),
            Some(NotificationBody::PollReport(report)) => self.note_polls(report),
            Some(NotificationBody::QueueLimited(queue)) => self.note_limit(queue),
            Some(NotificationBody::MapChanged(_)) => {
                self.topology.membership.check_map();
                if sabotage::is_on("ignore-revisions") {
                    // The fault that harnesses must catch: documents are read again only when another node says so.
                    let observer = self.observer.clone();
                    tokio::spawn(async move { observer.reload().await });
                }
            }
            None => {}
        }
    }

    fn disconnected(&self, from: NodeId) {
        self.forget_workers_of(from);
    }
}

impl Cluster {
    /// Carries out the receiver's half of a message between runs.
    async fn deliver_here(&self, request: DeliverMessage) -> ResponseBody {
        let Ok(message) = OutboxMessage::decode(request.message) else {
            return ResponseBody::Failed("the message cannot be read".to_owned());
        };
        let done = |kind: OutcomeKind| DeliveryOutcome { kind: kind as i32, ..Default::default() };
        // A namespace that is gone has no receivers.
        let Some(receiver) = self.runs.receiver_of(&message) else {
            return ResponseBody::Outcome(done(OutcomeKind::Done));
        };
        let key = OutboxKey { sender: RunKey(request.sender), sequence: request.sequence };
        ResponseBody::Outcome(match self.runs.receive(&receiver, &message, key, false).await {
            Ok(DeliveryResult::Done | DeliveryResult::Removed) => done(OutcomeKind::Done),
            Ok(DeliveryResult::Started(run_id)) => DeliveryOutcome { run_id, ..done(OutcomeKind::Started) },
            Ok(DeliveryResult::Rejected(cause)) => DeliveryOutcome { cause, ..done(OutcomeKind::Rejected) },
            Err(CallError::NotReady(_) | CallError::StartRefused(_)) => done(OutcomeKind::NotYet),
            Err(error) => return failed(&error),
        })
    }

    /// Deletes a run of a workflow that is served here.
    async fn delete_here(&self, delete: DeleteRun) -> ResponseBody {
        let workflow = WorkflowKey::new(NamespaceKey(delete.namespace), &delete.workflow_id);
        match self.runs.delete_run(&workflow, &delete.run_id).await {
            Ok(()) | Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => {
                ResponseBody::Done(Default::default())
            }
            Err(error) => failed(&error),
        }
    }
}
