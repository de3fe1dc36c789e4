//! The current version of a worker deployment, changed again and again while workflows start.
//!
//! Once a change is acknowledged, every workflow that starts has its first task with the new version, whichever node starts it.
//! Its second task comes after the next change. If the workflow is pinned it goes to the version of the first one, and if the
//! workflow upgrades to the version that is current then. The workflow's result names both.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use segno_proto::{
    command::Command,
    deployment::WorkerDeploymentOptions,
    enums::{VersioningBehavior, WorkerVersioningMode},
    events::{HistoryEvent, history_event::Attributes},
    workflowservice::{
        RespondWorkflowTaskCompletedRequest, SetWorkerDeploymentCurrentVersionRequest, SignalWorkflowExecutionRequest,
    },
};
use tonic::{Code, Status};

use crate::{
    crash::{
        flows::{Shared, insist},
        ledger::Breach,
    },
    wire::{self, CALL_TIMEOUT, Client, NAMESPACE},
};

/// The versions, by their build ids.
pub const BUILDS: [&str; 2] = ["one", "two"];
const DEPLOYMENT: &str = "storm";
/// The types of the workflows; the behaviour of each is that of its place in [`BEHAVIORS`].
const TYPES: [&str; 2] = ["pinned", "upgrading"];
const BEHAVIORS: [VersioningBehavior; 2] = [VersioningBehavior::Pinned, VersioningBehavior::AutoUpgrade];
const QUEUE: &str = "storm-versions";
/// A version exists once its workers have polled.
const FIRST_POLL_MAX: Duration = Duration::from_secs(30);
/// How long a workflow may wait for its first task, also while nodes fail.
const FIRST_TASK_MAX: Duration = Duration::from_secs(60);
const HISTORY_PAUSE: Duration = Duration::from_millis(50);

/// A workflow whose first task is done.
struct Begun {
    id: String,
    run_id: String,
    workflow_type: &'static str,
    build: &'static str,
}

/// Changes the current version through one node and starts a workflow through another, until the storm stops.
pub async fn run(shared: Rc<Shared>, mut changes: Client, mut starts: Client, generation: usize) {
    let mut before: Option<Begun> = None;
    let mut current = BUILDS[0];
    let mut number = 0;
    loop {
        let next = match shared.stopping.get() {
            true => None,
            false => {
                current = BUILDS[number % BUILDS.len()];
                let workflow_type = TYPES[number / BUILDS.len() % TYPES.len()];
                let id = format!("{workflow_type}-{generation}-{number}");
                Some(change_and_start(&shared, &mut changes, &mut starts, (id, workflow_type), current).await)
            }
        };
        number += 1;
        if let Some(begun) = before.take()
            && let Err(breach) = finish(&shared, &mut starts, begun, current).await
        {
            shared.ledger.breach(breach);
        }
        match next {
            Some(Ok(begun)) => before = Some(begun),
            Some(Err(breach)) => shared.ledger.breach(breach),
            None => return,
        }
    }
}

async fn change_and_start(
    shared: &Shared,
    changes: &mut Client,
    starts: &mut Client,
    (id, workflow_type): (String, &'static str),
    build: &'static str,
) -> Result<Begun, Breach> {
    let call = SetWorkerDeploymentCurrentVersionRequest {
        namespace: NAMESPACE.to_owned(),
        deployment_name: DEPLOYMENT.to_owned(),
        build_id: build.to_owned(),
        identity: "segno-harness".to_owned(),
        ignore_missing_task_queues: true,
        ..Default::default()
    };
    let begun = Instant::now();
    loop {
        match changes.insist(&call).await {
            Ok(_) => break,
            Err(status) if begun.elapsed() > FIRST_POLL_MAX => return Err(wrong("the change to", build, &status)),
            Err(_) => tokio::time::sleep(HISTORY_PAUSE).await,
        }
    }
    shared.ledger.count_fact();
    let mut call = wire::start(workflow_type, &id, QUEUE, "");
    call.workflow_task_timeout = Some(wire::millis(2_000));
    let started = starts.insist(&call).await;
    let run_id = started.map_err(|status| wrong("start", &id, &status))?.run_id;
    let started = Instant::now();
    loop {
        let events = insist(async || wire::history(starts, &id, &run_id).await).await;
        match first_build(&events.map_err(|status| wrong("history", &id, &status))?) {
            Some(first) if first == build => break,
            Some(first) => {
                let text = format!("{id} started after the change to `{build}`, and its first task went to `{first}`");
                return Err(Breach::Wrong(text));
            }
            None if started.elapsed() > FIRST_TASK_MAX => {
                let waited = FIRST_TASK_MAX.as_secs();
                return Err(Breach::Wrong(format!(
                    "{id} started after the change to `{build}`, and had no task in {waited} s"
                )));
            }
            None => tokio::time::sleep(HISTORY_PAUSE).await,
        }
    }
    shared.ledger.count_fact();
    Ok(Begun { id, run_id, workflow_type, build })
}

/// Lets a workflow have its second task, while `current` is the current version.
async fn finish(shared: &Shared, client: &mut Client, begun: Begun, current: &'static str) -> Result<(), Breach> {
    let Begun { id, run_id, workflow_type, build } = begun;
    let call = SignalWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(&id, &run_id),
        signal_name: "finish".to_owned(),
        request_id: format!("{id}-finish"),
        ..Default::default()
    };
    client.insist_once(&call, Code::NotFound).await.map_err(|status| wrong("signal", &id, &status))?;
    let event = insist(async || wire::wait_closed(client, &id, &run_id).await).await;
    let result = wire::closing_result(&event.map_err(|status| wrong("result", &id, &status))?);
    let target = if behavior_of(workflow_type) == VersioningBehavior::Pinned { build } else { current };
    if result != result_of(build, target) {
        let expected = result_of(build, target);
        return Err(Breach::Wrong(format!(
            "the tasks of {id} should have gone to `{expected}`, and went to `{result}`"
        )));
    }
    shared.ledger.count_fact();
    Ok(())
}

fn wrong(what: &str, id: &str, status: &Status) -> Breach {
    Breach::Wrong(format!("{what} of {id} was refused: {:?} {}", status.code(), status.message()))
}

fn behavior_of(workflow_type: &str) -> VersioningBehavior {
    let place = TYPES.iter().position(|known| *known == workflow_type);
    place.map_or(VersioningBehavior::Unspecified, |place| BEHAVIORS[place])
}

fn result_of(first: &str, last: &str) -> String {
    format!("{first}, {last}")
}

/// The worker of one version.
pub async fn work(shared: Rc<Shared>, mut client: Client, build: &'static str) {
    let options = WorkerDeploymentOptions {
        deployment_name: DEPLOYMENT.to_owned(),
        build_id: build.to_owned(),
        worker_versioning_mode: WorkerVersioningMode::Versioned.into(),
    };
    loop {
        let task = wire::poll_versioned_task(&mut client, QUEUE, Some(options.clone())).await;
        let id = task.workflow_execution.unwrap_or_default().workflow_id;
        let events = task.history.unwrap_or_default().events().unwrap_or_default();
        let call = RespondWorkflowTaskCompletedRequest {
            task_token: task.task_token,
            commands: decide(&events, build),
            namespace: NAMESPACE.to_owned(),
            versioning_behavior: behavior_of(&task.workflow_type.unwrap_or_default().name).into(),
            deployment_options: Some(options.clone()),
            ..Default::default()
        };
        // A task that is gone, or a node that is, is no mistake; an answer that cannot be understood is.
        if let Err(status) = client.call(call, CALL_TIMEOUT).await
            && status.code() == Code::InvalidArgument
        {
            shared.ledger.breach(Breach::Wrong(format!("an answer of {id} was refused: {status}")));
        }
    }
}

/// Such a workflow waits for a signal, and its result is the version of its first task and that of its last.
fn decide(events: &[HistoryEvent], build: &str) -> Vec<Command> {
    let is_told = events
        .iter()
        .any(|event| matches!(event.attributes, Some(Attributes::WorkflowExecutionSignaledEventAttributes(_))));
    let first = first_build(events).unwrap_or_else(|| build.to_owned());
    if is_told { vec![wire::complete(wire::text(&result_of(&first, build)))] } else { Vec::new() }
}

/// The version that the first task went to, once it is done.
fn first_build(events: &[HistoryEvent]) -> Option<String> {
    events.iter().find_map(|event| match event.attributes.as_ref()? {
        Attributes::WorkflowTaskCompletedEventAttributes(done) => {
            Some(done.deployment_version.as_ref().map(|version| version.build_id.clone()).unwrap_or_default())
        }
        _ => None,
    })
}
