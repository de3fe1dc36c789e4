//! A report at six o'clock on working days.

use segno_sdk::{Schedule, ScheduleAction, ScheduleSpec, prelude::*};

#[task(timeout = "5m")]
async fn count_orders(_region: String) -> Result<u32> {
    Ok(42)
}

#[workflow]
async fn report(ctx: Context, region: String) -> Result<String> {
    let orders = ctx.schedule::<CountOrders>(region.clone()).await?;
    Ok(format!("{region}: {orders} orders"))
}

pub async fn demo(client: &Client) -> Result<()> {
    let worker = client.queue("recipes").worker().workflow::<Report>().task::<CountOrders>().build()?;
    worker.run_until(create_schedule(client)).await
}

async fn create_schedule(client: &Client) -> Result<()> {
    let mut spec = ScheduleSpec::cron("0 6 * * MON-FRI");
    spec.time_zone = "Europe/Berlin".to_owned();
    let action = ScheduleAction::start::<Report>("recipes", "report", "north".to_owned())?;
    // A report that is still running skips the next one: OverlapPolicy::Skip is the default.
    let mut schedule = Schedule::new(spec, action);
    schedule.catch_up_window = Some(Duration::from_secs(3_600));
    let handle = client.create_schedule("daily-report", schedule).await?;
    handle.trigger(None).await?; // To see it work before tomorrow morning.
    loop {
        if let Some((workflow_id, _)) = handle.describe().await?.recent.first() {
            println!("{}", client.handle::<Report>(workflow_id).result().await?);
            return Ok(handle.delete().await?);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
