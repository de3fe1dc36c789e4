//! An operator pauses a run, and unpauses it.
//!
//! Nothing of a paused run is handed to workers: no workflow task, no activity, no query and no update. What happens
//! meanwhile (signals, timers, requests to cancel, ends of activities and children) becomes history as it comes, and the
//! workflow receives it with the workflow task that follows the pause. A worker that has a task already may answer it. Time
//! goes on: time-outs are as if the run were not paused, and it can be terminated.

use segno_proto::{
    enums::WorkflowTaskFailedCause,
    events::{
        WorkflowExecutionPausedEventAttributes, WorkflowExecutionUnpausedEventAttributes, history_event::Attributes,
    },
};

use crate::{
    error::Rejection,
    events::event,
    machine::run::Event,
    parts::{
        nexus,
        pause_info::{clear, set},
        update::abort,
        workflow_task,
    },
    state::{
        activity::{PauseInfo, is_waiting},
        machines,
        run::Run,
    },
    transition::{Applied, Context, Effect, draft::Draft, steps::RunMachine},
};

pub use crate::parts::pause_info::{ATTRIBUTE, NO_UPDATES};

/// Who pauses or unpauses, and why.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Who.
    pub identity: String,
    /// Why.
    pub reason: String,
    /// Recognises a repeated pause. Two calls without one are different calls.
    pub request_id: String,
}

/// Pauses a run. A workflow task that no worker has taken is withdrawn, and updates that no worker has are refused.
pub fn pause(run: &Run, context: Context, call: Call) -> Result<Applied<()>, Rejection> {
    refuse_others(run)?;
    run.check_open()?;
    let mut draft = Draft::new(run, context);
    if run.is_paused() {
        let before = run.state.pause.as_ref().map_or("", |pause| &pause.request_id);
        return match !before.is_empty() && before == call.request_id {
            true => Ok(draft.finish(())),
            false => Err(Rejection::Precondition("workflow is already paused.".to_owned())),
        };
    }
    abort::all(&mut draft, abort::Reason::WorkflowPaused);
    workflow_task::withdraw(&mut draft);
    draft.step(RunMachine, Event::Pause, |draft| {
        let Call { identity, reason, request_id } = call;
        let pause = PauseInfo { time: context.now, identity, reason, request_id, ..Default::default() };
        let PauseInfo { identity, reason, request_id, .. } = pause.clone();
        let attributes = WorkflowExecutionPausedEventAttributes { identity, reason, request_id };
        add(draft, Attributes::WorkflowExecutionPausedEventAttributes(attributes));
        set(&mut draft.run.state, &draft.run.info.workflow_id, pause);
    });
    Ok(draft.finish(()))
}

/// Unpauses a run: it gets a workflow task, and activities that wait are offered again.
pub fn unpause(run: &Run, context: Context, call: Call) -> Result<Applied<()>, Rejection> {
    refuse_others(run)?;
    run.check_open()?;
    if !run.is_paused() {
        return Err(Rejection::Precondition("workflow is not paused.".to_owned()));
    }
    let mut draft = Draft::new(run, context);
    draft.step(RunMachine, Event::Unpause, |draft| {
        let Call { identity, reason, request_id } = call;
        let attributes = WorkflowExecutionUnpausedEventAttributes { identity, reason, request_id };
        add(draft, Attributes::WorkflowExecutionUnpausedEventAttributes(attributes));
        clear(&mut draft.run.state, &draft.run.info.workflow_id);
    });
    if machines::workflow_task(&draft.run) == crate::machine::workflow_task::State::Scheduled {
        // A worker that had it gave it back during the pause.
        draft.effect(Effect::OfferWorkflowTask);
    }
    if draft.run.state.task.is_none() {
        // This is a new task, however the last one ended.
        draft.run.state.next_task_attempt = 1;
        workflow_task::schedule_if_none(&mut draft);
    }
    let waiting = draft.run.state.activities.values().filter(|activity| is_waiting(activity, context.now));
    let waiting: Vec<i64> = waiting.map(|activity| activity.scheduled_event_id).collect();
    for id in waiting {
        draft.effect(Effect::OfferActivity(id));
    }
    nexus::offer_pending(&mut draft);
    Ok(draft.finish(()))
}

/// Schedules, standalone activities and standalone operations are runs, too, and have calls of their own by which they are paused.
fn refuse_others(run: &Run) -> Result<(), Rejection> {
    match run.state.is_standalone() || run.state.is_schedule() {
        true => Err(Rejection::RunNotFound),
        false => Ok(()),
    }
}

/// Gives up a turn of a script that would close its run, because the run was paused meanwhile. What has happened since becomes
/// history, and the script takes another turn after the pause.
pub fn give_up_turn(run: &Run, context: Context) -> Applied<()> {
    let mut draft = Draft::new(run, context);
    workflow_task::fail_by_server(&mut draft, WorkflowTaskFailedCause::UnhandledCommand);
    draft.finish(())
}

/// Workers need not know the event.
fn add(draft: &mut Draft, attributes: Attributes) {
    let mut told = event(draft.now(), attributes);
    told.worker_may_ignore = true;
    draft.add_external_event(told);
}
