//! Invalid workers are refused; the types of a worker are `Send`.

use super::*;
use crate::{definition::TaskDefinition, failure::Result, task::TaskContext};

struct Nothing;
impl TaskDefinition for Nothing {
    type Input = ();
    type Output = ();
    const KIND: &'static str = "nothing";
}
impl Task for Nothing {
    type State = ();
    async fn execute(_: Arc<()>, _: TaskContext, (): ()) -> Result<()> {
        Ok(())
    }
}

async fn queue() -> Queue {
    let client = Client::builder().target("http://127.0.0.1:1").lazy().connect().await.unwrap();
    client.queue("queue")
}

fn problem(builder: WorkerBuilder) -> String {
    match builder.build() {
        Err(ClientError::Configuration(problem)) => problem,
        Err(other) => panic!("{other:?}"),
        Ok(worker) => panic!("{worker:?}"),
    }
}

#[tokio::test]
async fn what_cannot_work_is_refused() {
    let worker = || async { queue().await.worker() };
    assert!(problem(worker().await).contains("nothing to do"));
    assert!(problem(worker().await.task::<Nothing>().task::<Nothing>()).contains("\"nothing\" was added twice"));
    let one = || async { worker().await.task::<Nothing>() };
    assert!(one().await.build().is_ok());
    assert!(problem(one().await.lease(Duration::from_millis(10))).contains("1 s to 1 h"));
    assert!(problem(one().await.pollers(Pollers::Fixed(0))).contains("poller"));
    assert!(problem(one().await.pollers(Pollers::Auto { min: 3, max: 2 })).contains("poller"));
    assert!(problem(one().await.max_concurrent_tasks(0)).contains("slots"));
    assert!(problem(one().await.max_tasks_per_second(0.0)).contains("per second"));
    assert!(problem(one().await.workflow_threads(0)).contains("thread"));
    let empty = Client::builder().lazy().connect().await.unwrap().queue("");
    assert!(problem(empty.worker().task::<Nothing>()).contains("name of a task queue"));
}

#[tokio::test]
async fn workers_can_run_on_any_thread() {
    fn is_send<T: Send>(_: &T) {}
    let worker = queue().await.worker().task::<Nothing>().build().unwrap();
    let handle = worker.shutdown_handle();
    is_send(&handle);
    is_send(&worker.run());
    let worker = queue().await.worker().task::<Nothing>().build().unwrap();
    is_send(&worker.run_until(async { Ok::<(), ClientError>(()) }));
}

#[tokio::test]
async fn a_future_that_needs_no_worker_is_not_held_up() {
    // No server listens there: the worker never comes to serve.
    let worker = queue().await.worker().task::<Nothing>().build().unwrap();
    let outcome = worker.run_until(async { Err::<(), _>(ClientError::Configuration("over".to_owned())) });
    let outcome = tokio::time::timeout(Duration::from_secs(5), outcome).await.expect("in time");
    assert_eq!(outcome.unwrap_err().to_string(), "over");
}
