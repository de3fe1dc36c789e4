//! Workflows whose first workflow task comes with the answer to their start, for a worker of the same client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use segno_proto::{deployment::WorkerDeploymentOptions, workflowservice::PollWorkflowTaskQueueResponse};

use super::Client;
use crate::lock::lock;

/// A reserved place for one workflow task. Dropping it gives the place back.
pub(crate) struct EagerPlace {
    /// Takes the task.
    pub take: Box<dyn FnOnce(PollWorkflowTaskQueueResponse) + Send>,
    /// The version of the worker.
    pub deployment_options: Option<WorkerDeploymentOptions>,
}
/// Reserves a place for a workflow of this kind, if the worker has one.
type Reserve = Arc<dyn Fn(&str) -> Option<EagerPlace> + Send + Sync>;

/// The workers of a client that take first workflow tasks, by task queue.
#[derive(Default)]
pub(super) struct EagerWorkers(Mutex<BTreeMap<String, Vec<Reserve>>>);

impl EagerWorkers {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Vec<Reserve>>) -> T) -> T {
        change(&mut lock(&self.0))
    }

    fn reserve(&self, queue: &str, kind: &str) -> Option<EagerPlace> {
        let workers = self.with(|all| all.get(queue).cloned())?;
        workers.iter().find_map(|reserve| reserve(kind))
    }
}

/// An offer of a worker, until it is dropped.
pub(crate) struct EagerOffer {
    client: Client,
    queue: String,
    reserve: Reserve,
}

impl Drop for EagerOffer {
    fn drop(&mut self) {
        self.client.0.eager.with(|all| {
            if let Some(workers) = all.get_mut(&self.queue) {
                workers.retain(|reserve| !Arc::ptr_eq(reserve, &self.reserve));
                if workers.is_empty() {
                    all.remove(&self.queue);
                }
            }
        });
    }
}

impl Client {
    /// Offers places for the first workflow tasks of workflows that this client starts on a queue.
    pub(crate) fn offer_eager(
        &self,
        queue: &str,
        reserve: impl Fn(&str) -> Option<EagerPlace> + Send + Sync + 'static,
    ) -> EagerOffer {
        let reserve: Reserve = Arc::new(reserve);
        self.0.eager.with(|all| all.entry(queue.to_owned()).or_default().push(reserve.clone()));
        EagerOffer { client: self.clone(), queue: queue.to_owned(), reserve }
    }

    pub(super) fn reserve_eager(&self, queue: &str, kind: &str) -> Option<EagerPlace> {
        self.0.eager.reserve(queue, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn offers_last_until_they_are_dropped() {
        let client = Client::builder().lazy().connect().await.unwrap();
        assert!(client.reserve_eager("a", "x").is_none());
        let place = |kind: &str| (kind == "x").then(|| EagerPlace { take: Box::new(|_| ()), deployment_options: None });
        let first = client.offer_eager("a", place);
        let second = client.offer_eager("a", place);
        assert!(client.reserve_eager("a", "x").is_some());
        assert!(client.reserve_eager("a", "y").is_none(), "no worker knows this kind");
        assert!(client.reserve_eager("b", "x").is_none());
        drop(first);
        assert!(client.reserve_eager("a", "x").is_some());
        drop(second);
        assert!(client.reserve_eager("a", "x").is_none());
        assert!(client.0.eager.with(|all| all.is_empty()));
    }
}
