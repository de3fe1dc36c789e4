//! A person decides, or the time runs out.

use segno_sdk::prelude::*;

#[task(timeout = "30s")]
async fn ask(_document: String) -> Result<()> {
    Ok(()) // Send the approver a link to the page with the two buttons.
}

#[derive(Default)]
struct Approval {
    decision: Option<String>,
}

#[workflow]
impl Approval {
    #[run]
    async fn run(ctx: Context<Self>, document: String, patience_seconds: u64) -> Result<String> {
        ctx.schedule::<Ask>(document).await?;
        ctx.wait_condition_timeout(Duration::from_secs(patience_seconds), |approval| approval.decision.is_some())
            .await?;
        let decision = ctx.this().decision.clone();
        Ok(decision.unwrap_or_else(|| "no answer".to_owned()))
    }

    #[update]
    async fn decide(ctx: Context<Self>, by: String, approved: bool) -> Result<String> {
        let decision = format!("{} by {by}", if approved { "approved" } else { "rejected" });
        ctx.this_mut().decision = Some(decision.clone());
        Ok(decision)
    }

    #[validate(decide)]
    fn check(&self, _by: &str, _approved: &bool) -> Result<()> {
        match &self.decision {
            Some(decision) => Err(format!("already {decision}").into()),
            None => Ok(()),
        }
    }
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("recipes");
    let worker = queue.worker().workflow::<Approval>().task::<Ask>().build()?;
    worker
        .run_until(async move {
            let budget = queue.start::<Approval>("approval-budget", ("budget".into(), 7 * 86_400)).await?;
            println!("{}", budget.update(Approval::DECIDE, ("Ada".into(), true)).await?);
            println!("{}", queue.execute::<Approval>("approval-travel", ("travel".into(), 1)).await?);
            Ok(())
        })
        .await
}
