//! The state of each state machine of a run. The tables are in [`crate::machine`].

use segno_proto::{Nanos, enums::WorkflowExecutionStatus};

use crate::{
    machine,
    state::{
        Activity, Child,
        nexus::{CancellationResult, Operation},
        run::Run,
        updates::UpdateEnd,
    },
};

/// The workflow task.
pub(crate) fn workflow_task(run: &Run) -> machine::workflow_task::State {
    use machine::workflow_task::State;
    match &run.state.task {
        None => State::Absent,
        Some(task) if task.started_event_id == 0 => State::Scheduled,
        Some(_) => State::Started,
    }
}

/// An activity.
pub(crate) fn activity(activity: &Activity, now: Nanos) -> machine::activity::State {
    use machine::activity::State;
    let paused = activity.pause.is_some();
    if activity.started_time != 0 {
        if paused { State::PauseRequested } else { State::Running }
    } else if paused {
        State::Paused
    } else if activity.scheduled_time > now {
        State::BackingOff
    } else {
        State::Waiting
    }
}

/// The run on its way to another version.
pub(crate) fn version_transition(run: &Run) -> machine::version_transition::State {
    use machine::version_transition::State;
    match run.state.versioning.as_ref().is_some_and(|versioning| versioning.transition.is_some()) {
        true => State::Moving,
        false => State::Settled,
    }
}

/// A child as its parent sees it.
pub(crate) fn child(child: &Child) -> machine::child::State {
    use machine::child::State;
    if child.started_event_id == 0 { State::Initiated } else { State::Running }
}

/// A Nexus operation.
pub(crate) fn nexus_operation(operation: &Operation, now: Nanos) -> machine::nexus_operation::State {
    use machine::nexus_operation::State;
    if operation.is_started() {
        State::Started
    } else if operation.start.is_backing_off(now) {
        State::BackingOff
    } else {
        State::Scheduled
    }
}

/// The cancellation of a Nexus operation.
pub(crate) fn nexus_cancellation(operation: &Operation, now: Nanos) -> machine::nexus_cancellation::State {
    use machine::nexus_cancellation::State;
    let Some(cancellation) = &operation.cancellation else { return State::Absent };
    match cancellation.result() {
        CancellationResult::Succeeded => State::Succeeded,
        CancellationResult::Failed => State::Failed,
        CancellationResult::Pending if !operation.is_started() => State::Kept,
        CancellationResult::Pending if cancellation.request.is_backing_off(now) => State::BackingOff,
        CancellationResult::Pending => State::Scheduled,
    }
}

/// The run itself.
pub(crate) fn run(run: &Run) -> machine::run::State {
    use WorkflowExecutionStatus as Status;
    use machine::run::State;
    match run.status() {
        Status::Completed => State::Completed,
        Status::Failed => State::Failed,
        Status::Canceled => State::Canceled,
        Status::Terminated => State::Terminated,
        Status::ContinuedAsNew => State::ContinuedAsNew,
        Status::TimedOut => State::TimedOut,
        Status::Paused => State::Paused,
        _ => State::Running,
    }
}

/// An update, by its id.
pub(crate) fn update(run: &Run, id: &str) -> machine::update::State {
    use machine::update::State;
    match run.updates.ended(id) {
        Some(UpdateEnd::Completed(_)) => return State::Completed,
        Some(UpdateEnd::Rejected(_)) => return State::Rejected,
        Some(UpdateEnd::Aborted(_)) => return State::Aborted,
        None => {}
    }
    match (run.updates.find(id), run.update_record(id)) {
        (Some(waiting), _) if waiting.sent => State::Sent,
        (Some(_), _) => State::Admitted,
        (None, Some(record)) if record.completed_event_id > 0 => State::Completed,
        (None, Some(record)) if record.rejection.is_some() => State::Rejected,
        (None, Some(record)) if record.is_accepted() => State::Accepted,
        (None, Some(_)) => State::Aborted,
        (None, None) => State::Unknown,
    }
}
