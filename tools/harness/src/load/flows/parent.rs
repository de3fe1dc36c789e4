//! A workflow with one child, which is empty; the child's result is its own.

use segno_proto::{
    command::{Command, StartChildWorkflowExecutionCommandAttributes, command},
    common::WorkflowType,
    enums::CommandType,
    events::history_event::Attributes,
};

use crate::{load::worker::Turn, wire};

/// The child first, then its result.
pub fn decide(event: &Attributes, turn: &Turn<'_>) -> Option<Command> {
    match event {
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(done) => Some(wire::complete(done.result.clone())),
        // Its child is on its way already.
        Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(_)
        | Attributes::ChildWorkflowExecutionStartedEventAttributes(_) => None,
        Attributes::WorkflowExecutionStartedEventAttributes(start) if turn.is_first => {
            let attributes = StartChildWorkflowExecutionCommandAttributes {
                workflow_id: format!("{}-child", turn.workflow_id),
                workflow_type: Some(WorkflowType { name: "empty".to_owned() }),
                task_queue: wire::queue(turn.session.queue()),
                input: start.input.clone(),
                ..Default::default()
            };
            let attributes = command::Attributes::StartChildWorkflowExecutionCommandAttributes(attributes);
            Some(wire::command(CommandType::StartChildWorkflowExecution, attributes))
        }
        _ => None,
    }
}
