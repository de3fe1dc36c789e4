//! Three tasks at once, one of them by name: a failure of one drops, and so cancels, the others.

use segno_sdk::prelude::*;

#[task(timeout = "30s", max_retries = 4)]
async fn price(item: String, quantity: u32) -> Result<u32> {
    if item == "unknown" {
        return Err(Failure::application("NoSuchItem", "no such item").non_retryable().into());
    }
    Ok(item.len() as u32 * quantity)
}

#[workflow]
async fn quote(ctx: Context, discount: u32) -> Result<u32> {
    let apples = ctx.schedule::<Price>(("apple".into(), 3));
    let pears = ctx.schedule::<Price>(("pear".into(), 2));
    let fees = ctx.schedule_raw("fees", Value::from(discount)); // a task written in any language
    let (apples, pears, fees) = try_join!(apples, pears, fees)?;
    Ok(apples + pears + fees.as_u64().unwrap_or(0) as u32 - discount)
}

#[task]
async fn fees(percent: u32) -> Result<u32> {
    Ok(percent + 1)
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("quotes");
    let worker = queue.worker().workflow::<Quote>().task::<Price>().task::<Fees>().build()?;
    println!("{}", worker.run_until(queue.execute::<Quote>("quote-1", 1)).await?); // 15 + 8 + 2 - 1
    Ok(())
}
