//! Calls of clients on the run of a standalone activity: cancel, terminate, attach links.

use segno_proto::{common::Payloads, enums::WorkflowExecutionStatus};

use crate::{
    error::Rejection,
    machine::activity::Event,
    parts::{
        activity, callbacks, close,
        standalone::status::{SCHEDULED_EVENT_ID, StandaloneStatus, status_of},
        start_options::StartOptions,
    },
    payload,
    state::{
        run::Run,
        standalone::{CancelRequest, RequestLinks},
    },
    transition::{Applied, Context, draft::Draft, steps::ActivityMachine},
};

/// The most links, and the most callbacks, that one activity can have.
const LINKS_MAX: usize = 2000;
const CALLBACKS_MAX: usize = 2000;

/// Refuses a call in the state that the run is in.
pub(crate) fn precondition<R>(text: String) -> Result<R, Rejection> {
    Err(Rejection::Precondition(text))
}

/// Asks for cancellation. An activity that no worker has ends at once.
pub fn request_cancel(run: &Run, context: Context, call: CancelRequest) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let Some(standalone) = &mut draft.run.state.standalone else { return Err(Rejection::RunNotFound) };
    let before = standalone.cancel.as_ref().map(|cancel| cancel.request_id.clone());
    if !call.request_id.is_empty() && before.as_ref() == Some(&call.request_id) {
        return Ok(draft.finish(()));
    }
    match status_of(run) {
        StandaloneStatus::Over(status) => return precondition(format!("activity is in terminal state {status:?}")),
        StandaloneStatus::CancelRequested => {
            let before = before.unwrap_or_default();
            return precondition(format!("cancellation already requested with request ID {before}"));
        }
        StandaloneStatus::PauseRequested | StandaloneStatus::ResetRequested if is_paused(run) => {
            // Cancellation takes the place of a pause.
            draft.step(ActivityMachine(SCHEDULED_EVENT_ID), Event::Unpause, |draft| {
                if let Some(activity) = draft.activity_mut(SCHEDULED_EVENT_ID) {
                    activity.pause = None;
                }
            });
        }
        _ => {}
    }
    let reason = call.reason.clone();
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.cancel = Some(call);
        standalone.reset_restores_options = false;
    }
    let mut never_started = false;
    if let Some(activity) = draft.activity_mut(SCHEDULED_EVENT_ID) {
        activity.cancel_requested = true;
        activity.forget_heartbeat = false;
        activity.reset = false;
        never_started = activity.started_time == 0;
    }
    draft.touch();
    activity::stop_at_worker(&mut draft, SCHEDULED_EVENT_ID);
    if never_started {
        activity::end_canceled(&mut draft, SCHEDULED_EVENT_ID, Some(text_payloads(&reason)), "", None);
    }
    Ok(draft.finish(()))
}

fn is_paused(run: &Run) -> bool {
    run.state.activities.get(&SCHEDULED_EVENT_ID).is_some_and(|activity| activity.pause.is_some())
}

fn text_payloads(text: &str) -> Payloads {
    Payloads { payloads: vec![payload::json(serde_json::Value::from(text).to_string())] }
}

/// A termination.
#[derive(Clone, Debug, Default)]
pub struct Terminate {
    /// Why.
    pub reason: String,
    /// Who.
    pub identity: String,
    /// Recognises a repeated call.
    pub request_id: String,
}

/// Ends the activity at once.
pub fn terminate(run: &Run, context: Context, call: Terminate) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let Some(standalone) = &mut draft.run.state.standalone else { return Err(Rejection::RunNotFound) };
    if is_repeated_termination(run, &standalone.terminate_request_id, &call, |status| format!("{status:?}"))? {
        return Ok(draft.finish(()));
    }
    standalone.terminate_request_id = call.request_id;
    close::terminate(&mut draft, call.reason, None, call.identity, Vec::new());
    Ok(draft.finish(()))
}

/// Whether a termination repeats the one of this request id that ended the run. An open run may be terminated.
pub(crate) fn is_repeated_termination(
    run: &Run,
    known: &str,
    call: &Terminate,
    name: impl Fn(WorkflowExecutionStatus) -> String,
) -> Result<bool, Rejection> {
    match run.status() {
        WorkflowExecutionStatus::Running => Ok(false),
        WorkflowExecutionStatus::Terminated if known == call.request_id => Ok(true),
        WorkflowExecutionStatus::Terminated => precondition(format!("already terminated with request ID {known}")),
        other => precondition(format!("invalid transition from {}", name(other))),
    }
}

/// Adds the links and callbacks of a start to an activity that is used instead of a new one.
pub fn attach(run: &Run, context: Context, options: &StartOptions) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let wanted = options.on_conflict.unwrap_or_default();
    attach_links(&mut draft, options, wanted.attach_links)?;
    attach_callbacks(&mut draft, options, wanted.attach_completion_callbacks)?;
    Ok(draft.finish(()))
}

fn attach_links(draft: &mut Draft, options: &StartOptions, wanted: bool) -> Result<(), Rejection> {
    let is_running = draft.run.is_running();
    let wanted = wanted && !options.links.is_empty();
    let Some(standalone) = draft.run.state.standalone.as_mut().filter(|_| wanted) else { return Ok(()) };
    if standalone.links.iter().any(|known| known.request_id == options.request_id) {
        return Ok(());
    }
    let known: usize = standalone.links.iter().map(|known| known.links.len()).sum();
    if !is_running {
        return precondition("cannot attach links to a closed activity".to_owned());
    }
    if known + options.links.len() > LINKS_MAX {
        return precondition(format!(
            "cannot attach more than {LINKS_MAX} links to an activity ({known} links already attached)"
        ));
    }
    let (request_id, links) = (options.request_id.clone(), options.links.clone());
    standalone.links.push(RequestLinks { request_id, links });
    draft.touch();
    Ok(())
}

fn attach_callbacks(draft: &mut Draft, options: &StartOptions, wanted: bool) -> Result<(), Rejection> {
    let (is_running, now) = (draft.run.is_running(), draft.now());
    let state = &mut draft.run.state;
    let is_known = state.callbacks.iter().any(|known| known.request_id == options.request_id);
    if !wanted || options.completion_callbacks.is_empty() || state.standalone.is_none() || is_known {
        return Ok(());
    }
    if !is_running {
        return precondition("cannot attach callbacks to a closed activity".to_owned());
    }
    let known = state.callbacks.len();
    if known + options.completion_callbacks.len() > CALLBACKS_MAX {
        return precondition(format!(
            "cannot attach more than {CALLBACKS_MAX} callbacks to an activity ({known} callbacks already attached)"
        ));
    }
    callbacks::register(state, &options.completion_callbacks, &options.request_id, now);
    draft.touch();
    Ok(())
}
