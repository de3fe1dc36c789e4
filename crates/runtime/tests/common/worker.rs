//! Workers and a client, as patient as an SDK.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_engine::{
    Rejection,
    activity::{self, ActivityRef},
    complete_task::CompleteTask,
    signal::{self, Signal},
    task_calls::TaskRef,
};
use segno_proto::{command::Command, enums::WorkflowExecutionStatus};
use segno_runtime::{
    CallError, Node, Poll, QueueKey, QueueKind, RunSelector, StartedActivity, StartedTask, WorkflowKey,
};
use segno_store::NamespaceKey;
use tokio::time::{Instant, sleep};

use super::{Place, story, worth_repeating};

const PAUSE: Duration = Duration::from_millis(3);

/// What was acknowledged and must therefore be found again.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    pub run_ids: Vec<(String, String)>,
    pub signals: Vec<String>,
    /// Run id and scheduled event of completed activities.
    pub activities: Vec<(String, i64)>,
}

pub type Ledger = Arc<Mutex<Acknowledged>>;

fn poll(node: &Node, kind: QueueKind) -> Poll {
    let namespace = node.namespaces.get("default").map_or(NamespaceKey(1), |namespace| namespace.key);
    Poll {
        queue: QueueKey { namespace, kind, name: story::QUEUE.to_owned() },
        identity: "worker".to_owned(),
        worker: "worker".to_owned(),
        deadline: Instant::now() + Duration::from_millis(100),
    }
}

/// Takes workflow tasks until it is stopped from outside.
pub async fn workflow_worker(place: Place) {
    loop {
        let Some(node) = place.current() else {
            sleep(PAUSE).await;
            continue;
        };
        match node.poll_workflow_task(&poll(&node, QueueKind::Workflow), None).await {
            Ok(Some(task)) => answer(&place, task).await,
            Ok(None) => sleep(Duration::from_millis(1)).await,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn answer(place: &Place, task: StartedTask) {
    let info = task.run.info.clone();
    let token = token_of(&task);
    let events = task.history.into_history().events().expect("history can be read");
    super::check::history(&events).expect("a worker is shown a valid history");
    let commands = story::decide(&info.workflow_type, &events);
    let call = complete_with(token, commands);
    let key = WorkflowKey::new(NamespaceKey(info.namespace_key), &info.workflow_id);
    for _ in 0..20 {
        let Some(node) = place.current() else { return };
        let Some(namespace) = node.namespaces.get("default") else { return };
        match node.complete_workflow_task(namespace, &key, &info.run_id, call.clone(), Default::default()).await {
            Err(error) if worth_repeating(&error) => sleep(PAUSE).await,
            _ => return,
        }
    }
}

/// Takes activities until it is stopped from outside. The first attempt of a flaky one fails.
pub async fn activity_worker(place: Place, ledger: Ledger) {
    loop {
        let Some(node) = place.current() else {
            sleep(PAUSE).await;
            continue;
        };
        match node.poll_activity(&poll(&node, QueueKind::Activity), None).await {
            Ok(Some(started)) => run_activity(&place, started, &ledger).await,
            Ok(None) => sleep(Duration::from_millis(1)).await,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn run_activity(place: &Place, started: StartedActivity, ledger: &Ledger) {
    let info = started.run.info.clone();
    let activity = started.activity;
    let id = activity.scheduled_event_id;
    let fails = activity.activity_type == "flaky" && activity.attempt == 1;
    let key = WorkflowKey::new(NamespaceKey(info.namespace_key), &info.workflow_id);
    for _ in 0..20 {
        let Some(node) = place.current() else { return };
        let reference = ActivityRef::Token {
            scheduled_event_id: id,
            attempt: activity.attempt,
            started_time: activity.started_time,
        };
        let who = "worker".to_owned();
        let selector = RunSelector::run(info.run_id.clone());
        let result = node
            .transact(&key, &selector, move |run, context| {
                if fails {
                    activity::fail(run, context, &reference, None, who, None, None)
                } else {
                    activity::complete(run, context, &reference, None, who, None)
                }
            })
            .await;
        match result {
            Ok(()) => {
                if !fails {
                    ledger.lock().expect("nobody panics here").activities.push((info.run_id.clone(), id));
                }
                return;
            }
            Err(error) if worth_repeating(&error) => sleep(PAUSE).await,
            Err(_) => return,
        }
    }
}

/// Starts everything, sends a signal, and waits until all workflows are closed.
pub async fn client(place: Place, ledger: Ledger) {
    for id in story::STARTED {
        loop {
            if let Some(node) = place.current()
                && let Some(namespace) = node.namespaces.get("default")
                && let Ok(outcome) = node.start_workflow(story::start(&namespace, id)).await
            {
                assert!(outcome.started, "a repeated start is recognised by its request id");
                let run_id = outcome.run.info.run_id.clone();
                ledger.lock().expect("nobody panics here").run_ids.push((id.to_owned(), run_id));
                break;
            }
            sleep(PAUSE).await;
        }
    }
    send_signal(&place, &ledger).await;
    for id in story::ALL {
        while !is_closed(&place, id).await {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn send_signal(place: &Place, ledger: &Ledger) {
    loop {
        if let Some(node) = place.current() {
            let call = Signal { name: "extra".to_owned(), request_id: "signal-1".to_owned(), ..Default::default() };
            let key = WorkflowKey::new(node.namespaces.get("default").map_or(NamespaceKey(1), |n| n.key), "parent");
            let result = node
                .transact(&key, &RunSelector::default(), move |run, context| signal::signal(run, context, call))
                .await;
            match result {
                Ok(()) => {
                    ledger.lock().expect("nobody panics here").signals.push("signal-1".to_owned());
                    return;
                }
                // An earlier copy arrived and its answer was lost: the parent could complete.
                Err(CallError::Rejected(Rejection::Closed)) => return,
                Err(_) => {}
            }
        }
        sleep(PAUSE).await;
    }
}

/// Whether a workflow exists and its chain has come to its end.
pub async fn is_closed(place: &Place, id: &str) -> bool {
    let Some(node) = place.current() else { return false };
    let namespace = node.namespaces.get("default").map_or(NamespaceKey(1), |namespace| namespace.key);
    match node.snapshot(&WorkflowKey::new(namespace, id), "").await {
        Ok(current) => current.run.status() != WorkflowExecutionStatus::Running,
        Err(_) => false,
    }
}

/// What the worker's token says.
fn token_of(started: &StartedTask) -> TaskRef {
    TaskRef {
        scheduled_event_id: started.task.scheduled_event_id,
        started_event_id: started.task.started_event_id,
        attempt: started.task.attempt,
        started_time: started.task.started_time,
    }
}

/// A plain answer.
fn complete_with(token: TaskRef, commands: Vec<Command>) -> CompleteTask {
    CompleteTask {
        token,
        commands,
        identity: "worker".to_owned(),
        sticky: None,
        return_new_task: false,
        force_new_task: false,
        binary_checksum: String::new(),
        worker_version: None,
        sdk_metadata: None,
        metering_metadata: None,
        versioning_behavior: Default::default(),
        deployment_name: String::new(),
        messages: Vec::new(),
        discards_with_events: true,
        update_limits: Default::default(),
        eager_request_ids: Vec::new(),
    }
}

/// Answers the next workflow task with these commands.
pub async fn first_turn(node: &Arc<Node>, commands: Vec<Command>) {
    let task = loop {
        if let Some(task) = node.poll_workflow_task(&poll(node, QueueKind::Workflow), None).await.expect("a poll works")
        {
            break task;
        }
    };
    let info = task.run.info.clone();
    let call = complete_with(token_of(&task), commands);
    let namespace = node.namespaces.get("default").expect("it is always there");
    let key = WorkflowKey::new(namespace.key, &info.workflow_id);
    node.complete_workflow_task(namespace, &key, &info.run_id, call, Default::default()).await.expect("it is taken");
}

/// Takes the next activity, and fails it.
pub async fn fail_activity(node: &Arc<Node>) {
    let started = loop {
        if let Some(started) = node.poll_activity(&poll(node, QueueKind::Activity), None).await.expect("a poll works") {
            break started;
        }
    };
    let info = started.run.info.clone();
    let reference = ActivityRef::Token {
        scheduled_event_id: started.activity.scheduled_event_id,
        attempt: started.activity.attempt,
        started_time: started.activity.started_time,
    };
    let key = WorkflowKey::new(NamespaceKey(info.namespace_key), &info.workflow_id);
    let fail = move |run: &_, context| activity::fail(run, context, &reference, None, "worker".to_owned(), None, None);
    node.transact(&key, &RunSelector::run(info.run_id.clone()), fail).await.expect("it is taken");
}
