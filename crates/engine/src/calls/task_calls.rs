//! Calls about the workflow task other than completing it: taking it, failing it, giving it back, forgetting stickiness.

use prost::Message as _;
use segno_proto::{
    Nanos, common::WorkerVersionStamp, enums::WorkflowTaskFailedCause, failure::Failure, protocol::Message,
};

use crate::{
    error::Rejection,
    parts::{
        close,
        update::deliver,
        versioning,
        workflow_task::{self, TaskFailed, TaskStart},
    },
    retry,
    state::{WorkflowTask, run::Run},
    transition::{Applied, Context, draft::Draft},
};

/// The task to which a token belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRef {
    /// Its scheduled event.
    pub scheduled_event_id: i64,
    /// Its started event.
    pub started_event_id: i64,
    /// Its attempt.
    pub attempt: i32,
    /// When it started: distinguishes two starts with the same ids.
    pub started_time: Nanos,
}

/// The started task a token names, or the reason why there is none.
pub fn find<'a>(run: &'a Run, token: &TaskRef) -> Result<&'a WorkflowTask, Rejection> {
    run.check_open()?;
    let task = run.state.task.as_ref().filter(|task| {
        task.started_event_id != 0
            && task.scheduled_event_id == token.scheduled_event_id
            && task.started_event_id == token.started_event_id
            && task.started_time == token.started_time
            && task.attempt == token.attempt
    });
    task.ok_or(Rejection::TaskNotFound)
}

/// A worker takes the task. Nothing is stored: a crash means the task is offered again and this token fits no more.
///
/// The answer has the messages for the worker. A speculative task exists to carry messages: without any it is dropped. If the
/// worker is of the wrong version the task is not started, but offered again.
pub fn start(run: &Run, context: Context, call: TaskStart) -> Result<Applied<Vec<Message>>, Rejection> {
    let mut draft = Draft::new(run, context);
    draft.defer();
    if run.is_speculating() && run.updates.waiting().is_empty() {
        workflow_task::discard(&mut draft);
        return Ok(draft.finish(Vec::new()));
    }
    if !workflow_task::is_startable(run, call.stamp) {
        return Err(Rejection::TaskObsolete);
    }
    if !versioning::take_task(&mut draft, call.poller.as_ref(), call.target.as_ref()) {
        return Ok(draft.finish(Vec::new()));
    }
    workflow_task::start(&mut draft, call)?;
    let messages = deliver::deliver(&mut draft, true);
    Ok(draft.finish(messages))
}

/// The worker never got the task. If its start is history already, the task ends as timed out, before its time.
pub fn give_back(run: &Run, context: Context, started_time: Nanos) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let task = run.state.task.as_ref().filter(|task| task.started_event_id != 0 && task.started_time == started_time);
    match task.filter(|task| run.is_running() && !workflow_task::can_be_given_back(run, task)) {
        Some(_) => workflow_task::time_out(&mut draft),
        None => workflow_task::give_back(&mut draft, started_time)?,
    }
    Ok(draft.finish(()))
}

/// The run is about to be served by another node: makes the start of its task durable, so that its token stays valid.
pub fn keep(run: &Run, context: Context) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    if run.is_running() && !run.tail.is_empty() && !run.is_speculating() {
        draft.touch();
    }
    Ok(draft.finish(()))
}

/// A worker failed a workflow task.
#[derive(Clone, Debug)]
pub struct FailTask {
    /// Which task.
    pub token: TaskRef,
    /// Why.
    pub cause: WorkflowTaskFailedCause,
    /// The failure that the worker reported.
    pub failure: Option<Failure>,
    /// Who says so.
    pub identity: String,
    /// Its binary.
    pub binary_checksum: String,
    /// Its version.
    pub worker_version: Option<WorkerVersionStamp>,
}

/// Records the failure and schedules the next attempt at once.
pub fn fail(run: &Run, context: Context, call: FailTask) -> Result<Applied<()>, Rejection> {
    find(run, &call.token)?;
    let mut draft = Draft::new(run, context);
    if call.cause == WorkflowTaskFailedCause::GrpcMessageTooLarge {
        // The worker has an answer that can never reach us: trying again would not help.
        let identity = workflow_task::SERVER_IDENTITY.to_owned();
        close::terminate(&mut draft, "GrpcMessageTooLarge".to_owned(), None, identity, Vec::new());
        return Ok(draft.finish(()));
    }
    let failure = call.failure.map(|failure| {
        if failure.encoded_len() > context.limits.blob_bytes {
            let cause = retry::truncate(failure, context.limits.failure_bytes_kept);
            Failure { cause: Some(Box::new(cause)), ..retry::server_failure("Failure exceeds size limit.", true) }
        } else {
            failure
        }
    });
    let failed = TaskFailed {
        cause: call.cause,
        failure,
        identity: call.identity,
        binary_checksum: call.binary_checksum,
        worker_version: call.worker_version,
    };
    workflow_task::fail(&mut draft, failed);
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// The worker that held the run in its cache is gone. Known in memory is enough: a crash forgets workers anyway.
pub fn reset_sticky(run: &Run, context: Context) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    let mut draft = Draft::new(run, context);
    if draft.run.state.sticky.take().is_some() {
        draft.touch();
        draft.defer();
    }
    Ok(draft.finish(()))
}
