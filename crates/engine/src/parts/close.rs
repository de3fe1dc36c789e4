//! The end of a run: the closing event, and whom to tell.

use segno_proto::{
    common::{Link, Payloads, WorkflowExecution},
    enums::{ParentClosePolicy, WorkflowExecutionStatus, WorkflowTaskFailedCause},
    events::{HistoryEvent, WorkflowExecutionTerminatedEventAttributes, history_event::Attributes},
};

use crate::{
    events::event,
    machine::run as machine,
    parts::{activity, callbacks, standalone::outcome, standalone_nexus, update::abort, version_wait, workflow_task},
    state::outbox::{ChildClosed, Content, ParentClosed, ScheduledClosed},
    transition::{draft::Draft, steps::RunMachine},
};

/// Adds the closing event, ends everything pending and tells parent and children. A successor, if there is one, must
/// have been named before ([`Draft::succeed_by`]): the parent then receives the end of the chain's last run only.
pub fn close(draft: &mut Draft, attributes: Attributes, links: Vec<Link>) {
    use WorkflowExecutionStatus as Status;
    let (status, on) = match &attributes {
        Attributes::WorkflowExecutionCompletedEventAttributes(_) => (Status::Completed, machine::Event::Complete),
        Attributes::WorkflowExecutionFailedEventAttributes(_) => (Status::Failed, machine::Event::Fail),
        Attributes::WorkflowExecutionCanceledEventAttributes(_) => (Status::Canceled, machine::Event::Cancel),
        Attributes::WorkflowExecutionTimedOutEventAttributes(_) => (Status::TimedOut, machine::Event::TimeOut),
        Attributes::WorkflowExecutionContinuedAsNewEventAttributes(_) => {
            (Status::ContinuedAsNew, machine::Event::ContinueAsNew)
        }
        _ => (Status::Terminated, machine::Event::Terminate),
    };
    draft.step(RunMachine, on, |draft| end(draft, status, attributes, links));
}

fn end(draft: &mut Draft, status: WorkflowExecutionStatus, attributes: Attributes, links: Vec<Link>) {
    if draft.run.is_speculating() {
        // No worker has it, and none will.
        workflow_task::discard(draft);
    }
    let mut closing = event(draft.now(), attributes);
    closing.links = links;
    let id = draft.add_event(closing.clone());
    closing.event_id = id;
    let now = draft.now();
    let state = &mut draft.run.state;
    state.status = status as i32;
    state.close_time = now;
    state.close_event_id = id;
    state.sticky = None;
    state.buffered.clear();
    state.timers.clear();
    state.external_cancels.clear();
    state.external_signals.clear();
    state.first_task_due = 0;
    version_wait::clear(state);
    let reason = abort::end_of(&draft.run);
    abort::all(draft, reason);
    let completes = matches!(status, WorkflowExecutionStatus::Completed | WorkflowExecutionStatus::ContinuedAsNew);
    match &mut draft.run.state.script {
        // What a script started and does not wait for is carried out all the same.
        Some(script) if completes => script.lingers = !draft.run.state.activities.is_empty(),
        _ => {
            let running: Vec<i64> = draft.run.state.activities.keys().copied().collect();
            running.into_iter().for_each(|id| activity::stop_at_worker(draft, id));
        }
    }
    let state = &mut draft.run.state;
    // What was pending stays on record: people look at it to see what a closed run left behind.
    let children: Vec<_> = state.children.values().filter(|child| child.started_event_id != 0).cloned().collect();
    for child in children {
        if child.parent_close_policy != ParentClosePolicy::Abandon as i32 {
            draft.send(Content::ParentClosed(ParentClosed {
                namespace: child.namespace,
                child: WorkflowExecution { workflow_id: child.workflow_id, run_id: child.run_id },
                policy: child.parent_close_policy,
                unreported: 0,
            }));
        }
    }
    if draft.run.state.successor_run_id.is_empty() {
        report_to_schedule(draft, closing.clone());
    }
    if let Some(parent) = draft.run.info.parent.clone()
        && draft.run.state.successor_run_id.is_empty()
    {
        let first_run_id = draft.run.info.first_run_id.clone();
        draft.send(Content::ChildClosed(ChildClosed {
            namespace: parent.namespace,
            parent: parent.execution,
            initiated_event_id: parent.initiated_event_id,
            closing_event: closing,
            first_run_id,
        }));
    }
    callbacks::send(draft);
}

/// Ends the run at once, in any state.
pub fn terminate(draft: &mut Draft, reason: String, details: Option<Payloads>, identity: String, links: Vec<Link>) {
    fail_started_task(draft);
    outcome::note_terminated(draft, &reason, &identity);
    standalone_nexus::end::note_terminated(draft, &reason, &identity);
    let attributes = WorkflowExecutionTerminatedEventAttributes { reason, details, identity };
    close(draft, Attributes::WorkflowExecutionTerminatedEventAttributes(attributes), links);
}

/// A run that ends while a worker holds its task fails that task first; what was buffered becomes history.
pub fn fail_started_task(draft: &mut Draft) {
    if !draft.run.state.task_started() {
        return;
    }
    workflow_task::fail(
        draft,
        workflow_task::TaskFailed {
            cause: WorkflowTaskFailedCause::ForceCloseCommand,
            failure: None,
            identity: workflow_task::SERVER_IDENTITY.to_owned(),
            binary_checksum: String::new(),
            worker_version: None,
        },
    );
    draft.flush_buffered();
}

/// Tells the schedule that started a run how it closed.
fn report_to_schedule(draft: &mut Draft, closing: HistoryEvent) {
    let info = &draft.run.info;
    let Some(by) = info.scheduled_by.as_deref().cloned() else { return };
    let workflow = WorkflowExecution { workflow_id: info.workflow_id.clone(), run_id: info.first_run_id.clone() };
    let closing_event = HistoryEvent { links: Vec::new(), ..closing };
    draft.send(Content::ScheduledClosed(ScheduledClosed { by, workflow, closing_event }));
}
