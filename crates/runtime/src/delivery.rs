//! What is on its way to a worker, and its return if the worker never gets it.
//!
//! Whatever leaves a queue or is started for a worker is held by a [`Delivery`] until the answer that carries it is
//! written. A delivery that is dropped before that (the caller left, a read failed, the connection broke) returns what
//! it holds: a task that was not started goes back to its queue with its priority, one that was started is given back.

use std::sync::{Arc, Mutex, Weak};

use tokio::runtime::Handle;

use crate::{
    ports::elsewhere::{HomeOffer, RemoteHold},
    queues::{QueueKey, Queued},
    runs::Runs,
    slots::lock,
    tasks::{HeldActivity, HeldTask},
};

/// What a delivery returns when it fails.
#[derive(Debug)]
pub(crate) enum Held {
    /// Nothing: it was delivered, or does not exist any more.
    Nothing,
    /// A task that was taken from its queue and not started yet.
    Queued(QueueKey, Queued),
    /// A task that was matched with a poll of its own node and is not started yet.
    Matched(Box<HomeOffer>),
    /// A started workflow task, or a query.
    Task(HeldTask),
    /// A started activity.
    Activity(HeldActivity),
    /// What another node gives back unless it is told that it arrived.
    Elsewhere(Box<dyn RemoteHold>),
    /// What the answer to a completed workflow task carries: the next one, and activities.
    Reply(Option<HeldTask>, Vec<HeldActivity>),
}

/// Holds what is on its way to a worker. Clones share it; the last one that is dropped returns what was not delivered.
#[derive(Clone)]
pub struct Delivery(Arc<InTransit>);

struct InTransit {
    node: Weak<Runs>,
    held: Mutex<Held>,
}

impl Delivery {
    pub(crate) fn new(node: &Arc<Runs>, held: Held) -> Self {
        Self(Arc::new(InTransit { node: Arc::downgrade(node), held: Mutex::new(held) }))
    }

    /// From now on it holds something else.
    pub(crate) fn hold(&self, held: Held) {
        // What another node held until now was started: it is not to be offered again.
        if let Held::Elsewhere(before) = std::mem::replace(&mut *lock(&self.0.held), held) {
            before.delivered();
        }
    }

    /// The worker has it, or will not miss it.
    pub fn delivered(&self) {
        let held = std::mem::replace(&mut *lock(&self.0.held), Held::Nothing);
        if let Held::Elsewhere(held) = held {
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
        let held = std::mem::replace(self.held.get_mut().unwrap_or_else(|e| e.into_inner()), Held::Nothing);
        // What is held elsewhere is given back there when it is dropped.
        if matches!(held, Held::Nothing | Held::Elsewhere(_)) {
            return;
        }
        // A node that is gone leaves everything to the next start.
        let Some(node) = self.node.upgrade() else { return };
        if let Held::Queued(queue, queued) = held {
            node.queues.take_back(&queue, queued, node.clock.now());
        } else if let Held::Matched(offer) = held {
            // The home of its queue finds another worker.
            if Handle::try_current().is_ok()
                && let Some(elsewhere) = node.elsewhere()
            {
                elsewhere.offer_at_home(*offer);
            }
        } else if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { node.take_undelivered(held).await });
        }
    }
}

impl Runs {
    async fn take_undelivered(self: &Arc<Self>, held: Held) {
        match held {
            Held::Nothing | Held::Queued(..) | Held::Matched(_) | Held::Elsewhere(_) => {}
            Held::Task(task) => self.give_back_workflow_task(&task).await,
            Held::Activity(activity) => self.give_back_activity(&activity).await,
            Held::Reply(task, activities) => {
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
