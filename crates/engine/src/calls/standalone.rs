//! Calls of clients on the run of a standalone activity: cancel, terminate, attach links.

use segno_proto::{common::Payloads, enums::WorkflowExecutionStatus};

use crate::{
    error::Rejection,
    machine::activity::Event,
    parts::{
        activity, close,
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

/// The most links that one activity can have.
const LINKS_MAX: usize = 2000;

fn precondition<R>(text: String) -> Result<R, Rejection> {
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
    match run.status() {
        WorkflowExecutionStatus::Running => {}
        WorkflowExecutionStatus::Terminated if standalone.terminate_request_id == call.request_id => {
            return Ok(draft.finish(()));
        }
        WorkflowExecutionStatus::Terminated => {
            return precondition(format!("already terminated with request ID {}", standalone.terminate_request_id));
        }
        other => return precondition(format!("invalid transition from {other:?}")),
    }
    standalone.terminate_request_id = call.request_id;
    close::terminate(&mut draft, call.reason, None, call.identity, Vec::new());
    Ok(draft.finish(()))
}

/// Adds the links of a start to an activity that is used instead of a new one.
pub fn attach(run: &Run, context: Context, options: &StartOptions) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let wanted = options.on_conflict.is_some_and(|wanted| wanted.attach_links) && !options.links.is_empty();
    let Some(standalone) = draft.run.state.standalone.as_mut().filter(|_| wanted) else { return Ok(draft.finish(())) };
    if standalone.links.iter().any(|known| known.request_id == options.request_id) {
        return Ok(draft.finish(()));
    }
    let known: usize = standalone.links.iter().map(|known| known.links.len()).sum();
    if !run.is_running() {
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
    Ok(draft.finish(()))
}
