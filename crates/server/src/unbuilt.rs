//! Calls that are not built yet answer UNIMPLEMENTED and say which call it was.

use http::Response;
use tonic::{Status, body::Body};

use crate::calls;

/// How the transport begins when a compressed request turns out too large.
const INFLATED: &[u8] = b"Error%20decompressing:%20size%20limit";

/// A request that is too large is refused by the transport, in its own words; clients know Temporal's.
pub fn as_temporal_says(response: Response<Body>) -> Response<Body> {
    let headers = response.headers();
    // Only an answer without a body says in its head how it ended.
    if !headers.contains_key("grpc-status") {
        return response;
    }
    let out_of_range = headers.get("grpc-status").is_some_and(|status| status == "11");
    let too_large = headers.get("grpc-message").is_some_and(|message| {
        message
            .as_bytes()
            .windows(b"message%20length%20too%20large".len())
            .any(|w| w == b"message%20length%20too%20large")
    });
    if out_of_range && too_large {
        return Status::resource_exhausted("grpc: received message larger than max (4194304 bytes)").into_http();
    }
    let inflated = headers.get("grpc-message").is_some_and(|message| message.as_bytes().starts_with(INFLATED));
    if inflated {
        let text = "grpc: received message after decompression larger than max 4194304";
        return Status::resource_exhausted(text).into_http();
    }
    response
}

/// The answer to a call that is one of Temporal's and not built.
pub fn refusal(path: &str) -> Option<Response<Body>> {
    unbuilt(path).map(|_| status(path).into_http())
}

/// The status of a call that is not built.
pub fn status(path: &str) -> Status {
    match unbuilt(path) {
        Some(call) => Status::unimplemented(format!("{call} is not built yet in Segno")),
        None => Status::unimplemented(""),
    }
}

/// The call a path names, if it is one of Temporal's services and not built.
fn unbuilt(path: &str) -> Option<&str> {
    if calls::find(path.as_bytes()).is_some() {
        return None;
    }
    let named = calls::names(path);
    segno_proto::METHODS.contains(&named).then_some(named.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_the_protocol_are_named() {
        let path = "/temporal.api.workflowservice.v1.WorkflowService";
        let operators = "/temporal.api.operatorservice.v1.OperatorService/RemoveRemoteCluster";
        assert_eq!(unbuilt(operators), Some("RemoveRemoteCluster"));
        assert_eq!(unbuilt(&format!("{path}/StartWorkflowExecution")), None);
        assert_eq!(unbuilt(&format!("{path}/NoSuchCall")), None);
        assert_eq!(unbuilt("/grpc.health.v1.Health/Check"), None);
    }
}
