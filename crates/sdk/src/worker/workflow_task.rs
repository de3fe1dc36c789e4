//! Workflow tasks of a run on its thread. A workflow task is one job, unless it has to wait for local operations: handing a run
//! from thread to thread costs more than most workflow tasks.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use segno_proto::{
    enums::{QueryResultType, WorkflowTaskFailedCause},
    events::HistoryEvent,
    protocol::Message,
    query::{WorkflowQuery, WorkflowQueryResult},
};

use crate::{
    converter,
    failure::Failure,
    panics,
    versioning::VersioningBehavior,
    workflow::{
        execution::{Execution, Step, TaskFailed, WorkflowTaskAnswer},
        last_call::Place,
        local::LocalResult,
    },
};

/// A workflow task that takes longer is worth a warning.
pub(super) const SLOW_WORKFLOW_TASK: Duration = Duration::from_secs(2);

/// Queries that are answered with a workflow task, by their ids.
pub(super) type Queries = BTreeMap<String, WorkflowQuery>;

/// How far a workflow task is.
pub(super) enum TaskProgress {
    /// The answer is there.
    Completed(Box<WorkflowTaskCompletion>),
    /// Local operations are open.
    Waits(Box<Execution>, Step, Queries),
    /// The run was dropped: what it did cannot be answered with.
    Failed(Box<TaskFailed>),
}

/// A workflow task that took long, once it had begun: it may have waited for the workflow tasks of other runs before.
pub(super) struct SlowTask {
    pub took: Duration,
    pub waits_for: String,
}

/// The answer to a workflow task, and the instance that made it.
pub(super) struct WorkflowTaskCompletion {
    /// `None` if the run is closed: it was dropped on its thread.
    pub execution: Option<Box<Execution>>,
    pub finished: WorkflowTaskAnswer,
    pub query_results: BTreeMap<String, WorkflowQueryResult>,
    pub versioning: VersioningBehavior,
    /// Local operations to cancel.
    pub step: Step,
}

/// Begins a workflow task.
pub(super) fn begin(
    mut execution: Box<Execution>,
    events: Vec<HistoryEvent>,
    messages: Vec<Message>,
    queries: Queries,
) -> (TaskProgress, Option<SlowTask>) {
    let began = Instant::now();
    let step = execution.begin(events, messages);
    go_on(execution, began, step, queries)
}

/// Goes on with a workflow task when a local operation has ended.
pub(super) fn local_done(
    mut execution: Box<Execution>,
    result: LocalResult,
    queries: Queries,
) -> (TaskProgress, Option<SlowTask>) {
    let began = Instant::now();
    let step = execution.local_done(result);
    go_on(execution, began, step, queries)
}

fn go_on(
    execution: Box<Execution>,
    began: Instant,
    step: Result<Step, TaskFailed>,
    queries: Queries,
) -> (TaskProgress, Option<SlowTask>) {
    let waits_for = (began.elapsed() > SLOW_WORKFLOW_TASK).then(|| execution.waits_for());
    let progress = progress(execution, step, queries);
    let took = began.elapsed();
    // Handlers of queries may block, too.
    let slow = (took > SLOW_WORKFLOW_TASK).then(|| SlowTask { took, waits_for: waits_for.unwrap_or_default() });
    (progress, slow)
}

fn progress(execution: Box<Execution>, step: Result<Step, TaskFailed>, queries: Queries) -> TaskProgress {
    match step {
        Ok(step) if step.open_locals == 0 => TaskProgress::Completed(Box::new(end(execution, step, queries))),
        Ok(step) => TaskProgress::Waits(execution, step, queries),
        Err(failed) => {
            discard(execution);
            TaskProgress::Failed(Box::new(failed))
        }
    }
}

/// Answers the queries and takes the commands. What is still open goes on in the next workflow task.
pub(super) fn end(mut execution: Box<Execution>, step: Step, queries: Queries) -> WorkflowTaskCompletion {
    let query_results = queries.into_iter().map(|(id, query)| (id, answer(&mut execution, query))).collect();
    let finished = execution.finish();
    let versioning = execution.versioning();
    let execution = if finished.closed {
        // Nothing is left to do with it, whether the server takes the answer or not.
        discard(execution);
        None
    } else {
        Some(execution)
    };
    WorkflowTaskCompletion { execution, finished, query_results, versioning, step }
}

/// The failure of a workflow task whose code sleeps on its thread. `last_call` is where it called its context last.
pub(super) fn sleeps(last_call: Option<Place>) -> TaskFailed {
    let after = match last_call {
        Some(place) => format!("after its call of the context at {place}"),
        None => "before its first call of the context".to_owned(),
    };
    let message = format!(
        "the workflow sleeps on its thread (`std::thread::sleep`) for more than {SLOW_WORKFLOW_TASK:?}, {after}: write \
         `ctx.sleep(duration).await`"
    );
    TaskFailed {
        cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
        failure: Failure::application("Blocked", message).into(),
        violation: None,
        stale: false,
    }
}

/// Drops a run. What the user wrote may panic then, too; the answer is not lost by that.
fn discard(execution: Box<Execution>) {
    let _ = panics::catch(|| drop(execution));
}

/// Answers one query.
pub(super) fn answer(execution: &mut Execution, query: WorkflowQuery) -> WorkflowQueryResult {
    match execution.query(&query.query_type, converter::items(&query.query_args), query.header.as_ref()) {
        Ok(payloads) => WorkflowQueryResult {
            result_type: QueryResultType::Answered as i32,
            answer: converter::list(payloads),
            ..Default::default()
        },
        Err(failure) => refused(failure),
    }
}

/// The answer to a query that cannot be answered.
pub(super) fn refused(failure: Failure) -> WorkflowQueryResult {
    WorkflowQueryResult {
        result_type: QueryResultType::Failed as i32,
        error_message: failure.to_string(),
        failure: Some(failure.to_wire()),
        ..Default::default()
    }
}
