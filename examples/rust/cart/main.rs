//! Signals, queries, and updates with a validator.

use segno_sdk::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    item: String,
    cents: u64,
}

#[derive(Default)]
struct Cart {
    lines: Vec<Line>,
    checked_out: bool,
}

#[workflow]
impl Cart {
    #[run]
    async fn run(ctx: Context<Self>, limit: usize) -> Result<u64> {
        ctx.wait_condition(move |cart| cart.checked_out || cart.lines.len() >= limit).await?;
        Ok(ctx.this().total())
    }

    #[signal]
    fn check_out(&mut self) {
        self.checked_out = true;
    }

    #[query]
    fn total(&self) -> u64 {
        self.lines.iter().map(|line| line.cents).sum()
    }

    #[update]
    async fn add(ctx: Context<Self>, line: Line) -> Result<usize> {
        ctx.sleep(Duration::from_millis(10)).await?; // a handler may do everything that a workflow may
        ctx.this_mut().lines.push(line);
        Ok(ctx.this().lines.len())
    }

    #[validate(add)]
    fn check_line(&self, line: &Line) -> Result<()> {
        if line.cents == 0 { Err("a price, please".into()) } else { Ok(()) }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("carts");
    let worker = queue.worker().workflow::<Cart>().build()?;
    let total = worker
        .run_until(async move {
            let cart = queue.start::<Cart>("cart-1", 100).await?;
            cart.update(Cart::ADD, Line { item: "tea".into(), cents: 450 }).await?;
            assert!(matches!(
                cart.update(Cart::ADD, Line { item: "air".into(), cents: 0 }).await,
                Err(ClientError::UpdateRejected(_))
            ));
            assert_eq!(cart.query(Cart::TOTAL, ()).await?, 450);
            cart.signal(Cart::CHECK_OUT, ()).await?;
            cart.result().await
        })
        .await?;
    println!("{total}");
    Ok(())
}
