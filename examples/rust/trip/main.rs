//! A saga: tasks with shared state, and compensation that also happens when the workflow is cancelled.

#![allow(clippy::unwrap_used)]

use segno_sdk::prelude::*;

struct Bookings {
    agency: String,
}

#[tasks]
impl Bookings {
    #[task]
    async fn book(&self, what: String) -> Result<String> {
        if what == "moon" {
            return Err(Failure::application("SoldOut", "no seats").non_retryable().into());
        }
        Ok(format!("{}/{what}", self.agency))
    }

    #[task]
    async fn cancel_booking(&self, booking: String) -> Result<()> {
        println!("cancelled {booking}");
        Ok(())
    }
}

#[workflow]
async fn trip(ctx: Context, legs: Vec<String>) -> Result<Vec<String>> {
    let mut booked = Vec::new();
    for leg in legs {
        match ctx.schedule::<Book>(leg).await {
            Ok(booking) => booked.push(booking),
            Err(failure) => {
                let undo = ctx.detached();
                for booking in booked.into_iter().rev() {
                    undo.schedule::<CancelBooking>(booking).await?;
                }
                return Err(failure.into());
            }
        }
    }
    Ok(booked)
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("trips");
    let worker = queue.worker().workflow::<Trip>().tasks(Bookings { agency: "acme".into() }).build()?;
    let outcome = worker.run_until(queue.execute::<Trip>("trip-1", vec!["rome".to_string(), "moon".to_string()])).await;
    println!("{}", outcome.unwrap_err()); // task book failed: no seats
    Ok(())
}
