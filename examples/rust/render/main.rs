//! A task with a time-out in the workflow: the loser of `select!` is dropped, which cancels it.

use segno_sdk::prelude::*;

#[task(timeout = "1h", heartbeat_timeout = "10s")]
async fn render(ctx: TaskContext, scene: String) -> Result<String> {
    for frame in 0..100u32 {
        ctx.heartbeat(frame).await?;
    } // Err(cancelled) when the workflow gave up
    Ok(format!("{scene}.mp4"))
}

#[workflow]
async fn render_in_time(ctx: Context, scene: String) -> Result<String> {
    select! {
        video = ctx.schedule::<Render>(scene) => Ok(video?),
        _ = ctx.sleep(Duration::from_secs(600)) => Ok("placeholder.png".into()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("render");
    let worker = queue.worker().workflow::<RenderInTime>().task::<Render>().build()?;
    println!("{}", worker.run_until(queue.execute::<RenderInTime>("render-1", "forest".to_string())).await?);
    Ok(())
}
