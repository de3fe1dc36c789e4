//! What other nodes ask and tell.

use std::sync::Arc;

use prost::Message;
use segno_engine::outbox::OutboxMessage;
use segno_store::{NamespaceKey, OutboxKey, RunKey, cluster::NodeId};
use tokio::time::Instant;

use super::{
    Place,
    wire::{Ask, Delete, News, Outcome, OutcomeKind, Question, Receive, Reply, Told},
};
use crate::{dispatch::Delivery, error::CallError, outbox::Arrived, runs::Runs, sabotage, slots::WorkflowKey};

/// How long the receiver's half of a message may take.
const RECEIVE_MAX: std::time::Duration = std::time::Duration::from_secs(15);

fn failed(error: &CallError) -> Reply {
    match error {
        CallError::Moved => Reply::Moved(Default::default()),
        error => Reply::Failed(error.to_string()),
    }
}

/// What became of a message, from what the receiver's owner said.
pub(crate) fn outcome_of(outcome: Outcome) -> Result<Arrived, CallError> {
    match outcome.kind() {
        OutcomeKind::Done => Ok(Arrived::Done),
        OutcomeKind::Started => Ok(Arrived::Started(outcome.run_id)),
        OutcomeKind::NotTaken => Ok(Arrived::NotTaken(outcome.cause)),
        OutcomeKind::NotYet => Err(CallError::NotReady("the message waits for another".to_owned())),
        OutcomeKind::Unknown => Err(CallError::Unavailable("another node answers in words not known here".to_owned())),
    }
}

impl Runs {
    /// Answers a question of another node. What the answer holds is given back unless the asker says that it arrived.
    pub(super) async fn asked(self: &Arc<Self>, from: NodeId, ask: Ask) -> (Reply, Option<Delivery>) {
        let Some(cluster) = self.cluster.clone() else { return (Reply::Moved(Default::default()), None) };
        let reply = match ask.question {
            Some(Question::Call(call)) => return cluster.make_call(call).await,
            Some(Question::Take(take)) => return self.give_task(from, take).await,
            Some(Question::Offer(offer)) => self.take_offer(offer).0,
            Some(Question::Receive(receive)) => self.receive_from(receive).await,
            Some(Question::Reload(_)) => match self.reload().await {
                Ok(()) => Reply::Done(Default::default()),
                Err(error) => failed(&error),
            },
            Some(Question::OfferAgain(queue)) => {
                if let Some(key) = super::offers::queue_of(queue) {
                    let node = self.clone();
                    tokio::spawn(async move { node.offer_queue_again(&key).await });
                }
                Reply::Done(Default::default())
            }
            Some(Question::Delete(delete)) => self.delete_for(delete).await,
            None => Reply::Failed("the node does not know this question".to_owned()),
        };
        (reply, None)
    }

    async fn receive_from(self: &Arc<Self>, receive: Receive) -> Reply {
        let Ok(message) = OutboxMessage::decode(receive.message) else {
            return Reply::Failed("the message cannot be read".to_owned());
        };
        let done = |kind: OutcomeKind| Outcome { kind: kind as i32, ..Default::default() };
        // A namespace that is gone has no receivers.
        let Some(receiver) = self.receiver_of(&message) else { return Reply::Outcome(done(OutcomeKind::Done)) };
        let key = OutboxKey { sender: RunKey(receive.sender), sequence: receive.sequence };
        match self.receive(&receiver, &message, key, false).await {
            Ok(Arrived::Done | Arrived::Removed) => Reply::Outcome(done(OutcomeKind::Done)),
            Ok(Arrived::Started(run_id)) => Reply::Outcome(Outcome { run_id, ..done(OutcomeKind::Started) }),
            Ok(Arrived::NotTaken(cause)) => Reply::Outcome(Outcome { cause, ..done(OutcomeKind::NotTaken) }),
            Err(CallError::NotReady(_) | CallError::StartRefused(_)) => Reply::Outcome(done(OutcomeKind::NotYet)),
            Err(error) => failed(&error),
        }
    }

    /// Lets the owner of a message's receiver carry out the receiver's half.
    pub(crate) async fn receive_elsewhere(
        &self,
        place: Place,
        message: &OutboxMessage,
        key: OutboxKey,
    ) -> Result<Arrived, CallError> {
        let moving = || CallError::Unavailable("the receiver is moving from one node to another".to_owned());
        let (Some(cluster), Place::There(owner)) = (&self.cluster, place) else { return Err(moving()) };
        let receive = Receive { sender: key.sender.0, sequence: key.sequence, message: message.encode_to_vec().into() };
        let asked = cluster.ask(owner, Question::Receive(receive), Instant::now() + RECEIVE_MAX).await;
        match asked.map(|answered| answered.reply) {
            Ok(Reply::Outcome(outcome)) => outcome_of(outcome),
            Ok(Reply::Failed(why)) => Err(CallError::Unavailable(why)),
            Ok(_) => Err(moving()),
            // Receivers recognise what they got before.
            Err(_) => Err(CallError::Unavailable("the receiver's node did not answer".to_owned())),
        }
    }

    async fn delete_for(self: &Arc<Self>, delete: Delete) -> Reply {
        let workflow = WorkflowKey::new(NamespaceKey(delete.namespace), &delete.workflow_id);
        match self.delete_run(&workflow, &delete.run_id).await {
            Ok(()) | Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => {
                Reply::Done(Default::default())
            }
            Err(error) => failed(&error),
        }
    }

    /// Deletes a run where it is.
    pub(crate) async fn delete_anywhere(
        self: &Arc<Self>,
        workflow: &WorkflowKey,
        run_id: &str,
    ) -> Result<(), CallError> {
        let (cluster, owner) = match (&self.cluster, self.place(workflow)) {
            (Some(cluster), Place::There(owner)) => (cluster, owner),
            (Some(_), Place::Nowhere) => return Err(CallError::Moved),
            _ => return self.delete_run(workflow, run_id).await,
        };
        let delete = Delete {
            namespace: workflow.namespace.0,
            workflow_id: workflow.workflow_id.to_string(),
            run_id: run_id.to_owned(),
        };
        let asked = cluster.ask(owner, Question::Delete(delete), Instant::now() + RECEIVE_MAX).await;
        match asked.map(|answered| answered.reply) {
            Ok(Reply::Done(_)) => Ok(()),
            Ok(Reply::Failed(why)) => Err(CallError::Unavailable(why)),
            Ok(_) => Err(CallError::Moved),
            Err(_) => Err(CallError::Unavailable("the run's node did not answer".to_owned())),
        }
    }

    /// Takes note of what another node tells.
    pub(super) fn told(self: &Arc<Self>, _from: NodeId, news: News) {
        match news.told {
            Some(Told::Seen(seen)) => self.seen_elsewhere(seen),
            Some(Told::Closed(closed)) => self.closed_elsewhere(closed),
            Some(Told::Polls(polls)) => self.polls_elsewhere(polls),
            Some(Told::Limited(queue)) => self.limited_elsewhere(queue),
            Some(Told::Map(_)) => {
                if let Some(cluster) = &self.cluster {
                    cluster.membership.look();
                }
                if sabotage::is_on("ignore-revisions") {
                    // The fault that harnesses must catch: documents are read again only when another node says so.
                    let node = self.clone();
                    tokio::spawn(async move { node.reload().await });
                }
            }
            None => {}
        }
    }
}
