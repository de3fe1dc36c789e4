//! A promise that is resolved from outside.

use segno_sdk::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Payment {
    cents: u64,
}

#[workflow]
async fn invoice(ctx: Context, cents: u64) -> Result<String> {
    let paid = ctx.promise::<Payment>("paid");
    match ctx.timeout(Duration::from_secs(30 * 86_400), paid).await {
        Err(_) => Ok("overdue".into()),
        Ok(payment) => Ok(if payment?.cents >= cents { "paid" } else { "short" }.into()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("invoices");
    let worker = queue.worker().workflow::<Invoice>().build()?;
    let outcome = worker
        .run_until(async move {
            let invoice = queue.start::<Invoice>("invoice-7", 1_000).await?;
            invoice.resolve_promise("paid", Payment { cents: 1_000 }).await?;
            invoice.result().await
        })
        .await?;
    println!("{outcome}");
    Ok(())
}
