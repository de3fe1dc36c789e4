//! A server that is killed (`kill -9`) and started again on the same file while tasks of workflows run in parallel.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_sdk::{
    ClientError, Context, Handle, Result, RetryPolicy, ScheduleTaskOptions, WorkflowContext, raw,
    replay::{History, Replayer},
    tasks,
    testing::TestServer,
    workflow,
};
use tokio::sync::Semaphore;

use super::{queue, scratch, until};

/// A server with a file, on a port that it keeps.
struct Restarted {
    file: PathBuf,
    port: u16,
    process: Option<TestServer>,
}

impl Restarted {
    async fn start(name: &str) -> Self {
        let file = scratch(name);
        let process = Self::builder(&file).start().await.expect("a server; SEGNO_BIN names one");
        let port = process.address().rsplit(':').next().unwrap().parse().unwrap();
        Self { file, port, process: Some(process) }
    }

    fn builder(file: &std::path::Path) -> segno_sdk::testing::TestServerBuilder {
        TestServer::builder().argument("--db-filename").argument(file.display().to_string())
    }

    fn process(&self) -> &TestServer {
        self.process.as_ref().unwrap()
    }

    /// Kills the process: dropping a `TestServer` sends SIGKILL.
    fn kill(&mut self) {
        self.process = None;
    }

    async fn start_again(&mut self) {
        self.process = Some(Self::builder(&self.file).port(self.port).start().await.unwrap());
    }
}

impl Drop for Restarted {
    fn drop(&mut self) {
        self.kill();
        // Segno keeps a directory, Temporal's server a file.
        let _ = std::fs::remove_dir_all(&self.file);
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.file.display()));
        }
    }
}

#[derive(Clone)]
struct Parts {
    /// Every attempt that began.
    begun: Arc<Mutex<Vec<u32>>>,
    /// Parts from 100 on end when they are let through.
    gate: Arc<Semaphore>,
}

impl Parts {
    fn new() -> Self {
        Self { begun: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    fn begun(&self) -> Vec<u32> {
        self.begun.lock().unwrap().clone()
    }
}

#[tasks]
impl Parts {
    #[task]
    async fn part(&self, number: u32) -> Result<u32> {
        self.begun.lock().unwrap().push(number);
        if number >= 100 {
            self.gate.acquire().await?.forget();
        } else {
            tokio::time::sleep(Duration::from_millis(u64::from(number * 7 % 40))).await;
        }
        Ok(number * 2)
    }
}

fn options() -> ScheduleTaskOptions {
    ScheduleTaskOptions {
        // An attempt that was given to a worker in an answer that died with the server is repeated after this.
        timeout: Some(Duration::from_secs(15)),
        retry_policy: Some(RetryPolicy { initial_interval: Duration::from_millis(20), ..RetryPolicy::default() }),
        ..ScheduleTaskOptions::default()
    }
}

/// Rounds of parallel parts, with a timer beside each round.
#[workflow]
async fn assemble(ctx: Context, rounds: Vec<Vec<u32>>) -> Result<u32> {
    let mut sum = 0;
    for round in rounds {
        let timer = ctx.sleep(Duration::from_millis(30));
        let parts = round.into_iter().map(|number| ctx.schedule_with_options::<Part>(number, options()));
        sum += segno_sdk::prelude::try_join_all(parts).await?.into_iter().sum::<u32>();
        timer.await?;
    }
    Ok(sum)
}

/// The history has each of so many tasks once, scheduled and completed, and the code replays it.
async fn check_history(handle: &Handle<Assemble>, tasks: usize) {
    let events = handle.history().await.unwrap();
    let mut ids = BTreeSet::new();
    let mut completed = BTreeSet::new();
    for event in &events {
        match &event.attributes {
            Some(raw::Attributes::ActivityTaskScheduledEventAttributes(task)) => {
                assert!(ids.insert(task.activity_id.clone()), "{} was scheduled twice", task.activity_id);
            }
            Some(raw::Attributes::ActivityTaskCompletedEventAttributes(task)) => {
                assert!(completed.insert(task.scheduled_event_id), "event {}", event.event_id);
            }
            _ => {}
        }
    }
    assert_eq!((ids.len(), completed.len()), (tasks, tasks));
    let report = Replayer::new().workflow::<Assemble>().replay(History::from_events(events)).unwrap();
    assert!(report.closed);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn parallel_tasks_go_on_when_the_server_was_killed() {
    let mut server = Restarted::start("parallel").await;
    let queue = queue(&server.process().client());
    let parts = Parts::new();
    let worker = queue.worker().workflow::<Assemble>().tasks(parts.clone()).build().unwrap();
    // Of the first round three parts are completed before the server is killed, three while it is gone; a second round follows.
    let rounds = vec![vec![1, 2, 3, 100, 101, 102], vec![4, 5, 6]];
    let sum = worker.run_until(async {
        let handle = queue.start::<Assemble>("assembled", rounds).await?;
        until("all parts of the first round run", || parts.begun().len() == 6).await;
        let completed = async {
            let events = handle.history().await.unwrap();
            events.iter().filter(|event| event.event_type() == raw::enums::EventType::ActivityTaskCompleted).count()
        };
        // Their completions are in the file by then, or are repeated.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(completed.await, 3);
        server.kill();
        parts.gate.add_permits(3);
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.start_again().await;
        let sum = handle.result().await?;
        check_history(&handle, 9).await;
        Ok::<_, ClientError>(sum)
    });
    let sum = tokio::time::timeout(Duration::from_secs(180), sum).await.expect("within three minutes").unwrap();
    assert_eq!(sum, 2 * (1 + 2 + 3 + 100 + 101 + 102 + 4 + 5 + 6));
    // What ran when the server was killed is not executed again: its result waited for the server.
    let mut begun = parts.begun();
    begun.sort_unstable();
    assert_eq!(begun, [1, 2, 3, 4, 5, 6, 100, 101, 102]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn the_server_may_be_killed_at_any_time() {
    let mut server = Restarted::start("any-time").await;
    let queue = queue(&server.process().client());
    let parts = Parts::new();
    let worker = queue.worker().workflow::<Assemble>().tasks(parts.clone()).build().unwrap();
    let rounds: Vec<Vec<u32>> = (0..12).map(|round| (0..6).map(|part| 1 + (round * 6 + part) % 90).collect()).collect();
    let expected: u32 = rounds.iter().flatten().map(|number| number * 2).sum();
    let outcome = worker.run_until(async {
        let mut handles = Vec::new();
        for number in 0..4 {
            handles.push(queue.start::<Assemble>(format!("assembled-{number}"), rounds.clone()).await?);
        }
        for pause in [60, 190, 350] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            server.kill();
            server.start_again().await;
        }
        for handle in handles {
            assert_eq!(handle.result().await?, expected);
            check_history(&handle, 72).await;
        }
        Ok::<_, ClientError>(())
    });
    tokio::time::timeout(Duration::from_secs(180), outcome).await.expect("within three minutes").unwrap();
    assert!(parts.begun().len() >= 4 * 72);
}
