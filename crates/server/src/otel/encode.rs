//! Spans as OTLP's JSON, with the names of OpenTelemetry's semantic conventions for RPC.

use serde_json::{Value, json};
use tonic::Code;

use super::Span;

/// `SPAN_KIND_SERVER`.
const KIND_SERVER: u32 = 2;
/// `STATUS_CODE_ERROR`; a call that went well leaves the status unset, as the conventions say.
const STATUS_ERROR: u32 = 2;

/// The body of an export request.
pub(super) fn request(service: &str, spans: &[Span]) -> Vec<u8> {
    let resource =
        json!({"attributes": [text("service.name", service), text("service.version", env!("CARGO_PKG_VERSION"))]});
    let scope = json!({"name": "segno", "version": env!("CARGO_PKG_VERSION")});
    let spans: Vec<Value> = spans.iter().map(one).collect();
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
        .to_string()
        .into_bytes()
}

fn one(span: &Span) -> Value {
    let name = span.path.trim_start_matches('/');
    let (service, method) = name.split_once('/').unwrap_or(("", name));
    let mut attributes = vec![
        text("rpc.system", "grpc"),
        text("rpc.service", service),
        text("rpc.method", method),
        json!({"key": "rpc.grpc.status_code", "value": {"intValue": (span.code as i32).to_string()}}),
    ];
    for (key, value) in [("temporal.namespace", &span.namespace), ("temporal.workflow.id", &span.workflow_id)] {
        if !value.is_empty() {
            attributes.push(text(key, value));
        }
    }
    json!({
        "traceId": hexadecimal(&span.trace),
        "spanId": hexadecimal(&span.id),
        "parentSpanId": span.parent.map(|parent| hexadecimal(&parent)).unwrap_or_default(),
        "name": name,
        "kind": KIND_SERVER,
        "startTimeUnixNano": span.begun.to_string(),
        "endTimeUnixNano": span.ended.to_string(),
        "attributes": attributes,
        "status": if is_server_error(span.code) { json!({"code": STATUS_ERROR}) } else { json!({}) },
    })
}

/// Whether the conventions count a status as an error of the server. Others are the caller's.
fn is_server_error(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_otlps_form() {
        let span = Span {
            trace: [0xab; 16],
            id: [1; 8],
            parent: Some([2; 8]),
            path: "/temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution",
            namespace: "default".to_owned(),
            workflow_id: String::new(),
            begun: 5,
            ended: u64::MAX,
            code: Code::Unavailable,
        };
        let body: Value = serde_json::from_slice(&request("shop", &[span])).expect("JSON");
        let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "ab".repeat(16));
        assert_eq!((&span["spanId"], &span["parentSpanId"]), (&json!("01".repeat(8)), &json!("02".repeat(8))));
        assert_eq!(span["endTimeUnixNano"], "18446744073709551615", "64-bit numbers are texts");
        assert_eq!(span["status"]["code"], 2);
        let attributes = span["attributes"].as_array().expect("a list");
        assert!(attributes.contains(&text("rpc.method", "StartWorkflowExecution")), "{attributes:?}");
        assert!(attributes.contains(&text("temporal.namespace", "default")), "{attributes:?}");
        assert!(attributes.iter().all(|attribute| attribute["key"] != "temporal.workflow.id"), "there is none");
        assert_eq!(body["resourceSpans"][0]["resource"]["attributes"][0], text("service.name", "shop"));
    }
}
