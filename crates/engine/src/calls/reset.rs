//! Resetting a run: a new run that shares its past up to a point and goes on differently.
//!
//! The new run takes over history before the point as it is. Its pending workflow task fails, because no worker holds it;
//! activities under way fail, because their workers report to the old run. What came from outside after the point
//! (signals, updates, ends of children) happens to the new run again, unless the caller does not want it.

use std::sync::Arc;

use segno_proto::{
    enums::{RetryState, UpdateAdmittedEventOrigin, WorkflowTaskFailedCause},
    events::{
        ActivityTaskFailedEventAttributes, HistoryEvent, WorkflowTaskFailedEventAttributes, history_event::Attributes,
    },
    failure::{Failure, ResetWorkflowFailureInfo, failure::FailureInfo},
};

use crate::{
    calls::{
        options::{self, UpdateOptions},
        rebuild::{rebuild, rebuild_from},
        reset_operations,
    },
    error::Rejection,
    events::event,
    machine,
    parts::{
        callbacks, close,
        inherit::{self, Membership},
        nexus, pause_info as pause, script,
        signal::{self, Signal},
        update, versioning,
        workflow_task::{self, SERVER_IDENTITY, TaskStart},
    },
    state::{
        RunInfo, RunState, WorkflowTask,
        outbox::{CancelExternal, Content, SignalExternal, StartChild},
        run::Run,
        script::Script,
    },
    transition::{
        Applied, Context, Effect,
        draft::Draft,
        steps::{ActivityMachine, TaskMachine},
    },
};

/// Who ends a run that is reset.
const RESETTER_IDENTITY: &str = "history-resetter";

/// A call that resets a run.
#[derive(Clone, Debug)]
pub struct Reset {
    /// The completed (or failed, or timed out) event of a workflow task: what is before it stays.
    pub finish_event_id: i64,
    /// Why.
    pub reason: String,
    /// Recognised if it is the one that started the current run.
    pub request_id: String,
    /// Whether signals after the point are dropped.
    pub without_signals: bool,
    /// Whether updates after the point are dropped.
    pub without_updates: bool,
    /// Whether reports about Nexus operations after the point are dropped, so that these are pending again.
    pub without_operations: bool,
    /// Options that the new run has from the beginning.
    pub options: Vec<UpdateOptions>,
}

/// Whether a point can be reset to at all.
pub fn check_point(base: &Run, finish_event_id: i64) -> Result<(), Rejection> {
    if finish_event_id > 1 && finish_event_id < base.state.next_event_id {
        return Ok(());
    }
    let text = "Workflow task finish ID must be > 1 && <= workflow last event ID.";
    Err(Rejection::InvalidArgument(text.to_owned()))
}

/// How far a script had come at the point.
#[derive(Clone, Debug)]
pub struct ScriptPast {
    /// The engine's record of the script.
    pub script: Script,
    /// The state of the run after an event before the point, if history before that event was removed.
    pub kept: Option<(i64, RunState)>,
}

/// Makes the run that takes over from `base`. `past` is its history before the point, in stored batches; `later` is what
/// happened after it, to `base` and to the runs that continued it; `script` is how far a script had come at the point; `is_member` tells
/// for options of the new run whether a version has its queue, and the same of its children.
pub fn reset(
    base: &Run,
    context: Context,
    call: &Reset,
    past: Vec<Vec<HistoryEvent>>,
    later: &[HistoryEvent],
    script: Option<ScriptPast>,
    is_member: Membership<'_>,
) -> Result<Applied<()>, Rejection> {
    let now = context.now;
    let run_deadline = match base.info.run_timeout {
        0 => 0,
        timeout => now.saturating_add(timeout),
    };
    let execution_deadline = match base.info.execution_timeout {
        0 => 0,
        timeout => now.saturating_add(timeout),
    };
    let run_id = context.new_run_id();
    let mut root = base.info.root.clone();
    if let Some(root) = root.as_mut().filter(|root| root.run_id == base.info.run_id) {
        root.run_id.clone_from(&run_id);
    }
    let info = RunInfo {
        run_key: context.new_run_key,
        run_id,
        root,
        start_time: now,
        run_deadline,
        execution_deadline,
        first_task_backoff: 0,
        ..RunInfo::clone(&base.info)
    };
    let events: Vec<HistoryEvent> = past.iter().flatten().cloned().collect();
    let (script, kept) = script.map_or((None, None), |past| (Some(past.script), past.kept));
    let state = match kept {
        Some((last, state)) => rebuild_from(state, last, &info, &events),
        None => rebuild(&info, &events),
    };
    let mut run = Run::new(info, state);
    run.set_admissions(&events);
    run.state.last_reset_time = now;
    if run.is_paused() {
        pause::clear(&mut run.state, &run.info.workflow_id);
    }
    if let Some(script) = script {
        run.state.search_attributes.insert(script::VERSION_ATTRIBUTE.to_owned(), script::attribute(&script.version));
        if let Some(task) = &mut run.state.task {
            script::QUEUE.clone_into(&mut task.queue);
        }
        run.state.script = Some(script);
    }
    run.start_event.clone_from(&base.start_event);
    let mut draft = Draft::of(run, context);
    // A run of a script that never had a task can begin again, too.
    let is_untouched = draft.run.state.script.is_some() && draft.run.state.task.is_none() && events.len() == 1;
    if !is_untouched {
        fail_task(&mut draft, base, call)?;
    }
    fail_activities(&mut draft, &call.reason, &events);
    for event in later {
        reapply(&mut draft, call, event);
    }
    for wanted in &call.options {
        options::change(&mut draft, wanted, is_member)?;
    }
    send_again(&mut draft, &events, is_member);
    nexus::offer_pending(&mut draft);
    workflow_task::schedule_if_none(&mut draft);
    let mut applied = draft.finish(());
    applied.transition.batches.splice(0..0, past);
    Ok(applied)
}

/// Ends the current run in favour of one that is made afterwards: what is still on its way to it goes along.
pub fn end_current(current: &Run, context: Context, reason: &str) -> Applied<()> {
    let mut draft = Draft::new(current, context);
    close::terminate(&mut draft, reason.to_owned(), None, RESETTER_IDENTITY.to_owned(), Vec::new());
    let mut ended = draft.finish(());
    // Neither its parent nor its children hear of this end: the new run takes its place.
    ended.transition.outbox.clear();
    callbacks::keep(&mut ended.run.state);
    ended
}

/// A run that is over already and was reset only learns which run was made of it.
pub fn mark(base: &Run, context: Context, new_run_id: &str) -> Applied<()> {
    let mut draft = Draft::new(base, context);
    new_run_id.clone_into(&mut draft.run.state.reset_run_id);
    draft.touch();
    draft.finish(())
}

/// Makes the end of the current run and the beginning of the new one a single transition. Only the run that was reset
/// knows what was made of it.
pub fn replace(mut ended: Applied<()>, base: &Run, reset: Applied<()>) -> Applied<()> {
    if ended.run.info.run_key == base.info.run_key {
        ended.run.state.reset_run_id = reset.run.info.run_id.clone();
    }
    ended.transition.successor = Some(Box::new(reset));
    ended
}

/// No worker holds the task that was pending at the point.
fn fail_task(draft: &mut Draft, base: &Run, call: &Reset) -> Result<(), Rejection> {
    let Some(task) = draft.run.state.task.clone() else {
        return Err(Rejection::InvalidArgument(format!(
            "Can only reset workflow to event ID in range [WorkflowTaskScheduled +1, WorkflowTaskStarted + 1]: {}",
            call.finish_event_id
        )));
    };
    if task.started_event_id == 0 {
        // History has its scheduled event, also of a later attempt.
        draft.run.state.task = Some(WorkflowTask { attempt: 1, ..task.clone() });
        let start = TaskStart {
            stamp: task.stamp,
            identity: SERVER_IDENTITY.to_owned(),
            // What Temporal writes where there is none.
            request_id: "emptyUuid".to_owned(),
            ..Default::default()
        };
        workflow_task::start(draft, start)?;
        draft.begin_batch();
    }
    let mut failed = None;
    draft.step(TaskMachine, machine::workflow_task::Event::Fail, |draft| failed = draft.run.state.task.take());
    let task = failed.unwrap_or_default();
    let new_run_id = draft.run.info.run_id.clone();
    let attributes = WorkflowTaskFailedEventAttributes {
        scheduled_event_id: task.scheduled_event_id,
        started_event_id: task.started_event_id,
        cause: WorkflowTaskFailedCause::ResetWorkflow as i32,
        failure: Some(reset_failure(&call.reason, None)),
        identity: SERVER_IDENTITY.to_owned(),
        base_run_id: base.info.run_id.clone(),
        new_run_id,
        ..Default::default()
    };
    draft.add(Attributes::WorkflowTaskFailedEventAttributes(Box::new(attributes)));
    draft.run.state.next_task_attempt = 1;
    Ok(())
}

fn reset_failure(reason: &str, details: Option<segno_proto::common::Payloads>) -> Failure {
    let info = ResetWorkflowFailureInfo { last_heartbeat_details: details };
    Failure {
        message: reason.to_owned(),
        failure_info: Some(FailureInfo::ResetWorkflowFailureInfo(info)),
        ..Default::default()
    }
}

/// Activities that had started report to another run now; the others wait for a worker again.
fn fail_activities(draft: &mut Draft, reason: &str, past: &[HistoryEvent]) {
    let now = draft.now();
    let ids: Vec<i64> = draft.run.state.activities.keys().copied().collect();
    for id in ids {
        let Some(activity) = draft.activity_mut(id) else { continue };
        if activity.started_time == 0 {
            activity.scheduled_time = now;
            activity.first_scheduled_time = now;
            draft.effect(Effect::OfferActivity(id));
            continue;
        }
        let mut failed = None;
        draft.step(ActivityMachine(id), machine::activity::Event::End, |draft| {
            failed = draft.remove_activity(id);
        });
        let Some(activity) = failed else { continue };
        let activity = activity.into_inner();
        draft.add(Attributes::ActivityTaskFailedEventAttributes(ActivityTaskFailedEventAttributes {
            failure: Some(reset_failure(reason, activity.heartbeat_details)),
            scheduled_event_id: id,
            started_event_id: started_event_of(past, id),
            identity: activity.started_identity,
            retry_state: RetryState::NonRetryableFailure as i32,
            ..Default::default()
        }));
    }
}

/// The event by which an activity was started.
fn started_event_of(past: &[HistoryEvent], scheduled: i64) -> i64 {
    let starts = |event: &&HistoryEvent| matches!(&event.attributes, Some(Attributes::ActivityTaskStartedEventAttributes(a)) if a.scheduled_event_id == scheduled);
    past.iter().rev().find(starts).map_or(0, |event| event.event_id)
}

/// Sends messages again that the old run had sent, which will not learn their outcome: the new run sends
/// it in its own name.
fn send_again(draft: &mut Draft, past: &[HistoryEvent], is_member: Membership<'_>) {
    use Attributes as A;
    for event in past {
        let id = event.event_id;
        let state = &draft.run.state;
        match event.attributes.clone() {
            Some(A::SignalExternalWorkflowExecutionInitiatedEventAttributes(a))
                if state.external_signals.contains_key(&id) =>
            {
                let pending = state.external_signals.get(&id).cloned().unwrap_or_default();
                draft.send(Content::Signal(SignalExternal {
                    initiated_event_id: id,
                    namespace: pending.namespace,
                    target: pending.execution,
                    name: a.signal_name,
                    input: a.input,
                    header: a.header,
                    child_only: a.child_workflow_only,
                }));
            }
            Some(A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(a))
                if state.external_cancels.contains_key(&id) =>
            {
                let pending = state.external_cancels.get(&id).cloned().unwrap_or_default();
                draft.send(Content::Cancel(CancelExternal {
                    initiated_event_id: id,
                    namespace: pending.namespace,
                    target: pending.execution,
                    child_only: a.child_workflow_only,
                    reason: a.reason,
                }));
            }
            Some(A::StartChildWorkflowExecutionInitiatedEventAttributes(a))
                if state.children.get(&id).is_some_and(|child| child.started_event_id == 0) =>
            {
                let root = draft.run.info.root.clone().unwrap_or_default();
                let user_metadata = event.user_metadata.clone();
                let inherited = inherit::by_child(&draft.run, &a, is_member);
                draft.send(Content::StartChild(StartChild {
                    initiated_event_id: id,
                    shares_queue: StartChild::shares_queue(&draft.run.info.task_queue, &a),
                    attributes: *a,
                    root,
                    user_metadata,
                    inherited,
                }));
            }
            _ => {}
        }
    }
}

/// Applies an event again that came from outside.
fn reapply(draft: &mut Draft, call: &Reset, past: &HistoryEvent) {
    match past.attributes.clone() {
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(a)) if !call.without_signals => {
            let signal = Signal {
                name: a.signal_name,
                input: a.input,
                identity: a.identity,
                request_id: a.request_id,
                header: a.header,
                links: past.links.clone(),
                sender: None,
            };
            signal::add(draft, signal);
        }
        Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(a)) if !call.without_updates => {
            let origin = UpdateAdmittedEventOrigin::try_from(a.origin).unwrap_or_default();
            readmit(draft, a.request, origin);
        }
        // Accepted without its request means that it was admitted by an event, which is enough.
        Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(a)) if !call.without_updates => {
            readmit(draft, a.accepted_request, UpdateAdmittedEventOrigin::Reapply);
        }
        Some(Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(a)) => {
            let attached = a.attached_request_id.clone();
            versioning::note_override(&mut draft.run.state, &a);
            let now = draft.now();
            callbacks::register(&mut draft.run.state, &a.attached_completion_callbacks, &attached, now);
            callbacks::register_attached(&mut draft.run.state, &a.workflow_update_options, now);
            let mut updated = event(draft.now(), Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(a));
            updated.links.clone_from(&past.links);
            updated.worker_may_ignore = past.worker_may_ignore;
            let id = draft.add_external_event(updated);
            if !attached.is_empty() {
                draft.run.state.attached_request_ids.insert(attached, id);
            }
        }
        Some(attributes) => {
            let other = match call.without_operations {
                true => Some(attributes),
                false => reset_operations::reapply(draft, past, attributes),
            };
            if let Some(attributes) = other {
                reapply_child(draft, past, attributes);
            }
        }
        None => {}
    }
}

fn readmit(draft: &mut Draft, request: Option<segno_proto::update::Request>, origin: UpdateAdmittedEventOrigin) {
    let Some(request) = request else { return };
    let id = request.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default();
    if draft.run.update_record(&id).is_some() {
        return;
    }
    update::admit_durably(draft, id, Arc::new(request), origin);
}

/// Applies the outcome of a child for which the new run waits as well.
fn reapply_child(draft: &mut Draft, past: &HistoryEvent, mut attributes: Attributes) {
    use Attributes as A;
    let (initiated, started, over) = match &mut attributes {
        A::ChildWorkflowExecutionStartedEventAttributes(a) => (a.initiated_event_id, None, false),
        A::StartChildWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, None, true),
        A::ChildWorkflowExecutionCompletedEventAttributes(a) => {
            (a.initiated_event_id, Some(&mut a.started_event_id), true)
        }
        A::ChildWorkflowExecutionFailedEventAttributes(a) => {
            (a.initiated_event_id, Some(&mut a.started_event_id), true)
        }
        A::ChildWorkflowExecutionCanceledEventAttributes(a) => {
            (a.initiated_event_id, Some(&mut a.started_event_id), true)
        }
        A::ChildWorkflowExecutionTimedOutEventAttributes(a) => {
            (a.initiated_event_id, Some(&mut a.started_event_id), true)
        }
        A::ChildWorkflowExecutionTerminatedEventAttributes(a) => {
            (a.initiated_event_id, Some(&mut a.started_event_id), true)
        }
        _ => return,
    };
    let Some(child) = draft.run.state.children.get(&initiated).cloned() else { return };
    if let Some(started) = started {
        *started = child.started_event_id;
    }
    let run_id = match &attributes {
        A::ChildWorkflowExecutionStartedEventAttributes(a) => {
            a.workflow_execution.as_ref().map(|execution| execution.run_id.clone())
        }
        _ => None,
    };
    let mut again = event(draft.now(), attributes);
    again.links.clone_from(&past.links);
    let id = draft.add_external_event(again);
    if over {
        draft.run.state.children.remove(&initiated);
    } else if let Some(child) = draft.run.state.children.get_mut(&initiated) {
        child.started_event_id = id;
        child.run_id = run_id.unwrap_or_default();
    }
}
