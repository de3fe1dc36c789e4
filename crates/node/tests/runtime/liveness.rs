//! Workers that are lost, as a node sees them: who is blamed, when, and what becomes of what they held.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use segno_engine::{
    activity::{self, ActivityRef},
    lease::{Beat, BeatRefused, Hold},
    terminate::{self, Terminate},
};
use segno_node::{
    CallError, Caller, Clock, ConnectionId, Environment, LeaseSettings, Node, NodeOptions, Poll, QueueKey, QueueKind,
    RunSelector, StartedActivity, StartedTask, SystemClock, WorkerQuery, WorkflowKey,
};
use segno_proto::{
    enums::{EventType, WorkerStatus},
    worker::WorkerHeartbeat,
};
use segno_store::{NamespaceKey, RunKey, Store, Wait};
use tokio::time::{Instant, sleep};

use crate::common::{gate::Gate, story, worker};

const SECOND: i64 = 1_000_000_000;
const SETTINGS: LeaseSettings =
    LeaseSettings { lease: 60 * SECOND, grace: 15 * SECOND, verification: 120 * SECOND, tokens_from: 0 };

/// Real time for runs, and another one for leases, which stands still until it is moved.
#[derive(Default)]
struct Hand {
    at: AtomicI64,
    ahead: AtomicI64,
}

impl Clock for Hand {
    fn now(&self) -> i64 {
        SystemClock.now() + self.ahead.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> i64 {
        self.at.load(Ordering::SeqCst)
    }
}

struct Scene {
    node: Arc<Node>,
    hand: Arc<Hand>,
    store: Arc<Gate>,
    namespace: NamespaceKey,
    connections: AtomicU64,
}

impl Scene {
    async fn begin() -> Self {
        Self::on(Arc::new(Gate::default())).await
    }

    async fn on(store: Arc<Gate>) -> Self {
        Self::with(store, SETTINGS).await
    }

    async fn with(store: Arc<Gate>, leases: LeaseSettings) -> Self {
        let hand = Arc::new(Hand::default());
        let options = NodeOptions { leases, ..Default::default() };
        let node =
            Node::start(store.clone(), Environment::with_clock(hand.clone()), options).await.expect("a node starts");
        let namespace = node.runs.namespaces.get("default").expect("it is always there").key;
        Self { node, hand, store, namespace, connections: AtomicU64::new(1) }
    }

    /// Moves the time of leases in small steps, as time goes, so that the node is not taken to have been away.
    async fn pass(&self, seconds: i64) {
        for _ in 0..seconds {
            self.hand.at.fetch_add(SECOND, Ordering::SeqCst);
            self.node.runs.clock_moved();
            tokio::task::yield_now().await;
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn connect(&self) -> ConnectionId {
        ConnectionId(self.connections.fetch_add(1, Ordering::SeqCst))
    }

    fn caller(&self, worker: &str, connection: ConnectionId) -> Caller {
        Caller { worker: worker.to_owned(), control_queue: String::new(), connection: Some(connection) }
    }

    fn poll(&self, kind: QueueKind, caller: Caller) -> Poll {
        Poll {
            queue: QueueKey { namespace: self.namespace, kind, name: story::QUEUE.to_owned() },
            identity: format!("identity of {}", caller.worker),
            caller,
            sticky: false,
            deadline: Instant::now() + Duration::from_secs(5),
            tasks_per_second: None,
            version: Default::default(),
            sdk: Default::default(),
        }
    }

    async fn start(&self, id: &str) -> WorkflowKey {
        let namespace = self.node.runs.namespaces.get("default").expect("it is always there");
        self.node.runs.start_workflow(story::start(&namespace, id)).await.expect("a workflow starts");
        WorkflowKey::new(namespace.key, id)
    }

    /// A run with one activity, in the hands of this worker.
    async fn with_activity(&self, id: &str, caller: Caller) -> (WorkflowKey, StartedActivity) {
        let key = self.start(id).await;
        worker::first_turn(&self.node, vec![story::activity_within("plain", 3600 * SECOND)]).await;
        (key, self.take(caller).await)
    }

    async fn take(&self, caller: Caller) -> StartedActivity {
        let poll = self.poll(QueueKind::Activity, caller);
        let started = self
            .node
            .dispatch
            .poll_here::<StartedActivity>(&poll, None)
            .await
            .expect("a poll works")
            .expect("there is an activity");
        started.delivery.delivered();
        started
    }

    /// A poll that goes on until the connection is gone.
    async fn keep_polling(&self, caller: Caller) -> tokio::task::JoinHandle<()> {
        let (node, mut poll) = (self.node.clone(), self.poll(QueueKind::Workflow, caller));
        poll.queue.name = "elsewhere".to_owned();
        poll.deadline = Instant::now() + Duration::from_secs(600);
        let polling = tokio::spawn(async move {
            let _ = node.dispatch.poll_here::<StartedTask>(&poll, None).await;
        });
        sleep(Duration::from_millis(20)).await;
        polling
    }

    async fn cut(&self, polling: tokio::task::JoinHandle<()>, connection: ConnectionId) {
        polling.abort();
        let _ = polling.await;
        self.node.workers.connection_closed(connection);
    }

    async fn attempt(&self, key: &WorkflowKey) -> (i32, bool) {
        let run = self.node.runs.snapshot(key, "").await.expect("the workflow exists").run.clone();
        let activity = run.state().activities.values().next().expect("it has an activity");
        (activity.attempt, activity.started_time != 0)
    }

    async fn heartbeat(&self, key: &WorkflowKey, started: &StartedActivity, identity: &str, connection: ConnectionId) {
        let (selector, who, on) = (RunSelector::default(), identity.to_owned(), Some(connection));
        let call = self.node.workers.activity_heartbeat(key, &selector, reference_of(started), None, who, on);
        call.await.expect("the attempt counts");
    }

    async fn complete(&self, key: &WorkflowKey, started: &StartedActivity) -> Result<(), CallError> {
        let reference = reference_of(started);
        let who = "worker".to_owned();
        let call = move |run: &_, context| activity::complete(run, context, &reference, None, who, None);
        self.node.runs.transact(key, &RunSelector::default(), call).await
    }

    fn report(&self, worker: &str, status: WorkerStatus, connection: ConnectionId) {
        let heartbeat =
            WorkerHeartbeat { worker_instance_key: worker.to_owned(), status: status as i32, ..Default::default() };
        self.node.workers.workers_reported(self.namespace, vec![heartbeat], Some(connection));
    }

    fn count(&self, name: &str) -> u64 {
        self.node.runs.metrics.read().into_iter().find(|(known, _, _)| *known == name).map_or(0, |(_, _, value)| value)
    }
}

fn reference_of(started: &StartedActivity) -> ActivityRef {
    ActivityRef::Token {
        scheduled_event_id: started.activity.scheduled_event_id,
        attempt: started.activity.attempt,
        started_time: started.activity.started_time,
    }
}

fn hold_of(started: &StartedActivity) -> Hold {
    Hold {
        run_key: started.run.info.run_key,
        scheduled_event_id: started.activity.scheduled_event_id,
        started_time: started.activity.started_time,
    }
}

#[tokio::test]
async fn a_worker_that_is_cut_off_loses_its_activity_after_the_grace_period() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    let (key, started) = scene.with_activity("w", scene.caller("a", connection)).await;
    let polling = scene.keep_polling(scene.caller("a", connection)).await;
    scene.cut(polling, connection).await;
    scene.pass(14).await;
    assert_eq!(scene.attempt(&key).await, (1, true), "it may still come back");
    scene.pass(2).await;
    assert_eq!(scene.attempt(&key).await, (2, false));
    assert!(matches!(scene.complete(&key, &started).await, Err(CallError::Rejected(_))), "it is fenced");
    let again = scene.take(scene.caller("b", scene.connect())).await;
    assert_eq!(again.activity.attempt, 2);
    scene.complete(&key, &again).await.expect("the second attempt counts");
    assert_eq!((scene.count("workers_lost"), scene.count("activities_moved")), (1, 1));
    assert!(scene.node.workers.lease_of(scene.namespace, "a").is_none(), "the entity is gone");
}

#[tokio::test]
async fn a_worker_that_comes_back_in_time_keeps_everything() {
    let scene = Scene::begin().await;
    let mut connection = scene.connect();
    let (key, started) = scene.with_activity("w", scene.caller("a", connection)).await;
    for _ in 0..20 {
        let polling = scene.keep_polling(scene.caller("a", connection)).await;
        scene.cut(polling, connection).await;
        scene.pass(14).await;
        connection = scene.connect();
        scene.node.workers.worker_called(scene.namespace, &scene.caller("a", connection));
    }
    scene.pass(20).await;
    scene.complete(&key, &started).await.expect("it has it still");
    assert_eq!(scene.count("workers_lost"), 0);
}

#[tokio::test]
async fn a_connection_that_breaks_again_and_again_is_no_death() {
    let scene = Scene::with(Arc::default(), LeaseSettings { grace: 3 * SECOND, ..SETTINGS }).await;
    let mut connection = scene.connect();
    let (key, _) = scene.with_activity("w", scene.caller("a", connection)).await;
    for waits in [1, 1, 2, 12, 8, 12, 12] {
        let polling = scene.keep_polling(scene.caller("a", connection)).await;
        scene.cut(polling, connection).await;
        scene.pass(waits).await;
        assert_eq!(scene.attempt(&key).await, (1, true), "it comes back after {waits} s");
        connection = scene.connect();
    }
    // Once a poll was answered, with a task or without, it is quick again, and so is the server.
    let mut poll = scene.poll(QueueKind::Workflow, scene.caller("a", connection));
    poll.queue.name = "elsewhere".to_owned();
    poll.deadline = Instant::now() + Duration::from_millis(20);
    assert!(scene.node.dispatch.poll_here::<StartedTask>(&poll, None).await.expect("a poll works").is_none());
    let polling = scene.keep_polling(scene.caller("a", connection)).await;
    scene.cut(polling, connection).await;
    scene.pass(4).await;
    assert_eq!(scene.attempt(&key).await, (2, false));
}

#[tokio::test]
async fn a_busy_worker_without_polls_is_not_blamed_for_its_connection() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    let (key, started) = scene.with_activity("w", scene.caller("a", connection)).await;
    // All its slots are full: it says nothing until it has something to say.
    scene.node.workers.connection_closed(connection);
    scene.pass(600).await;
    assert_eq!(scene.attempt(&key).await, (1, true));
    // Unless it reports by itself: then three leases of silence are too many.
    scene.report("a", WorkerStatus::Running, scene.connect());
    scene.pass(179).await;
    assert_eq!(scene.attempt(&key).await, (1, true));
    scene.pass(2).await;
    assert_eq!(scene.attempt(&key).await, (2, false));
    assert!(scene.complete(&key, &started).await.is_err());
}

#[tokio::test]
async fn the_queue_for_commands_stands_for_all_workers_of_a_process() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    let control = "temporal-sys/worker-commands/default/group".to_owned();
    let caller = Caller { control_queue: control.clone(), ..scene.caller("a", connection) };
    let (key, _) = scene.with_activity("w", caller).await;
    let mut poll = scene.poll(QueueKind::WorkerCommand, Caller { connection: Some(connection), ..Default::default() });
    poll.queue.name = control;
    poll.deadline = Instant::now() + Duration::from_secs(600);
    let polling = |poll: Poll| {
        let node = scene.node.clone();
        tokio::spawn(async move {
            let _ = node.dispatch.poll_command(&poll).await;
        })
    };
    let first = polling(poll.clone());
    sleep(Duration::from_millis(20)).await;
    scene.cut(first, connection).await;
    scene.pass(14).await;
    // The process is back, and with it a worker that is too busy to poll.
    poll.caller.connection = Some(scene.connect());
    let second = polling(poll.clone());
    sleep(Duration::from_millis(20)).await;
    scene.pass(100).await;
    assert_eq!(scene.attempt(&key).await, (1, true));
    scene.cut(second, poll.caller.connection.expect("it has one")).await;
    scene.pass(16).await;
    assert_eq!(scene.attempt(&key).await, (2, false));
}

#[tokio::test]
async fn a_command_waits_for_a_worker_that_has_not_polled_for_any_yet() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    let control = "temporal-sys/worker-commands/default/late".to_owned();
    let caller = Caller { control_queue: control.clone(), ..scene.caller("a", connection) };
    let (key, _) = scene.with_activity("w", caller.clone()).await;
    let end = |run: &_, context| terminate::terminate(run, context, Terminate::default());
    scene.node.runs.transact(&key, &RunSelector::default(), end).await.expect("the workflow ends");
    let mut poll = scene.poll(QueueKind::WorkerCommand, caller);
    poll.queue.name = control;
    let (_, delivery) = scene.node.dispatch.poll_command(&poll).await.expect("its activity must stop");
    delivery.delivered();
    assert_eq!((scene.count("commands_sent"), scene.count("commands_dropped")), (1, 0));
    poll.deadline = Instant::now() + Duration::from_millis(20);
    assert!(scene.node.dispatch.poll_command(&poll).await.is_none(), "it comes once");
}

#[tokio::test]
async fn whoever_shuts_down_gives_back_at_once() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    let (key, _) = scene.with_activity("w", scene.caller("a", connection)).await;
    scene.report("a", WorkerStatus::ShuttingDown, connection);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(scene.attempt(&key).await, (1, true), "it finishes what it has");
    scene.report("a", WorkerStatus::Shutdown, connection);
    for _ in 0..100 {
        if scene.attempt(&key).await == (2, false) {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing moves");
}

#[tokio::test]
async fn whoever_says_goodbye_keeps_its_work_as_long_as_it_is_there() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    scene.report("a", WorkerStatus::Running, connection);
    let (key, _) = scene.with_activity("w", scene.caller("a", connection)).await;
    scene.node.workers.dismiss_worker(scene.namespace, "a", "", "");
    scene.report("a", WorkerStatus::ShuttingDown, connection);
    scene.node.workers.dismiss_worker(scene.namespace, "a", "", "");
    scene.pass(600).await;
    assert_eq!(scene.attempt(&key).await, (1, true), "it says nothing and finishes what it has");
    scene.node.workers.connection_closed(connection);
    scene.pass(16).await;
    assert_eq!(scene.attempt(&key).await, (2, false), "the process is gone");
}

#[tokio::test]
async fn a_heartbeat_of_an_activity_is_a_sign_of_life_of_the_process_that_has_it() {
    let scene = Scene::begin().await;
    let (first, second) = (scene.connect(), scene.connect());
    scene.report("a", WorkerStatus::Running, first);
    let (key, started) = scene.with_activity("w", scene.caller("a", first)).await;
    scene.node.workers.dismiss_worker(scene.namespace, "a", "", "");
    scene.node.workers.connection_closed(first);
    scene.pass(14).await;
    scene.heartbeat(&key, &started, "identity of a", second).await;
    scene.pass(100).await;
    assert_eq!(scene.attempt(&key).await, (1, true), "it finishes what it has, on another connection");
    scene.node.workers.connection_closed(second);
    scene.pass(10).await;
    scene.heartbeat(&key, &started, "a worker that completes it elsewhere", scene.connect()).await;
    scene.pass(6).await;
    assert_eq!(scene.attempt(&key).await, (2, false), "others may speak for the activity, not for the process");
}

#[tokio::test]
async fn the_protocol_has_tokens_and_leases() {
    let scene = Scene::begin().await;
    let beat = |token: &[u8]| Beat { token: token.to_vec(), lease: 30 * SECOND, ..Default::default() };
    let send = |beat: Beat| scene.node.workers.worker_heartbeat(scene.namespace, "p", &beat);
    let first = send(beat(b"")).expect("it registers");
    let second = send(beat(&first)).expect("the token fits");
    assert_eq!(send(beat(&first)), Err(BeatRefused::TokenMismatch { current: second }));
    let (key, started) = scene.with_activity("w", scene.caller("p", scene.connect())).await;
    let bound = Beat { bound: vec![hold_of(&started)], ..beat(&second) };
    let third = send(bound).expect("it binds");
    let view = scene.node.workers.lease_of(scene.namespace, "p").expect("it is known");
    assert_eq!((view.holds, view.remaining), (vec![hold_of(&started)], Some(30 * SECOND)));
    let elsewhere = Beat { bound: vec![hold_of(&started)], ..beat(b"") };
    scene.node.workers.worker_heartbeat(scene.namespace, "other", &elsewhere).expect("it registers");
    let other = scene.node.workers.lease_of(scene.namespace, "other").expect("it is known");
    assert!(other.holds.is_empty(), "another worker has it");
    scene.pass(29).await;
    assert_eq!(scene.attempt(&key).await, (1, true));
    scene.pass(2).await;
    assert_eq!(scene.attempt(&key).await, (2, false));
    assert_eq!(send(beat(&third)), Err(BeatRefused::Inactive), "for good");
    assert!(
        scene.node.workers.worker_heartbeat(scene.namespace, "p2", &beat(b"")).is_ok(),
        "under another name it may begin anew"
    );
}

#[tokio::test]
async fn an_activity_that_never_arrived_is_found() {
    let scene = Scene::begin().await;
    let mut token = Vec::new();
    let mut send = |bound: Vec<Hold>| {
        let beat = Beat { token: token.clone(), lease: 60 * SECOND, bound, unbound: Vec::new() };
        token = scene.node.workers.worker_heartbeat(scene.namespace, "p", &beat).expect("in order").to_vec();
    };
    send(Vec::new());
    let (bound, started) = scene.with_activity("bound", scene.caller("p", scene.connect())).await;
    let (orphan, lost) = scene.with_activity("orphan", scene.caller("p", scene.connect())).await;
    send(vec![hold_of(&started)]);
    for _ in 0..3 {
        scene.pass(39).await;
        send(Vec::new());
    }
    assert_eq!(scene.attempt(&orphan).await, (1, true), "two minutes are not over");
    scene.pass(5).await;
    assert_eq!(scene.attempt(&orphan).await, (2, false));
    assert_eq!(scene.attempt(&bound).await, (1, true));
    assert_eq!((scene.count("orphans_found"), scene.count("workers_lost")), (1, 0));
    assert!(scene.complete(&orphan, &lost).await.is_err(), "if it arrived after all, it is too late");
    scene.complete(&bound, &started).await.expect("it has it");
}

#[tokio::test]
async fn a_workflow_task_moves_without_its_time_out() {
    let scene = Scene::begin().await;
    let key = scene.start("w").await;
    let connection = scene.connect();
    let poll = scene.poll(QueueKind::Workflow, scene.caller("a", connection));
    let task = scene
        .node
        .dispatch
        .poll_here::<StartedTask>(&poll, None)
        .await
        .expect("a poll works")
        .expect("there is a task");
    task.delivery.delivered();
    let polling = scene.keep_polling(scene.caller("a", connection)).await;
    scene.cut(polling, connection).await;
    scene.pass(16).await;
    let poll = scene.poll(QueueKind::Workflow, scene.caller("b", scene.connect()));
    let again = scene
        .node
        .dispatch
        .poll_here::<StartedTask>(&poll, None)
        .await
        .expect("a poll works")
        .expect("there it is again");
    assert_eq!(again.task.attempt, 1);
    assert_ne!(again.task.started_time, task.task.started_time);
    let run = RunKey(scene.node.runs.snapshot(&key, "").await.expect("it exists").run.info.run_key);
    let (_, events) = crate::common::check::stored(&scene.store.memory, run).expect("it is stored");
    assert!(events.iter().all(|event| event.event_type() != EventType::WorkflowTaskTimedOut));
    assert_eq!(scene.count("workflow_tasks_moved"), 1);
}

#[tokio::test]
async fn after_a_restart_workers_have_a_full_lease() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    scene.report("reporting", WorkerStatus::Running, connection);
    let (reporting, kept) = scene.with_activity("reporting", scene.caller("reporting", connection)).await;
    let (gone, _) = {
        scene.report("gone", WorkerStatus::Running, connection);
        scene.with_activity("gone", scene.caller("gone", connection)).await
    };
    let (silent, _) = scene.with_activity("silent", scene.caller("silent", connection)).await;
    // Its goodbye is forgotten with the server. What it says of its activity is not.
    scene.report("leaving", WorkerStatus::Running, connection);
    let (leaving, finishing) = scene.with_activity("leaving", scene.caller("leaving", connection)).await;
    scene.node.workers.dismiss_worker(scene.namespace, "leaving", "", "");
    scene.node.shut_down();
    let scene = Scene::on(scene.store.clone()).await;
    for _ in 0..200 {
        if scene.node.workers.leases_of(scene.namespace).len() == 4 {
            break;
        }
        sleep(Duration::from_millis(5)).await;
    }
    scene.pass(100).await;
    scene.report("reporting", WorkerStatus::Running, scene.connect());
    scene.heartbeat(&leaving, &finishing, "identity of leaving", scene.connect()).await;
    scene.pass(79).await;
    assert_eq!(scene.attempt(&gone).await, (1, true), "three leases, since it is a stock worker");
    scene.pass(2).await;
    assert_eq!(scene.attempt(&gone).await, (2, false));
    assert_eq!(scene.attempt(&leaving).await, (1, true), "its activity spoke for it");
    assert_eq!(scene.attempt(&silent).await, (1, true), "it never reported, so its silence means nothing");
    scene.complete(&reporting, &kept).await.expect("it showed up and has it still");
}

#[tokio::test]
async fn workers_that_report_in_either_protocol_are_listed() {
    let scene = Scene::begin().await;
    let connection = scene.connect();
    let polling = scene.keep_polling(scene.caller("polls", connection)).await;
    scene.report("tells", WorkerStatus::Running, connection);
    scene.node.workers.worker_heartbeat(scene.namespace, "registered", &Beat::default()).expect("it registers");
    let find = |query: &str| {
        let found = scene.node.workers.find_workers(scene.namespace, &WorkerQuery::parse(query).expect("a query"));
        found.iter().map(|worker| worker.worker_instance_key.clone()).collect::<Vec<_>>()
    };
    assert_eq!(find(""), ["registered", "tells"], "a poll is no report");
    assert!(scene.node.workers.find_worker(scene.namespace, "polls").is_none());
    assert_eq!(find("Status = 'Running' and StartTime > '2020-01-01T00:00:00Z'"), ["registered"]);
    let first = scene.node.workers.find_worker(scene.namespace, "registered").expect("it was seen");
    scene.pass(5).await;
    assert_eq!(scene.node.workers.find_worker(scene.namespace, "registered"), Some(first), "it starts once");
    scene.node.workers.dismiss_worker(scene.namespace, "registered", "", "");
    assert_eq!(find("Status = 'ShuttingDown'"), ["registered"]);
    scene.cut(polling, connection).await;
}

#[tokio::test]
async fn neither_a_jump_of_the_clock_nor_a_server_that_stood_still_kills_workers() {
    let scene = Scene::begin().await;
    let beat = Beat { lease: 10 * SECOND, ..Default::default() };
    scene.node.workers.worker_heartbeat(scene.namespace, "p", &beat).expect("it registers");
    scene.hand.ahead.store(3600 * SECOND, Ordering::SeqCst);
    scene.node.runs.clock_moved();
    sleep(Duration::from_millis(20)).await;
    assert!(scene.node.workers.lease_of(scene.namespace, "p").is_some());
    // An hour in which no worker could be heard, all at once.
    scene.hand.at.store(3600 * SECOND, Ordering::SeqCst);
    scene.node.runs.clock_moved();
    sleep(Duration::from_millis(20)).await;
    assert!(scene.node.workers.lease_of(scene.namespace, "p").is_some(), "it was the server that was away");
    scene.pass(16).await;
    assert!(scene.node.workers.lease_of(scene.namespace, "p").is_none(), "and then it counts again");
}

#[tokio::test]
async fn ten_thousand_workers_cost_no_write() {
    let scene = Scene::begin().await;
    let commits = scene.count("commits");
    let before = std::time::Instant::now();
    let mut tokens = vec![Vec::new(); 10_000];
    for _ in 0..3 {
        for (number, token) in tokens.iter_mut().enumerate() {
            let beat = Beat { token: token.clone(), ..Default::default() };
            let name = format!("worker-{number}");
            *token = scene.node.workers.worker_heartbeat(scene.namespace, &name, &beat).expect("in order").to_vec();
        }
        scene.pass(20).await;
    }
    println!("30,000 heartbeats in {:?}", before.elapsed());
    assert_eq!(scene.count("commits"), commits);
    assert_eq!((scene.node.workers.leases_of(scene.namespace).len(), scene.count("workers_lost")), (10_000, 0));
}

#[tokio::test]
async fn what_is_over_is_held_by_nobody_also_if_the_store_did_not_say_so() {
    let scene = Scene::begin().await;
    let (key, started) = scene.with_activity("w", scene.caller("a", scene.connect())).await;
    let held = || scene.node.workers.lease_of(scene.namespace, "a").map_or(0, |lease| lease.holds.len());
    assert_eq!(held(), 1);
    scene.store.silent.store(true, Ordering::SeqCst);
    assert!(matches!(scene.complete(&key, &started).await, Err(CallError::OutcomeUnknown(_))), "who knows");
    scene.store.silent.store(false, Ordering::SeqCst);
    for _ in 0..400 {
        if held() == 0 {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("the worker still counts as having it");
}

#[tokio::test]
async fn workers_that_come_and_go_leave_nothing() {
    let scene = Scene::begin().await;
    for number in 0..100 {
        let connection = scene.connect();
        let caller = Caller {
            control_queue: format!("temporal-sys/worker-commands/default/{number}"),
            ..scene.caller(&format!("w{number}"), connection)
        };
        scene.node.workers.worker_called(scene.namespace, &caller);
        scene.node.workers.connection_closed(connection);
    }
    assert!(scene.node.workers.leases_of(scene.namespace).is_empty());
    assert!(scene.store.memory.open_runs(None, 1).wait().expect("memory can be read").is_empty());
}

/// It would be handed its own lost activity again.
#[tokio::test]
async fn the_open_poll_of_a_lost_worker_ends_empty() {
    let scene = Scene::begin().await;
    let beat = Beat { lease: 30 * SECOND, ..Default::default() };
    scene.node.workers.worker_heartbeat(scene.namespace, "p", &beat).expect("it registers");
    let caller = scene.caller("p", scene.connect());
    let (key, _) = scene.with_activity("w", caller.clone()).await;
    let (node, poll) = (scene.node.clone(), scene.poll(QueueKind::Activity, caller));
    let polling = tokio::spawn(async move {
        node.dispatch.poll_here::<StartedActivity>(&poll, None).await.expect("a poll works").is_some()
    });
    sleep(Duration::from_millis(20)).await;
    scene.pass(31).await;
    assert!(!polling.await.expect("it ends"), "the lost worker was handed something");
    assert_eq!(scene.attempt(&key).await, (2, false));
    scene.take(scene.caller("other", scene.connect())).await;
    assert_eq!(scene.attempt(&key).await, (2, true));
}

/// Thousands of workers fall silent at the same time: others have their turn after every few of them.
#[tokio::test]
async fn many_workers_are_lost_in_slices() {
    const WORKERS: u64 = 5000;
    let scene = Scene::begin().await;
    let live = |node: &Node| {
        let gauges = node.gauges();
        gauges.iter().find(|(name, ..)| *name == "live_workers").map(|(.., value)| *value).expect("it is counted")
    };
    let heartbeat = |number: u64| WorkerHeartbeat {
        worker_instance_key: format!("worker {number}"),
        status: WorkerStatus::Running as i32,
        ..Default::default()
    };
    scene.node.workers.workers_reported(scene.namespace, (0..WORKERS).map(heartbeat).collect(), None);
    assert_eq!(live(&scene.node), WORKERS);
    let node = scene.node.clone();
    // On the one thread of this test it has a turn after a slice or two.
    let bystander = tokio::spawn(async move {
        let (mut known, mut turns, mut most) = (WORKERS, 0, 0);
        while known > 0 {
            tokio::task::yield_now().await;
            let left = live(&node);
            turns += u64::from(left < known);
            most = most.max(known - left);
            known = left;
        }
        (turns, most)
    });
    scene.pass(3 * 60 + 30).await;
    let (turns, most) = tokio::time::timeout(Duration::from_secs(20), bystander)
        .await
        .expect("all are lost")
        .expect("it does not panic");
    assert!(most <= 4 * 64 && turns >= WORKERS / (4 * 64), "{most} at once, {turns} turns");
}

/// A connection on which thousands of workers wait is cut: they are noticed in slices, and all of them are.
#[tokio::test]
async fn a_connection_of_many_workers_is_closed_in_slices() {
    const WORKERS: u64 = 1000;
    let scene = Scene::begin().await;
    let connection = scene.connect();
    let mut polls = Vec::new();
    for number in 0..WORKERS {
        let caller = scene.caller(&format!("worker {number}"), connection);
        let (node, poll) = (scene.node.clone(), scene.poll(QueueKind::Workflow, caller));
        polls.push(tokio::spawn(async move { drop(node.dispatch.poll_here::<StartedTask>(&poll, None).await) }));
    }
    while scene.node.workers.leases_of(scene.namespace).len() < WORKERS as usize {
        tokio::task::yield_now().await;
    }
    scene.node.workers.connection_closed(connection);
    let detached =
        |scene: &Scene| scene.node.workers.leases_of(scene.namespace).iter().filter(|lease| lease.detached).count();
    assert!(detached(&scene) <= 64, "{} at once", detached(&scene));
    let all = async {
        while detached(&scene) < WORKERS as usize {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), all).await.expect("all are noticed");
    polls.iter().for_each(tokio::task::JoinHandle::abort);
}
