//! Workflows as scripts, which the server executes itself: the driver has the tasks only.

use std::rc::Rc;

use anyhow::Result;
use segno_proto::segno_flow::DeployRequest;

use super::{outcome::Outcome, session::Session, workflows};
use crate::wire::{CALL_TIMEOUT, NAMESPACE};

/// One task, as the workload `one-activity` has it.
pub const ONE_TASK: &str = "workflow one_task(x) { return await Task.run(\"echo\", x) }\n";
/// A hundred tasks, as the workload `fan-out` has it.
const ALL: &str = "workflow all_tasks(x) {
  const all = await Task.all(List.range(100).map(i => Task.run(\"echo\", x)))
  return all[0]
}
";

/// Runs a script of one task.
pub async fn one_task(session: &Rc<Session>) -> Result<Outcome> {
    deploy(session, ONE_TASK).await?;
    workflows::run(session, "one_task").await
}

/// Runs a script of a hundred tasks.
pub async fn all_tasks(session: &Rc<Session>) -> Result<Outcome> {
    deploy(session, ALL).await?;
    workflows::run(session, "all_tasks").await
}

/// Deploys a script.
pub async fn deploy(session: &Session, source: &'static str) -> Result<()> {
    let message = DeployRequest {
        namespace: NAMESPACE.to_owned(),
        source: source.into(),
        file_name: "bench.flow".to_owned(),
        take_over: true,
        ..Default::default()
    };
    session.client().call(message, CALL_TIMEOUT).await?;
    Ok(())
}
