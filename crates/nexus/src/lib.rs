//! Nexus on the wire: the answers of handlers, failures in their several forms, links, and the headers and bodies of HTTP.
//!
//! Does no IO. The engine has the operations; this crate turns what travels into what the engine takes, and back.

// Workers still send the fields that the protocol has replaced.
#![allow(deprecated)]

mod answers;
mod completion_call;
mod content;
mod failure_json;
mod failures;
mod handler_call;
mod http_message;
mod link_header;
mod message_payload;
mod statuses;
mod times;

pub use answers::{TOKEN_BYTES_MAX, failed_task, is_retryable, start_answer};
pub use completion_call::{CompletionCall, completion_failure_of, undelivered};
pub use content::{CONTENT_PREFIX, Content, NotPayload};
pub use failure_json::{
    NotFailure, Unsuccessful, failure_from_json, failure_to_json, handler_error, old_form, operation_error,
};
pub use failures::{from_nexus, from_worker, to_nexus};
pub use handler_call::{HandlerCall, StartCall, cancel_answer_of, start_answer_of};
pub use http_message::{HttpAnswer, HttpRequest, USER_AGENT};
pub use link_header::{LINK_HEADER, NotLinks, links_from_header, links_to_header};
pub use message_payload::{NotMessage, message_payload, read_message};
pub use segno_proto::links::{from_url, path_part, to_event, to_operation, to_url};
pub use statuses::{UPSTREAM_TIMEOUT, error_type_of, status_of};
pub use times::{go_duration, http_date, http_date_from, milliseconds, read_span, rfc3339, rfc3339_from};
