//! Worker deployments: which version of a worker executes a workflow.
//!
//! Each test has a server of its own, with workers of the builds 1 and 2 of one deployment on one queue. Temporal's
//! server needs some time after every change of the routing; [`Shop::route`] waits for it.

use std::time::Duration;

use segno_sdk::{
    BatchJob, ChildOptions, ContinueOptions, Deployment, DeploymentDescription, DeploymentHandle, DeploymentVersion,
    InitialVersioning, ResetOptions, Schedule, ScheduleAction, ScheduleSpec, VersionStatus, VersioningBehavior,
    VersioningOverride, Worker, prelude::*, raw::Attributes, testing::TestServer,
};

use super::{queue, server};

const GO: Signal<u32> = Signal::named("go");

/// The build that executed a workflow task, and whether the server said that its target had changed.
type Executed = (String, bool);

fn executed(ctx: &Context) -> Executed {
    (ctx.deployment_version().map(|version| version.build_id).unwrap_or_default(), ctx.target_version_changed())
}

fn by(build: &str) -> Executed {
    (build.to_owned(), false)
}

/// Executes one workflow task, and another one for each signal.
async fn on_each_signal(ctx: Context, signals: u32) -> Result<Vec<Executed>> {
    let mut all = vec![executed(&ctx)];
    for _ in 0..signals {
        ctx.receive(GO).await?;
        all.push(executed(&ctx));
    }
    Ok(all)
}

#[workflow(versioning = "pinned")]
async fn stay(ctx: Context, signals: u32) -> Result<Vec<Executed>> {
    on_each_signal(ctx, signals).await
}

#[workflow(versioning = "auto_upgrade")]
async fn follow(ctx: Context, signals: u32) -> Result<Vec<Executed>> {
    on_each_signal(ctx, signals).await
}

/// As the worker's default says.
#[workflow]
async fn neither(ctx: Context, signals: u32) -> Result<Vec<Executed>> {
    on_each_signal(ctx, signals).await
}

/// Waits for a signal and continues as new: 1 in the same version, 2 where the routing leads, 3 in the ramping version.
#[workflow(versioning = "pinned")]
async fn move_on(ctx: Context, before: Vec<Executed>) -> Result<Vec<Executed>> {
    let initial_versioning = match ctx.receive(GO).await? {
        0 => return Ok([before, vec![executed(&ctx)]].concat()),
        1 => None,
        2 => Some(InitialVersioning::AutoUpgrade),
        _ => Some(InitialVersioning::RampingVersion),
    };
    let options = ContinueOptions { initial_versioning, ..ContinueOptions::default() };
    let before = [before, vec![executed(&ctx)]].concat();
    Err(ctx.continue_as_new_with_options::<MoveOn>(before, options))
}

/// A child with an override beside one that inherits the version.
#[workflow(versioning = "pinned")]
async fn with_children(ctx: Context, versioning: String) -> Result<(Vec<Executed>, Vec<Executed>)> {
    let options = ChildOptions { versioning: Some(pinned(&versioning)), ..ChildOptions::default() };
    let (moved, kept) =
        try_join!(ctx.schedule_workflow_with_options::<Follow>(options, 0), ctx.schedule_workflow::<Stay>("kept", 0))?;
    Ok((moved, kept))
}

#[derive(Default)]
struct Counter {
    sum: u32,
}

#[workflow(versioning = "auto_upgrade")]
impl Counter {
    #[run]
    async fn run(ctx: Context<Self>) -> Result<String> {
        ctx.wait_condition(|counter| counter.sum > 0).await?;
        Ok(ctx.deployment_version().map(|version| version.build_id).unwrap_or_default())
    }
    #[update]
    fn add(&mut self, number: u32) -> Result<u32> {
        self.sum += number;
        Ok(self.sum)
    }
}

fn pinned(build: &str) -> VersioningOverride {
    VersioningOverride::Pinned { deployment: "shop".to_owned(), build_id: build.to_owned() }
}

fn once(build: &str) -> VersioningOverride {
    VersioningOverride::OneTime { deployment: "shop".to_owned(), build_id: build.to_owned() }
}

fn start(id: &str, versioning: VersioningOverride) -> StartOptions {
    StartOptions { versioning: Some(versioning), ..StartOptions::new(id) }
}

fn worker(queue: &Queue, build: &str) -> Worker {
    let deployment = Deployment { default_behavior: VersioningBehavior::Pinned, ..Deployment::new("shop", build) };
    queue
        .worker()
        .workflow::<Stay>()
        .workflow::<Follow>()
        .workflow::<Neither>()
        .workflow::<MoveOn>()
        .workflow::<WithChildren>()
        .workflow::<Counter>()
        .deployment(deployment)
        .build()
        .unwrap()
}

/// A deployment with workers of two builds.
struct Shop {
    queue: Queue,
    deployment: DeploymentHandle,
    _server: TestServer,
}

impl Shop {
    /// Runs `body` beside both workers, once the server knows them.
    async fn open(body: impl AsyncFnOnce(&Self) -> Result<(), ClientError>) {
        let server = server().await;
        let queue = queue(&server.client());
        let deployment = server.client().deployment("shop");
        let [one, two] = ["1", "2"].map(|build| worker(&queue, build));
        let shop = Self { queue, deployment, _server: server };
        let handles = [one.shutdown_handle(), two.shutdown_handle()];
        let body = async {
            let both = |shop: &DeploymentDescription| ["1", "2"].iter().all(|build| shop.status(build).is_some());
            shop.described("both builds polled", both).await?;
            let outcome = body(&shop).await;
            handles.iter().for_each(segno_sdk::ShutdownHandle::shutdown);
            outcome
        };
        let (outcome, first, second) = tokio::join!(Box::pin(body), one.run(), two.run());
        outcome.and(first).and(second).unwrap();
    }

    /// Waits until the description is as expected, for at most 60 s.
    async fn described(
        &self,
        what: &str,
        expected: impl Fn(&DeploymentDescription) -> bool,
    ) -> Result<DeploymentDescription, ClientError> {
        let waited = async {
            loop {
                match self.deployment.describe().await {
                    Ok(described) if expected(&described) => return Ok(described),
                    Err(error) if !matches!(error, ClientError::NotFound(_)) => return Err(error),
                    _ => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waited)
            .await
            .unwrap_or_else(|_| panic!("not within 60 s: {what}"))
    }

    /// Changes the routing, and waits until every queue has it.
    async fn route(&self, current: &str, ramping: Option<(&str, f32)>) -> Result<(), ClientError> {
        self.deployment.set_current(current).await?;
        if let Some((build, percentage)) = ramping {
            self.deployment.set_ramping(build, percentage).await?;
        }
        let described = self
            .described("the routing is everywhere", |shop| {
                shop.is_propagated && shop.current.as_deref() == Some(current)
            })
            .await?;
        assert_eq!(described.ramping.as_deref(), ramping.map(|(build, _)| build));
        assert_eq!(described.ramping_percentage, ramping.map_or(0.0, |(_, percentage)| percentage));
        assert_eq!(described.status(current), Some(VersionStatus::Current));
        Ok(())
    }

    /// Sends a signal and waits until the run that receives it has continued as new.
    async fn continues(&self, handle: &Handle<MoveOn>, signal: u32) -> Result<(), ClientError> {
        let before = handle.describe().await?.run_id;
        handle.signal(GO, signal).await?;
        for _ in 0..600 {
            if handle.describe().await?.run_id != before {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} did not continue as new within 30 s", handle.workflow_id());
    }

    /// Waits until a worker has completed a workflow task of the run, for at most 30 s.
    async fn version<W: WorkflowDefinition>(&self, handle: &Handle<W>) -> Result<String, ClientError> {
        for _ in 0..600 {
            if let Some(version) = handle.describe().await?.version {
                assert_eq!(version, DeploymentVersion::new("shop", &version.build_id));
                return Ok(version.build_id);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no workflow task of {} was completed within 30 s", handle.workflow_id());
    }
}

/// The behaviours that workers reported with the workflow tasks of a run.
async fn behaviors<W>(handle: &Handle<W>) -> Result<Vec<i32>, ClientError> {
    let completed = handle.history().await?.into_iter().filter_map(|event| match event.attributes {
        Some(Attributes::WorkflowTaskCompletedEventAttributes(completed)) => Some(completed.versioning_behavior),
        _ => None,
    });
    Ok(completed.collect())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn pinned_runs_stay_and_others_follow_the_routing() {
    Shop::open(async |shop| {
        shop.route("1", None).await?;
        let stay = shop.queue.start::<Stay>("stay", 1).await?;
        let follow = shop.queue.start::<Follow>("follow", 1).await?;
        let neither = shop.queue.start::<Neither>("neither", 1).await?;
        for build in [shop.version(&stay).await?, shop.version(&follow).await?, shop.version(&neither).await?] {
            assert_eq!(build, "1");
        }
        shop.route("2", None).await?;
        stay.signal(GO, 0).await?;
        follow.signal(GO, 0).await?;
        neither.signal(GO, 0).await?;
        let moved = ("1".to_owned(), true);
        assert_eq!(stay.result().await?, [by("1"), moved.clone()], "the pinned run learns that its target changed");
        // The worker of build 2 has replayed the first workflow task: its version is that of history.
        assert_eq!(follow.result().await?, [by("1"), by("2")]);
        assert_eq!(neither.result().await?, [by("1"), moved], "the default of the worker is to pin");
        let (pins, upgrades) = (VersioningBehavior::Pinned, VersioningBehavior::AutoUpgrade);
        assert_eq!((stay.describe().await?.versioning, behaviors(&stay).await?), (pins, vec![1, 1]));
        assert_eq!((follow.describe().await?.versioning, behaviors(&follow).await?), (upgrades, vec![2, 2]));
        assert_eq!((neither.describe().await?.versioning, behaviors(&neither).await?), (pins, vec![1, 1]));
        assert_eq!(shop.queue.execute::<Stay>("new", 0).await?, [by("2")]);
        Ok(())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn the_ramp_chooses_by_workflow_id() {
    Shop::open(async |shop| {
        shop.route("1", Some(("2", 40.0))).await?;
        // Where these ids are, in percent: 23.7, 87.6, 87.0, 20.1.
        for (id, build) in [("a", "2"), ("wf", "1"), ("ramp-0", "1"), ("ramp-1", "2")] {
            assert_eq!(shop.queue.execute::<Stay>(id, 0).await?, [by(build)], "{id}");
        }
        let waiting = shop.queue.start::<Follow>("order-12345", 1).await?;
        assert_eq!(shop.version(&waiting).await?, "1");
        shop.deployment.set_ramping("2", 100.0).await?;
        shop.described("the ramp is everywhere", |shop| shop.is_propagated && shop.ramping_percentage == 100.0).await?;
        waiting.signal(GO, 0).await?;
        assert_eq!(waiting.result().await?, [by("1"), by("2")]);
        shop.deployment.unset_ramping().await?;
        let described = shop.described("no ramp", |shop| shop.is_propagated && shop.ramping.is_none()).await?;
        assert_eq!(described.current.as_deref(), Some("1"));
        assert_eq!(shop.queue.execute::<Stay>("a", 0).await?, [by("1")]);
        Ok(())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn every_kind_of_start_takes_an_override() {
    Shop::open(async |shop| {
        shop.route("2", None).await?;
        let queue = &shop.queue;
        assert_eq!(queue.execute::<Follow>("plain", 0).await?, [by("2")]);
        assert_eq!(queue.execute::<Follow>(start("pinned", pinned("1")), 0).await?, [by("1")]);
        let handle = queue.signal_with_start::<Follow, _>(start("signalled", pinned("1")), 1, GO, 0).await?;
        assert_eq!(handle.result().await?.last(), Some(&by("1")));
        let (handle, update) =
            queue.update_with_start::<Counter, _, _>(start("updated", pinned("1")), (), Counter::ADD, 4).await?;
        assert_eq!((update.result().await?, handle.result().await?.as_str()), (4, "1"));
        let children = queue.start::<WithChildren>("parent", "1".to_owned()).await?;
        assert_eq!(children.result().await?, (vec![by("1")], vec![by("2")]), "the other child inherits the version");
        // A version without this queue is refused.
        let refused = queue.start::<Follow>(start("refused", pinned("3")), 0).await.unwrap_err();
        assert!(refused.to_string().contains("is not present in task queue"), "{refused}");
        Ok(())
    })
    .await;
}

/// Not on Temporal's server: 1.32 starts the workflow without the override of the schedule's action.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn schedules_take_an_override_segno_only() {
    Shop::open(async |shop| {
        shop.route("2", None).await?;
        let queue = &shop.queue;
        let action = ScheduleAction::start::<Follow>(queue.name(), start("scheduled", pinned("1")), 0)?;
        let schedule = Schedule { trigger_at_once: true, ..Schedule::new(ScheduleSpec::cron("0 0 1 1 *"), action) };
        let schedule = queue.client().create_schedule("yearly", schedule).await?;
        let mut started = Vec::new();
        for _ in 0..120 {
            started = schedule.describe().await?.raw().info.clone().unwrap_or_default().recent_actions;
            if !started.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let run =
            started.pop().and_then(|action| action.start_workflow_result).expect("the schedule has started a run");
        assert_eq!(queue.client().handle::<Follow>(run.workflow_id).result().await?, [by("1")]);
        Ok(())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn overrides_of_open_runs_are_set_and_removed() {
    Shop::open(async |shop| {
        shop.route("2", None).await?;
        let queue = &shop.queue;
        // One workflow task at build 1, the next one where the routing leads.
        let handle = queue.start::<Follow>(start("once", once("1")), 1).await?;
        assert_eq!(shop.version(&handle).await?, "1");
        handle.signal(GO, 0).await?;
        assert_eq!(handle.result().await?, [by("1"), by("2")]);

        let handle = queue.start::<Stay>("moved", 2).await?;
        assert_eq!(shop.version(&handle).await?, "2");
        handle.set_versioning_override(pinned("1")).await?;
        handle.signal(GO, 0).await?;
        while handle.describe().await?.version != Some(DeploymentVersion::new("shop", "1")) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        handle.set_versioning_override(VersioningOverride::AutoUpgrade).await?;
        handle.signal(GO, 0).await?;
        assert_eq!(handle.result().await?, [by("2"), by("1"), by("2")]);

        let handle = queue.start::<Follow>(start("freed", pinned("1")), 1).await?;
        assert_eq!(shop.version(&handle).await?, "1");
        handle.remove_versioning_override().await?;
        handle.signal(GO, 0).await?;
        assert_eq!(handle.result().await?, [by("1"), by("2")]);
        // The run that a reset makes is pinned elsewhere.
        let reset = ResetOptions { event_id: 4, versioning: Some(pinned("1")), ..ResetOptions::default() };
        let again = handle.reset(reset).await?;
        assert_eq!(again.result().await?, [by("1"), by("1")]);
        Ok(())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_batch_sets_and_removes_overrides() {
    async fn ends(job: BatchJob) -> Result<(), ClientError> {
        for _ in 0..240 {
            let progress = job.progress().await?;
            if !progress.is_running {
                assert!(progress.is_completed && (progress.total, progress.failed) == (2, 0), "{progress:?}");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        panic!("the batch still runs after 60 s");
    }
    Shop::open(async |shop| {
        shop.route("1", None).await?;
        let runs = [shop.queue.start::<Stay>("one", 2).await?, shop.queue.start::<Stay>("two", 2).await?];
        for run in &runs {
            assert_eq!(shop.version(run).await?, "1");
        }
        let client = shop.queue.client();
        let running = "WorkflowType = 'stay' AND ExecutionStatus = 'Running'";
        while client.count(running).await?.count < 2 {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        ends(client.batch(running).max_per_second(50.0).reason("try 2").set_versioning_override(once("2")).await?)
            .await?;
        for run in &runs {
            run.signal(GO, 0).await?;
            while run.describe().await?.version != Some(DeploymentVersion::new("shop", "2")) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        ends(client.batch(running).reason("pin to 1").set_versioning_override(pinned("1")).await?).await?;
        ends(client.batch(running).reason("as before").remove_versioning_override().await?).await?;
        for run in &runs {
            run.signal(GO, 0).await?;
            assert_eq!(run.result().await?[..2], [by("1"), by("2")]);
            assert_eq!(run.result().await?[2].0, "2", "it was pinned to 2 by the worker's answer");
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn the_next_run_begins_where_this_one_says() {
    Shop::open(async |shop| {
        shop.route("1", None).await?;
        let handle = shop.queue.start::<MoveOn>("wf", Vec::new()).await?;
        assert_eq!(shop.version(&handle).await?, "1");
        shop.route("2", None).await?;
        shop.continues(&handle, 1).await?;
        shop.continues(&handle, 2).await?;
        handle.signal(GO, 0).await?;
        // By default the next run has the version of this one. So it declines the new version, and gets no second hint.
        assert_eq!(handle.result().await?, [("1".to_owned(), true), by("1"), by("2")]);

        // This id is far above the percentage.
        shop.route("1", Some(("2", 1.0))).await?;
        let handle = shop.queue.start::<MoveOn>("order-12345", Vec::new()).await?;
        assert_eq!(shop.version(&handle).await?, "1");
        shop.continues(&handle, 3).await?;
        handle.signal(GO, 0).await?;
        assert_eq!(handle.result().await?, [by("1"), by("2")]);
        Ok(())
    })
    .await;
}

/// Not on Temporal's server: 1.32 would start eagerly at any version, so that versioned workers do not offer it there.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn eager_starts_go_where_the_routing_leads_segno_only() {
    Shop::open(async |shop| {
        // Both workers are of the client that starts, and the first one that offers a place is chosen.
        let mut eager = 0;
        for current in ["1", "2"] {
            shop.route(current, None).await?;
            for number in 0..20 {
                let handle = shop.queue.start::<Stay>(format!("eager-{current}-{number}"), 0).await?;
                assert_eq!(handle.result().await?, [by(current)]);
                let started = handle.history().await?.into_iter().next().and_then(|event| event.attributes);
                let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) = started else {
                    panic!("the first event is another one")
                };
                eager += usize::from(started.eager_execution_accepted);
            }
        }
        assert!((1..=20).contains(&eager), "{eager} eager starts: some for one build, none for the other");
        Ok(())
    })
    .await;
}
