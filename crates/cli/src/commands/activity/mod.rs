//! `segno activity ...`: pending activities of a workflow, by their ids.

mod finish;
mod operate;

use clap::{Args, Subcommand};

use crate::{
    client::{Client, Connection},
    commands::Target,
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
    /// Completes an activity in place of its worker.
    Complete(finish::Complete),
    /// Fails an activity in place of its worker.
    Fail(finish::Fail),
    /// Pauses an activity: no attempt begins until it is unpaused.
    Pause(operate::Pause),
    /// Lets a paused activity go on.
    Unpause(operate::Unpause),
    /// Begins an activity anew, with its first attempt.
    Reset(operate::Reset),
    /// Changes time-outs, retries or the task queue of an activity.
    UpdateOptions(operate::UpdateOptions),
}

/// Which activity a command is about.
#[derive(Args, Clone, Debug)]
struct OneActivity {
    #[command(flatten)]
    target: Target,
    /// Activity id, as `segno workflow describe` shows it.
    #[arg(short, long, value_name = "ID")]
    activity_id: String,
}

impl OneActivity {
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
        })
    }
}
