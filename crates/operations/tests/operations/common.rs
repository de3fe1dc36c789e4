//! Runs with the operations on namespaces, on a store that keeps its content when they are started again.

#[path = "../../../runs/tests/runs/common/clock.rs"]
mod clock;

use std::sync::Arc;

use segno_engine::start::{Start, StartOptions};
use segno_environment::Environment;
use segno_operations::{Batches, NamespaceOperations, Verifications};
use segno_proto::{common::WorkflowType, taskqueue::TaskQueue};
use segno_runs::{
    CallError, Namespace, NodeOptions, Runs, loops,
    ports::{owner::Alone, scripts::NoScripts},
};
use segno_store::{
    MemoryStore, Store,
    fault::{FaultPlan, FaultStore},
};
use tokio::time::{Duration, sleep};

use self::clock::JumpingClock;

pub struct Served {
    pub runs: Arc<Runs>,
    pub namespaces: Arc<NamespaceOperations>,
    pub verifications: Arc<Verifications>,
}

impl Served {
    pub fn shut_down(&self) {
        self.runs.shut_down();
        self.namespaces.check_retention();
    }
}

#[derive(Default)]
pub struct Place {
    pub memory: Arc<MemoryStore>,
    pub clock: Arc<JumpingClock>,
}

impl Place {
    /// Serves runs whose store fails as planned; tries again until that begins.
    pub async fn start(&self, plan: &FaultPlan) -> Served {
        let store: Arc<dyn Store> = Arc::new(FaultStore::new(self.memory.clone(), plan.clone()));
        loop {
            match self.try_start(store.clone()).await {
                Ok(served) => return served,
                Err(_) => sleep(Duration::from_millis(2)).await,
            }
        }
    }

    async fn try_start(&self, store: Arc<dyn Store>) -> Result<Served, CallError> {
        let environment = Environment::with_clock(self.clock.clone());
        let runs = Runs::new(store, &environment, NodeOptions::default(), Arc::new(Alone), Arc::new(NoScripts)).await?;
        let batches = Batches::new(runs.clone());
        let verifications = Verifications::new(runs.clone());
        let namespaces = NamespaceOperations::new(runs.clone(), batches.clone(), verifications.clone());
        loops::load_documents(&runs).await?;
        batches.load().await?;
        runs.recover().await?;
        loops::start_loops(&runs);
        namespaces.start();
        Ok(Served { runs, namespaces, verifications })
    }
}

/// A client's request to start a workflow; the type is the id.
pub fn request(namespace: &Namespace, id: &str) -> Start {
    namespace.start(StartOptions {
        namespace: namespace.name.clone(),
        workflow_id: id.to_owned(),
        workflow_type: Some(WorkflowType { name: id.to_owned() }),
        task_queue: Some(TaskQueue { name: "q".to_owned(), ..Default::default() }),
        request_id: format!("start-{id}"),
        ..Default::default()
    })
}
