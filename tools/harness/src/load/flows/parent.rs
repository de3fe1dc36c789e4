//! A workflow with one child, which is empty; the child's result is its own.

use segno_proto::{
    command::{Command, StartChildWorkflowExecutionCommandAttributes, command},
    common::WorkflowType,
    enums::CommandType,
    events::history_event::Attributes,
};

use crate::{load::worker::WorkflowTask, wire};

/// The child first, then its result.
pub fn decide(event: &Attributes, task: &WorkflowTask<'_>) -> Option<Command> {
    match event {
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(done) => Some(wire::complete(done.result.clone())),
        // Its child is on its way already.
        Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(_)
        | Attributes::ChildWorkflowExecutionStartedEventAttributes(_) => None,
        Attributes::WorkflowExecutionStartedEventAttributes(start) if task.is_first => {
            let attributes = StartChildWorkflowExecutionCommandAttributes {
                workflow_id: format!("{}-child", task.workflow_id),
                workflow_type: Some(WorkflowType { name: "empty".to_owned() }),
                task_queue: wire::queue(task.session.queue()),
                input: start.input.clone(),
                ..Default::default()
            };
            let attributes = command::Attributes::StartChildWorkflowExecutionCommandAttributes(attributes);
            Some(wire::command(CommandType::StartChildWorkflowExecution, attributes))
        }
        _ => None,
    }
}
