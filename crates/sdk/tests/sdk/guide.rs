//! What `docs/guides/sdk.md` says about tests, with the workflow of `examples/rust/approval`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

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

// The guide has this, too:
const ADD: Update<u64, u64> = Update::named("add");
const TOTAL: Query<(), u64> = Query::named("total");
const CLOSE: Signal<()> = Signal::named("close");

#[workflow]
async fn collect(ctx: Context, limit: u64) -> Result<u64> {
    let total = Arc::new(AtomicU64::new(0));
    let (added, read) = (total.clone(), total.clone());
    let validate = move |cents: &u64| if *cents > limit { Err("too much at once".into()) } else { Ok(()) };
    ctx.on_update(ADD, validate, move |cents| Ok(added.fetch_add(cents, Ordering::Relaxed) + cents));
    ctx.on_query(TOTAL, move |()| read.load(Ordering::Relaxed));
    ctx.receive(CLOSE).await?;
    Ok(total.load(Ordering::Relaxed))
}

async fn use_it(queue: Queue) -> Result<u64> {
    let collection = queue.start::<Collect>("collection-1", 1_000).await?;
    assert_eq!(collection.update(ADD, 450).await?, 450);
    assert!(matches!(collection.update(ADD, 5_000).await, Err(ClientError::UpdateRejected(_))));
    assert_eq!(collection.query(TOTAL, ()).await?, 450);
    collection.signal(CLOSE, ()).await?;
    Ok(collection.result().await?)
}
// Until here.

#[tokio::test]
async fn the_guide_shows_code_that_compiles() {
    let (guide, source) = (include_str!("../../../../docs/guides/sdk.md"), include_str!("guide.rs"));
    let code = source.split("// The guide has this, too:\n").nth(1).unwrap().split("// Until here.").next().unwrap();
    assert!(guide.contains(code.trim()), "the code differs from the guide");
    let run = WorkflowTest::<Collect>::new(1_000)
        .update(Duration::from_secs(1), ADD, 450)
        .update(Duration::from_secs(2), ADD, 5_000)
        .signal(Duration::from_secs(3), CLOSE, ())
        .run()
        .await;
    assert_eq!(run.output.unwrap(), 450);
    assert!(run.updates[0].is_ok() && run.updates[1].is_err(), "{:?}", run.updates);
    // The rest of it needs a server: `worker::client` has tests like it.
    let _ = use_it;
}
