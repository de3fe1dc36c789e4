//! Many tasks, a few at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use segno_sdk::prelude::*;

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[task(timeout = "1m")]
async fn resize(image: String) -> Result<String> {
    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(50)).await;
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    Ok(format!("{image}.small"))
}

#[workflow]
async fn album(ctx: Context, images: Vec<String>, at_a_time: usize) -> Result<Vec<String>> {
    // A future of a task schedules it, so each is made when there is room for it.
    let small = stream::iter(images).map(|image| ctx.schedule::<Resize>(image)).buffered(at_a_time);
    Ok(small.try_collect().await?)
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("recipes");
    let worker = queue.worker().workflow::<Album>().task::<Resize>().build()?;
    let images = (0..12).map(|number| format!("image-{number}")).collect();
    let small = worker.run_until(queue.execute::<Album>("album-1", (images, 3))).await?;
    println!("{} images, at most {} at a time", small.len(), MOST.load(Ordering::SeqCst).max(3));
    Ok(())
}
