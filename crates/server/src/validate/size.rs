//! Size limits of payloads, and what becomes of a worker's answer that exceeds them.
//!
//! A client's request is refused. A worker's is not: it would send the same again and again. Its answer is recorded as
//! a failure that says what was too large.

use prost::Message;
use segno_proto::failure::{ApplicationFailureInfo, Failure, ServerFailureInfo, failure::FailureInfo};

use super::Refused;

/// Size limit in bytes of what one event carries: input, result, details, failure.
pub const BLOB_SIZE_MAX: usize = 2 * 1024 * 1024;
/// Size limit in bytes of a memo.
pub const MEMO_SIZE_MAX: usize = 2 * 1024 * 1024;
/// Text of the refusal of a payload that is too large; also the error of a query whose result is.
pub const BLOB_TOO_LARGE: &str = "Blob data size exceeds limit.";
/// What of a failure is kept when it is too large as a whole.
const FAILURE_KEPT_MAX: isize = 512 * 1024;
const CAUSE_DEPTH_MAX: usize = 20;

/// Whether a message is larger than an event may carry.
pub fn is_too_large<M: Message>(message: Option<&M>) -> bool {
    message.is_some_and(|message| message.encoded_len() > BLOB_SIZE_MAX)
}

/// Refuses a payload that is too large.
pub fn blob<M: Message>(message: Option<&M>) -> Result<(), Refused> {
    if is_too_large(message) { Err(Refused::invalid(BLOB_TOO_LARGE)) } else { Ok(()) }
}

/// Refuses a memo that is too large.
pub fn memo<M: Message>(memo: Option<&M>) -> Result<(), Refused> {
    match memo {
        Some(memo) if memo.encoded_len() > MEMO_SIZE_MAX => Err(Refused::invalid("Memo size exceeds limit.")),
        _ => Ok(()),
    }
}

/// A failure by the server that is not retried.
pub fn server_failure(message: &str) -> Failure {
    let info = ServerFailureInfo { non_retryable: true };
    Failure {
        message: message.to_owned(),
        failure_info: Some(FailureInfo::ServerFailureInfo(info)),
        ..Default::default()
    }
}

/// Replaces a failure that is too large by one that says so, with what fits of the original as its cause. Returns the
/// replacement.
pub fn failure(failure: &mut Option<Failure>) -> Option<Failure> {
    if !is_too_large(failure.as_ref()) {
        return None;
    }
    let mut replacement = server_failure("Failure exceeds size limit.");
    replacement.cause =
        failure.as_ref().map(|original| Box::new(truncated(original, FAILURE_KEPT_MAX, CAUSE_DEPTH_MAX)));
    *failure = Some(replacement.clone());
    Some(replacement)
}

/// Texts are kept in order of importance while there is room; the payloads go.
fn truncated(failure: &Failure, mut room: isize, depth: usize) -> Failure {
    let mut short = Failure::default();
    match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => {
            let r#type = keep(&mut room, &info.r#type);
            let info = ApplicationFailureInfo { non_retryable: info.non_retryable, r#type, ..Default::default() };
            short.failure_info = Some(FailureInfo::ApplicationFailureInfo(info));
            room -= 8;
        }
        Some(FailureInfo::ServerFailureInfo(info)) => {
            short.failure_info = Some(FailureInfo::ServerFailureInfo(*info));
            room -= 4;
        }
        _ => {}
    }
    short.source = keep(&mut room, &failure.source);
    short.message = keep(&mut room, &failure.message);
    short.stack_trace = keep(&mut room, &failure.stack_trace);
    if let Some(cause) = &failure.cause
        && room > 4
        && depth > 0
    {
        short.cause = Some(Box::new(truncated(cause, room - 4, depth - 1)));
    }
    short
}

fn keep(room: &mut isize, text: &str) -> String {
    let kept = prefix(text, usize::try_from(*room).unwrap_or(0));
    *room -= kept.len() as isize;
    if !kept.is_empty() {
        *room -= 4; // what protobuf adds to a string
    }
    kept.to_owned()
}

/// As many whole characters as fit into a number of bytes.
fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
