//! What `docs/guides/sdk.md` says about tests, with the workflow of `examples/rust/approval`.

use segno_sdk::{prelude::*, testing::WorkflowTest};
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

#[tokio::test]
async fn nobody_answers() {
    let run = WorkflowTest::<Approval>::new("Ann".to_string()).mock::<Remind>(|_| Ok(())).run().await;
    assert_eq!(run.output.unwrap_err().application_kind(), Some("NoAnswer"));
    assert_eq!(run.elapsed.as_secs(), 14 * 86_400);
}

#[tokio::test]
async fn somebody_answers_after_two_reminders() {
    let decision = Decision { by: "Ann".into(), approved: true };
    let run = WorkflowTest::<Approval>::new("Ann".to_string())
        .task::<Remind>()
        .signal(Duration::from_secs(200_000), DECISION, decision)
        .run()
        .await;
    assert!(run.output.unwrap().approved);
    assert_eq!(run.elapsed.as_secs(), 200_000);
}
