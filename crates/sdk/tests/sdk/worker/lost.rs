//! Connections that break, answers that are lost, workers that are killed.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use segno_sdk::{
    Client, ClientError, Context, Result, RetryPolicy, ScheduleTaskOptions, TaskContext, WorkflowContext, task, tasks,
    workflow,
};

use super::{proxy::Proxy, queue, scratch, server, until};

struct Behind {
    proxy: Proxy,
    calls: Arc<AtomicUsize>,
}

#[tasks]
impl Behind {
    /// Its answer does not arrive, or it arrives and what the server says to it does not.
    #[task]
    async fn lose(&self, ctx: TaskContext, what: String) -> Result<u32> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let proxy = self.proxy.clone();
        match what.as_str() {
            "request" => proxy.lose_requests(true),
            "answer" => proxy.lose_answers(true),
            _ => return Ok(ctx.info().attempt),
        }
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            // First the connections, so that nothing is heard of what was said meanwhile.
            proxy.cut();
            proxy.lose_requests(false);
            proxy.lose_answers(false);
        });
        Ok(ctx.info().attempt)
    }
}

#[workflow]
async fn lossy(ctx: Context, what: String) -> Result<u32> {
    Ok(ctx.schedule::<Lose>(what).await?)
}

/// Executes one task whose answer is lost in this way, and one after it.
async fn lose(what: &str) {
    let server = server().await;
    let proxy = Proxy::start(server.address());
    let queue = queue(&Client::connect(&proxy.address).await.unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let tasks = Behind { proxy: proxy.clone(), calls: calls.clone() };
    let worker = queue.worker().tasks(tasks).build().unwrap();
    let end = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    // Only what the tasks' worker says and hears is lost.
    let direct = server.client().queue(queue.name());
    let workflows = direct.worker().workflow::<Lossy>().build().unwrap();
    let attempts = workflows.run_until(async {
        let first = direct.execute::<Lossy>("lossy", what.to_owned()).await?;
        // The next one must not be lost with the answer to a poll, which is not repeated.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, ClientError>((first, direct.execute::<Lossy>("safe", String::new()).await?))
    });
    let attempts = tokio::time::timeout(Duration::from_secs(60), attempts).await.expect("within a minute").unwrap();
    assert_eq!((attempts, calls.load(Ordering::SeqCst)), ((1, 1), 2));
    end.shutdown();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn an_answer_that_does_not_arrive_is_repeated() {
    lose("request").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn an_answer_that_arrived_unheard_is_repeated_in_vain() {
    lose("answer").await;
}

#[task]
async fn step(number: u32) -> Result<u32> {
    tokio::time::sleep(Duration::from_millis(30)).await;
    Ok(number + 1)
}

#[workflow]
async fn walk(ctx: Context, steps: u32) -> Result<u32> {
    let options = || ScheduleTaskOptions {
        timeout: Some(Duration::from_secs(3)),
        retry_policy: Some(RetryPolicy { initial_interval: Duration::from_millis(20), ..RetryPolicy::default() }),
        ..ScheduleTaskOptions::default()
    };
    let mut at = 0;
    while at < steps {
        at = ctx.schedule_with_options::<Step>(at, options()).await?;
    }
    Ok(at)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn connections_may_break_at_any_time() {
    let server = server().await;
    let proxy = Proxy::start(server.address());
    let queue = queue(&Client::connect(&proxy.address).await.unwrap());
    let worker = queue.worker().workflow::<Walk>().task::<Step>().build().unwrap();
    let direct = server.client().queue(queue.name());
    let cutting = tokio::spawn(async move {
        for pause in [70, 110, 230, 170, 310, 90, 400] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            proxy.cut();
        }
    });
    let walks = (0..5).map(|walk| direct.execute::<Walk>(format!("walk-{walk}"), 15));
    let outcome = worker.run_until(futures::future::try_join_all(walks)).await.unwrap();
    assert_eq!(outcome, [15; 5]);
    cutting.await.unwrap();
}

const CHILD: &str = "SEGNO_SDK_TEST_CHILD";

/// The task says which process it runs in and how far it is; the first attempt never ends.
#[task]
async fn outlive(ctx: TaskContext, log: String) -> Result<u32> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
    writeln!(file, "{} {}", std::process::id(), ctx.info().attempt)?;
    if ctx.info().attempt == 1 {
        ctx.heartbeat(7u32).await?;
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    Ok(ctx.heartbeat_details::<u32>().unwrap_or(0))
}

#[workflow]
async fn survive(ctx: Context, log: String) -> Result<u32> {
    let options = ScheduleTaskOptions {
        timeout: Some(Duration::from_secs(600)),
        heartbeat_timeout: Some(Duration::from_secs(4)),
        retry_policy: Some(RetryPolicy { initial_interval: Duration::from_millis(20), ..RetryPolicy::default() }),
        ..ScheduleTaskOptions::default()
    };
    Ok(ctx.schedule_with_options::<Outlive>(log, options).await?)
}

/// Not a test: the process that is killed, this program with a variable set.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "no test of its own: tasks_of_a_killed_worker_go_to_another starts and kills it"]
async fn child_that_is_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (address, queue) = told.split_once(' ').expect("address and queue");
    let queue = Client::connect(address).await.unwrap().queue(queue);
    let worker = queue.worker().task::<Outlive>().lease(Duration::from_secs(2)).build().unwrap();
    worker.run().await.unwrap();
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn tasks_of_a_killed_worker_go_to_another() {
    let server = server().await;
    let queue = queue(&server.client());
    let log = scratch("killed");
    let told = format!("{} {}", server.address(), queue.name());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "worker::lost::child_that_is_killed"])
        .env(CHILD, told)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child = Killed(child);
    let child_id = child.0.id();
    let handle = queue.start::<Survive>("survive", log.display().to_string()).await.unwrap();
    let workflows = queue.worker().workflow::<Survive>().build().unwrap();
    let outcome = workflows
        .run_until(async {
            let lines = || std::fs::read_to_string(&log).unwrap_or_default();
            until("the first attempt runs", || lines().ends_with(" 1\n")).await;
            // Its heartbeat is on its way.
            tokio::time::sleep(Duration::from_millis(200)).await;
            drop(child);
            let second = queue.worker().task::<Outlive>().build()?;
            let details = second.run_until(handle.result()).await?;
            Ok::<_, ClientError>((details, lines()))
        })
        .await;
    let (details, lines) = outcome.unwrap();
    assert_eq!(details, 7, "what the killed attempt said last");
    assert_eq!(lines, format!("{child_id} 1\n{} 2\n", std::process::id()));
}
