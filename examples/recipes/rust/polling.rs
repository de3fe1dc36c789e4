//! Waits for a job of another company, whose API can only be asked.

use segno_sdk::prelude::*;

#[task]
async fn fetch_export(ctx: TaskContext, job: String) -> Result<String> {
    let attempt = ctx.info().attempt;
    if attempt < 3 {
        // Ask the API here; this is its answer "not yet".
        return Err(Failure::application("NotReady", format!("{job} is not ready")).into());
    }
    Ok(format!("{job}.csv after {attempt} attempts"))
}

#[workflow]
async fn fetch_file(ctx: Context, job: String, every_seconds: u64) -> Result<String> {
    let every = Duration::from_secs(every_seconds);
    let options = ScheduleTaskOptions {
        timeout: Some(Duration::from_secs(20)),                   // one question
        schedule_to_close: Some(Duration::from_secs(2 * 86_400)), // all of them
        retry_policy: Some(RetryPolicy { initial_interval: every, backoff_coefficient: 1.0, ..Default::default() }),
        ..Default::default()
    };
    Ok(ctx.schedule_with_options::<FetchExport>(job, options).await?)
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("recipes");
    let worker = queue.worker().workflow::<FetchFile>().task::<FetchExport>().build()?;
    println!("{}", worker.run_until(queue.execute::<FetchFile>("export-7", ("export-7".into(), 1))).await?);
    Ok(())
}
