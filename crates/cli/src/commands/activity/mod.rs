//! `segno activity ...`: activities that belong to no workflow, and pending activities of workflows.

mod cancel;
mod count;
mod delete;
mod describe;
mod execute;
mod finish;
mod list;
mod operate;
mod outcome;
mod result;
mod start;
mod start_options;
mod terminate;

use clap::{Args, Subcommand};

use crate::{
    client::{Client, Connection},
    commands,
    output::{Json, plain},
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
    /// Shows the state of an activity.
    Describe(describe::Describe),
    /// Starts an activity.
    Start(Box<start::Start>),
    /// Starts an activity, waits for its end and prints its result.
    Execute(Box<execute::Execute>),
    /// Waits for the end of an activity and prints its result.
    Result(result::ResultOf),
    /// Requests the cancellation of an activity.
    Cancel(cancel::Cancel),
    /// Ends an activity at once.
    Terminate(terminate::Terminate),
    /// Deletes an activity.
    Delete(delete::Delete),
    /// Completes an activity in place of its worker.
    Complete(finish::Complete),
    /// Fails an activity in place of its worker.
    Fail(finish::Fail),
    /// Pauses an activity: no attempt begins until it is unpaused.
    Pause(operate::Pause),
    /// Unpauses an activity.
    Unpause(operate::Unpause),
    /// Resets an activity to its first attempt.
    Reset(operate::Reset),
    /// Changes time-outs, retries or the task queue of an activity.
    UpdateOptions(operate::UpdateOptions),
}

/// Which pending activity of a workflow a command is about.
#[derive(Args, Clone, Debug)]
struct ActivitySelector {
    #[command(flatten)]
    target: commands::Target,
    /// Activity id, as `segno workflow describe` shows it.
    #[arg(short, long, value_name = "ID")]
    activity_id: String,
}

impl ActivitySelector {
    /// Says that something was done to it.
    fn done(&self, client: &Client, action: &str) -> anyhow::Result<()> {
        let (activity, workflow) = (&self.activity_id, &self.target.workflow_id);
        client.print(
            || format!("Activity {} of workflow {}: {action}", plain(activity), plain(workflow)),
            || {
                Ok(Json::object([
                    ("workflowId", Json::text(workflow)),
                    ("activityId", Json::text(activity)),
                    ("namespace", Json::text(&client.namespace)),
                    ("action", Json::text(action)),
                ]))
            },
        )
    }
}

impl Activity {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let command = self.command;
        self.connection.run(async move |client: &mut Client| match command {
            Command::Complete(command) => command.run(client).await,
            Command::Fail(command) => command.run(client).await,
            Command::Pause(command) => command.run(client).await,
            Command::Unpause(command) => command.run(client).await,
            Command::Reset(command) => command.run(client).await,
            Command::UpdateOptions(command) => command.run(client).await,
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
