//! Runs a recipe: `cargo run -p segno-sdk --example recipes saga`. Starts a worker with the recipe's workflows and tasks, then the
//! recipe's client. Without an argument it runs all of them.

use segno_sdk::prelude::*;

mod cron_job;
mod fan_out;
mod human_approval;
mod large_payloads;
mod polling;
mod production_worker;
mod rate_limit;
mod saga;
mod versioning;
mod webhook;

const RECIPES: [&str; 10] = [
    "human-approval",
    "saga",
    "cron-job",
    "fan-out",
    "rate-limit",
    "production-worker",
    "versioning",
    "polling",
    "webhook",
    "large-payloads",
];

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::from_env().await?;
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    for recipe in RECIPES {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == recipe) {
            continue;
        }
        println!("== {recipe}");
        match recipe {
            "human-approval" => human_approval::demo(&client).await?,
            "saga" => saga::demo(&client).await?,
            "cron-job" => cron_job::demo(&client).await?,
            "fan-out" => fan_out::demo(&client).await?,
            "rate-limit" => rate_limit::demo(&client).await?,
            "production-worker" => production_worker::demo(&client).await?,
            "versioning" => versioning::demo(&client).await?,
            "polling" => polling::demo(&client).await?,
            "webhook" => webhook::demo(&client).await?,
            _ => large_payloads::demo(&client).await?,
        }
    }
    Ok(())
}
