//! What is on its way to a worker, and its return if the worker never gets it.
//!
//! What leaves a queue or is started for a worker is held by a [`Delivery`] until the answer that carries it is
//! written. A delivery that is dropped before that (the caller left, a read failed, the connection broke) returns what
//! it holds: a task that was not started goes back to its queue with its priority, one that was started is given back.

use std::sync::{Arc, Mutex, Weak};

use segno_environment::lock::lock;
use segno_matching::{QueueKey, QueuedTask};
use segno_store::sabotage;
use segno_workers::HomeOffer;
use tokio::runtime::Handle;

use super::{
    Dispatch,
    nexus::HeldRequest,
    remote_queues::RemoteHold,
    tasks::{HeldActivity, HeldTask},
};

/// The work that a delivery returns when it fails.
#[derive(Debug)]
pub enum HeldWork {
    /// Nothing: it was delivered, or no longer exists.
    Nothing,
    /// A task that was taken from its queue and not started yet.
    Queued(QueueKey, QueuedTask),
    /// A task that was matched with a poll of its own node and is not started yet.
    Matched(Box<HomeOffer>),
    /// A started workflow task, or a query.
    Task(HeldTask),
    /// A started activity.
    Activity(HeldActivity),
    /// A request to the handler of a Nexus operation.
    Request(HeldRequest),
    /// A direct call to a handler.
    Call(u64),
    /// Work of another node, which gets it back unless it is delivered.
    Remote(Box<dyn RemoteHold>),
    /// The work in the reply to a completed workflow task: the next task, and activities.
    Reply(Option<HeldTask>, Vec<HeldActivity>),
}

/// Holds what is on its way to a worker. Clones share it; the last one that is dropped returns what was not delivered.
#[derive(Clone)]
pub struct Delivery(Arc<InTransit>);

struct InTransit {
    dispatch: Weak<Dispatch>,
    held: Mutex<HeldWork>,
}

impl Delivery {
    /// A delivery that returns this unless it succeeds.
    pub fn new(dispatch: &Arc<Dispatch>, held: HeldWork) -> Self {
        Self(Arc::new(InTransit { dispatch: Arc::downgrade(dispatch), held: Mutex::new(held) }))
    }

    /// Holds what another node gives back.
    pub fn remote(held: Box<dyn RemoteHold>) -> Self {
        Self(Arc::new(InTransit { dispatch: Weak::new(), held: Mutex::new(HeldWork::Remote(held)) }))
    }

    /// Replaces the held work.
    pub fn hold(&self, held: HeldWork) {
        // What another node held until now was started: it is not to be offered again.
        if let HeldWork::Remote(before) = std::mem::replace(&mut *lock(&self.0.held), held) {
            before.delivered();
        }
    }

    /// The worker has it, or does not need it.
    pub fn delivered(&self) {
        let held = std::mem::replace(&mut *lock(&self.0.held), HeldWork::Nothing);
        if let HeldWork::Remote(held) = held {
            held.delivered();
        }
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Delivery").field(&*lock(&self.0.held)).finish()
    }
}

impl Drop for InTransit {
    fn drop(&mut self) {
        let held = std::mem::replace(self.held.get_mut().unwrap_or_else(|e| e.into_inner()), HeldWork::Nothing);
        // What is held elsewhere is given back there when it is dropped.
        if matches!(held, HeldWork::Nothing | HeldWork::Remote(_)) || sabotage::is_on("lose-undelivered") {
            return;
        }
        // A node that is gone leaves everything to the next start.
        let Some(dispatch) = self.dispatch.upgrade() else { return };
        if let HeldWork::Queued(queue, queued) = held {
            dispatch.matching.take_back(&queue, queued);
        } else if let HeldWork::Matched(offer) = held {
            // The home of its queue finds another worker.
            if Handle::try_current().is_ok()
                && let Some(remote) = dispatch.remote_queues()
            {
                remote.offer_at_home(*offer);
            }
        } else if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { dispatch.take_undelivered(held).await });
        }
    }
}

impl Dispatch {
    async fn take_undelivered(self: &Arc<Self>, held: HeldWork) {
        match held {
            HeldWork::Nothing | HeldWork::Queued(..) | HeldWork::Matched(_) | HeldWork::Remote(_) => {}
            HeldWork::Task(task) => self.give_back_workflow_task(&task).await,
            HeldWork::Activity(activity) => self.give_back_activity(&activity).await,
            HeldWork::Request(request) => self.give_back_request(&request).await,
            HeldWork::Call(call) => self.direct_calls.give_back(call),
            HeldWork::Reply(task, activities) => {
                if let Some(task) = task {
                    self.give_back_workflow_task(&task).await;
                }
                for activity in &activities {
                    self.give_back_activity(activity).await;
                }
            }
        }
    }
}
