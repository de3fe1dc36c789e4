//! What a worker has in its cache, or has not, makes no difference: caches of no and of one run, workers that alternate,
//! workers that are replaced, histories of many pages, resets. Every history is replayed strictly at the end.

use std::time::Duration;

use segno_sdk::{
    ResetOptions, Worker, WorkerBuilder,
    prelude::*,
    raw::enums::EventType,
    replay::{History, Replayer},
};

use super::{queue, server};

#[task]
async fn double(number: u64) -> Result<u64> {
    Ok(2 * number)
}

#[derive(Default)]
struct Mixed {
    waiting: Vec<u64>,
    sum: u64,
}

/// Uses a bit of everything for each number that comes, until a 0 comes.
#[workflow]
impl Mixed {
    #[run]
    async fn run(ctx: Context<Self>, slow: u64) -> Result<(u64, Uuid)> {
        loop {
            ctx.wait_condition(|state| !state.waiting.is_empty()).await?;
            let number = ctx.this_mut().waiting.remove(0);
            if number == 0 {
                break;
            }
            let local = ctx.run_async("local", move || async move {
                tokio::time::sleep(Duration::from_millis(slow)).await;
                number
            });
            let (local, doubled) = try_join!(local, ctx.schedule::<Double>(number))?;
            ctx.sleep(Duration::from_millis(1)).await?;
            ctx.this_mut().sum += local + doubled;
            let sum = ctx.this().sum;
            ctx.set_state("sum", &sum)?;
        }
        let sum = ctx.this().sum;
        Ok((sum, ctx.random_uuid()))
    }

    #[signal]
    fn number(&mut self, number: u64) {
        self.waiting.push(number);
    }

    #[query]
    fn sum(&self) -> u64 {
        self.sum
    }

    #[update]
    async fn add(ctx: Context<Self>, number: u64) -> Result<u64> {
        let before = ctx.this().sum;
        ctx.this_mut().waiting.push(number);
        ctx.wait_condition(move |state| state.sum > before).await?;
        Ok(ctx.this().sum)
    }
}

fn worker(queue: &Queue, change: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Worker {
    change(queue.worker().workflow::<Mixed>().task::<Double>().strict()).build().unwrap()
}

async fn replay(handle: &Handle<Mixed>) {
    let history = History::from_handle(handle).await.unwrap();
    Replayer::new().workflow::<Mixed>().strict().replay(history).unwrap();
}

/// No workflow task waited for a worker that does not have the run.
async fn no_task_timed_out(handle: &Handle<Mixed>) {
    let history = handle.history().await.unwrap();
    assert!(history.iter().all(|event| event.event_type() != EventType::WorkflowTaskTimedOut), "{history:?}");
}

/// Two runs at a time, whose tasks alternate.
async fn two_at_a_time(queue: &Queue) -> Result<(), ClientError> {
    let both = [queue.start::<Mixed>("a", 20).await?, queue.start::<Mixed>("b", 0).await?];
    for number in 1..=3 {
        for handle in &both {
            assert_eq!(handle.update(Mixed::ADD, number).await?, 3 * (1..=number).sum::<u64>());
        }
        for handle in &both {
            assert_eq!(handle.query(Mixed::SUM, ()).await?, 3 * (1..=number).sum::<u64>());
        }
    }
    for handle in &both {
        handle.signal(Mixed::NUMBER, 0).await?;
        assert_eq!(handle.result().await?.0, 18);
        // Of a closed run, whose instance is gone.
        assert_eq!(handle.query(Mixed::SUM, ()).await?, 18);
        replay(handle).await;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn caches_of_no_and_of_one_run() {
    let server = server().await;
    for runs in [0, 1] {
        let queue = queue(&server.client());
        worker(&queue, |worker| worker.max_cached_workflows(runs)).run_until(two_at_a_time(&queue)).await.unwrap();
        for id in ["a", "b"] {
            no_task_timed_out(&queue.client().handle(id)).await;
        }
    }
    let queue = queue(&server.client());
    worker(&queue, |worker| worker.max_cache_bytes(1)).run_until(two_at_a_time(&queue)).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn workers_alternate() {
    let server = server().await;
    let queue = queue(&server.client());
    // Without sticky queues any of them gets the next task; with them, the same one until its time is over.
    let change: [fn(WorkerBuilder) -> WorkerBuilder; 3] = [
        |worker| worker.max_cached_workflows(0),
        |worker| worker.sticky_timeout(Duration::from_millis(50)),
        |worker| worker.max_cached_workflows(1),
    ];
    let [first, second, third] = change.map(|change| worker(&queue, change));
    let handles = [second.shutdown_handle(), third.shutdown_handle()];
    let others = [tokio::spawn(second.run()), tokio::spawn(third.run())];
    first.run_until(two_at_a_time(&queue)).await.unwrap();
    handles.iter().for_each(segno_sdk::ShutdownHandle::shutdown);
    for other in others {
        other.await.unwrap().unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_run_goes_on_with_the_next_worker() {
    let server = server().await;
    let queue = queue(&server.client());
    let handle = queue.start::<Mixed>("handed-over", 0).await.unwrap();
    for number in 1..=4 {
        // Queries of the cold worker come beside its first task.
        let body = async {
            let (sum, asked) = try_join!(handle.update(Mixed::ADD, number), handle.query(Mixed::SUM, ()))?;
            assert!(asked <= sum, "{asked} {sum}");
            Ok::<_, ClientError>(sum)
        };
        let sum = worker(&queue, |worker| worker).run_until(body).await.unwrap();
        assert_eq!(sum, 3 * (1..=number).sum::<u64>());
        // The worker before announced its shutdown: the server does not wait for it.
        no_task_timed_out(&handle).await;
        assert_eq!(handle.state::<u64>("sum").await.unwrap(), Some(sum));
    }
    handle.signal(Mixed::NUMBER, 0).await.unwrap();
    let result = worker(&queue, |worker| worker).run_until(handle.result()).await.unwrap();
    assert_eq!(result.0, 30);
    replay(&handle).await;
}

/// Not on Temporal's server: there each of the 400 timers takes a second.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn histories_of_many_pages_segno_only() {
    let server = server().await;
    let queue = queue(&server.client());
    let handle = queue.start::<Mixed>("long", 0).await.unwrap();
    // No worker runs yet: all of these are in the first workflow task.
    for _ in 0..400 {
        handle.signal(Mixed::NUMBER, 1).await.unwrap();
    }
    handle.signal(Mixed::NUMBER, 0).await.unwrap();
    // A worker that ends in between, then one that begins with what that left.
    let half = async {
        while handle.state::<u64>("sum").await?.unwrap_or_default() < 30 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, ClientError>(())
    };
    worker(&queue, |worker| worker).run_until(half).await.unwrap();
    let (sum, _) = worker(&queue, |worker| worker).run_until(handle.result()).await.unwrap();
    assert_eq!(sum, 1_200);
    replay(&handle).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn resets_to_every_workflow_task() {
    let server = server().await;
    let queue = queue(&server.client());
    let body = async {
        let handle = queue.start::<Mixed>("reset", 0).await?;
        for number in [1, 2] {
            handle.signal(Mixed::NUMBER, number).await?;
            while handle.query(Mixed::SUM, ()).await? < 3 * (1..=number).sum::<u64>() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        handle.signal(Mixed::NUMBER, 0).await?;
        let (sum, first) = handle.result().await?;
        assert_eq!(sum, 9);
        let completed = EventType::WorkflowTaskCompleted;
        let events = handle.history().await?;
        let points: Vec<_> =
            events.iter().filter(|event| event.event_type() == completed).map(|event| event.event_id).collect();
        assert!(points.len() >= 3, "{points:?}");
        let mut ids = vec![first];
        for event_id in points {
            let options = ResetOptions { event_id, reason: "a test".to_owned(), ..Default::default() };
            let again = queue
                .client()
                .handle_of_run::<Mixed>("reset", handle.run_id().unwrap_or_default())
                .reset(options)
                .await?;
            let (sum, id) = again.result().await?;
            assert_eq!(sum, 9, "after a reset to event {event_id}");
            assert!(!ids.contains(&id), "what is new gets new ids");
            ids.push(id);
            replay(&again).await;
        }
        Ok::<_, ClientError>(())
    };
    worker(&queue, |worker| worker).run_until(body).await.unwrap();
}

const PANIC: Signal<()> = Signal::named("panic");

/// Panics once in the process, so that the next attempt replays and goes on.
#[workflow]
async fn panics_once(ctx: Context, _input: ()) -> Result<u64> {
    use std::sync::atomic::{AtomicBool, Ordering};
    static PANICKED: AtomicBool = AtomicBool::new(false);
    let doubled = ctx.schedule::<Double>(4).await?;
    ctx.receive(PANIC).await?;
    if !PANICKED.swap(true, Ordering::SeqCst) {
        panic!("once");
    }
    Ok(doubled)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn an_instance_that_failed_is_replaced() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<PanicsOnce>().task::<Double>().build().unwrap();
    let body = async {
        let handle = queue.start::<PanicsOnce>("panics", ()).await?;
        handle.signal(PANIC, ()).await?;
        assert_eq!(handle.result().await?, 8);
        let failed =
            handle.history().await?.into_iter().filter(|event| event.event_type() == EventType::WorkflowTaskFailed);
        assert_eq!(failed.count(), 1);
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}
