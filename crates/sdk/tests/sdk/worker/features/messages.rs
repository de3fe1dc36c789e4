//! `query`, `signal`.

use std::time::Duration;

use segno_sdk::{prelude::*, raw::enums::EventType as E};

use super::{shape, start};

#[derive(Default)]
struct Counting {
    value: i64,
    done: Option<String>,
}

#[workflow]
impl Counting {
    #[run]
    async fn run(ctx: Context<Self>) -> Result<String> {
        ctx.wait_condition(|state| state.done.is_some()).await?;
        Ok(ctx.this().done.clone().unwrap_or_default())
    }
    #[signal]
    fn increment(&mut self) {
        self.value += 1;
    }
    #[signal]
    fn finish(&mut self, text: String) {
        self.done = Some(text);
    }
    #[query]
    fn get(&self) -> i64 {
        self.value
    }
    #[query]
    fn plus(&self, number: i64) -> i64 {
        self.value + number
    }
    #[query]
    fn text(&self) -> String {
        "hi bob".to_owned()
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn query_successful_and_unexpected() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<Counting>().build().unwrap();
    let body = async {
        let handle = queue.start::<Counting>("counting", ()).await?;
        for expected in 0..3 {
            assert_eq!(handle.query(Counting::GET, ()).await?, expected);
            handle.signal(Counting::INCREMENT, ()).await?;
        }
        assert_eq!(handle.query(Counting::GET, ()).await?, 3);

        // query/unexpected_arguments
        let wrong: Query<String, i64> = Query::named("plus");
        assert!(matches!(handle.query(wrong, "one".to_owned()).await, Err(ClientError::QueryFailed(_))));
        let missing: Query<(), i64> = Query::named("plus");
        assert!(matches!(handle.query(missing, ()).await, Err(ClientError::QueryFailed(_))));

        // query/unexpected_query_type_name
        let unknown: Query<(), i64> = Query::named("nonexistent");
        let error = handle.query(unknown, ()).await.unwrap_err();
        assert!(matches!(error, ClientError::QueryFailed(_)), "{error:?}");
        assert!(error.to_string().contains("get, plus, text"), "{error}");

        // query/unexpected_return_type
        let number: Query<(), i64> = Query::named("text");
        assert!(matches!(handle.query(number, ()).await, Err(ClientError::Conversion(_))));

        handle.signal(Counting::FINISH, "done".to_owned()).await?;
        assert_eq!(handle.result().await?, "done");
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn query_timeout_due_to_no_active_workers() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<Counting>().build().unwrap();
    let start = async {
        let handle = queue.start::<Counting>("left", ()).await?;
        assert_eq!(handle.query(Counting::GET, ()).await?, 0);
        Ok::<_, ClientError>(handle)
    };
    let handle = worker.run_until(start).await.unwrap();
    let query = handle.query(Counting::GET, ());
    match tokio::time::timeout(Duration::from_secs(2), query).await {
        Err(_) => {}
        Ok(answer) => assert!(matches!(answer, Err(ClientError::Rpc { .. })), "{answer:?}"),
    }
    handle.terminate("nobody is there").await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn signal_basic_and_external() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<Counting>().build().unwrap();
    let body = async {
        let handle = queue.start::<Counting>("signal", ()).await?;
        handle.signal(Counting::FINISH, "Signaled!".to_owned()).await?;
        assert_eq!(handle.result().await?, "Signaled!");
        let expected = [E::WorkflowExecutionStarted, E::WorkflowExecutionSignaled, E::WorkflowExecutionCompleted];
        assert_eq!(shape(&handle).await, expected);
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[derive(Default)]
struct SignalledChild {
    state: String,
}

#[workflow]
impl SignalledChild {
    #[run]
    async fn run(ctx: Context<Self>, input: String) -> Result<String> {
        ctx.wait_condition(|child| !child.state.is_empty()).await?;
        Ok(format!("{input} {}", ctx.this().state))
    }
    #[signal]
    async fn my_signal(ctx: Context<Self>, text: String) {
        ctx.this_mut().state = text;
    }
}

#[workflow]
async fn signal_child(ctx: Context) -> Result<String> {
    let child = ctx.schedule_workflow::<SignalledChild>("", "child-wf-arg".to_owned());
    child.signal(SignalledChild::MY_SIGNAL, "signal-arg".to_owned()).await?;
    Ok(child.await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn signal_child_workflow() {
    let (_server, queue) = start().await;
    let worker = queue.worker().workflow::<SignalChild>().workflow::<SignalledChild>().build().unwrap();
    let output = worker.run_until(queue.execute::<SignalChild>("signal-child", ())).await.unwrap();
    assert_eq!(output, "child-wf-arg signal-arg");
}
