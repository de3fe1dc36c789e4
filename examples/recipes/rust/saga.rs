//! Three bookings that belong together: if one fails, those before it are undone, the last one first.

use segno_sdk::prelude::*;

#[task(timeout = "30s")]
async fn book(what: String) -> Result<()> {
    if what == "tour" {
        return Err(Failure::application("SoldOut", "the tour is sold out").non_retryable().into());
    }
    println!("booked {what}");
    Ok(())
}

#[task(timeout = "30s")]
async fn cancel_booking(what: String) -> Result<()> {
    println!("cancelled {what}"); // Must succeed for what was never booked, too.
    Ok(())
}

#[workflow]
async fn trip(ctx: Context, parts: Vec<String>) -> Result<()> {
    let mut undo = Vec::new();
    for part in parts {
        undo.push(part.clone()); // Before the booking: it may take place although its answer is lost.
        if let Err(failure) = ctx.schedule::<Book>(part).await {
            let detached = ctx.detached(); // Also when the workflow is cancelled.
            for part in undo.into_iter().rev() {
                detached.schedule::<CancelBooking>(part).await?;
            }
            return Err(failure.into());
        }
    }
    Ok(())
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("recipes");
    let worker = queue.worker().workflow::<Trip>().task::<Book>().task::<CancelBooking>().build()?;
    let parts = ["flight", "hotel", "tour"].map(String::from).to_vec();
    match worker.run_until(queue.execute::<Trip>("trip-1", parts)).await {
        Err(ClientError::WorkflowFailed(failure)) => {
            let cause = failure.cause().unwrap_or(&failure);
            println!("failed: {}", cause.message());
            Ok(())
        }
        other => Ok(other?),
    }
}
