//! Background tasks of scripts, from the start of the node on.

use super::{executor, host::Scripts};

impl Scripts {
    /// Begins to execute turns that are offered, and starts the runs of schedules.
    pub fn start(&self) {
        self.runs.lifecycle.supervise("the execution of scripts", executor::run(self.clone()));
        let scripts = self.clone();
        self.runs
            .lifecycle
            .supervise_to_its_end("the schedules of scripts", async move { scripts.follow_schedules().await });
    }
}
