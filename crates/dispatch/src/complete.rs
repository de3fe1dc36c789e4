//! A worker's answer to a workflow task, with the queries that rode along.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use segno_engine::{
    Context, Run,
    complete_task::{self, CompleteTask, Completed, Surroundings},
    search_attributes::Rules,
};
use segno_environment::metrics::count;
use segno_proto::enums::CommandType;
use segno_runs::{
    error::CallError,
    namespaces::Namespace,
    queries::QueryAnswer,
    slots::{Call, Current, RunSelector, SlotState, WorkflowKey},
};

use super::{
    Dispatch,
    delivery::{Delivery, HeldWork},
    tasks::{HeldActivity, HeldTask, StartedActivity, StartedTask},
};

/// The reply to a completed workflow task.
#[derive(Clone, Debug, Default)]
pub struct CompletedTask {
    /// The outcome of the completion.
    pub completed: Completed,
    /// The next task.
    pub new_task: Option<StartedTask>,
    /// Activities to run itself.
    pub activities: Vec<StartedActivity>,
    /// Gives the next task and the activities back unless they are delivered.
    pub delivery: Option<Delivery>,
}

impl Dispatch {
    /// Applies a worker's answer.
    pub async fn complete_workflow_task(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        key: &WorkflowKey,
        run_id: &str,
        call: CompleteTask,
        answers: BTreeMap<String, QueryAnswer>,
    ) -> Result<CompletedTask, CallError> {
        self.runs.refuse_overload()?;
        let (runs, dispatch) = (self.runs.clone(), self.clone());
        // Only a command that closes the run can create another.
        let creates = call.commands.iter().any(|command| closes(command.command_type()));
        let moved = Arc::new(AtomicBool::new(false));
        let has_moved = moved.clone();
        let apply = move |run: &Run, context: Context| {
            let target = runs.target_of(run, call.version.as_ref());
            let call = CompleteTask { target, ..call };
            let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
            let surroundings = Surroundings {
                namespace: &|name| runs.namespaces.live(name).map(|found| (found.key.0, found.detail.id.clone())),
                search_attributes: &rules,
                endpoint: &|name| runs.endpoints.by_name(name).map(|endpoint| endpoint.id.clone()),
                system_operation: &|attributes| runs.system_operations.check(&namespace.name, attributes),
                is_member: &|version, queue| runs.polls_workflow_queue(namespace.key, version, queue),
            };
            let applied = complete_task::complete(run, context, call, &surroundings)?;
            has_moved.store(changes_version(run, &applied.run), Ordering::Relaxed);
            Ok(applied)
        };
        let after = move |state: &mut SlotState, completed: &Completed| {
            if !completed.repeated {
                if completed.failure.is_none() && !completed.heartbeat_timed_out {
                    state.queries.resolve(answers);
                }
                let pending = state.current.as_ref().is_some_and(|current| current.run.state().task.is_some());
                if !pending {
                    state.queries.unblock();
                }
            }
            let queries = if completed.new_task.is_some() { state.queries.outgoing() } else { BTreeMap::new() };
            let current = state.current.clone();
            // HeldWork from the commit on: if the caller is gone by now, what it was to get is given back.
            let delivery = current.as_ref().and_then(|current| hand_out(&dispatch, current, completed));
            (current, queries, delivery)
        };
        let call = Call {
            selector: RunSelector::run(run_id),
            delivered: Vec::new(),
            creates,
            lazy: false,
            decide: apply,
            after,
            types: PhantomData,
        };
        let (completed, (current, queries, delivery)) = self.runs.call(key, call).await?;
        if moved.load(Ordering::Relaxed) {
            count(&self.runs.metrics.version_transitions);
        }
        let mut reply = CompletedTask { completed, ..Default::default() };
        let (Some(current), Some(delivery)) = (current, delivery) else { return Ok(reply) };
        for activity in reply.completed.eager_activities.clone() {
            let scheduled = self.runs.scheduled_attributes(&current, activity.scheduled_event_id).await?;
            count(&self.runs.metrics.activity_tasks_eager);
            self.runs.metrics.activity_task_started(&current.run.info, &activity);
            let (run, delivery) = (current.run.clone(), delivery.clone());
            reply.activities.push(StartedActivity { run, activity, scheduled, delivery });
        }
        if next_task(&current, &reply.completed).is_some() {
            self.runs.metrics.workflow_task_started(&current.run.info);
            let started = self.started_task(current, queries, true, delivery.clone()).await?;
            let messages = std::mem::take(&mut reply.completed.new_messages);
            reply.new_task = Some(StartedTask { messages, ..started });
        }
        reply.delivery = Some(delivery);
        Ok(reply)
    }
}

/// Whether a run that had completed a workflow task before has moved to another version.
fn changes_version(before: &Run, after: &Run) -> bool {
    let version = |run: &Run| run.state().versioning.as_ref().and_then(|versioning| versioning.version.clone());
    before.state().last_completed_started_id != 0 && version(before) != version(after)
}

/// Whether a command ends the run, so that another may follow it (continue-as-new, retry, cron).
fn closes(command: CommandType) -> bool {
    use CommandType::{CompleteWorkflowExecution, ContinueAsNewWorkflowExecution, FailWorkflowExecution};
    matches!(command, CompleteWorkflowExecution | FailWorkflowExecution | ContinueAsNewWorkflowExecution)
}

/// Whether the next task, which the answer is to carry, is still there: calls in the same commit may have ended it.
fn next_task(current: &Current, completed: &Completed) -> Option<()> {
    let wanted = completed.new_task.as_ref()?;
    let task = current.run.state().task.as_ref()?;
    (task.started_event_id != 0 && task.started_time == wanted.started_time).then_some(())
}

/// Holds what the answer to a completed task carries, if anything.
fn hand_out(dispatch: &Arc<Dispatch>, current: &Current, completed: &Completed) -> Option<Delivery> {
    let task = next_task(current, completed).map(|()| HeldTask::of(&current.run));
    let activities: Vec<_> =
        completed.eager_activities.iter().map(|activity| HeldActivity::of(&current.run, activity)).collect();
    let anything = task.is_some() || !activities.is_empty();
    anything.then(|| Delivery::new(dispatch, HeldWork::Reply(task, activities)))
}
