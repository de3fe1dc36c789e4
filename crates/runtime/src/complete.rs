//! A worker's answer to a workflow task, with the queries that rode along.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    error::CallError,
    namespaces::Namespace,
    node::Node,
    queries::QueryAnswer,
    slots::WorkflowKey,
    tasks::{StartedActivity, StartedTask},
    transact::RunSelector,
};
use segno_engine::{
    Run,
    complete_task::{self, CompleteTask, Completed, Surroundings},
    search_attributes::Rules,
};

/// What the worker gets in return.
#[derive(Clone, Debug, Default)]
pub struct CompletedTask {
    /// What became of its answer.
    pub completed: Completed,
    /// The next task.
    pub new_task: Option<StartedTask>,
    /// Activities to run itself.
    pub activities: Vec<StartedActivity>,
}

impl Node {
    /// Applies a worker's answer.
    pub async fn complete_workflow_task(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        key: &WorkflowKey,
        run_id: &str,
        call: CompleteTask,
        answers: BTreeMap<String, QueryAnswer>,
    ) -> Result<CompletedTask, CallError> {
        let node = self.clone();
        let apply = move |run: &Run, context| {
            let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
            let surroundings = Surroundings {
                namespace: &|name| node.namespaces.live(name).map(|found| (found.key.0, found.detail.id.clone())),
                search_attributes: &rules,
            };
            complete_task::complete(run, context, call, &surroundings)
        };
        let result = self
            .transact_and(key, &RunSelector::run(run_id), Vec::new(), apply, move |state, completed: &Completed| {
                if completed.failure.is_none() && !completed.heartbeat_timed_out {
                    state.queries.resolve(answers);
                }
                let pending = state.current.as_ref().is_some_and(|current| current.run.state.task.is_some());
                if !pending {
                    state.queries.unblock();
                }
                let queries = if completed.new_task.is_some() { state.queries.outgoing() } else { BTreeMap::new() };
                (state.current.clone(), queries)
            })
            .await?;
        let (completed, (current, queries)) = result;
        let mut reply = CompletedTask { completed, ..Default::default() };
        let Some(current) = current else { return Ok(reply) };
        for activity in reply.completed.eager_activities.clone() {
            let scheduled = self.scheduled_attributes(&current, activity.scheduled_event_id).await?;
            reply.activities.push(StartedActivity { run: current.run.clone(), activity, scheduled });
        }
        if reply.completed.new_task.is_some() {
            let started = self.started_task(current, queries, true).await?;
            let messages = std::mem::take(&mut reply.completed.new_messages);
            reply.new_task = Some(StartedTask { messages, ..started });
        }
        Ok(reply)
    }
}
