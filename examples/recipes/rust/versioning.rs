//! New code for a workflow while runs of the old code are open.

use segno_sdk::prelude::*;

#[task(timeout = "10s")]
async fn step(name: String) -> Result<String> {
    Ok(name)
}

mod before {
    use super::*;

    #[derive(Default)]
    pub struct OldOrder {
        paid: bool,
    }

    #[workflow(name = "Order")]
    impl OldOrder {
        #[run]
        async fn run(ctx: Context<Self>) -> Result<Vec<String>> {
            let mut steps = vec![ctx.schedule::<Step>("reserved".into()).await?];
            ctx.wait_condition(|order| order.paid).await?;
            steps.push(ctx.schedule::<Step>("shipped".into()).await?);
            Ok(steps)
        }

        #[update]
        async fn pay(ctx: Context<Self>) -> Result<()> {
            ctx.this_mut().paid = true;
            Ok(())
        }
    }
}

#[derive(Default)]
struct Order {
    paid: bool,
}

#[workflow]
impl Order {
    #[run]
    async fn run(ctx: Context<Self>) -> Result<Vec<String>> {
        let mut steps = Vec::new();
        // False in runs that passed this line without it.
        if ctx.patched("check-fraud") {
            steps.push(ctx.schedule::<Step>("checked".into()).await?);
        }
        steps.push(ctx.schedule::<Step>("reserved".into()).await?);
        ctx.wait_condition(|order| order.paid).await?;
        steps.push(ctx.schedule::<Step>("shipped".into()).await?);
        Ok(steps)
    }

    #[update]
    async fn pay(ctx: Context<Self>) -> Result<()> {
        ctx.this_mut().paid = true;
        Ok(())
    }
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("orders");
    let start = async |id: &str| {
        let order = queue.start::<Order>(id, ()).await?;
        order.update(Order::PAY, ()).await?;
        Ok::<_, Error>(order)
    };
    let old_worker = queue.worker().workflow::<before::OldOrder>().task::<Step>().build()?;
    let old = old_worker.run_until(start("order-old")).await?;
    let new_worker = queue.worker().workflow::<Order>().task::<Step>().build()?;
    new_worker
        .run_until(async {
            let new = start("order-new").await?;
            println!("old run: {}", old.result().await?.join(", "));
            println!("new run: {}", new.result().await?.join(", "));
            Ok(())
        })
        .await
}
