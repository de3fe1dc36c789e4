//! Failures of workflow tasks that the worker was told to take as failures of the workflow.

use segno_sdk::{ClientError, Context, FailureKind, Result, workflow};

use super::{queue, server};

#[workflow]
async fn stumble(_ctx: Context, how: String) -> Result<u32> {
    assert_ne!(how, "panic", "asked to");
    Ok(1)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn chosen_kinds_fail_the_workflow() {
    let server = server().await;
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<Stumble>().fail_workflow_on(["Panic", "UnknownWorkflow"]).build().unwrap();
    let failures = worker
        .run_until(async {
            let panicked = queue.execute::<Stumble>("panics", "panic".to_owned()).await;
            let unknown = queue.execute_raw("no_such_workflow", "unknown", serde_json::Value::Null).await;
            let fine = queue.execute::<Stumble>("fine", String::new()).await;
            assert_eq!(fine.unwrap(), 1);
            Ok::<_, ClientError>([panicked.map(drop), unknown.map(drop)])
        })
        .await
        .unwrap();
    for (failed, expected) in failures.into_iter().zip(["Panic", "UnknownWorkflow"]) {
        let Err(ClientError::WorkflowFailed(failure)) = failed else { panic!("{failed:?}") };
        assert!(matches!(failure.kind(), FailureKind::Application { kind, .. } if kind == expected), "{failure:?}");
    }
}
