//! Data that is too large for history: workflows pass the name of a file, tasks read and write it.

use std::path::PathBuf;

use segno_sdk::prelude::*;

/// Use an object store that all workers reach, such as S3.
fn store(key: &str) -> PathBuf {
    std::env::temp_dir().join(key)
}

#[task(timeout = "1m")]
fn download(workflow_id: String) -> Result<String> {
    let key = format!("{workflow_id}.bin"); // The same in every attempt: a repeat overwrites the file.
    std::fs::write(store(&key), "x".repeat(5_000_000))?;
    Ok(key)
}

#[task(timeout = "1m")]
fn measure(key: String) -> Result<String> {
    Ok(format!("{} bytes", std::fs::read(store(&key))?.len()))
}

#[task(timeout = "1m")]
fn remove(key: String) -> Result<()> {
    match std::fs::remove_file(store(&key)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[workflow]
async fn digest(ctx: Context) -> Result<String> {
    let key = ctx.schedule::<Download>(ctx.info().workflow_id.clone()).await?;
    let text = ctx.schedule::<Measure>(key.clone()).await;
    ctx.detached().schedule::<Remove>(key).await?; // Also when the workflow is cancelled.
    Ok(text?)
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("recipes");
    let worker = queue.worker().workflow::<Digest>().task::<Download>().task::<Measure>().task::<Remove>().build()?;
    println!("{}", worker.run_until(queue.execute::<Digest>("digest-rust", ())).await?);
    Ok(())
}
