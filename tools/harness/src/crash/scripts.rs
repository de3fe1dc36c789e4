//! Workflows as scripts: the server executes their turns itself, so that a crash hits its own executor.
//!
//! The worker has their tasks only. A script that is acknowledged as deployed must be there for every later start:
//! otherwise the start is taken for a workflow of some worker, and the worker is handed its task.

use std::cell::Cell;

use segno_proto::segno_flow::DeployRequest;

use super::{
    flows::{Shared, refused, result, signal, start},
    ledger::{Breach, Kind},
};
use crate::wire::{Client, NAMESPACE};

/// What each script does: its turns begin with a start, the end of a task, a signal and a timer.
const SOURCE: &str = "workflow script(text) {
  const said = [await Task.run(\"echo\", text, { start_to_close: \"1s\" })]
  let names = []
  await wait_for_signal(\"s0\")
  names.push(\"s0\")
  await Task.delay(\"20ms\")
  await wait_for_signal(\"s1\")
  names.push(\"s1\")
  return `${said[0]}: ${names.join(\",\")}`
}
";

/// Scripts on a server that has them.
#[derive(Default)]
pub struct Scripts {
    /// They are deployed when the first one is started.
    deployed: Cell<bool>,
}

impl Scripts {
    async fn deploy(&self, shared: &Shared, client: &mut Client) -> Result<(), Breach> {
        if self.deployed.get() {
            return Ok(());
        }
        let message = DeployRequest {
            namespace: NAMESPACE.to_owned(),
            source: SOURCE.into(),
            file_name: "crash.flow".to_owned(),
            take_over: true,
            ..Default::default()
        };
        client.insist(&message).await.map_err(|status| refused(shared, "deployment", "script", &status))?;
        self.deployed.set(true);
        Ok(())
    }
}

/// A script with its two signals. `false` if the server has no scripts.
pub async fn run(shared: &Shared, client: &mut Client, id: &str) -> Result<bool, Breach> {
    let Some(scripts) = &shared.scripts else { return Ok(false) };
    scripts.deploy(shared, client).await?;
    let run_id = start(shared, client, Kind::Script, id, &Kind::Activity.result(id)).await?;
    for name in ["s0", "s1"] {
        signal(shared, client, Kind::Script, id, &run_id, name).await?;
    }
    result(shared, client, Kind::Script, id, &run_id).await?;
    Ok(true)
}
