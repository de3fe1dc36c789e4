//! Runs that are served, and the calls that tests make.

pub mod clock;
pub mod gate;
pub mod stored;

use std::sync::Arc;

use segno_engine::{
    signal::{self, Signal},
    start::{Start, StartOptions},
    terminate::{self, Terminate},
};
use segno_environment::Environment;
use segno_proto::{common::WorkflowType, nanos_duration, taskqueue::TaskQueue};
use segno_runs::{
    CallError, Namespace, NodeOptions, RunSelector, Runs, WorkflowKey, loops,
    ports::{owner::Alone, scripts::NoScripts},
};
use segno_store::{RunKey, Store};

use self::gate::Gate;

pub const QUEUE: &str = "q";

/// Runs on a store, as a node without scripts and without other nodes has them.
pub async fn serve(store: Arc<dyn Store>, environment: &Environment, options: NodeOptions) -> Arc<Runs> {
    let runs = Runs::new(store, environment, options, Arc::new(Alone), Arc::new(NoScripts)).await;
    let runs = runs.expect("the store can be read");
    loops::load_documents(&runs).await.expect("documents are read");
    runs.recover().await.expect("nothing is damaged");
    loops::start_loops(&runs);
    runs
}

pub async fn served_with(options: NodeOptions) -> (Arc<Runs>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    (serve(gate.clone(), &Environment::of_machine(), options).await, gate)
}

pub async fn served() -> (Arc<Runs>, Arc<Gate>) {
    served_with(NodeOptions::default()).await
}

/// Runs leave memory as soon as they can.
pub fn forgetful() -> NodeOptions {
    NodeOptions { cache_bytes_max: 1, ..Default::default() }
}

/// A client's request to start a workflow; the type is the id.
pub fn request(namespace: &Namespace, id: &str) -> Start {
    let options = StartOptions {
        namespace: namespace.name.clone(),
        workflow_id: id.to_owned(),
        workflow_type: Some(WorkflowType { name: id.to_owned() }),
        task_queue: Some(TaskQueue { name: QUEUE.to_owned(), ..Default::default() }),
        workflow_task_timeout: Some(nanos_duration(1_000_000_000)),
        request_id: format!("start-{id}"),
        ..Default::default()
    };
    Start { retention: 0, ..namespace.start(options) }
}

pub async fn start(runs: &Arc<Runs>, id: &str) -> (WorkflowKey, RunKey) {
    let namespace = runs.namespaces.get("default").expect("it is always there");
    let started = runs.start_workflow(request(&namespace, id)).await.expect("a workflow starts");
    (WorkflowKey::new(namespace.key, id), RunKey(started.run.info.run_key))
}

pub async fn signal(runs: &Arc<Runs>, key: &WorkflowKey, name: String) -> Result<(), CallError> {
    let call = Signal { name, ..Default::default() };
    runs.transact(key, &RunSelector::default(), move |run, context| signal::signal(run, context, call)).await
}

pub async fn terminate(runs: &Arc<Runs>, key: &WorkflowKey, run_id: &str, first_run_id: &str) -> Result<(), CallError> {
    let call = Terminate { first_run_id: first_run_id.to_owned(), ..Default::default() };
    let decide = move |run: &segno_engine::Run, context| terminate::terminate(run, context, call);
    runs.terminate_run(key, &RunSelector::run(run_id), first_run_id, decide).await
}
