//! At most five calls a second to a service.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use segno_sdk::prelude::*;

static CALLS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

#[task(timeout = "10s", queue = "sms")]
async fn send_sms(_number: String) -> Result<()> {
    CALLS.lock().expect("no task panics").push(Instant::now());
    Ok(())
}

#[workflow]
async fn campaign(ctx: Context, numbers: Vec<String>) -> Result<usize> {
    let sent = numbers.into_iter().map(|number| ctx.schedule::<SendSms>(number));
    Ok(try_join_all(sent).await?.len())
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("recipes");
    // The limit of this worker: two workers send ten a second.
    let sender = client.queue("sms").worker().task::<SendSms>().max_tasks_per_second(5.0).build()?;
    let worker = queue.worker().workflow::<Campaign>().build()?;
    let numbers = (0..11).map(|number| format!("+49 30 555 {number}")).collect();
    let sent = sender.run_until(worker.run_until(queue.execute::<Campaign>("campaign-1", numbers))).await?;
    let calls = CALLS.lock().expect("no task panics");
    let kept = calls[calls.len() - 1] - calls[0] > Duration::from_millis(1_500);
    println!("{sent} messages, {} 5 a second", if kept { "at most" } else { "more than" });
    Ok(())
}
