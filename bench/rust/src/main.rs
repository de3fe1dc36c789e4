//! The worker of `tools/harness/examples/worker_cost.rs` with Temporal's own Rust SDK: one workflow with one task, served
//! until its input ends; then it prints the CPU time that it took. `official-worker QUEUE`, server by `TEMPORAL_ADDRESS`.

use std::{io::Read, time::Duration};

use temporalio_client::{Client, ClientOptions, Connection, envconfig::LoadClientConfigProfileOptions};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::{
    ActivityOptions, Runtime, Worker, WorkerOptions, WorkflowContext, WorkflowContextView, WorkflowResult,
    activities::{ActivityContext, ActivityError},
};

pub struct Tasks;

#[activities]
impl Tasks {
    #[activity(name = "compose")]
    pub async fn compose(_ctx: ActivityContext, name: String) -> Result<String, ActivityError> {
        Ok(format!("Hello, {name}!"))
    }
}

#[workflow]
pub struct Greet {
    name: String,
}

#[workflow_methods]
impl Greet {
    #[init]
    pub fn new(_ctx: &WorkflowContextView, name: String) -> Self {
        Self { name }
    }

    #[run(name = "greet")]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<String> {
        let name = ctx.state(|greet| greet.name.clone());
        let options = ActivityOptions::start_to_close_timeout(Duration::from_secs(10));
        Ok(ctx.execute_activity(Tasks::compose, name, options).await?)
    }
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queue = std::env::args().nth(1).ok_or("usage: official-worker QUEUE")?;
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let (connection, client) = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default())?;
    let client = Client::new(Connection::connect(connection).await?, client)?;
    let options = WorkerOptions::new(queue).register_activities(Tasks).register_workflow::<Greet>()?.build();
    let mut worker = Worker::new(&runtime, client, options)?;
    let before = cpu();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        println!("cpu {:.0} ms", (cpu() - before).as_secs_f64() * 1e3);
        std::process::exit(0);
    });
    println!("ready");
    worker.run().await?;
    Ok(())
}
