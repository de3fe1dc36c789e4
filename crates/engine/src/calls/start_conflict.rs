//! A start whose workflow id has a run already: attach to it, replace it, signal or update it, or refuse.

use segno_proto::{
    common::Payloads,
    duration_nanos,
    enums::{WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy},
    events::{WorkflowExecutionOptionsUpdatedEventAttributes, history_event::Attributes},
};

use crate::{
    calls::standalone,
    error::Rejection,
    events::event,
    parts::{
        callbacks, close,
        signal::Signal,
        start,
        start_options::{Start, StartOptions},
        update::{
            admit::{self, Admit},
            status,
        },
        workflow_task::{SERVER_IDENTITY, TaskStart},
    },
    payload,
    state::run::Run,
    transition::{Applied, Context, draft::Draft},
};

/// The decision about a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The same request came before: answer as then.
    SameRequest,
    /// Go on and create a run.
    Create,
    /// Answer with the run that is there.
    UseExisting,
    /// End the run that is there, then create one.
    TerminateExisting,
}

/// Decides between a start and the current run under its workflow id.
pub fn resolve(current: Option<&Run>, options: &StartOptions) -> Result<Conflict, Rejection> {
    let Some(current) = current else { return Ok(Conflict::Create) };
    let request_id = &options.request_id;
    if current.info.create_request_id == *request_id || current.state.attached_request_ids.contains_key(request_id) {
        return Ok(Conflict::SameRequest);
    }
    resolve_policies(current, options)
}

/// Like [`resolve`], without recognising a repeated request.
fn resolve_policies(current: &Run, options: &StartOptions) -> Result<Conflict, Rejection> {
    let refuse = |message: String| Rejection::AlreadyStarted {
        message,
        start_request_id: current.info.create_request_id.clone(),
        run_id: current.info.run_id.clone(),
        first_run_id: current.info.first_run_id.clone(),
    };
    let ids = format!("WorkflowId: {}, RunId: {}.", current.info.workflow_id, current.info.run_id);
    if current.is_running() {
        return match options.conflict_policy {
            WorkflowIdConflictPolicy::UseExisting => Ok(Conflict::UseExisting),
            WorkflowIdConflictPolicy::TerminateExisting => Ok(Conflict::TerminateExisting),
            _ => Err(refuse(format!("Workflow execution is already running. {ids}"))),
        };
    }
    match options.reuse_policy {
        WorkflowIdReusePolicy::RejectDuplicate => Err(refuse(format!(
            "Workflow execution already finished. {ids} Workflow Id reuse policy: reject duplicate workflow Id."
        ))),
        WorkflowIdReusePolicy::AllowDuplicateFailedOnly if !ended_badly(current.status()) => Err(refuse(format!(
            "Workflow execution already finished successfully. {ids} Workflow Id reuse policy: allow duplicate \
             workflow Id if last run failed."
        ))),
        _ => Ok(Conflict::Create),
    }
}

fn ended_badly(status: WorkflowExecutionStatus) -> bool {
    use WorkflowExecutionStatus::{Canceled, Failed, Terminated, TimedOut};
    matches!(status, Failed | Canceled | Terminated | TimedOut)
}

/// The decision about a start that comes with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalOrStart {
    /// Signal the run that is there.
    Signal,
    /// Create a run, in place of the one that is there if it is open.
    Start,
}

/// Decides between a start with a signal and the current run. Such a start is not recognised by its request id, only its
/// signal is, as in Temporal.
pub fn resolve_signal(current: Option<&Run>, options: &StartOptions) -> Result<SignalOrStart, Rejection> {
    let Some(current) = current else { return Ok(SignalOrStart::Start) };
    if current.is_running() && options.conflict_policy != WorkflowIdConflictPolicy::TerminateExisting {
        return Ok(SignalOrStart::Signal);
    }
    resolve_policies(current, options)?;
    Ok(SignalOrStart::Start)
}

/// The decision about a start that comes with an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateOrStart {
    /// The update has been answered before.
    Answered,
    /// Earlier runs of the chain may have answered it, by their keys: they are to be searched first.
    Search(Vec<u64>),
    /// Update the run that is there.
    Update,
    /// Create a run, if the policies allow it.
    Start,
}

/// Decides between a start with an update and the current run.
pub fn resolve_update(current: Option<&Run>, options: &StartOptions, update: &Admit) -> UpdateOrStart {
    let Some(current) = current else { return UpdateOrStart::Start };
    let update_id = update.id();
    // An accepted update that its workflow left unanswered does not count.
    if current.finished.get(update_id).is_some_and(|record| record.completed_event_id > 0) {
        return UpdateOrStart::Answered;
    }
    let earlier = status::earlier_runs(current, update_id, &update.searched);
    if !earlier.is_empty() {
        return UpdateOrStart::Search(earlier);
    }
    let uses_existing = current.info.create_request_id == options.request_id
        || status::of(current, update_id).is_some()
        || options.conflict_policy == WorkflowIdConflictPolicy::UseExisting;
    if current.is_running() && uses_existing { UpdateOrStart::Update } else { UpdateOrStart::Start }
}

/// Attaches what a start wants attached (its request id, links and callbacks) to a run that exists.
pub fn attach(run: &Run, context: Context, options: &StartOptions) -> Result<Applied<()>, Rejection> {
    if run.state.is_standalone() {
        return standalone::attach(run, context, options);
    }
    let mut draft = Draft::new(run, context);
    let Some(wanted) = options.on_conflict else { return Ok(draft.finish(())) };
    if !run.is_running() {
        return Ok(draft.finish(()));
    }
    let attributes = WorkflowExecutionOptionsUpdatedEventAttributes {
        attached_request_id: if wanted.attach_request_id { options.request_id.clone() } else { String::new() },
        attached_completion_callbacks: match wanted.attach_completion_callbacks {
            true => options.completion_callbacks.clone(),
            false => Vec::new(),
        },
        ..Default::default()
    };
    callbacks::register(
        &mut draft.run.state,
        &attributes.attached_completion_callbacks,
        &attributes.attached_request_id,
        context.now,
    );
    let mut updated = event(context.now, Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(attributes));
    updated.worker_may_ignore = true;
    if wanted.attach_links {
        updated.links.clone_from(&options.links);
    }
    let id = draft.add_external_event(updated);
    if wanted.attach_request_id {
        draft.run.state.attached_request_ids.insert(options.request_id.clone(), id.max(0));
    }
    Ok(draft.finish(()))
}

/// Creates a run, with a signal or an update if there is one, and ends the current one if it is open. Replies how the
/// starter takes the first workflow task, if it wants it and can have it.
pub fn create(
    current: Option<&Run>,
    mut start: Start,
    signal: Option<Signal>,
    update: Option<Admit>,
    context: Context,
) -> Result<Applied<Option<TaskStart>>, Rejection> {
    let options = &mut start.options;
    let delayed = duration_nanos(options.start_delay.as_ref()) > 0;
    options.eager = options.eager && !delayed && options.cron_schedule.is_empty();
    let first_task = (options.eager && start.script.is_none()).then(|| TaskStart {
        request_id: options.request_id.clone(),
        identity: options.identity.clone(),
        eager: true,
        poller: options.eager_version.clone(),
        ..Default::default()
    });
    let mut draft = start::begin(start, signal, context);
    if let Some(update) = update {
        admit::admit_into(&mut draft, update)?;
    }
    let first_task =
        first_task.map(|call| TaskStart { stamp: draft.run.state.task.as_ref().map_or(0, |task| task.stamp), ..call });
    match current.filter(|current| current.is_running()) {
        None => Ok(draft.finish(first_task)),
        Some(current) => Ok(replace(current, context, draft.finish(()), first_task)),
    }
}

/// Ends a run in favour of a new one, both in one transition.
fn replace<R>(existing: &Run, context: Context, created: Applied<()>, reply: R) -> Applied<R> {
    let mut draft = Draft::new(existing, Context { new_run_key: 0, new_run_seed: 0, ..context });
    let details = format!("\"terminated by new runID: {}\"", created.run.info.run_id);
    close::terminate(
        &mut draft,
        "TerminateIfRunning WorkflowIdReusePolicy".to_owned(),
        Some(Payloads { payloads: vec![payload::json(details)] }),
        SERVER_IDENTITY.to_owned(),
        Vec::new(),
    );
    draft.replace_by(created);
    draft.finish(reply)
}

/// Whether a run still has the first workflow task that its starter was given, and nothing happened since: repeating the
/// start then repeats the answer.
pub fn has_untouched_first_task(run: &Run) -> bool {
    let first = run.state.task.as_ref();
    first.is_some_and(|task| task.started_event_id == 3 && task.attempt == 1) && run.state.next_event_id == 4
}
