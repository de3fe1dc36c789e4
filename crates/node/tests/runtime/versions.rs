//! Workers of several versions on one queue: who gets which task while the routing changes.

use std::{sync::Arc, time::Duration};

use segno_engine::{complete_task::CompleteTask, signal};
use segno_node::{
    CallError, CompletedTask, Environment, MemberQueue, Node, NodeOptions, Poll, PollerVersion, QueueKind, QueueType,
    RunSelector, StartedActivity, StartedTask, WorkerTask, WorkerVersion, WorkflowKey,
    calls::{RoutingChange, set_current},
};
use segno_proto::{
    command::Command,
    deployment::WorkerDeploymentVersion,
    enums::{QueryRejectCondition, VersioningBehavior},
    query::WorkflowQuery,
};
use segno_store::{MemoryStore, NamespaceKey};
use tokio::time::Instant;

use crate::common::{story, worker};

const PINNED: VersioningBehavior = VersioningBehavior::Pinned;
const AUTO_UPGRADE: VersioningBehavior = VersioningBehavior::AutoUpgrade;

fn version(build: &str) -> WorkerVersion {
    Arc::new(WorkerDeploymentVersion { deployment_name: "d".to_owned(), build_id: build.to_owned() })
}

/// A node with two versions that poll one queue.
struct Rollout {
    node: Arc<Node>,
    namespace: NamespaceKey,
}

impl Rollout {
    async fn begin(current: Option<&str>) -> Self {
        let node = Node::start(Arc::new(MemoryStore::default()), Environment::of_machine(), NodeOptions::default())
            .await
            .expect("a node starts");
        let namespace = node.runs.namespaces.get("default").expect("it is always there").key;
        let rollout = Self { node, namespace };
        for build in ["1", "2"] {
            for kind in [QueueType::Workflow, QueueType::Activity] {
                let queue = MemberQueue { name: story::QUEUE.to_owned(), kind };
                rollout.node.runs.register_poller(namespace, &version(build), queue).await.expect("it registers");
            }
        }
        rollout.set_current(current).await;
        rollout
    }

    async fn set_current(&self, build: Option<&str>) {
        let change = RoutingChange {
            name: "d".to_owned(),
            build: build.map(str::to_owned),
            identity: "operator".to_owned(),
            ..Default::default()
        };
        let limits = self.node.runs.deployment_limits;
        let set = move |before: Option<&_>, now| {
            let set = set_current(before, &change, &limits, now, &|_| false)?;
            Ok((Some(set.deployment), ()))
        };
        self.node.runs.change_deployment(self.namespace, "d", set).await.expect("it is set");
    }

    async fn start(&self, id: &str) {
        let namespace = self.node.runs.namespaces.get("default").expect("it is always there");
        self.node.runs.start_workflow(story::start(&namespace, id)).await.expect("a workflow starts");
    }

    async fn signal(&self, id: &str) {
        let call = signal::Signal { name: "go".to_owned(), ..Default::default() };
        let key = WorkflowKey::new(self.namespace, id);
        let apply = move |run: &_, context| signal::signal(run, context, call);
        self.node.runs.transact(&key, &RunSelector::default(), apply).await.expect("it is signalled");
    }

    fn poll(&self, build: Option<&str>, kind: QueueKind, queue: &str) -> Poll {
        let said = build.map(version);
        Poll { version: PollerVersion::of(said.as_ref()), ..worker::poll_of(&self.node, kind, queue) }
    }

    async fn take<T: WorkerTask>(&self, poll: Poll) -> Option<T> {
        self.node.dispatch.poll_here::<T>(&poll, None).await.expect("a poll works")
    }

    /// The next workflow task for workers of a version.
    async fn task(&self, build: Option<&str>) -> Option<StartedTask> {
        let task: StartedTask = self.take(self.poll(build, QueueKind::Workflow, story::QUEUE)).await?;
        task.delivery.delivered();
        Some(task)
    }

    /// The next task of the sticky queue of a worker.
    async fn sticky_task(&self, build: Option<&str>) -> Option<StartedTask> {
        let task: StartedTask = self.take(self.poll(build, QueueKind::Workflow, story::STICKY_QUEUE)).await?;
        task.delivery.delivered();
        Some(task)
    }

    async fn activity(&self, build: Option<&str>) -> Option<StartedActivity> {
        let activity: StartedActivity = self.take(self.poll(build, QueueKind::Activity, story::QUEUE)).await?;
        activity.delivery.delivered();
        Some(activity)
    }

    async fn answer(&self, task: &StartedTask, call: CompleteTask) -> CompletedTask {
        let namespace = self.node.runs.namespaces.get("default").expect("it is always there");
        let info = &task.run.info;
        let key = WorkflowKey::new(namespace.key, &info.workflow_id);
        let dispatch = &self.node.dispatch;
        dispatch
            .complete_workflow_task(namespace, &key, &info.run_id, call, Default::default())
            .await
            .expect("it is taken")
    }

    /// Workers of a version complete a task with this behaviour.
    async fn complete(&self, task: &StartedTask, build: &str, behavior: VersioningBehavior, commands: Vec<Command>) {
        self.answer(task, says(task, build, behavior, commands)).await;
    }
}

fn says(task: &StartedTask, build: &str, behavior: VersioningBehavior, commands: Vec<Command>) -> CompleteTask {
    CompleteTask {
        versioning_behavior: behavior,
        deployment_name: "d".to_owned(),
        version: Some(version(build).as_ref().clone()),
        ..worker::complete_with(worker::token_of(task), commands)
    }
}

#[tokio::test]
async fn workers_without_a_version_get_nothing_once_there_is_a_current_version() {
    let rollout = Rollout::begin(None).await;
    rollout.start("w").await;
    assert!(rollout.task(Some("1")).await.is_none(), "no version is current");
    rollout.set_current(Some("1")).await;
    assert!(rollout.task(None).await.is_none());
    assert!(rollout.task(Some("1")).await.is_some(), "the task that waited follows the routing");
    rollout.start("x").await;
    rollout.set_current(None).await;
    assert!(rollout.task(Some("1")).await.is_none());
    assert!(rollout.task(None).await.is_some());
}

#[tokio::test]
async fn a_poll_that_waits_gets_its_task_when_its_version_becomes_the_current_one() {
    let rollout = Arc::new(Rollout::begin(Some("1")).await);
    rollout.start("w").await;
    let waiting = rollout.clone();
    let poll = Poll {
        deadline: Instant::now() + Duration::from_secs(60),
        ..rollout.poll(Some("2"), QueueKind::Workflow, story::QUEUE)
    };
    let poll = tokio::spawn(async move { waiting.take::<StartedTask>(poll).await.is_some() });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!poll.is_finished());
    rollout.set_current(Some("2")).await;
    assert!(poll.await.expect("it does not panic"));
}

#[tokio::test]
async fn a_pinned_run_stays_at_its_version() {
    let rollout = Rollout::begin(Some("1")).await;
    rollout.start("w").await;
    let task = rollout.task(Some("1")).await.expect("the current version");
    rollout.complete(&task, "1", PINNED, vec![story::activity("plain")]).await;
    rollout.set_current(Some("2")).await;
    rollout.signal("w").await;
    assert!(rollout.task(Some("2")).await.is_none());
    assert!(rollout.activity(Some("2")).await.is_none(), "the queue is a member of the version");
    let task = rollout.task(Some("1")).await.expect("pinned");
    assert!(task.task.target_changed, "the routing goes elsewhere");
    assert!(rollout.activity(Some("1")).await.is_some());
}

#[tokio::test]
async fn a_run_that_upgrades_goes_to_the_current_version_with_all_of_its_history() {
    let rollout = Rollout::begin(Some("1")).await;
    rollout.start("w").await;
    let task = rollout.task(Some("1")).await.expect("the current version");
    rollout.complete(&task, "1", AUTO_UPGRADE, Vec::new()).await;
    rollout.set_current(Some("2")).await;
    rollout.signal("w").await;
    assert!(rollout.task(Some("1")).await.is_none());
    let task = rollout.task(Some("2")).await.expect("the current version");
    let history = task.history.clone().into_history().events().expect("it can be read");
    assert_eq!(history.first().map(|event| event.event_id), Some(1));
    rollout.complete(&task, "2", AUTO_UPGRADE, Vec::new()).await;
}

#[tokio::test]
async fn a_run_that_upgrades_leaves_the_sticky_queue() {
    let rollout = Rollout::begin(Some("1")).await;
    for (id, is_offered_before) in [("w", false), ("x", true)] {
        rollout.set_current(Some("1")).await;
        rollout.start(id).await;
        let task = rollout.task(Some("1")).await.expect("the current version");
        // The worker polls its own queue, so that tasks are offered there.
        assert!(rollout.sticky_task(Some("1")).await.is_none());
        let call = CompleteTask { sticky: Some(worker::sticky()), ..says(&task, "1", AUTO_UPGRADE, Vec::new()) };
        rollout.answer(&task, call).await;
        if is_offered_before {
            rollout.signal(id).await;
            rollout.set_current(Some("2")).await;
        } else {
            rollout.set_current(Some("2")).await;
            rollout.signal(id).await;
        }
        assert!(rollout.sticky_task(Some("1")).await.is_none(), "{id}");
        let task = rollout.task(Some("2")).await.expect("the normal queue");
        let history = task.history.clone().into_history().events().expect("it can be read");
        assert_eq!(history.first().map(|event| event.event_id), Some(1), "all of it");
        rollout.complete(&task, "2", PINNED, vec![story::complete()]).await;
    }
}

#[tokio::test]
async fn a_run_that_stays_at_its_version_stays_in_the_sticky_queue() {
    let rollout = Rollout::begin(Some("1")).await;
    rollout.start("w").await;
    let task = rollout.task(Some("1")).await.expect("the current version");
    assert!(rollout.sticky_task(Some("1")).await.is_none());
    let call = CompleteTask { sticky: Some(worker::sticky()), ..says(&task, "1", PINNED, Vec::new()) };
    rollout.answer(&task, call).await;
    rollout.set_current(Some("2")).await;
    rollout.signal("w").await;
    assert!(rollout.sticky_task(Some("1")).await.is_some());
}

#[tokio::test]
async fn an_activity_is_held_back_until_its_run_has_moved() {
    let rollout = Rollout::begin(Some("1")).await;
    rollout.start("w").await;
    let task = rollout.task(Some("1")).await.expect("the current version");
    rollout.complete(&task, "1", AUTO_UPGRADE, vec![story::activity("plain")]).await;
    rollout.set_current(Some("2")).await;
    assert!(rollout.activity(Some("1")).await.is_none());
    assert!(rollout.activity(Some("2")).await.is_none(), "the run moves first");
    let task = rollout.task(Some("2")).await.expect("a task for the move");
    assert!(rollout.activity(Some("2")).await.is_none(), "the run has not moved yet");
    rollout.complete(&task, "2", AUTO_UPGRADE, Vec::new()).await;
    assert!(rollout.activity(Some("2")).await.is_some());
}

#[tokio::test]
async fn an_independent_activity_goes_by_the_routing_of_its_own_queue() {
    let rollout = Rollout::begin(Some("1")).await;
    rollout.start("w").await;
    let task = rollout.task(Some("1")).await.expect("the current version");
    let mut command = story::activity("plain");
    if let Some(segno_proto::command::command::Attributes::ScheduleActivityTaskCommandAttributes(activity)) =
        &mut command.attributes
    {
        activity.task_queue =
            Some(segno_proto::taskqueue::TaskQueue { name: "other".to_owned(), ..Default::default() });
    }
    rollout.complete(&task, "1", PINNED, vec![command]).await;
    let poll = rollout.poll(None, QueueKind::Activity, "other");
    let activity = rollout.take::<StartedActivity>(poll).await.expect("no version polls that queue");
    activity.delivery.delivered();
    assert!(rollout.task(Some("1")).await.is_none(), "nothing moves");
}

#[tokio::test]
async fn a_query_of_a_pinned_run_says_that_its_version_has_no_workers() {
    let rollout = Rollout::begin(Some("1")).await;
    rollout.start("w").await;
    let task = rollout.task(Some("1")).await.expect("the current version");
    rollout.complete(&task, "1", PINNED, Vec::new()).await;
    let key = WorkflowKey::new(rollout.namespace, "w");
    let query = async || {
        let until = Instant::now() + Duration::from_millis(400);
        let query = WorkflowQuery { query_type: "q".to_owned(), ..Default::default() };
        rollout.node.dispatch.query(&key, "", query, QueryRejectCondition::None, until).await.map(|_| ())
    };
    let text = "no poller seen for task queue recently, worker may be down";
    assert_eq!(query().await, Err(CallError::NotReady(text.to_owned())));
}

#[tokio::test]
async fn a_first_task_is_started_eagerly_only_for_the_version_to_which_its_run_goes() {
    let rollout = Rollout::begin(Some("1")).await;
    for (id, build, is_entitled) in [("w", Some("1"), true), ("x", Some("2"), false), ("y", None, false)] {
        let namespace = rollout.node.runs.namespaces.get("default").expect("it is always there");
        let mut start = story::start(&namespace, id);
        start.options.eager = true;
        start.options.eager_version = build.map(|build| version(build).as_ref().clone());
        let (_, task) = rollout.node.dispatch.start_workflow(start).await.expect("a workflow starts");
        assert_eq!(task.is_some(), is_entitled, "{id}");
        if let Some(task) = task {
            task.delivery.delivered();
        }
        assert_eq!(
            rollout.task(Some("1")).await.is_some(),
            !is_entitled,
            "{id}: the others wait for the current version"
        );
    }
}
