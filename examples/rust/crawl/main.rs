//! State that can be read from outside, and side effects that are executed once.

#![allow(clippy::redundant_closure)] // A closure shows what is executed once.

use segno_sdk::prelude::*;

#[task]
async fn fetch_page(cursor: u32) -> Result<Option<u32>> {
    Ok((cursor < 3).then_some(cursor + 1))
}

#[workflow]
async fn crawl(ctx: Context, start: u32) -> Result<u32> {
    let token = ctx.run("token", || std::process::id()).await?; // executed once, then remembered
    let mut cursor = start;
    while let Some(next) = ctx.schedule::<FetchPage>(cursor).await? {
        cursor = next;
        ctx.set_state("cursor", &cursor)?; // readable from outside, also when no worker runs
        ctx.set_state("token", &token)?;
    }
    ctx.clear_state("token")?;
    Ok(ctx.get_state::<u32>("cursor")?.unwrap_or(start))
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("crawl");
    let worker = queue.worker().workflow::<Crawl>().task::<FetchPage>().build()?;
    let cursor = worker
        .run_until(async move {
            let crawl = queue.start::<Crawl>("crawl-1", 0).await?;
            crawl.result().await?;
            crawl.state::<u32>("cursor").await
        })
        .await?;
    println!("{cursor:?}"); // Some(3)
    Ok(())
}
