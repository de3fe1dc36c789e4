//! Calls on the run of a schedule.

use std::hash::Hasher;

use segno_proto::{
    common::{Payloads, SearchAttributes, WorkflowExecution},
    enums::{IndexedValueType, WorkflowExecutionStatus as Status, WorkflowIdConflictPolicy, WorkflowIdReusePolicy},
    events::{HistoryEvent, history_event::Attributes},
    schedule::{Schedule, SchedulePatch},
    workflow::NewWorkflowExecutionInfo,
};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::{
    error::Rejection,
    parts::{
        schedule::{START_TIME_ATTRIBUTE, STARTED_BY_ATTRIBUTE, advance::advance, scheduler::WorkflowEnd},
        start_options::StartOptions,
        version_override::{named_version, newer_form},
    },
    payload::{is_null, keyword, search_attribute},
    search_attributes,
    state::{
        RunState, ScheduledBy,
        outbox::{ScheduledClosed, StartScheduled},
        run::Run,
        schedule::ScheduleRun,
        signal_ids,
    },
    transition::{Applied, Context, draft::Draft},
    uuid, validate,
};

pub use crate::parts::schedule::advance::NewSchedule;

/// A change of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// The new schedule; the specification in canonical form.
    pub schedule: Schedule,
    /// Its search attributes from now on, if they change.
    pub search_attributes: Option<SearchAttributes>,
    /// The token of the state that the caller has seen; 0 is any.
    pub conflict_token: i64,
    /// Recognises a repeated call.
    pub request_id: String,
}

/// The run, if it is a schedule that is open and has not seen this request yet.
fn fresh(run: &Run, request_id: &str) -> Result<bool, Rejection> {
    run.check_open()?;
    Ok(run.state.is_schedule() && !signal_ids::contains(&run.state, request_id))
}

/// Changes a schedule in passing: pause, unpause, trigger, backfill.
pub fn patch(run: &Run, context: Context, patch: SchedulePatch, request_id: &str) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    if fresh(run, request_id)? {
        signal_ids::add(&mut draft.run.state, request_id);
        advance(&mut draft, |scheduler| scheduler.patch(patch));
    }
    Ok(draft.finish(()))
}

/// Replaces a schedule. With an outdated token nothing changes and the call succeeds, as in Temporal.
pub fn update(run: &Run, context: Context, call: Update) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    if !fresh(run, &call.request_id)? {
        return Ok(draft.finish(()));
    }
    signal_ids::add(&mut draft.run.state, &call.request_id);
    let replaced = advance(&mut draft, |scheduler| {
        let current = call.conflict_token == 0 || call.conflict_token == scheduler.state.conflict_token;
        if current {
            scheduler.replace(call.schedule);
        }
        current
    });
    if let Some(attributes) = call.search_attributes.filter(|_| replaced == Some(true)) {
        let known = &mut draft.run.state.search_attributes;
        known.retain(|name, _| search_attributes::is_reserved(name));
        let given = attributes.indexed_fields.into_iter().filter(|(_, payload)| !is_null(payload));
        known.extend(given.filter(|(name, _)| !search_attributes::is_reserved(name)));
    }
    Ok(draft.finish(()))
}

/// A workflow was started, or could not be.
pub fn started(
    run: &Run,
    context: Context,
    number: u64,
    execution: Option<WorkflowExecution>,
) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    let mut draft = Draft::new(run, context);
    match advance(&mut draft, |scheduler| scheduler.started(number, execution)) {
        Some(true) => Ok(draft.finish(())),
        _ => Err(Rejection::ChildNotFound),
    }
}

/// A workflow that the schedule started has closed.
pub fn closed(run: &Run, context: Context, message: ScheduledClosed) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    let Some(state) = &run.state.schedule else { return Err(Rejection::ChildNotFound) };
    match state.starting.iter().find(|starting| starting.number == message.by.number) {
        // The report of its start is still on its way and comes first.
        Some(starting) if !starting.known => {
            return Err(Rejection::NotReady("the workflow's start was not reported yet".to_owned()));
        }
        Some(_) => {}
        // It closed before, and was reset since.
        None if !state.info.running_workflows.contains(&message.workflow) => return Err(Rejection::ChildNotFound),
        None => {}
    }
    let (status, result, failure) = outcome(message.closing_event);
    let ended = WorkflowEnd { number: message.by.number, status, result, failure };
    let mut draft = Draft::new(run, context);
    match advance(&mut draft, |scheduler| scheduler.ended(&message.workflow, ended)) {
        Some(()) => Ok(draft.finish(())),
        None => Err(Rejection::ChildNotFound),
    }
}

fn outcome(closing: HistoryEvent) -> (Status, Option<Payloads>, Option<segno_proto::failure::Failure>) {
    match closing.attributes {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(completed)) => {
            (Status::Completed, completed.result, None)
        }
        Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => (Status::Failed, None, failed.failure),
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(_)) => (Status::TimedOut, None, None),
        Some(Attributes::WorkflowExecutionCanceledEventAttributes(_)) => (Status::Canceled, None, None),
        _ => (Status::Terminated, None, None),
    }
}

/// The options with which a scheduled workflow is started. Fails if it cannot be.
pub fn start_options(
    message: &StartScheduled,
    sender: &WorkflowExecution,
    namespace: &str,
) -> Result<StartOptions, String> {
    let NewWorkflowExecutionInfo { mut retry_policy, priority, .. } = message.workflow.clone();
    if let Some(policy) = &mut retry_policy {
        validate::retry_policy(policy).map_err(|invalid| invalid.to_string())?;
    }
    validate::priority(priority.as_ref()).map_err(|invalid| invalid.to_string())?;
    let action = message.workflow.clone();
    if let Some(wanted) = &action.versioning_override {
        named_version(wanted).map_err(|invalid| invalid.to_string())?;
    }
    let second = message.nominal.div_euclid(1_000_000_000);
    let time = jiff::Timestamp::from_second(second).map_err(|error| error.to_string())?.to_string();
    let mut attributes = action.search_attributes.unwrap_or_default();
    let start_time = search_attribute(&format!("\"{time}\""), IndexedValueType::Datetime);
    attributes.indexed_fields.insert(START_TIME_ATTRIBUTE.to_owned(), start_time);
    attributes.indexed_fields.insert(STARTED_BY_ATTRIBUTE.to_owned(), keyword(&message.schedule_id));
    let by = ScheduledBy { namespace: namespace.to_owned(), execution: sender.clone(), number: message.number };
    Ok(StartOptions {
        namespace: namespace.to_owned(),
        workflow_id: format!("{}-{time}", action.workflow_id),
        workflow_type: action.workflow_type,
        task_queue: action.task_queue,
        input: action.input,
        workflow_execution_timeout: action.workflow_execution_timeout,
        workflow_run_timeout: action.workflow_run_timeout,
        workflow_task_timeout: action.workflow_task_timeout,
        identity: message.identity.clone(),
        // Recognises a start that was made but not reported.
        request_id: request_id(&sender.run_id, message.number),
        reuse_policy: match message.manual {
            true => WorkflowIdReusePolicy::AllowDuplicate,
            false => WorkflowIdReusePolicy::RejectDuplicate,
        },
        conflict_policy: WorkflowIdConflictPolicy::Fail,
        retry_policy,
        memo: action.memo,
        search_attributes: Some(attributes),
        header: action.header,
        continued_failure: message.last_failure.clone(),
        last_completion_result: message.last_result.clone(),
        user_metadata: action.user_metadata,
        versioning_override: action.versioning_override.map(newer_form),
        priority,
        scheduled_by: message.single.then(|| Box::new(by)),
        ..Default::default()
    })
}

/// A UUID that is always the same for one start of one schedule.
fn request_id(run_id: &str, number: u64) -> String {
    let mut hasher = SipHasher24::new();
    hasher.write(run_id.as_bytes());
    hasher.write_u64(number);
    let hash = hasher.finish128();
    uuid(4, hash.h1, hash.h2)
}

/// Whether a run is open and is a schedule.
pub fn open_schedule(state: &RunState) -> Option<&ScheduleRun> {
    state.schedule.as_deref().filter(|_| state.is_running())
}
