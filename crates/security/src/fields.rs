//! The namespace of an encoded request, by which authorization is decided.
//!
//! It is read from the bytes, so that a rule applies to every service in the same way, before a request is decoded.

use segno_calls::request_fields::{of_requests, text_field};
use segno_node::HashMap;

/// Numbers of the fields by which a request names what it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceField {
    /// The namespace's name.
    pub name: Option<u32>,
    /// The namespace's id, where a request may give that instead.
    pub id: Option<u32>,
}

/// The fields of all requests, by path.
pub fn namespace_fields() -> HashMap<String, NamespaceField> {
    of_requests(|method, message| NamespaceField {
        name: text_field(message, "namespace"),
        id: match method {
            "DescribeNamespace" => text_field(message, "id"),
            "DeleteNamespace" => text_field(message, "namespace_id"),
            _ => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use segno_proto::workflowservice::RespondQueryTaskCompletedRequest;

    use super::*;
    use segno_calls::request_fields::last_text;

    #[test]
    fn fields_are_found_whatever_their_number() {
        let fields = namespace_fields();
        let of = |name: &str| fields[&format!("/temporal.api.workflowservice.v1.WorkflowService/{name}")];
        let query = RespondQueryTaskCompletedRequest {
            namespace: "here".to_owned(),
            task_token: "token".into(),
            error_message: "x".repeat(300),
            ..Default::default()
        };
        let name = of("RespondQueryTaskCompleted").name.expect("a field");
        assert_eq!(last_text(&query.encode_to_vec(), name), Some("here"));
        assert!(of("DescribeNamespace").id.is_some());
        assert_eq!(of("GetSystemInfo").name, None);
    }
}
