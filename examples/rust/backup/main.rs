//! Cancellation with clean-up.

#![allow(clippy::unwrap_used)]

use segno_sdk::prelude::*;

#[task(timeout = "1h", heartbeat_timeout = "5s")]
async fn copy_files(ctx: TaskContext, from: String) -> Result<u64> {
    while !ctx.is_cancelled() {
        ctx.heartbeat(&from).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(Failure::cancelled().into())
}

#[task]
async fn delete_copies(from: String) -> Result<()> {
    println!("cleaned up after {from}");
    Ok(())
}

#[workflow]
async fn backup(ctx: Context, from: String) -> Result<u64> {
    match ctx.schedule::<CopyFiles>(from.clone()).await {
        Err(failure) if failure.is_cancelled() => {
            ctx.detached().schedule::<DeleteCopies>(from).await?;
            Err(failure.into()) // the run closes as CANCELED
        }
        copied => Ok(copied?),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("backups");
    let worker = queue.worker().workflow::<Backup>().task::<CopyFiles>().task::<DeleteCopies>().build()?;
    let outcome = worker
        .run_until(async move {
            let backup = queue.start::<Backup>("backup-1", "/home".to_string()).await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            backup.cancel().await?;
            backup.result().await
        })
        .await;
    assert!(outcome.unwrap_err().failure().is_some_and(Failure::is_cancelled));
    Ok(())
}
