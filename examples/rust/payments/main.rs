//! A Nexus service: one operation answers at once, the other is a workflow. First create the endpoint:
//! `segno nexus endpoint create --name payments --target-namespace default --target-task-queue payments`.

use segno_sdk::prelude::*;

#[nexus_service]
trait Payments {
    #[operation]
    async fn quote(&self, cents: u64) -> Result<u64>;
    #[operation]
    async fn charge(&self, ctx: NexusContext, cents: u64) -> Result<StartedOperation<String>>;
}

struct Bank {
    fee: u64,
}

impl Payments for Bank {
    async fn quote(&self, cents: u64) -> Result<u64> {
        Ok(cents + self.fee)
    }

    async fn charge(&self, ctx: NexusContext, cents: u64) -> Result<StartedOperation<String>> {
        // A repeated request has the same id, and so finds the workflow that the first one started.
        let id = format!("charge-{}", ctx.info().request_id);
        Ok(ctx.start_workflow::<Charge>(id, cents).await?)
    }
}

#[workflow]
async fn charge(ctx: Context, cents: u64) -> Result<String> {
    ctx.sleep(Duration::from_millis(100)).await?;
    Ok(format!("charged {cents}"))
}

#[workflow]
async fn order(ctx: Context, cents: u64) -> Result<String> {
    let payments = ctx.nexus::<PaymentsClient>("payments");
    let price = payments.quote(cents).await?;
    Ok(payments.charge(price).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("payments");
    let service = PaymentsHandler::new(Bank { fee: 50 });
    let worker = queue.worker().workflow::<Order>().workflow::<Charge>().nexus_service(service).build()?;
    println!("{}", worker.run_until(queue.execute::<Order>("order-1", 400)).await?);
    Ok(())
}
