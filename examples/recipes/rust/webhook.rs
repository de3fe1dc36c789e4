//! A webhook whose sender repeats events: each is handled once.

use segno_sdk::{IdConflictPolicy, IdReusePolicy, prelude::*};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Event {
    id: String,
    amount: u64,
}

#[task(timeout = "30s")]
async fn book_payment(event: Event) -> Result<()> {
    println!("booked {}", event.amount);
    Ok(())
}

#[workflow]
async fn payment(ctx: Context, event: Event) -> Result<()> {
    Ok(ctx.schedule::<BookPayment>(event).await?)
}

/// The handler of `POST /webhook`; gives the HTTP status. After an error the sender repeats the event.
async fn receive(queue: &Queue, event: Event) -> Result<u16> {
    let options = StartOptions {
        id: format!("payment-{}", event.id), // Chosen by the sender, the same in every repeat.
        id_conflict_policy: IdConflictPolicy::Fail, // while the workflow runs
        id_reuse_policy: IdReusePolicy::RejectDuplicate, // after its end
        ..Default::default()
    };
    match queue.start::<Payment>(options, event).await {
        Ok(_) => Ok(202),
        Err(ClientError::AlreadyStarted { .. }) => Ok(200),
        Err(error) => Err(error.into()),
    }
}

pub async fn demo(client: &Client) -> Result<()> {
    let queue = client.queue("recipes");
    let worker = queue.worker().workflow::<Payment>().task::<BookPayment>().build()?;
    worker
        .run_until(async move {
            let event = Event { id: "evt-1".to_owned(), amount: 450 };
            let (first, second) = (receive(&queue, event.clone()).await?, receive(&queue, event.clone()).await?);
            queue.client().handle::<Payment>("payment-evt-1").result().await?;
            println!("{first} {second} {}", receive(&queue, event).await?);
            Ok(())
        })
        .await
}
