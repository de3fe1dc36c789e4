//! Taking an update in.

use std::sync::Arc;

use prost::Message;
use segno_proto::{
    enums::UpdateAdmittedEventOrigin,
    events::{
        HistoryEvent, WorkflowExecutionOptionsUpdatedEventAttributes, history_event::Attributes,
        workflow_execution_options_updated_event_attributes::WorkflowUpdateOptionsUpdate,
    },
    update::Request,
};

use crate::{
    error::Rejection,
    events::event,
    limits::UpdateLimits,
    machine::update::Event,
    parts::{
        callbacks, pause_info as pause,
        update::{
            admission::{admit_durably, in_flight, keeps_requests, write_admission},
            status,
        },
        workflow_task,
    },
    state::run::Run,
    transition::{Applied, Context, draft::Draft, steps::UpdateMachine},
};

/// Attempts of a workflow task after which updates are refused: the worker cannot answer them.
const FAILING_ATTEMPTS: i32 = 3;

/// A call that brings an update.
#[derive(Clone, Debug)]
pub struct Admit {
    /// The request, with its id.
    pub request: Arc<Request>,
    /// Whether the admission itself must be stored before the caller is answered.
    pub durable: bool,
    /// The limits of the namespace.
    pub limits: UpdateLimits,
    /// Keys of earlier runs of the chain that have not completed the update, although its digest led to them.
    pub searched: Vec<u64>,
}

impl Admit {
    /// A call for which no run was searched.
    pub fn new(request: Request, durable: bool, limits: UpdateLimits) -> Self {
        Self { request: Arc::new(request), durable, limits, searched: Vec::new() }
    }

    /// The update's id.
    pub fn id(&self) -> &str {
        self.request.meta.as_ref().map_or("", |meta| &meta.update_id)
    }
}

/// Admits an update, or finds the one that has its id. Replies the keys of earlier runs that may have completed it, newest
/// first; if there are any nothing is changed, and the call is to be made again when they have been searched.
pub fn admit(run: &Run, context: Context, call: Admit) -> Result<Applied<Vec<u64>>, Rejection> {
    let mut draft = Draft::new(run, context);
    let earlier = status::earlier_runs(run, call.id(), &call.searched);
    if !earlier.is_empty() {
        return Ok(draft.finish(earlier));
    }
    if !run.is_running() {
        return match status::of(run, call.id()) {
            Some(_) => Ok(draft.finish(Vec::new())),
            None => Err(Rejection::Closed),
        };
    }
    refuse_if_paused(run)?;
    let attempt = run.state.task.as_ref().map_or(run.state.next_task_attempt, |task| task.attempt);
    if attempt >= FAILING_ATTEMPTS {
        let text = "Unable to perform workflow execution update due to Workflow Task in failed state.";
        return Err(Rejection::NotReady(text.to_owned()));
    }
    if run.state.close_attempted && run.state.task_started() {
        return Err(Rejection::Closing);
    }
    admit_into(&mut draft, call)?;
    Ok(draft.finish(Vec::new()))
}

/// A paused run takes no updates: no worker could answer them.
pub(crate) fn refuse_if_paused(run: &Run) -> Result<(), Rejection> {
    match run.is_paused() {
        true => Err(Rejection::Precondition(pause::NO_UPDATES.to_owned())),
        false => Ok(()),
    }
}

/// Admits an update into a transition. The transition stays in memory unless something else makes it durable.
pub fn admit_into(draft: &mut Draft, call: Admit) -> Result<(), Rejection> {
    let id = call.id().to_owned();
    match status::of(&draft.run, &id) {
        Some(status::Status::Aborted(_)) | None => {}
        Some(status::Status::Accepted) => {
            attach(draft, &id, &call.request);
            return Ok(());
        }
        Some(status::Status::Admitted) => {
            if draft.run.updates.add_callbacks(&id, &call.request.completion_callbacks) {
                draft.touch_memory();
            }
            return make_durable(draft, &id, call.durable);
        }
        Some(_) => return make_durable(draft, &id, call.durable),
    }
    let bytes = call.request.encoded_len();
    check_limits(draft, &call.limits, bytes)?;
    if call.durable {
        check_storable(&call.request, draft.context.limits.blob_bytes)?;
        admit_durably(draft, id, call.request, UpdateAdmittedEventOrigin::Unspecified);
        workflow_task::schedule_first_now(draft);
        return Ok(());
    }
    draft.step(UpdateMachine(&id), Event::Admit, |draft| {
        draft.run.updates.admit(id.clone(), Some(call.request), bytes);
    });
    draft.touch_memory();
    // Where the run before left a stored update, the first task brings both when it is due.
    if draft.run.state.task.is_none() && !draft.run.updates.have_stored_unsent() {
        workflow_task::schedule_speculative(draft);
    }
    Ok(())
}

/// Another request for an accepted update brings callbacks of its own.
fn attach(draft: &mut Draft, id: &str, request: &Request) {
    let (callbacks, request_id) = (&request.completion_callbacks, &request.request_id);
    let mut known = draft.run.state.callbacks.iter().filter(|known| known.update_id == id);
    if callbacks.is_empty() || known.any(|known| known.request_id == *request_id) {
        return;
    }
    let now = draft.now();
    callbacks::register_of_update(&mut draft.run.state, id, callbacks, request_id, now);
    let attached = WorkflowUpdateOptionsUpdate {
        update_id: id.to_owned(),
        attached_request_id: request_id.clone(),
        attached_completion_callbacks: callbacks.clone(),
    };
    let attributes = WorkflowExecutionOptionsUpdatedEventAttributes {
        workflow_update_options: vec![attached],
        ..Default::default()
    };
    let updated = event(now, Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(attributes));
    draft.add_external_event(HistoryEvent { worker_may_ignore: true, ..updated });
}

/// A repeated call may ask for more than the first one did.
fn make_durable(draft: &mut Draft, id: &str, durable: bool) -> Result<(), Rejection> {
    let Some(waiting) = draft.run.updates.find(id).filter(|_| durable) else { return Ok(()) };
    let Some(request) = waiting.request.clone() else { return Ok(()) };
    check_storable(&request, draft.context.limits.blob_bytes)?;
    let keeps = keeps_requests(&draft.run);
    write_admission(draft, id, request, UpdateAdmittedEventOrigin::Unspecified);
    draft.run.updates.note_stored(id, keeps);
    workflow_task::schedule_first_now(draft);
    Ok(())
}

/// History takes no larger payload, and a worker that gets one cannot answer it: the update would be in the way forever.
fn check_storable(request: &Request, bytes_max: usize) -> Result<(), Rejection> {
    let arguments = request.input.as_ref().and_then(|input| input.args.as_ref());
    match arguments.is_some_and(|arguments| arguments.encoded_len() > bytes_max) {
        true => Err(Rejection::InvalidArgument("Blob data size exceeds limit.".to_owned())),
        false => Ok(()),
    }
}

fn check_limits(draft: &Draft, limits: &UpdateLimits, bytes: usize) -> Result<(), Rejection> {
    let reached = |limit: usize, count: usize| limit > 0 && count >= limit;
    if reached(limits.in_flight, in_flight(draft)) {
        let text = "limit on number of concurrent in-flight updates has been reached";
        return Err(Rejection::UpdateLimit(format!("{text} ({})", limits.in_flight)));
    }
    check_total(draft, limits)?;
    let waiting: usize = draft.run.updates.waiting().iter().map(|update| update.bytes).sum();
    if reached(limits.in_flight_bytes, waiting + bytes) {
        let text = "limit on total payload size of in-flight updates has been reached";
        return Err(Rejection::UpdateLimit(format!("{text} ({} bytes)", limits.in_flight_bytes)));
    }
    Ok(())
}

/// The limit on all updates of a run.
pub(super) fn check_total(draft: &Draft, limits: &UpdateLimits) -> Result<(), Rejection> {
    if limits.total == 0 || draft.run.updates_total() < limits.total {
        return Ok(());
    }
    Err(Rejection::UpdateTotal(format!(
        "The limit on the total number of distinct updates in this workflow has been reached ({}). \
         Make sure any duplicate updates share an Update ID so the server can deduplicate them, and consider rejecting \
         updates that you aren't going to process. You can also Continue-as-New to avoid this; we recommend you check \
         Continue-as-New Suggested in your Workflow.",
        limits.total
    )))
}
