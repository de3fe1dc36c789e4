//! Cancellation: of the workflow, of scopes, of what is shielded from it.

use segno_sdk::{
    raw::enums::{CommandType, EventType},
    testing::WorkflowTest,
    *,
};

use super::common::*;

#[task(timeout = "1h", heartbeat_timeout = "5s")]
async fn copy_files(ctx: TaskContext, from: String) -> Result<u64> {
    while !ctx.is_cancelled() {
        ctx.heartbeat(&from).await?;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Err(Failure::cancelled().into())
}

#[task]
async fn delete_copies(_from: String) -> Result<()> {
    Ok(())
}

#[workflow]
async fn backup(ctx: Context, from: String) -> Result<u64> {
    match ctx.schedule::<CopyFiles>(from.clone()).await {
        Err(failure) if failure.is_cancelled() => {
            ctx.detached().schedule::<DeleteCopies>(from).await?;
            Err(failure.into())
        }
        copied => Ok(copied?),
    }
}

#[tokio::test]
async fn clean_up_after_a_cancellation() {
    let run = WorkflowTest::<Backup>::new("/home".to_owned())
        .task::<CopyFiles>()
        .task::<DeleteCopies>()
        .cancel(std::time::Duration::from_millis(500))
        .run()
        .await;
    assert!(run.output.as_ref().unwrap_err().is_cancelled());
    assert_eq!(run.history.last().unwrap().event_type(), EventType::WorkflowExecutionCanceled);
    use CommandType::*;
    assert_eq!(
        commands(&run),
        [ScheduleActivityTask, RequestCancelActivityTask, ScheduleActivityTask, CancelWorkflowExecution]
    );
    assert_eq!(run.elapsed, std::time::Duration::from_millis(500));
}

#[workflow]
async fn ignores(ctx: Context, _input: ()) -> Result<u32> {
    let shielded = ctx.detached();
    Ok(shielded.schedule::<Work>(1).await?)
}

#[tokio::test]
async fn a_workflow_may_ignore_it() {
    let run =
        both(|| WorkflowTest::<Ignores>::new(()).mock::<Work>(Ok).latency("work", seconds(9)).cancel(seconds(1))).await;
    assert_eq!(run.output.unwrap(), 1);
    assert_eq!(run.elapsed, seconds(9));
}

#[workflow]
async fn after(ctx: Context, _input: ()) -> Result<String> {
    ctx.cancelled().await;
    assert!(ctx.is_cancelled() && ctx.cancel_reason().is_some());
    // New operations in a cancelled scope end at once, without a command.
    let task = ctx.schedule::<Work>(1).await;
    let timer = ctx.sleep(seconds(1)).await;
    Ok(format!("{} {}", task.unwrap_err().is_cancelled(), timer.unwrap_err().is_cancelled()))
}

#[tokio::test]
async fn nothing_begins_in_a_cancelled_scope() {
    let run = both(|| WorkflowTest::<After>::new(()).cancel(seconds(3))).await;
    assert_eq!(run.output.as_deref().unwrap(), "true true");
    assert_eq!(commands(&run), [CommandType::CompleteWorkflowExecution]);
}

#[workflow]
async fn scopes(ctx: Context, _input: ()) -> Result<Vec<bool>> {
    let (inner, scope) = ctx.scope();
    let (innermost, _other) = inner.scope();
    let tasks = [inner.schedule::<Work>(1), innermost.schedule::<Work>(2), ctx.schedule::<Work>(3)];
    let shielded = inner.detached().schedule::<Work>(4);
    ctx.sleep(seconds(1)).await?;
    scope.cancel();
    let mut ends = Vec::new();
    for task in tasks {
        ends.push(task.await.is_ok());
    }
    ends.push(shielded.await.is_ok());
    Ok(ends)
}

#[tokio::test]
async fn a_scope_is_cancelled_with_what_is_in_it() {
    let run = both(|| WorkflowTest::<Scopes>::new(()).mock::<Work>(Ok).latency("work", seconds(5))).await;
    assert_eq!(run.output.as_ref().unwrap(), &[false, false, true, true]);
    assert_eq!(count(&run, EventType::ActivityTaskCancelRequested), 2);
}

#[workflow]
async fn fails_when_cancelled(ctx: Context, _input: ()) -> Result<()> {
    match ctx.sleep(seconds(100)).await {
        Err(_) => Err(Failure::application("Other", "something else").into()),
        Ok(()) => Ok(()),
    }
}

#[tokio::test]
async fn another_failure_is_a_failure() {
    let run = both(|| WorkflowTest::<FailsWhenCancelled>::new(()).cancel(seconds(1))).await;
    assert_eq!(run.output.as_ref().unwrap_err().application_kind(), Some("Other"));
    assert_eq!(run.history.last().unwrap().event_type(), EventType::WorkflowExecutionFailed);
}

#[workflow]
async fn says_cancelled(_ctx: Context, _input: ()) -> Result<()> {
    Err(Failure::cancelled().into())
}

#[tokio::test]
async fn nobody_asked() {
    let run = both(|| WorkflowTest::<SaysCancelled>::new(())).await;
    assert_eq!(run.history.last().unwrap().event_type(), EventType::WorkflowExecutionFailed);
}
