//! The namespace and workflow id of a request, read from its bytes, as security does.

use std::sync::LazyLock;

use prost_types::FieldDescriptorProto;
use segno_node::HashMap;

use crate::request_fields::{last, of_requests, text_field};

/// The message that names a workflow.
const EXECUTION: &str = ".temporal.api.common.v1.WorkflowExecution";

/// Fields of a request.
#[derive(Debug, Default)]
struct Fields {
    namespace: Option<u32>,
    /// The workflow id itself.
    workflow_id: Option<u32>,
    /// The message that has it as its first field.
    execution: Option<u32>,
}

/// By path, of every method of the protocol.
static FIELDS: LazyLock<HashMap<String, Fields>> = LazyLock::new(|| {
    of_requests(|_, message| {
        let is_execution = |field: &&FieldDescriptorProto| field.type_name() == EXECUTION;
        let execution = message.field.iter().find(is_execution);
        Fields {
            namespace: text_field(message, "namespace"),
            workflow_id: text_field(message, "workflow_id"),
            execution: execution.and_then(|field| u32::try_from(field.number()).ok()),
        }
    })
});

/// The path as the table has it, which lives as long as the process; `None` for what is no method of the protocol.
pub(super) fn known_path(path: &str) -> Option<&'static str> {
    FIELDS.get_key_value(path).map(|(path, _)| path.as_str())
}

/// Namespace and workflow id of an encoded request; empty where it has none.
pub(super) fn read(path: &str, message: &[u8]) -> (String, String) {
    let Some(fields) = FIELDS.get(path) else { return Default::default() };
    let text = |message: &[u8], number: Option<u32>| {
        let value = number.and_then(|number| last(message, number)).unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    let namespace = text(message, fields.namespace);
    let workflow_id = match fields.execution.and_then(|number| last(message, number)) {
        Some(execution) if fields.workflow_id.is_none() => text(execution, Some(1)),
        _ => text(message, fields.workflow_id),
    };
    (namespace, workflow_id)
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use segno_proto::{
        common::WorkflowExecution,
        workflowservice::{DescribeWorkflowExecutionRequest, StartWorkflowExecutionRequest},
    };

    use super::*;

    #[test]
    fn namespace_and_workflow_are_found() {
        let service = "/temporal.api.workflowservice.v1.WorkflowService/";
        let found = |method: &str, message: Vec<u8>| read(&format!("{service}{method}"), &message);
        let start = StartWorkflowExecutionRequest {
            namespace: "default".to_owned(),
            workflow_id: "order-1".to_owned(),
            ..Default::default()
        };
        let expected = ("default".to_owned(), "order-1".to_owned());
        assert_eq!(found("StartWorkflowExecution", start.encode_to_vec()), expected);
        let describe = DescribeWorkflowExecutionRequest {
            namespace: "default".to_owned(),
            execution: Some(WorkflowExecution { workflow_id: "order-1".to_owned(), ..Default::default() }),
        };
        assert_eq!(found("DescribeWorkflowExecution", describe.encode_to_vec()), expected);
        assert_eq!(found("GetSystemInfo", Vec::new()), Default::default());
        assert_eq!(found("StartWorkflowExecution", vec![0xff]), Default::default(), "malformed");
        assert!(known_path(&format!("{service}GetSystemInfo")).is_some() && known_path("/a/B").is_none());
    }
}
