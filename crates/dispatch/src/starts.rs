//! Starts of workflows whose starter takes the first workflow task with the answer.

use std::{collections::BTreeMap, sync::Arc};

use segno_engine::start::Start;
use segno_environment::finish::finish;
use segno_runs::{error::CallError, starts::StartOutcome};

use super::{
    Dispatch,
    delivery::{Delivery, HeldWork},
    tasks::{HeldTask, StartedTask},
};

impl Dispatch {
    /// Starts a workflow, see [`Runs::start_workflow`](segno_runs::runs::Runs::start_workflow), and puts together the first task for a
    /// starter that asked for it.
    pub async fn start_workflow(
        self: &Arc<Self>,
        mut start: Start,
    ) -> Result<(StartOutcome, Option<StartedTask>), CallError> {
        start.options.eager &= self.runs.may_start_eagerly(&start);
        if !start.options.eager {
            return Ok((self.runs.start_workflow(start).await?, None));
        }
        let dispatch = self.clone();
        // The task is started with the commit: if the starter is gone by then, dropping the delivery gives it back.
        let work = async move {
            let mut outcome = dispatch.runs.start_workflow(start).await?;
            let Some(current) = outcome.first_task.take() else { return Ok((outcome, None)) };
            let delivery = Delivery::new(&dispatch, HeldWork::Task(HeldTask::of(&current.run)));
            let task = dispatch.started_task(current, BTreeMap::new(), false, delivery).await?;
            Ok((outcome, Some(task)))
        };
        finish(work).await
    }
}
