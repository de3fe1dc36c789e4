//! Workers of several versions on one queue: who gets which task while the routing changes.

use std::{sync::Arc, time::Duration};

use segno_engine::{complete_task::CompleteTask, pause, signal};
use segno_node::{
    CallError, CompletedTask, DeploymentLimits, Environment, ListCaller, MemberQueue, Node, NodeOptions, PinnedCounts,
    Poll, PollerVersion, QueueKind, QueueType, RunSelector, StartedActivity, StartedTask, Uses, WorkerDeployment,
    WorkerTask, WorkerVersion, WorkflowKey,
    calls::{RoutingChange, set_current},
};
use segno_proto::{
    command::Command,
    deployment::WorkerDeploymentVersion,
    enums::{QueryRejectCondition, VersionDrainageStatus, VersioningBehavior, WorkerDeploymentVersionStatus as Status},
    query::WorkflowQuery,
    workflow::{
        VersioningOverride,
        versioning_override::{Override, PinnedOverride, PinnedOverrideBehavior},
    },
};
use segno_store::{Commit, DocumentWrite, MemoryStore, NamespaceKey, Store};
use tokio::time::Instant;

use crate::common::{story, worker};

const PINNED: VersioningBehavior = VersioningBehavior::Pinned;
const AUTO_UPGRADE: VersioningBehavior = VersioningBehavior::AutoUpgrade;

fn version(build: &str) -> WorkerVersion {
    Arc::new(WorkerDeploymentVersion { deployment_name: "d".to_owned(), build_id: build.to_owned() })
}

/// An override that pins to a version.
fn pinned_to(build: &str) -> VersioningOverride {
    let pinned = PinnedOverride {
        behavior: PinnedOverrideBehavior::Pinned as i32,
        version: Some(version(build).as_ref().clone()),
    };
    VersioningOverride { r#override: Some(Override::Pinned(pinned)), ..Default::default() }
}

/// A node with two versions that poll one queue.
struct Rollout {
    node: Arc<Node>,
    namespace: NamespaceKey,
}

impl Rollout {
    async fn begin(current: Option<&str>) -> Self {
        Self::begin_with(current, NodeOptions::default()).await
    }

    async fn begin_with(current: Option<&str>, options: NodeOptions) -> Self {
        let node = Node::start(Arc::new(MemoryStore::default()), Environment::of_machine(), options)
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
        let set = move |before: Option<&_>, now: i64, _: &_| {
            let set = set_current(before, &change, &limits, now, &|_| false)?;
            Ok((Some(set.deployment), ()))
        };
        self.node.runs.change_deployment(self.namespace, "d", set).await.expect("it is set");
    }

    /// A deployment with what is pinned to its versions.
    async fn look(&self) -> (Arc<WorkerDeployment>, PinnedCounts) {
        let namespace = self.node.runs.namespaces.get("default").expect("it is always there");
        let deployment = self.node.runs.deployments.deployment(self.namespace, "d").expect("it is registered");
        let counted = self.node.runs.pinned_counts(ListCaller::default(), &namespace, &deployment).await;
        (deployment, counted.expect("it is counted"))
    }

    async fn status(&self, build: &str) -> Status {
        let (deployment, pinned) = self.look().await;
        let record = deployment.build(build).expect("a version");
        deployment.status(record, pinned.of("d", build), self.node.runs.drainage_view())
    }

    /// The stored drainage of a version: its status, and since when it is so.
    fn noted(&self, build: &str) -> (i32, i64) {
        let deployment = self.node.runs.deployments.deployment(self.namespace, "d").expect("it is registered");
        let record = deployment.build(build).expect("a version");
        (record.drainage, record.drainage_changed)
    }

    /// Starts a workflow that is pinned to a version by its caller.
    async fn start_pinned(&self, id: &str, build: &str) {
        let namespace = self.node.runs.namespaces.get("default").expect("it is always there");
        let mut start = story::start(&namespace, id);
        start.options.versioning_override = Some(pinned_to(build));
        self.node.runs.start_workflow(start).await.expect("a workflow starts");
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

    /// The workers that polled the queue are gone.
    fn forget_worker(&self, kind: QueueKind) {
        self.node.matching.forget_poller(self.namespace, story::QUEUE, &[kind], ("worker", ""));
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
    assert_eq!(query().await, Err(CallError::DeadlineExceeded), "its worker polled a moment ago");
    rollout.forget_worker(QueueKind::Workflow);
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

fn limits(limits: DeploymentLimits) -> NodeOptions {
    NodeOptions { deployments: limits, ..Default::default() }
}

#[tokio::test]
async fn a_query_of_a_run_whose_version_is_drained_is_refused_at_once_unless_it_has_workers() {
    let options = limits(DeploymentLimits { drainage_grace: 0, ..Default::default() });
    let rollout = Rollout::begin_with(Some("1"), options).await;
    rollout.start("w").await;
    let task = rollout.task(Some("1")).await.expect("the current version");
    rollout.complete(&task, "1", PINNED, vec![story::complete()]).await;
    let key = WorkflowKey::new(rollout.namespace, "w");
    let query = async || {
        let until = Instant::now() + Duration::from_millis(400);
        let query = WorkflowQuery { query_type: "q".to_owned(), ..Default::default() };
        rollout.node.dispatch.query(&key, "", query, QueryRejectCondition::None, until).await.map(|_| ())
    };
    rollout.set_current(Some("2")).await;
    assert_eq!(rollout.status("1").await, Status::Drained);
    assert_eq!(query().await, Err(CallError::DeadlineExceeded), "a worker polled a moment ago");
    rollout.forget_worker(QueueKind::Workflow);
    let Err(CallError::NotReady(text)) = query().await else { panic!("it is refused") };
    let start =
        "You are trying to query a closed Workflow that is PINNED to Worker Deployment Version d:1, but d:1 is drained";
    assert!(text.starts_with(start), "{text}");
    // The version that routing names may get workers at any time.
    rollout.set_current(Some("1")).await;
    let text = "no poller seen for task queue recently, worker may be down";
    assert_eq!(query().await, Err(CallError::NotReady(text.to_owned())));
}

#[tokio::test]
async fn a_paused_run_holds_the_version_to_which_it_is_pinned() {
    let options =
        NodeOptions { workflow_pause: true, ..limits(DeploymentLimits { drainage_grace: 0, ..Default::default() }) };
    let rollout = Rollout::begin_with(Some("1"), options).await;
    rollout.start_pinned("w", "2").await;
    assert_eq!(rollout.look().await.1.of("d", "2").open, 1);
    let key = WorkflowKey::new(rollout.namespace, "w");
    rollout.node.dispatch.pause_workflow(&key, "", pause::Call::default()).await.expect("it is paused");
    assert_eq!(rollout.look().await.1.of("d", "2").open, 1, "a paused run is open");
    assert_eq!(rollout.status("2").await, Status::Draining);
}

#[tokio::test]
async fn a_version_to_which_a_run_was_pinned_is_drained_though_no_caller_looked_at_it_meanwhile() {
    let rollout = Rollout::begin(Some("1")).await;
    assert_eq!(rollout.status("2").await, Status::Inactive);
    let before = rollout.node.runs.clock_now();
    rollout.start_pinned("w", "2").await;
    let task = rollout.task(Some("2")).await.expect("pinned");
    rollout.complete(&task, "2", PINNED, vec![story::complete()]).await;
    let after = rollout.node.runs.clock_now();
    let drained = VersionDrainageStatus::Drained as i32;
    let noted = async {
        while rollout.noted("2").0 != drained {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), noted).await.expect("it is noted by itself");
    assert_eq!(rollout.status("2").await, Status::Drained);
    let since = rollout.noted("2").1;
    assert!((before..=after).contains(&since), "since the run closed: {before} {since} {after}");
}

#[tokio::test]
async fn polls_at_the_limit_make_room_for_each_other() {
    let rollout = Rollout::begin_with(None, limits(DeploymentLimits { versions_max: 3, ..Default::default() })).await;
    let register = |build: &'static str| {
        let queue = MemberQueue { name: story::QUEUE.to_owned(), kind: QueueType::Workflow };
        let (node, namespace) = (rollout.node.clone(), rollout.namespace);
        tokio::spawn(async move { node.runs.register_poller(namespace, &version(build), queue).await })
    };
    let (third, fourth, fifth) = tokio::join!(register("3"), register("4"), register("5"));
    for registered in [third, fourth, fifth] {
        registered.expect("it does not panic").expect("an unused version goes");
    }
    let builds: Vec<_> = rollout.look().await.0.record.builds.iter().map(|build| build.build.clone()).collect();
    assert_eq!(builds.len(), 3);
    assert!(["3", "4", "5"].iter().all(|build| builds.iter().any(|known| known == build)), "{builds:?}");
}

#[tokio::test]
async fn a_refused_change_at_the_limit_removes_nothing() {
    let options = limits(DeploymentLimits { versions_max: 2, ..Default::default() });
    let rollout = Rollout::begin_with(Some("1"), options).await;
    let change = |identity: &str, token: &'static [u8]| RoutingChange {
        name: "d".to_owned(),
        build: Some("3".to_owned()),
        identity: identity.to_owned(),
        conflict_token: token.into(),
        allow_no_pollers: true,
        ..Default::default()
    };
    let set = async |change: RoutingChange| {
        let limits = rollout.node.runs.deployment_limits;
        let set = move |before: Option<&_>, now: i64, _: &_| {
            let set = set_current(before, &change, &limits, now, &|_| false)?;
            Ok((Some(set.deployment), ()))
        };
        rollout.node.runs.change_deployment(rollout.namespace, "d", set).await
    };
    assert!(set(change("operator", b"stale")).await.is_err());
    let builds = async || rollout.look().await.0.record.builds.len();
    assert!(rollout.look().await.0.build("2").is_some(), "it was not removed for a change that was refused");
    set(change("operator", b"")).await.expect("an unused version goes");
    assert_eq!(builds().await, 2);
    assert!(rollout.look().await.0.build("2").is_none());
    // One is current now and the other draining.
    let full = set(RoutingChange { build: Some("4".to_owned()), ..change("operator", b"") }).await;
    let text = "cannot add version d.4 since maximum number of versions (2) have been registered in the deployment";
    assert_eq!(full.map_err(|error| error.to_string()), Err(text.to_owned()));
}

#[tokio::test]
async fn the_use_of_a_queue_is_told_by_versions() {
    let rollout = Rollout::begin(Some("1")).await;
    rollout.start("w").await;
    rollout.start_pinned("x", "2").await;
    rollout.start_pinned("y", "2").await;
    let queue = MemberQueue { name: story::QUEUE.to_owned(), kind: QueueType::Workflow };
    let used = async |build| {
        let found = rollout.node.runs.queue_use(rollout.namespace, &queue, Some(&version(build))).await;
        let found = found.expect("it is known");
        let of_default = found.stats_by_priority.get(&3).map(|stats| stats.approximate_backlog_count);
        (found.stats.approximate_backlog_count, of_default, found.has_pollers)
    };
    assert_eq!(used("1").await, (1, Some(1), false));
    assert_eq!(used("2").await, (2, Some(2), false));
    assert_eq!(used("3").await, (0, Some(0), false));
    assert!(rollout.task(Some("1")).await.is_some());
    assert!(used("1").await.2 && !used("2").await.2);
}

#[tokio::test]
async fn a_deployment_that_cannot_be_read_is_set_aside_and_does_not_stop_the_node() {
    let rollout = Rollout::begin(Some("1")).await;
    let namespace = rollout.namespace;
    let write = |name: &str| DocumentWrite {
        namespace,
        name: format!("deployment/{name}"),
        content: Some(vec![0xff, 0xff, 0xff].into()),
    };
    let documents = vec![write("broken"), write("d:unlisted"), write("orphan:1")];
    let commit = Commit { documents, ..Default::default() };
    rollout.node.runs.committer.commit_of(namespace, commit).await.expect("it is stored");
    let store: Arc<dyn Store> = rollout.node.runs.store.clone();
    let restarted = Node::start(store, Environment::of_machine(), NodeOptions::default()).await.expect("it starts");
    assert!(restarted.runs.deployments.deployment(namespace, "d").is_some_and(|known| known.is_current("1")));
    assert!(restarted.runs.deployments.deployment(namespace, "broken").is_none());
    let remove = |_: Option<&_>, _: i64, _: &_| Ok((None, ()));
    let refused = restarted.runs.change_deployment(namespace, "broken", remove).await;
    assert!(matches!(refused, Err(CallError::DataLoss(_))), "{refused:?}");
    let registered = restarted.runs.deployments.page(namespace, "", 10).len();
    assert_eq!(registered, 1);
}

#[tokio::test]
async fn unused_versions_are_removed_after_the_retention() {
    let second = 1_000_000_000;
    let options = limits(DeploymentLimits {
        drainage_grace: 0,
        poller_ttl: second,
        retention: Some(second / 5),
        ..Default::default()
    });
    let rollout = Rollout::begin_with(Some("1"), options).await;
    rollout.start_pinned("w", "2").await;
    let queue = MemberQueue { name: story::QUEUE.to_owned(), kind: QueueType::Workflow };
    rollout.node.runs.register_poller(rollout.namespace, &version("3"), queue).await.expect("it registers");
    let gone = async {
        while rollout.look().await.0.build("3").is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it is removed");
    let (deployment, _) = rollout.look().await;
    assert!(deployment.build("1").is_some(), "it is the current one");
    assert!(deployment.build("2").is_some(), "a run is pinned to it");
}

#[tokio::test]
async fn a_change_is_refused_for_a_missing_queue_that_has_tasks_for_the_current_version() {
    let rollout = Rollout::begin(Some("1")).await;
    let other = || MemberQueue { name: "other".to_owned(), kind: QueueType::Workflow };
    for build in ["1", "3"] {
        rollout.node.runs.register_poller(rollout.namespace, &version(build), other()).await.expect("it registers");
    }
    let start = async |id: &str, pinned: Option<&str>| {
        let namespace = rollout.node.runs.namespaces.get("default").expect("it is always there");
        let mut start = story::start(&namespace, id);
        start.options.task_queue =
            Some(segno_proto::taskqueue::TaskQueue { name: "other".to_owned(), ..Default::default() });
        start.options.versioning_override = pinned.map(pinned_to);
        rollout.node.runs.start_workflow(start).await.expect("a workflow starts");
    };
    let set = async |build: &str| {
        let change = RoutingChange {
            name: "d".to_owned(),
            build: Some(build.to_owned()),
            identity: "operator".to_owned(),
            ..Default::default()
        };
        let limits = rollout.node.runs.deployment_limits;
        let set = move |before: Option<&_>, now: i64, uses: &Uses| {
            let set = set_current(before, &change, &limits, now, &|queue| uses.has_tasks(queue))?;
            Ok((Some(set.deployment), ()))
        };
        let set = rollout.node.runs.change_deployment(rollout.namespace, "d", set).await;
        set.map_err(|error| error.to_string())
    };
    start("pinned", Some("3")).await;
    assert_eq!(set("2").await, Ok(()), "the task that waits there is of another version");
    assert_eq!(set("1").await, Ok(()));
    start("routed", None).await;
    let text = "proposed current version 'd:2' is missing active task queues from the current version; these would become \
                unversioned if it is set as the current version";
    assert_eq!(set("2").await, Err(text.to_owned()));
}
