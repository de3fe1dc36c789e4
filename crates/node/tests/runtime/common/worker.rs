//! Workers and a client, as patient as an SDK.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_engine::{
    Rejection,
    activity::{self, ActivityRef},
    complete_task::CompleteTask,
    repeats::{self, Digest},
    signal::{self, Signal},
    task_calls::TaskRef,
};
use segno_node::{
    CallError, Delivery, Node, Poll, QueueKey, QueueKind, RunSelector, StartedActivity, StartedTask, WorkflowKey,
};
use segno_proto::{
    command::Command,
    enums::{TaskQueueKind, WorkflowExecutionStatus},
    events::HistoryEvent,
    nanos_duration,
    taskqueue::{StickyExecutionAttributes, TaskQueue},
    update::Outcome,
};
use segno_store::NamespaceKey;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{Place, story, updates, worth_repeating};

pub const PAUSE: Duration = Duration::from_millis(3);

/// What was acknowledged and must therefore be found again.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    pub run_ids: Vec<(String, String)>,
    pub signals: Vec<String>,
    /// Run id and scheduled event of completed activities.
    pub activities: Vec<(String, i64)>,
    /// Workflow, update and outcome; without an outcome the admission was acknowledged.
    pub updates: Vec<(String, String, Option<Outcome>)>,
    /// What a caller was told that must not be.
    pub broken: Vec<String>,
}

pub type Ledger = Arc<Mutex<Acknowledged>>;

/// What workers have seen of each run: a sticky one is told only what is new.
pub type Seen = Arc<Mutex<HashMap<String, Vec<HistoryEvent>>>>;

fn poll(node: &Node, kind: QueueKind) -> Poll {
    poll_of(node, kind, story::QUEUE)
}

pub fn poll_of(node: &Node, kind: QueueKind, queue: &str) -> Poll {
    let namespace = node.runs.namespaces.get("default").map_or(NamespaceKey(1), |namespace| namespace.key);
    let is_sticky = queue == story::STICKY_QUEUE;
    Poll {
        queue: match is_sticky {
            true => QueueKey::sticky(namespace, queue, story::QUEUE),
            false => QueueKey { namespace, kind, name: queue.to_owned() },
        },
        identity: "worker".to_owned(),
        caller: Default::default(),
        sticky: is_sticky,
        deadline: Instant::now() + Duration::from_millis(100),
        tasks_per_second: None,
        version: Default::default(),
        sdk: Default::default(),
    }
}

/// Takes workflow tasks of a queue until it is stopped from outside.
pub async fn workflow_worker(place: Place, seen: Seen, queue: &'static str) {
    loop {
        let Some(node) = place.current() else {
            sleep(PAUSE).await;
            continue;
        };
        match node.dispatch.poll_here::<StartedTask>(&poll_of(&node, QueueKind::Workflow, queue), None).await {
            Ok(Some(task)) => {
                task.delivery.delivered();
                let mut next = Some(task);
                while let Some(task) = next {
                    next = answer(&place, &seen, task).await;
                }
            }
            Ok(None) => sleep(Duration::from_millis(1)).await,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Answers a task; the next one if the reply brings it.
async fn answer(place: &Place, seen: &Seen, task: StartedTask) -> Option<StartedTask> {
    let info = task.run.info.clone();
    let token = token_of(&task);
    let news = task.history.into_history().events().expect("history can be read");
    let events = {
        let mut seen = seen.lock().expect("no holder panics");
        let known = seen.entry(info.run_id.clone()).or_default();
        known.truncate(news.first().map_or(0, |first| first.event_id as usize - 1));
        known.extend(news);
        known.clone()
    };
    super::check::history(&events).expect("a worker is shown a valid history");
    let mut call = complete_with(token, Vec::new());
    call.digest = Digest(token.started_time as u64);
    (call.commands, call.messages) = updates::answer(&task.messages, &events, task.previous_started_event_id);
    call.commands.extend(story::decide(&info.workflow_type, &events));
    if info.workflow_type == "sticky" {
        call.sticky = Some(sticky());
        call.return_new_task = true;
    }
    let key = WorkflowKey::new(NamespaceKey(info.namespace_key), &info.workflow_id);
    for _ in 0..20 {
        let node = place.current()?;
        let namespace = node.runs.namespaces.get("default")?;
        match node
            .dispatch
            .complete_workflow_task(namespace, &key, &info.run_id, call.clone(), Default::default())
            .await
        {
            Err(error) if worth_repeating(&error) => sleep(PAUSE).await,
            Ok(completed) => {
                assert_eq!(completed.completed.failure, None, "{}: the answer is good", info.workflow_id);
                completed.delivery.inspect(Delivery::delivered);
                return completed.new_task;
            }
            Err(_) => return None,
        }
    }
    None
}

pub fn sticky() -> StickyExecutionAttributes {
    StickyExecutionAttributes {
        worker_task_queue: Some(TaskQueue {
            name: story::STICKY_QUEUE.to_owned(),
            kind: TaskQueueKind::Sticky as i32,
            normal_name: story::QUEUE.to_owned(),
        }),
        schedule_to_start_timeout: Some(nanos_duration(500 * story::MILLISECOND)),
    }
}

/// Takes activities until it is stopped from outside. The first attempt of a flaky one fails.
pub async fn activity_worker(place: Place, ledger: Ledger) {
    loop {
        let Some(node) = place.current() else {
            sleep(PAUSE).await;
            continue;
        };
        match node.dispatch.poll_here::<StartedActivity>(&poll(&node, QueueKind::Activity), None).await {
            Ok(Some(started)) => {
                started.delivery.delivered();
                run_activity(&place, started, &ledger).await;
            }
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
        let (attempt, started_time) = (activity.attempt, activity.started_time);
        let reference = ActivityRef::Token { scheduled_event_id: id, attempt, started_time };
        let who = "worker".to_owned();
        let selector = RunSelector::run(info.run_id.clone());
        let result = node
            .runs
            .transact(&key, &selector, move |run, context| {
                let outcome = if fails {
                    activity::fail(run, context, &reference, None, who, None, None)
                } else {
                    activity::complete(run, context, &reference, None, who, None)
                };
                repeats::result(run, context, Digest(started_time as u64), outcome)
            })
            .await;
        match result {
            Ok(()) => {
                if !fails {
                    ledger.lock().expect("no holder panics").activities.push((info.run_id.clone(), id));
                }
                return;
            }
            Err(error) if worth_repeating(&error) => sleep(PAUSE).await,
            Err(_) => return,
        }
    }
}

/// Starts everything, asks for updates, sends signals, and waits until all workflows are closed.
pub async fn client(place: Place, ledger: Ledger) {
    for id in story::STARTED {
        start(&place, &ledger, id).await;
    }
    let mut callers = JoinSet::new();
    for id in updates::UPDATED {
        let (place, ledger) = (place.clone(), ledger.clone());
        callers.spawn(async move {
            updates::ask_all(&place, &ledger, id).await;
            send_signal(&place, &ledger, id).await;
        });
    }
    send_signal(&place, &ledger, "parent").await;
    while let Some(finished) = callers.join_next().await {
        finished.expect("a caller does not panic");
    }
    for id in story::ALL {
        while !is_closed(&place, id).await {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Starts a workflow.
pub async fn start(place: &Place, ledger: &Ledger, id: &str) {
    loop {
        if let Some(node) = place.current()
            && let Some(namespace) = node.runs.namespaces.get("default")
            && let Ok(outcome) = node.runs.start_workflow(story::start(&namespace, id)).await
        {
            assert!(outcome.started, "a repeated start is recognised by its request id");
            let run_id = outcome.run.info.run_id.clone();
            ledger.lock().expect("no holder panics").run_ids.push((id.to_owned(), run_id));
            return;
        }
        sleep(PAUSE).await;
    }
}

pub async fn send_signal(place: &Place, ledger: &Ledger, id: &str) {
    let request_id = format!("signal-{id}");
    loop {
        if let Some(node) = place.current() {
            let call = Signal { name: "extra".to_owned(), request_id: request_id.clone(), ..Default::default() };
            let key = WorkflowKey::new(node.runs.namespaces.get("default").map_or(NamespaceKey(1), |n| n.key), id);
            let result = node
                .runs
                .transact(&key, &RunSelector::default(), move |run, context| signal::signal(run, context, call))
                .await;
            match result {
                Ok(()) => {
                    ledger.lock().expect("no holder panics").signals.push(request_id);
                    return;
                }
                // An earlier copy arrived and its answer was lost: the workflow could complete.
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
    let namespace = node.runs.namespaces.get("default").map_or(NamespaceKey(1), |namespace| namespace.key);
    match node.runs.snapshot(&WorkflowKey::new(namespace, id), "").await {
        Ok(current) => current.run.status() != WorkflowExecutionStatus::Running,
        Err(_) => false,
    }
}

/// What the worker's token says.
pub fn token_of(started: &StartedTask) -> TaskRef {
    TaskRef {
        scheduled_event_id: started.task.scheduled_event_id,
        started_event_id: started.task.started_event_id,
        attempt: started.task.attempt,
        started_time: started.task.started_time,
    }
}

/// A plain answer.
pub fn complete_with(token: TaskRef, commands: Vec<Command>) -> CompleteTask {
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
        version: None,
        target: None,
        messages: Vec::new(),
        discards_with_events: true,
        update_limits: Default::default(),
        eager_request_ids: Vec::new(),
        worker: String::new(),
        control_queue: String::new(),
        worker_reports: false,
        script: None,
        digest: Default::default(),
    }
}

/// Answers the next workflow task with these commands.
pub async fn first_turn(node: &Arc<Node>, commands: Vec<Command>) {
    let task = loop {
        if let Some(task) =
            node.dispatch.poll_here::<StartedTask>(&poll(node, QueueKind::Workflow), None).await.expect("a poll works")
        {
            break task;
        }
    };
    task.delivery.delivered();
    let info = task.run.info.clone();
    let call = complete_with(token_of(&task), commands);
    let namespace = node.runs.namespaces.get("default").expect("it is always there");
    let key = WorkflowKey::new(namespace.key, &info.workflow_id);
    node.dispatch
        .complete_workflow_task(namespace, &key, &info.run_id, call, Default::default())
        .await
        .expect("it is taken");
}

/// Takes the next activity, and fails it.
pub async fn fail_activity(node: &Arc<Node>) {
    let started = loop {
        if let Some(started) = node
            .dispatch
            .poll_here::<StartedActivity>(&poll(node, QueueKind::Activity), None)
            .await
            .expect("a poll works")
        {
            break started;
        }
    };
    started.delivery.delivered();
    let info = started.run.info.clone();
    let reference = ActivityRef::Token {
        scheduled_event_id: started.activity.scheduled_event_id,
        attempt: started.activity.attempt,
        started_time: started.activity.started_time,
    };
    let key = WorkflowKey::new(NamespaceKey(info.namespace_key), &info.workflow_id);
    let fail = move |run: &_, context| activity::fail(run, context, &reference, None, "worker".to_owned(), None, None);
    node.runs.transact(&key, &RunSelector::run(info.run_id.clone()), fail).await.expect("it is taken");
}
