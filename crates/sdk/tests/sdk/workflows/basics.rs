//! The programs of the reference that need no server, and the ground they stand on.

use std::time::Duration;

use segno_sdk::{testing::WorkflowTest, *};

#[task]
async fn compose(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn greet(ctx: Context, name: String) -> Result<String> {
    Ok(ctx.schedule::<Compose>(name).await?)
}

#[tokio::test]
async fn hello() {
    let run = WorkflowTest::<Greet>::new("Ann".to_owned()).task::<Compose>().run().await;
    assert_eq!(run.output.unwrap(), "Hello, Ann!");
    assert_eq!(run.elapsed, Duration::ZERO);
    assert_eq!(run.commands.len(), 2);
    assert_eq!(run.history.len(), 11);
}

#[tokio::test]
async fn a_mock_replaces_a_task() {
    let run = WorkflowTest::<Greet>::new("Ann".to_owned())
        .mock::<Compose>(|name| Ok(name.to_uppercase()))
        .latency("compose", Duration::from_secs(90))
        .run()
        .await;
    assert_eq!(run.output.unwrap(), "ANN");
    assert_eq!(run.elapsed, Duration::from_secs(90));
}

#[tokio::test]
async fn a_task_that_nobody_knows_is_named() {
    let run = WorkflowTest::<Greet>::new("Ann".to_owned()).run().await;
    let failure = run.output.unwrap_err();
    assert_eq!(failure.application_kind(), Some("NotRegistered"));
    assert!(failure.message().contains("\"compose\""), "{failure}");
}
