//! The smallest program: a workflow with one task, a worker, and a client, in one process.

use segno_sdk::prelude::*;

#[task]
async fn compose(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn greet(ctx: Context, name: String) -> Result<String> {
    Ok(ctx.schedule::<Compose>(name).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("hello");
    let worker = queue.worker().workflow::<Greet>().task::<Compose>().build()?;
    println!("{}", worker.run_until(queue.execute::<Greet>("greet-1", "Ann".to_string())).await?);
    Ok(())
}
