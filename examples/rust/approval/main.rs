//! A decision by a person: signals as a channel, reminders, a deadline in workflow time.

use segno_sdk::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Decision {
    by: String,
    approved: bool,
}

const DECISION: Signal<Decision> = Signal::named("decision");

#[task]
async fn remind(whom: String, days: u32) -> Result<()> {
    println!("{whom}: {days} days");
    Ok(())
}

#[workflow]
async fn approval(ctx: Context, boss: String) -> Result<Decision> {
    let deadline = ctx.current_time_millis() + 14 * 86_400_000;
    for days in 1.. {
        select! {
            decision = ctx.receive(DECISION) => return Ok(decision?),
            _ = ctx.sleep(Duration::from_secs(86_400)) => {}
        }
        if ctx.current_time_millis() >= deadline {
            break;
        }
        ctx.schedule::<Remind>((boss.clone(), days)).await?;
    }
    Err(Failure::application("NoAnswer", format!("{boss} said nothing")).into())
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("approvals");
    let worker = queue.worker().workflow::<Approval>().task::<Remind>().build()?;
    let decision = worker
        .run_until(async move {
            let approval = queue.start::<Approval>("approval-1", "Ann".to_string()).await?;
            approval.signal(DECISION, Decision { by: "Ann".into(), approved: true }).await?;
            approval.result().await
        })
        .await?;
    println!("{decision:?}");
    Ok(())
}
