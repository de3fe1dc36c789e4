//! `segno activity ...`: activities that belong to no workflow.

mod cancel;
mod count;
mod delete;
mod describe;
mod execute;
mod list;
mod outcome;
mod result;
mod start;
mod start_options;
mod terminate;

use clap::{Args, Subcommand};

use crate::{
    client::{Client, Connection},
    output::Json,
};

#[derive(Args, Clone, Debug)]
pub struct Activity {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Lists activities, newest first.
    List(list::List),
    /// Counts activities.
    Count(count::Count),
    /// Shows how an activity stands.
    Describe(describe::Describe),
    /// Starts an activity.
    Start(Box<start::Start>),
    /// Starts an activity, waits for its end and prints its result.
    Execute(Box<execute::Execute>),
    /// Waits for the end of an activity and prints its result.
    Result(result::ResultOf),
    /// Asks the worker of an activity to cancel it.
    Cancel(cancel::Cancel),
    /// Ends an activity at once.
    Terminate(terminate::Terminate),
    /// Deletes an activity.
    Delete(delete::Delete),
}

impl Activity {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let command = self.command;
        self.connection.run(async move |client: &mut Client| match command {
            Command::List(command) => command.run(client).await,
            Command::Count(command) => command.run(client).await,
            Command::Describe(command) => command.run(client).await,
            Command::Start(command) => command.run(client).await,
            Command::Execute(command) => command.run(client).await,
            Command::Result(command) => command.run(client).await,
            Command::Cancel(command) => command.run(client).await,
            Command::Terminate(command) => command.run(client).await,
            Command::Delete(command) => command.run(client).await,
        })
    }
}

/// Which activity a command is about.
#[derive(Args, Clone, Debug)]
struct Target {
    /// Activity id.
    #[arg(short, long, value_name = "ID")]
    activity_id: String,
    /// Run id. [default: the newest run]
    #[arg(short, long, value_name = "ID", default_value = "", hide_default_value = true)]
    run_id: String,
}

/// Says that something was done to an activity; the same shape for every such command.
fn done(client: &Client, target: &Target, action: &str, sentence: String) -> anyhow::Result<()> {
    client.print(
        || sentence,
        || {
            let mut json = Json::object([("activityId", Json::text(&target.activity_id))]);
            if !target.run_id.is_empty() {
                json.push("runId", Json::text(&target.run_id));
            }
            json.push("namespace", Json::text(&client.namespace));
            json.push("action", Json::text(action));
            Ok(json)
        },
    )
}
