//! Trials: whether workers of a candidate can replay an open run.
//!
//! A trial is a query that every SDK answers, on its way to a worker of the candidate with the history up to the last completed
//! workflow task. The worker replays that before it answers. Nothing is stored, and the run is not even locked while the worker
//! replays: neither its sticky queue nor its pending workflow task changes.
//!
//! What workers answer when their code does not fit:
//! - SDKs on Temporal's Core (Python, TypeScript, .NET, Ruby) answer the query as failed. If replay diverged the answer has a cause;
//!   if the workflow task failed otherwise, such as with a type that is not registered, it has a failure alone.
//! - Other workers may report a failed workflow task, or answer the query as failed.
//! - Go's SDK compares no commands with the history for a query. Its workers get a workflow task instead, which follows the history
//!   without new events, and complete or fail it. The trial discards the commands of that answer.
//!
//! A worker that does not know the query says so with its name, after it replayed the run.

use std::{sync::Arc, time::Duration};

use segno_deployments::{Version, hash_of};
use segno_engine::{Run, activity::Sdk, state::WorkflowTask};
use segno_matching::{QueueKey, QueueKind, TaskRoute, Trial};
use segno_proto::{
    Nanos,
    command::Command,
    enums::{CommandType, EventType, TaskQueueKind, WorkflowTaskFailedCause},
    events::{
        HistoryEvent, WorkflowTaskScheduledEventAttributes, WorkflowTaskStartedEventAttributes,
        history_event::Attributes,
    },
    failure::Failure,
    nanos_duration, nanos_timestamp,
    query::WorkflowQuery,
    taskqueue::TaskQueue,
};
use segno_runs::{
    CompletedTaskEvents,
    error::CallError,
    queries::{QueryAnswer, QueryFailure},
    slots::{Current, WorkflowKey},
};
use segno_store::{NamespaceKey, RunKey};
use tokio::time::Instant;

use super::{Dispatch, query::PendingQuery};

/// The time-out that a workflow task of a trial names. A verification has its own.
const TASK_TIMEOUT: Nanos = 10_000_000_000;
/// The query that trials send.
const METADATA_QUERY: &str = "__temporal_workflow_metadata";
/// A worker whose answer is too large has replayed; the edge replaces the answer by these words.
const TOO_LARGE: &str = "Blob data size exceeds limit.";

/// The workers that are to replay a run.
#[derive(Clone, Debug, Default)]
pub struct TrialCandidate {
    /// The queue that they poll; that of the run if it is not set.
    pub queue: Option<String>,
    /// Their version, if they have one.
    pub version: Option<Version>,
}

/// The outcome of a trial.
#[derive(Clone, Debug)]
pub enum TrialOutcome {
    /// The worker replayed the run.
    Replayed,
    /// Its code does not fit the history.
    Failed(Box<TrialFailure>),
    /// No worker answered in time.
    NoAnswer,
    /// There is nothing to replay.
    Skipped,
}

/// Why a run does not replay.
#[derive(Clone, Debug, Default)]
pub struct TrialFailure {
    /// Why its workflow task would fail.
    pub cause: WorkflowTaskFailedCause,
    /// In the worker's words.
    pub message: String,
    /// In full.
    pub failure: Option<Failure>,
    /// The event with which replay fails; 0 if it is not known.
    pub event_id: i64,
    /// Its type.
    pub event_type: EventType,
}

impl Dispatch {
    /// Lets a worker of a candidate replay a run, and waits for its answer for so long. `locate` finds the event with which replay
    /// fails by further trials with shorter histories, if the worker does not name it.
    pub async fn try_run(
        &self,
        key: &WorkflowKey,
        run_id: &str,
        candidate: &TrialCandidate,
        timeout: Duration,
        locate: bool,
    ) -> Result<TrialOutcome, CallError> {
        let current = self.runs.snapshot(key, run_id).await?;
        let state = current.run.state();
        let started = state.last_completed_started_id;
        if !current.run.is_running() || state.script.is_some() || started <= 0 {
            return Ok(TrialOutcome::Skipped);
        }
        let mut tasks = self.runs.completed_tasks(&current, started).await?;
        if tasks.last().is_some_and(|task| task.is_heartbeat) {
            // Local activities are under way: the worker would begin them again.
            tasks = self.runs.completed_tasks(&current, 1).await?;
            while tasks.last().is_some_and(|task| task.is_heartbeat) {
                tasks.pop();
            }
        }
        let Some(last) = tasks.pop() else { return Ok(TrialOutcome::Skipped) };
        let outcome = self.try_until(key, &current, candidate, last, timeout).await?;
        let TrialOutcome::Failed(mut failure) = outcome else { return Ok(outcome) };
        let named = event_named_in(&failure.message);
        if failure.cause != WorkflowTaskFailedCause::NonDeterministicError {
            return Ok(TrialOutcome::Failed(failure));
        }
        if named > 0 {
            failure.event_id = named;
            let event = self.runs.stored_events(&current, named, named).await?;
            failure.event_type = event.first().map_or(EventType::Unspecified, HistoryEvent::event_type);
        } else if locate {
            self.locate(key, &current, candidate, timeout, last.last_event_id, &mut failure).await?;
        }
        Ok(TrialOutcome::Failed(failure))
    }

    /// Sends the history up to a completed task.
    async fn try_until(
        &self,
        key: &WorkflowKey,
        current: &Current,
        candidate: &TrialCandidate,
        last: CompletedTaskEvents,
        timeout: Duration,
    ) -> Result<TrialOutcome, CallError> {
        let run = &current.run;
        let trial = trial_of(run, candidate, last);
        let queue = trial.queue.clone();
        let (id, deadline) = (self.runs.ids.bits(), Instant::now() + timeout);
        let query = WorkflowQuery { query_type: METADATA_QUERY.to_owned(), ..Default::default() };
        let (mut task, mut answer) = self.direct_queries.add(id, RunKey(run.info.run_key), query);
        let _pending = PendingQuery(&self.direct_queries, id);
        self.direct_queries.mark_trial(id);
        task.node = self.runs.node_number;
        task.trial = Some(Arc::new(trial));
        let answered = loop {
            let moved = self.direct_queries.offer_again.notified();
            let offer = self.offer_query(run, queue.clone(), task.clone(), false);
            if tokio::time::timeout_at(deadline, offer).await.is_err() {
                break None;
            }
            tokio::select! {
                biased;
                answered = &mut answer => break answered.ok(),
                () = tokio::time::sleep_until(deadline) => break None,
                // The queue may have another home, which does not know of it.
                () = moved => task = task.again(false),
            }
        };
        match answered {
            Some(QueryAnswer::Answered(_) | QueryAnswer::TooLarge) => Ok(TrialOutcome::Replayed),
            Some(QueryAnswer::Failed(failed)) => Ok(outcome_of(failed)),
            // If the run has moved, the trial is made again where it is.
            Some(QueryAnswer::Unblocked) => self.runs.admit(key).map(|()| TrialOutcome::NoAnswer),
            None => {
                task.withdraw();
                Ok(TrialOutcome::NoAnswer)
            }
        }
    }

    /// Finds the first workflow task up to which the history does not replay, and the event of it to which the message applies.
    async fn locate(
        &self,
        key: &WorkflowKey,
        current: &Current,
        candidate: &TrialCandidate,
        timeout: Duration,
        until: i64,
        failure: &mut TrialFailure,
    ) -> Result<(), CallError> {
        let mut tasks = self.runs.completed_tasks(current, 1).await?;
        tasks.retain(|task| task.last_event_id <= until && !task.is_heartbeat);
        // All before `low` replay, and the one at `high` does not.
        let (mut low, mut high) = (0, tasks.len().saturating_sub(1));
        while low < high {
            let middle = low.midpoint(high);
            let Some(task) = tasks.get(middle).copied() else { return Ok(()) };
            match self.try_until(key, current, candidate, task, timeout).await? {
                TrialOutcome::Replayed => low = middle + 1,
                TrialOutcome::Failed(earlier) => {
                    failure.message = earlier.message;
                    failure.failure = earlier.failure;
                    high = middle;
                }
                TrialOutcome::NoAnswer | TrialOutcome::Skipped => return Ok(()),
            }
        }
        let Some(task) = tasks.get(high) else { return Ok(()) };
        let events = self.runs.stored_events(current, task.completed_event_id, task.last_event_id).await?;
        let made = events.iter().skip(1);
        let meant = made.clone().find(|event| is_named_in(event, &failure.message));
        if let Some(event) = meant.or_else(|| made.clone().next()).or(events.first()) {
            failure.event_id = event.event_id;
            failure.event_type = event.event_type();
        }
        Ok(())
    }

    /// A worker completed the workflow task that stood for a trial. False if no trial waits for it. The run waits for news, so code
    /// that closes it now differs from the code that ran before.
    pub fn complete_trial(&self, id: u64, commands: &[Command]) -> bool {
        let closing = commands.iter().find(|command| closes(command.command_type()));
        let answer = match closing {
            None => QueryAnswer::Answered(None),
            Some(command) => {
                let kind = command.command_type().as_str_name().trim_start_matches("COMMAND_TYPE_");
                let message = format!("the code closes the workflow ({kind}) where it waited before");
                let cause = WorkflowTaskFailedCause::NonDeterministicError;
                QueryAnswer::Failed(QueryFailure { message, failure: None, cause })
            }
        };
        self.direct_queries.end_trial(id, answer)
    }

    /// A worker reports that the workflow task failed that was to answer a query. False if no trial waits for it.
    pub fn fail_trial(&self, id: u64, cause: WorkflowTaskFailedCause, failure: Option<Failure>) -> bool {
        let message = failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        let cause = match cause {
            WorkflowTaskFailedCause::Unspecified => WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            cause => cause,
        };
        self.direct_queries.end_trial(id, QueryAnswer::Failed(QueryFailure { message, failure, cause }))
    }
}

/// Whether workers with an SDK compare their commands with the history when they get a query.
fn compares_for_queries(sdk: &Sdk) -> bool {
    const GO: [&str; 3] = ["temporal-go", "temporal-php", "roadrunner"];
    !GO.iter().any(|name| sdk.name.starts_with(name))
}

/// The workflow task of a trial for such workers; for others it stays a query.
pub(super) fn trial_task(trial: &Trial, sdk: &Sdk, now: Nanos) -> WorkflowTask {
    if compares_for_queries(sdk) {
        return WorkflowTask { attempt: 1, ..Default::default() };
    }
    let started_event_id = trial.task_started_event_id();
    WorkflowTask {
        attempt: 1,
        scheduled_event_id: started_event_id - 1,
        started_event_id,
        scheduled_time: now,
        started_time: now,
        ..Default::default()
    }
}

/// The events of that task, which follow the history.
pub fn trial_task_events(last_event_id: i64, queue: &str, now: Nanos) -> [HistoryEvent; 2] {
    let event = |event_id, kind: EventType, attributes| HistoryEvent {
        event_id,
        event_time: Some(nanos_timestamp(now)),
        event_type: kind as i32,
        attributes: Some(attributes),
        ..Default::default()
    };
    let scheduled = WorkflowTaskScheduledEventAttributes {
        task_queue: Some(TaskQueue {
            name: queue.to_owned(),
            kind: TaskQueueKind::Normal as i32,
            ..Default::default()
        }),
        start_to_close_timeout: Some(nanos_duration(TASK_TIMEOUT)),
        attempt: 1,
    };
    let started = WorkflowTaskStartedEventAttributes { scheduled_event_id: last_event_id + 1, ..Default::default() };
    [
        event(
            last_event_id + 1,
            EventType::WorkflowTaskScheduled,
            Attributes::WorkflowTaskScheduledEventAttributes(scheduled),
        ),
        event(
            last_event_id + 2,
            EventType::WorkflowTaskStarted,
            Attributes::WorkflowTaskStartedEventAttributes(started),
        ),
    ]
}

fn closes(kind: CommandType) -> bool {
    matches!(
        kind,
        CommandType::CompleteWorkflowExecution
            | CommandType::FailWorkflowExecution
            | CommandType::CancelWorkflowExecution
            | CommandType::ContinueAsNewWorkflowExecution
    )
}

/// Where a trial of a run goes.
fn trial_of(run: &Run, candidate: &TrialCandidate, last: CompletedTaskEvents) -> Trial {
    let name = candidate.queue.clone().unwrap_or_else(|| run.info.task_queue.clone());
    let queue = QueueKey { namespace: NamespaceKey(run.info.namespace_key), kind: QueueKind::Workflow, name };
    let hash = hash_of(&run.info.workflow_id);
    let route = TaskRoute { pinned: candidate.version.clone(), hash, uses_ramp: false };
    let (last_event_id, previous_started_event_id) = (last.last_event_id, last.started_event_id);
    Trial { queue, route, last_event_id, previous_started_event_id }
}

/// The outcome of a trial whose answer is a failure.
fn outcome_of(failed: QueryFailure) -> TrialOutcome {
    let has_diverged = has_diverged(&failed);
    let QueryFailure { message, failure, cause } = failed;
    let cause = match cause {
        WorkflowTaskFailedCause::Unspecified if has_diverged => WorkflowTaskFailedCause::NonDeterministicError,
        // The handler is not there, or its answer was too large: the worker has replayed.
        WorkflowTaskFailedCause::Unspecified if message.contains(METADATA_QUERY) || message == TOO_LARGE => {
            return TrialOutcome::Replayed;
        }
        WorkflowTaskFailedCause::Unspecified => WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
        cause => cause,
    };
    TrialOutcome::Failed(Box::new(TrialFailure { cause, message, failure, ..Default::default() }))
}

/// Whether a worker says that its code differs from the history.
fn has_diverged(failed: &QueryFailure) -> bool {
    let diverged = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["tmprl1100", "nondeterminis", "non-determinis", "determinismviolation"].iter().any(|word| text.contains(word))
    };
    let mut chain = std::iter::successors(failed.failure.as_ref(), |failure| failure.cause.as_deref());
    diverged(&failed.message) || chain.any(|failure| diverged(&failure.message) || diverged(failure_type(failure)))
}

/// The type of a failure of an application; empty if it has none.
pub fn failure_type(failure: &Failure) -> &str {
    use segno_proto::failure::failure::FailureInfo;
    match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => &info.r#type,
        _ => "",
    }
}

/// The event that a worker names in a message; 0 if it names none.
fn event_named_in(message: &str) -> i64 {
    // Core, segno-sdk, Java, Go.
    const BEFORE: [&str; 5] = ["HistoryEvent(id: ", "event ", "Failure handling event ", "eventId=", "EventId: "];
    let number = |after: &str| {
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        after[..digits].parse::<i64>().ok().filter(|number| *number > 0)
    };
    let places = |before: &&str| message.match_indices(*before).map(|(at, found)| at + found.len()).collect::<Vec<_>>();
    let found = BEFORE.iter().find_map(|before| places(before).into_iter().find_map(|at| number(&message[at..])));
    found.unwrap_or(0)
}

/// Whether a message has what tells an event from others of its task: the type or the id that the user gave.
fn is_named_in(event: &HistoryEvent, message: &str) -> bool {
    let quoted = |name: &str| {
        let forms =
            [format!("'{name}'"), format!("\"{name}\""), format!("Name:{name})"), format!("ActivityId:{name},")];
        !name.is_empty() && forms.iter().any(|form| message.contains(form))
    };
    match &event.attributes {
        Some(Attributes::ActivityTaskScheduledEventAttributes(a)) => {
            let kind = a.activity_type.as_ref().map_or("", |kind| &kind.name);
            quoted(kind) || quoted(&a.activity_id)
        }
        Some(Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(a)) => {
            let kind = a.workflow_type.as_ref().map_or("", |kind| &kind.name);
            quoted(kind) || quoted(&a.workflow_id)
        }
        Some(Attributes::TimerStartedEventAttributes(a)) => quoted(&a.timer_id),
        Some(Attributes::MarkerRecordedEventAttributes(a)) => quoted(&a.marker_name),
        Some(Attributes::SignalExternalWorkflowExecutionInitiatedEventAttributes(a)) => quoted(&a.signal_name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str, cause: WorkflowTaskFailedCause) -> TrialOutcome {
        outcome_of(QueryFailure { message: message.to_owned(), failure: None, cause })
    }

    #[test]
    fn failed_answers_are_told_from_unknown_queries() {
        use WorkflowTaskFailedCause as Cause;
        let cause = |outcome: TrialOutcome| match outcome {
            TrialOutcome::Failed(failure) => Some(failure.cause),
            _ => None,
        };
        assert_eq!(cause(failed("x", Cause::NonDeterministicError)), Some(Cause::NonDeterministicError));
        let nondeterministic = "[TMPRL1100] nondeterministic workflow: missing replay command";
        assert_eq!(cause(failed(nondeterministic, Cause::Unspecified)), Some(Cause::NonDeterministicError));
        assert_eq!(cause(failed("boom", Cause::Unspecified)), Some(Cause::WorkflowWorkerUnhandledFailure));
        let segno_sdk = "DeterminismViolation: task #1: event 5 task one, the code asks for task two";
        assert_eq!(cause(failed(segno_sdk, Cause::Unspecified)), Some(Cause::NonDeterministicError));
        let unknown = "unknown queryType __temporal_workflow_metadata. KnownQueryTypes=[state]";
        assert!(matches!(failed(unknown, Cause::Unspecified), TrialOutcome::Replayed));
        assert!(matches!(failed(TOO_LARGE, Cause::Unspecified), TrialOutcome::Replayed));
    }

    #[test]
    fn a_message_may_name_the_event() {
        let core = "[TMPRL1100] Nondeterminism error: No command scheduled for event HistoryEvent(id: 11, ActivityTaskScheduled)";
        assert_eq!(event_named_in(core), 11);
        assert_eq!(event_named_in("Failure handling event 5 of type 'EVENT_TYPE_TIMER_STARTED' during replay."), 5);
        let none = "Activity type of scheduled event 'one' does not match activity type of activity command 'two'";
        assert_eq!(event_named_in(none), 0);
        assert_eq!(event_named_in("event one, event 7 of it"), 7);
        let segno_sdk = "task #1: event 5 task one, the code asks for task two";
        assert_eq!(event_named_in(segno_sdk), 5);
    }
}
