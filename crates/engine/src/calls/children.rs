//! Messages of children to their parent.

use segno_proto::{
    common::{WorkflowExecution, WorkflowType},
    enums::StartChildWorkflowExecutionFailedCause,
    events::{
        ChildWorkflowExecutionCanceledEventAttributes, ChildWorkflowExecutionCompletedEventAttributes,
        ChildWorkflowExecutionFailedEventAttributes, ChildWorkflowExecutionStartedEventAttributes,
        ChildWorkflowExecutionTerminatedEventAttributes, ChildWorkflowExecutionTimedOutEventAttributes, HistoryEvent,
        StartChildWorkflowExecutionFailedEventAttributes, history_event::Attributes,
    },
};

use crate::{
    error::Rejection,
    events::event,
    machine::child as machine,
    parts::workflow_task,
    state::{machines, outbox::StartChild, run::Run},
    transition::{Applied, Context, draft::Draft, steps::ChildMachine},
};

/// Checks a report of another run, which may come late or twice: a report that does not fit is refused.
fn expect(run: &Run, id: i64, on: machine::Event) -> Result<(), Rejection> {
    let child = run.state.children.get(&id).ok_or(Rejection::ChildNotFound)?;
    machine::next(machines::child(child), on).map(|_| ()).map_err(|_| Rejection::ChildNotFound)
}

/// The child runs.
pub fn started(
    run: &Run,
    context: Context,
    message: &StartChild,
    child_run_id: &str,
) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    let id = message.initiated_event_id;
    expect(run, id, machine::Event::Started)?;
    let mut draft = Draft::new(run, context);
    let Some(child) = draft.run.state.children.get_mut(&id) else { return Err(Rejection::ChildNotFound) };
    child.run_id = child_run_id.to_owned();
    let attributes = ChildWorkflowExecutionStartedEventAttributes {
        namespace: child.namespace.clone(),
        namespace_id: child.namespace_id.clone(),
        initiated_event_id: id,
        workflow_execution: Some(WorkflowExecution {
            workflow_id: child.workflow_id.clone(),
            run_id: child_run_id.to_owned(),
        }),
        workflow_type: Some(WorkflowType { name: child.workflow_type.clone() }),
        header: message.attributes.header.clone(),
    };
    let started = draft.add_external(Attributes::ChildWorkflowExecutionStartedEventAttributes(attributes));
    draft.step(ChildMachine(id), machine::Event::Started, |draft| {
        if let Some(child) = draft.run.state.children.get_mut(&id) {
            child.started_event_id = started;
        }
    });
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// The child could not be started.
pub fn start_failed(
    run: &Run,
    context: Context,
    message: &StartChild,
    cause: StartChildWorkflowExecutionFailedCause,
) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    let id = message.initiated_event_id;
    expect(run, id, machine::Event::StartFailed)?;
    let mut draft = Draft::new(run, context);
    let mut gone = None;
    draft.step(ChildMachine(id), machine::Event::StartFailed, |draft| gone = draft.run.state.children.remove(&id));
    let Some(child) = gone else { return Err(Rejection::ChildNotFound) };
    draft.add_external(Attributes::StartChildWorkflowExecutionFailedEventAttributes(
        StartChildWorkflowExecutionFailedEventAttributes {
            namespace: child.namespace,
            namespace_id: child.namespace_id,
            workflow_id: child.workflow_id,
            workflow_type: Some(WorkflowType { name: child.workflow_type }),
            cause: cause as i32,
            control: message.attributes.control.clone(),
            initiated_event_id: id,
            workflow_task_completed_event_id: 0,
        },
    ));
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// The child closed; `closing` is its last event, `closing_run_id` the run that closed.
pub fn closed(
    run: &Run,
    context: Context,
    initiated_event_id: i64,
    closing_run_id: &str,
    closing: HistoryEvent,
) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    expect(run, initiated_event_id, machine::Event::Closed)?;
    let mut draft = Draft::new(run, context);
    let mut gone = None;
    draft.step(ChildMachine(initiated_event_id), machine::Event::Closed, |draft| {
        gone = draft.run.state.children.remove(&initiated_event_id);
    });
    let Some(child) = gone else { return Err(Rejection::ChildNotFound) };
    let started_event_id = child.started_event_id;
    let namespace = child.namespace;
    let namespace_id = child.namespace_id;
    let workflow_type = Some(WorkflowType { name: child.workflow_type });
    let workflow_execution =
        Some(WorkflowExecution { workflow_id: child.workflow_id, run_id: closing_run_id.to_owned() });
    macro_rules! ended {
        ($attributes:ident { $($field:ident: $value:expr),* }) => {
            $attributes {
                namespace,
                namespace_id,
                workflow_execution,
                workflow_type,
                initiated_event_id,
                started_event_id,
                $($field: $value,)*
            }
        };
    }
    let attributes = match closing.attributes {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(a)) => {
            Attributes::ChildWorkflowExecutionCompletedEventAttributes(ended!(
                ChildWorkflowExecutionCompletedEventAttributes { result: a.result }
            ))
        }
        Some(Attributes::WorkflowExecutionFailedEventAttributes(a)) => {
            Attributes::ChildWorkflowExecutionFailedEventAttributes(Box::new(ended!(
                ChildWorkflowExecutionFailedEventAttributes { failure: a.failure, retry_state: a.retry_state }
            )))
        }
        Some(Attributes::WorkflowExecutionCanceledEventAttributes(a)) => {
            Attributes::ChildWorkflowExecutionCanceledEventAttributes(ended!(
                ChildWorkflowExecutionCanceledEventAttributes { details: a.details }
            ))
        }
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(a)) => {
            Attributes::ChildWorkflowExecutionTimedOutEventAttributes(ended!(
                ChildWorkflowExecutionTimedOutEventAttributes { retry_state: a.retry_state }
            ))
        }
        _ => Attributes::ChildWorkflowExecutionTerminatedEventAttributes(ended!(
            ChildWorkflowExecutionTerminatedEventAttributes {}
        )),
    };
    let now = draft.now();
    draft.add_external_event(event(now, attributes));
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}
