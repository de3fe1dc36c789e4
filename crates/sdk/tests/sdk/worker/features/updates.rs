//! `update`.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use segno_sdk::{
    ClientCall, ClientCallKind, ClientInterceptor, UpdateOptions,
    prelude::*,
    raw::{Attributes, enums::EventType as E},
};

use super::{shape, start};
use crate::worker::until;

#[task]
async fn say_six() -> Result<u32> {
    Ok(6)
}

struct Caller(Client);

#[tasks]
impl Caller {
    /// Updates the workflow that scheduled it.
    #[task]
    async fn update_my_workflow(&self, ctx: TaskContext) -> Result<()> {
        let workflow = self.0.handle_raw(&ctx.info().workflow_id);
        workflow.update(Updated::FINISH, "Hello, world!".to_owned()).await?;
        Ok(())
    }
}

/// The workflow of most scenarios.
#[derive(Default)]
struct Updated {
    done: Option<String>,
    counter: u32,
    proceed: bool,
}

#[workflow]
impl Updated {
    #[run]
    async fn run(ctx: Context<Self>, calls_itself: bool) -> Result<String> {
        if calls_itself {
            ctx.schedule::<UpdateMyWorkflow>(()).await?;
            assert!(ctx.this().done.is_some(), "the update happened before the task ended");
        }
        ctx.wait_condition(|state| state.done.is_some()).await?;
        Ok(ctx.this().done.clone().unwrap_or_default())
    }

    #[update]
    fn finish(&mut self, text: String) -> Result<String> {
        self.done = Some(text.clone());
        Ok(text)
    }
    #[validate(finish)]
    fn check(&self, text: &str) -> Result<()> {
        if text.contains("invalid") { Err("invalid arg".into()) } else { Ok(()) }
    }

    #[update]
    async fn with_tasks(ctx: Context<Self>) -> Result<u32> {
        let tasks = (0..5).map(|_| ctx.schedule::<SaySix>(()));
        let total: u32 = try_join_all(tasks).await?.into_iter().sum();
        ctx.this_mut().done = Some(total.to_string());
        Ok(total)
    }

    #[update]
    async fn wait_or_fail(ctx: Context<Self>, wait: bool) -> Result<u32> {
        if !wait {
            return Err(Failure::application("Died", "Dying on purpose").into());
        }
        ctx.wait_condition(|state| state.proceed).await?;
        ctx.this_mut().proceed = false;
        Ok(123)
    }

    #[update]
    async fn increment(ctx: Context<Self>) -> Result<u32> {
        ctx.this_mut().counter += 1;
        ctx.wait_condition(|state| state.proceed).await?;
        ctx.this_mut().proceed = false;
        Ok(ctx.this().counter)
    }

    #[signal]
    fn unblock(&mut self) {
        self.proceed = true;
    }
}

async fn serve(
    server: &segno_sdk::testing::TestServer,
    queue: &Queue,
    body: impl Future<Output = Result<(), ClientError>> + Send,
) {
    let worker = queue.worker().workflow::<Updated>().task::<SaySix>().tasks(Caller(server.client())).build().unwrap();
    worker.run_until(body).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn update_basic_and_activities_and_self() {
    let (server, queue) = start().await;
    let body = async {
        let basic = queue.start::<Updated>("basic", false).await?;
        let refused = basic.update(Updated::FINISH, "invalid".to_owned()).await;
        assert!(matches!(refused, Err(ClientError::UpdateRejected(_))), "{refused:?}");
        assert_eq!(basic.update(Updated::FINISH, "update-result".to_owned()).await?, "update-result");
        assert_eq!(basic.result().await?, "update-result");
        // update/non_durable_reject: what was refused left nothing.
        let expected = [
            E::WorkflowExecutionStarted,
            E::WorkflowExecutionUpdateAccepted,
            E::WorkflowExecutionUpdateCompleted,
            E::WorkflowExecutionCompleted,
        ];
        assert_eq!(shape(&basic).await, expected);

        let activities = queue.start::<Updated>("activities", false).await?;
        assert_eq!(activities.update(Updated::WITH_TASKS, ()).await?, 30);
        assert_eq!(activities.result().await?, "30");

        let own = queue.start::<Updated>("self", true).await?;
        assert_eq!(own.result().await?, "Hello, world!");
        Ok(())
    };
    serve(&server, &queue, body).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn update_non_durable_reject() {
    let (server, queue) = start().await;
    let body = async {
        let handle = queue.start::<Updated>("reject", false).await?;
        // The first workflow task is done, so that each update has one of its own.
        assert!(handle.update(Updated::FINISH, "invalid".to_owned()).await.is_err());
        let before = handle.history().await?.len();
        for _ in 0..5 {
            let refused = handle.update(Updated::FINISH, "invalid".to_owned()).await;
            assert!(matches!(refused, Err(ClientError::UpdateRejected(_))), "{refused:?}");
        }
        assert_eq!(handle.history().await?.len(), before, "what is refused takes no space");
        handle.update(Updated::FINISH, "done".to_owned()).await?;
        handle.result().await?;
        Ok(())
    };
    serve(&server, &queue, body).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn update_basic_async_and_async_accepted() {
    let (server, queue) = start().await;
    let body = async {
        let handle = queue.start::<Updated>("async", false).await?;
        let options = UpdateOptions { id: "sleepy_update".to_owned() };
        let sleepy = handle.start_update_with_options(Updated::WAIT_OR_FAIL, true, options).await?;
        assert_eq!(sleepy.id(), "sleepy_update");
        handle.signal(Updated::UNBLOCK, ()).await?;
        assert_eq!(sleepy.result().await?, 123);
        assert_eq!(handle.update_handle::<u32>("sleepy_update").result().await?, 123);

        let failing = handle.start_update(Updated::WAIT_OR_FAIL, false).await?;
        let error = failing.result().await.unwrap_err();
        assert!(matches!(error, ClientError::UpdateFailed(_)), "{error:?}");
        assert_eq!(error.failure().unwrap().message(), "Dying on purpose");

        // Accepted, and still without a result when the caller's patience is over.
        let waiting = handle.start_update(Updated::WAIT_OR_FAIL, true).await?;
        assert!(tokio::time::timeout(Duration::from_millis(500), waiting.result()).await.is_err());
        handle.signal(Updated::UNBLOCK, ()).await?;
        assert_eq!(waiting.result().await?, 123);
        handle.update(Updated::FINISH, "done".to_owned()).await?;
        handle.result().await?;
        Ok(())
    };
    serve(&server, &queue, body).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn update_deduplication() {
    let (server, queue) = start().await;
    let body = async {
        let handle = queue.start::<Updated>("twice", false).await?;
        let options = || UpdateOptions { id: "incrementer".to_owned() };
        let first = handle.start_update_with_options(Updated::INCREMENT, (), options()).await?;
        let second = handle.start_update_with_options(Updated::INCREMENT, (), options()).await?;
        handle.signal(Updated::UNBLOCK, ()).await?;
        assert_eq!((first.result().await?, second.result().await?), (1, 1));
        handle.start_update(Updated::INCREMENT, ()).await?;
        let (mut accepted, mut completed) = (0, 0);
        for event in handle.history().await? {
            match event.attributes {
                Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(_)) => accepted += 1,
                Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(update)) => {
                    assert_eq!(update.meta.unwrap().update_id, "incrementer");
                    completed += 1;
                }
                _ => {}
            }
        }
        assert_eq!((accepted, completed), (2, 1));
        handle.terminate("enough").await?;
        Ok(())
    };
    serve(&server, &queue, body).await;
}

struct Noting(Arc<Mutex<Vec<String>>>);

impl ClientInterceptor for Noting {
    fn before(&self, call: &mut ClientCall) -> Result<(), ClientError> {
        if call.kind == ClientCallKind::Update {
            self.0.lock().unwrap().push(call.name.clone());
            if call.name == "increment" {
                return Err(ClientError::Configuration("not through me".to_owned()));
            }
        }
        Ok(())
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn update_client_interceptor() {
    let (server, queue) = start().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let builder = Client::builder().target(server.address()).interceptor(Noting(seen.clone()));
    let client = builder.connect().await.unwrap();
    let body = async {
        queue.start::<Updated>("intercepted", false).await?;
        let handle = client.handle::<Updated>("intercepted");
        let refused = handle.update(Updated::INCREMENT, ()).await;
        assert!(matches!(refused, Err(ClientError::Configuration(_))), "{refused:?}");
        assert_eq!(handle.update(Updated::FINISH, "done".to_owned()).await?, "done");
        handle.result().await?;
        Ok(())
    };
    serve(&server, &queue, body).await;
    assert_eq!(*seen.lock().unwrap(), ["increment", "finish"]);
}

static FAILED_TASKS: AtomicU32 = AtomicU32::new(0);
static REPLAYS: AtomicU32 = AtomicU32::new(0);

/// Its handlers fail its workflow task, for which they use statics as no workflow should.
#[derive(Default)]
struct Failing {
    done: bool,
}

#[workflow]
impl Failing {
    #[run]
    async fn run(ctx: Context<Self>) -> Result<String> {
        ctx.wait_condition(|state| state.done).await?;
        Ok("Hello, World!".to_owned())
    }
    #[update]
    async fn do_update(ctx: Context<Self>) -> Result<()> {
        let _ = ctx;
        if FAILED_TASKS.fetch_add(1, Ordering::SeqCst) < 2 {
            panic!("I'll fail the task");
        }
        Err("I'll fail the update".into())
    }
    #[update]
    fn throw_or_done(&mut self, throw: bool) -> Result<()> {
        let _ = throw;
        self.done = true;
        Ok(())
    }
    #[validate(throw_or_done)]
    fn check(&self, throw: &bool) -> Result<()> {
        assert!(!throw, "this fails the validation, not the task");
        Ok(())
    }
    #[update]
    fn finish(&mut self) -> Result<()> {
        if REPLAYS.fetch_add(1, Ordering::SeqCst) == 0 {
            panic!("I'll fail the task, so that it is replayed");
        }
        self.done = true;
        Ok(())
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn update_task_failure_and_validation_replay() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<Failing>().build().unwrap();
    let options = |id: &str| StartOptions { task_timeout: Some(Duration::from_secs(2)), ..StartOptions::new(id) };
    let body = async {
        let handle = queue.start_with_options::<Failing>(options("task-failure"), ()).await?;
        let failed = handle.update(Failing::DO_UPDATE, ()).await;
        assert!(matches!(failed, Err(ClientError::UpdateFailed(_))), "{failed:?}");
        let refused = handle.update(Failing::THROW_OR_DONE, true).await;
        assert!(matches!(refused, Err(ClientError::UpdateRejected(_))), "{refused:?}");
        handle.update(Failing::THROW_OR_DONE, false).await?;
        assert_eq!(handle.result().await?, "Hello, World!");
        assert_eq!(FAILED_TASKS.load(Ordering::SeqCst), 3);

        let handle = queue.start_with_options::<Failing>(options("validation"), ()).await?;
        handle.update(Failing::FINISH, ()).await?;
        assert_eq!(handle.result().await?, "Hello, World!");
        assert_eq!(REPLAYS.load(Ordering::SeqCst), 2);
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

static STARTED: AtomicBool = AtomicBool::new(false);
static OPEN: AtomicBool = AtomicBool::new(false);

#[task(timeout = "60s", heartbeat_timeout = "5s")]
async fn wait_until_open(ctx: TaskContext) -> Result<()> {
    STARTED.store(true, Ordering::SeqCst);
    while !OPEN.load(Ordering::SeqCst) {
        ctx.heartbeat(()).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[derive(Default)]
struct Restarted {
    done: bool,
}

#[workflow]
impl Restarted {
    #[run]
    async fn run(ctx: Context<Self>) -> Result<String> {
        ctx.wait_condition(|state| state.done).await?;
        Ok("Hello, World!".to_owned())
    }
    #[update]
    async fn do_activities(ctx: Context<Self>) -> Result<u32> {
        ctx.schedule::<WaitUntilOpen>(()).await?;
        ctx.this_mut().done = true;
        Ok(7)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn update_worker_restart() {
    let (_server, queue) = start().await;
    let make = || {
        let builder = queue.worker().workflow::<Restarted>().task::<WaitUntilOpen>();
        let short = Duration::from_millis(200);
        builder.shutdown_grace(short).shutdown_force(short).build().unwrap()
    };
    let first = make();
    let shutdown = first.shutdown_handle();
    let running = tokio::spawn(first.run());
    let handle = queue.start::<Restarted>("restart", ()).await.unwrap();
    let update = tokio::spawn({
        let handle = handle.clone();
        async move { handle.update(Restarted::DO_ACTIVITIES, ()).await }
    });
    until("the task of the update has begun", || STARTED.load(Ordering::SeqCst)).await;
    shutdown.shutdown();
    running.await.unwrap().unwrap();
    OPEN.store(true, Ordering::SeqCst);
    let body = async {
        assert_eq!(update.await.unwrap()?, 7);
        handle.result().await
    };
    assert_eq!(make().run_until(body).await.unwrap(), "Hello, World!");
}
