//! A worker with one workflow of one task, written with Temporal's official SDK: what ours is measured against.
//!
//! `segno-sdk-bench-official ADDRESS QUEUE`: serves until it is interrupted.

use std::time::Duration;

use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::{
    ActivityOptions, Runtime, Worker, WorkerOptions, WorkflowContext, WorkflowResult,
    activities::{ActivityContext, ActivityError},
};

#[workflow]
#[derive(Default)]
pub struct Greet;

#[workflow_methods]
impl Greet {
    #[run]
    pub async fn run(ctx: &mut WorkflowContext<Self>, name: String) -> WorkflowResult<String> {
        let options = ActivityOptions::start_to_close_timeout(Duration::from_secs(10));
        Ok(ctx.execute_activity(Tasks::compose, name, options).await?)
    }
}

pub struct Tasks;

#[activities]
impl Tasks {
    #[activity]
    pub async fn compose(_ctx: ActivityContext, name: String) -> Result<String, ActivityError> {
        Ok(format!("Hello, {name}!"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (address, queue) = (words.next().ok_or("address")?, words.next().ok_or("queue")?);
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let options = ConnectionOptions::new(format!("http://{address}").parse::<url::Url>()?).build();
    let connection = Connection::connect(options).await?;
    let client = Client::new(connection, ClientOptions::new("default").build())?;
    let options = WorkerOptions::new(queue).register_workflow::<Greet>()?.register_activities(Tasks).build();
    let mut worker = Worker::new(&runtime, client, options)?;
    let stop = worker.shutdown_handle();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop();
    });
    worker.run().await?;
    Ok(())
}
