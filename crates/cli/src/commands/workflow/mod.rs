//! `segno workflow ...`.

mod cancel;
mod count;
mod delete;
mod describe;
mod execute;
mod list;
mod outcome;
mod pause;
mod query;
mod reset;
mod result;
mod show;
mod signal;
mod signal_with_start;
mod stack;
mod start;
mod start_options;
mod terminate;
mod trace;
mod update;
mod update_options;
mod verify;
mod why;

pub use outcome::Outcome;

use crate::{
    client::Client,
    commands::{self, Target},
};

noun!(Workflow {
    /// Lists workflows: open ones first, the newest first among them, then those that closed last.
    List(list::List),
    /// Counts workflows.
    Count(count::Count),
    /// Shows the history of a workflow.
    Show(show::Show),
    /// Shows the state of a workflow.
    Describe(describe::Describe),
    /// Starts a workflow.
    Start(Box<start::Start>),
    /// Starts a workflow, waits for its end and prints its result.
    Execute(Box<execute::Execute>),
    /// Sends a signal to a workflow.
    Signal(signal::Signal),
    /// Sends a signal to a workflow, and starts it if it is not open.
    SignalWithStart(Box<signal_with_start::SignalWithStart>),
    /// Sends a query to a workflow and prints its result.
    Query(query::Query),
    /// Asks a worker for the stack trace of a workflow.
    Stack(stack::Stack),
    /// Shows a workflow, its pending operations and its children as a tree.
    Trace(trace::Trace),
    /// Sends an update to a workflow and prints its result.
    Update(update::Update),
    /// Sets the version of workers to which a workflow goes.
    UpdateOptions(update_options::UpdateOptions),
    /// Resets a workflow: starts a new run from an earlier event.
    Reset(reset::Reset),
    /// Requests the cancellation of a workflow.
    Cancel(cancel::Cancel),
    /// Ends a workflow at once.
    Terminate(terminate::Terminate),
    /// Pauses a workflow: its tasks are not handed to workers until it is unpaused.
    Pause(pause::Pause),
    /// Unpauses a workflow.
    Unpause(pause::Unpause),
    /// Waits for the end of a workflow and prints its result.
    Result(result::ResultOf),
    /// Deletes a workflow and its history.
    Delete(delete::Delete),
    /// Checks whether workers with other code can replay open runs.
    Verify(verify::Verify),
    /// Explains why a workflow does not go on.
    Why(why::Why),
});

/// Says that something was done to a workflow; the same shape for every such command.
fn done(client: &Client, target: &Target, action: &str, sentence: String) -> anyhow::Result<()> {
    commands::done(client, ("workflowId", &target.workflow_id), &target.run_id, action, sentence)
}
