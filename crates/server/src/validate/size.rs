//! Size limits of payloads, and what becomes of a worker's answer that exceeds them.
//!
//! A client's request is refused. A worker would repeat a refused answer, so it is recorded as a failure that names the
//! field.

use prost::Message;
use segno_engine::{
    limits::{self, Limits},
    retry,
};
use segno_proto::failure::{Failure, ServerFailureInfo, failure::FailureInfo};

use super::RequestError;

/// Text of the refusal of a payload that is too large; also the error of a query whose result is.
pub const BLOB_TOO_LARGE: &str = "Blob data size exceeds limit.";

/// How large things may be, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Most bytes of one event: input, result, details, failure.
    pub blob: usize,
    /// Bytes that are kept of a failure that is too large as a whole.
    pub failure_kept: usize,
}

impl From<Limits> for Sizes {
    fn from(limits: Limits) -> Self {
        Self { blob: limits.blob_bytes, failure_kept: limits.failure_bytes_kept }
    }
}

impl Sizes {
    /// Whether a message is larger than an event may carry.
    pub fn is_too_large<M: Message>(self, message: Option<&M>) -> bool {
        message.is_some_and(|message| message.encoded_len() > self.blob)
    }

    /// Refuses a payload that is too large.
    pub fn check<M: Message>(self, message: Option<&M>) -> Result<(), RequestError> {
        if self.is_too_large(message) { Err(RequestError::invalid(BLOB_TOO_LARGE)) } else { Ok(()) }
    }

    /// Replaces a failure that is too large by one that says so, with what fits of the original as its cause. Returns
    /// the replacement.
    pub fn replace(self, failure: &mut Option<Failure>) -> Option<Failure> {
        if !self.is_too_large(failure.as_ref()) {
            return None;
        }
        let cause = failure.take().map(|original| Box::new(retry::truncate(original, self.failure_kept)));
        let replacement = Failure { cause, ..server_failure("Failure exceeds size limit.") };
        *failure = Some(replacement.clone());
        Some(replacement)
    }
}

/// Refuses a memo that is too large.
pub fn memo<M: Message>(memo: Option<&M>) -> Result<(), RequestError> {
    match memo {
        Some(memo) if memo.encoded_len() > limits::MEMO_BYTES_MAX => {
            Err(RequestError::invalid("Memo size exceeds limit."))
        }
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
