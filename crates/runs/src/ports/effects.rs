//! Effects of transitions outside of the runs: tasks for workers, and which worker has which task.

use std::sync::{Arc, OnceLock, Weak};

use segno_engine::{ActivityStop, Run};
use segno_store::NamespaceKey;

use super::PortFuture;

/// The part that hands tasks of runs to workers. Only [`Effects::offers_settle`] waits for anything.
pub trait Effects: Send + Sync + 'static {
    /// Offers the pending workflow task of a run.
    fn offer_workflow_task(&self, run: &Run);

    /// Offers a pending activity.
    fn offer_activity(&self, run: &Run, scheduled_event_id: i64);

    /// Offers the open request of a Nexus operation.
    fn offer_nexus_request(&self, run: &Run, scheduled_event_id: i64);

    /// The handlers of an endpoint are elsewhere now, or gone: requests that wait for them are offered anew.
    fn endpoint_moved(self: Arc<Self>, endpoint_id: &str);

    /// Tells the worker of an attempt to stop.
    fn stop_activity(&self, run: &Run, stop: ActivityStop);

    /// Notes what workers hold of a run now. If another run follows `before`, that one has ended. `changed` are the
    /// activities that can have changed hands; `None` if all can.
    fn note_holds(&self, before: Option<&Run>, after: &Run, changed: Option<&[i64]>);

    /// Workers no longer hold anything of a run: this node does not serve it.
    fn release_holds(&self, run: &Run);

    /// Notes what storage says that workers hold of a run.
    fn restore_holds(&self, run: &Run);

    /// Ends all polls of a namespace and forgets its queues.
    fn end_polls(&self, namespace: NamespaceKey);

    /// Forgets the queues and the workers of a namespace.
    fn forget_namespace(&self, namespace: NamespaceKey);

    /// Waits until not too many offers to other nodes are under way.
    fn offers_settle(&self) -> PortFuture<'_, ()>;

    /// The routing of a namespace's queues changed: waiting polls and tasks look at it again.
    fn routing_changed(&self, namespace: NamespaceKey);

    /// The clock jumped: what waits for a moment looks at it again.
    fn clock_moved(&self);
}

/// The part that carries out effects, set once when the node starts. It holds the runs, so that these hold it weakly: a node
/// that stopped is freed.
#[derive(Default)]
pub struct EffectsPort(OnceLock<Weak<dyn Effects>>);

impl EffectsPort {
    /// Sets the part that carries out effects.
    pub fn set(&self, effects: Weak<dyn Effects>) {
        let set = self.0.set(effects);
        debug_assert!(set.is_ok(), "it is set once");
    }

    /// The part that carries out effects; `None` once the node is gone.
    pub fn get(&self) -> Option<Arc<dyn Effects>> {
        self.0.get()?.upgrade()
    }
}
