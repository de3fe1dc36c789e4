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
mod why;

use clap::Args;

use crate::{
    client::Client,
    commands,
    output::{Json, plain},
};

noun!(Activity {
    /// Lists activities, newest first.
    List(list::List),
    /// Counts activities.
    Count(count::Count),
    /// Shows the state of an activity.
    Describe(describe::Describe),
    /// Says why an activity without a workflow does not go on.
    Why(why::Why),
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
});

/// Which pending activity of a workflow a command is about.
#[derive(Args, Clone, Debug)]
struct ActivitySelector {
    #[command(flatten)]
    target: commands::Target,
    /// Activity id, as `segno workflow describe` shows it.
    #[arg(short, long, value_name = "ID")]
    activity_id: String,
}

/// A pending activity of a workflow, or a standalone one.
#[derive(Args, Clone, Debug)]
struct AnySelector {
    /// Workflow id; without it the activity is a standalone one.
    #[arg(short, long, value_name = "ID")]
    workflow_id: Option<String>,
    /// Run id. [default: the newest run]
    #[arg(short, long, value_name = "ID", default_value = "", hide_default_value = true)]
    run_id: String,
    /// Activity id, as `segno workflow describe` shows it.
    #[arg(short, long, value_name = "ID")]
    activity_id: String,
}

impl AnySelector {
    /// The activity of a workflow, or the standalone one.
    fn split(self) -> Result<ActivitySelector, Target> {
        let Self { workflow_id, run_id, activity_id } = self;
        match workflow_id {
            Some(workflow_id) => Ok(ActivitySelector { target: commands::Target { workflow_id, run_id }, activity_id }),
            None => Err(Target { activity_id, run_id }),
        }
    }
}

impl ActivitySelector {
    /// Says that something was done to it.
    fn done(&self, client: &Client, action: &str) -> anyhow::Result<()> {
        let (activity, workflow) = (&self.activity_id, &self.target.workflow_id);
        client.print(
            || format!("Activity {} of workflow {}: {action}", plain(activity), plain(workflow)),
            || {
                Json::object([
                    ("workflowId", Json::text(workflow)),
                    ("activityId", Json::text(activity)),
                    ("namespace", Json::text(&client.namespace)),
                    ("action", Json::text(action)),
                ])
            },
        )
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
    commands::done(client, ("activityId", &target.activity_id), &target.run_id, action, sentence)
}
