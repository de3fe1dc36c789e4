//! As many tasks as the input says, executed on threads for blocking work.

use segno_sdk::prelude::*;

#[task]
fn checksum(chunk: Vec<u8>) -> Result<u64> {
    Ok(chunk.iter().map(|b| *b as u64).sum())
} // not async: a blocking thread

#[workflow]
async fn digest(ctx: Context, chunks: Vec<Vec<u8>>) -> Result<u64> {
    let sums: Vec<_> = chunks.into_iter().map(|chunk| ctx.schedule::<Checksum>(chunk)).collect();
    let mut total = 0;
    for sum in join_all(sums).await {
        total += sum?;
    }
    Ok(total)
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("digest");
    let worker = queue.worker().workflow::<Digest>().task::<Checksum>().build()?;
    println!("{}", worker.run_until(queue.execute::<Digest>("digest-1", vec![vec![1, 2], vec![3]])).await?);
    Ok(())
}
