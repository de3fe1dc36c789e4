//! Errors of handlers: [`HandlerError`] for a request that could not be carried out, [`OperationError`] for an operation that
//! has ended without a result.

use segno_proto::{
    enums::NexusHandlerErrorRetryBehavior as RetryBehavior,
    failure::{NexusHandlerFailureInfo, failure::FailureInfo},
};
use tonic::Code;

use crate::{
    client::ClientError,
    failure::{Error, Failure, FailureKind},
};

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum HandlerErrorType {
    BadRequest,
    Unauthenticated,
    Unauthorized,
    NotFound,
    Conflict,
    RequestTimeout,
    ResourceExhausted,
    Internal,
    NotImplemented,
    Unavailable,
    UpstreamTimeout,
}

impl HandlerErrorType {
    const ALL: [(Self, &'static str); 11] = [
        (Self::BadRequest, "BAD_REQUEST"),
        (Self::Unauthenticated, "UNAUTHENTICATED"),
        (Self::Unauthorized, "UNAUTHORIZED"),
        (Self::NotFound, "NOT_FOUND"),
        (Self::Conflict, "CONFLICT"),
        (Self::RequestTimeout, "REQUEST_TIMEOUT"),
        (Self::ResourceExhausted, "RESOURCE_EXHAUSTED"),
        (Self::Internal, "INTERNAL"),
        (Self::NotImplemented, "NOT_IMPLEMENTED"),
        (Self::Unavailable, "UNAVAILABLE"),
        (Self::UpstreamTimeout, "UPSTREAM_TIMEOUT"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("INTERNAL", |(_, name)| name)
    }

    /// The type of this name; an unknown one is an internal error, as for the server.
    fn named(name: &str) -> Self {
        Self::ALL.iter().find(|(_, there)| *there == name).map_or(Self::Internal, |(kind, _)| *kind)
    }

    /// Whether the server sends a request again that failed so, if the error says nothing else.
    pub fn is_retryable(self) -> bool {
        use HandlerErrorType::*;
        !matches!(self, BadRequest | Unauthenticated | Unauthorized | NotFound | Conflict | NotImplemented)
    }
}

/// A request to start or cancel an operation that was not carried out. The server sends it again, or fails the operation, as
/// the [type](HandlerErrorType::is_retryable) says.
///
/// Every error that a handler returns and that is neither this nor an [`OperationError`] becomes one of the type
/// [`Internal`](HandlerErrorType::Internal), with that error as its cause; not retryable if it is a failure that is
/// [not](crate::FailureBuilder::non_retryable).
#[derive(Clone, Debug, thiserror::Error)]
#[error("{failure}")]
pub struct HandlerError {
    failure: Failure,
}

impl HandlerError {
    /// An error of this type.
    pub fn new(kind: HandlerErrorType, message: impl Into<String>) -> Self {
        Self::with(kind, RetryBehavior::Unspecified, message.into(), None)
    }

    /// The failure that caused it.
    pub fn caused_by(self, cause: impl Into<Failure>) -> Self {
        let mut wire = self.failure.to_wire();
        wire.cause = Some(Box::new(cause.into().to_wire()));
        Self { failure: Failure::from_wire(wire) }
    }

    /// The server sends the request again, or does not, whatever the type says.
    pub fn retryable(self, retryable: bool) -> Self {
        let behavior = if retryable { RetryBehavior::Retryable } else { RetryBehavior::NonRetryable };
        let mut wire = self.failure.to_wire();
        if let Some(FailureInfo::NexusHandlerFailureInfo(info)) = &mut wire.failure_info {
            info.retry_behavior = behavior as i32;
        }
        Self { failure: Failure::from_wire(wire) }
    }

    fn with(kind: HandlerErrorType, behavior: RetryBehavior, message: String, cause: Option<Failure>) -> Self {
        let info = NexusHandlerFailureInfo { r#type: kind.name().to_owned(), retry_behavior: behavior as i32 };
        Self { failure: Failure::with_info(message, FailureInfo::NexusHandlerFailureInfo(info), cause) }
    }

    /// The error for a failure of user code.
    fn of(failure: Failure) -> Self {
        let behavior = match failure.is_non_retryable() {
            true => RetryBehavior::NonRetryable,
            false => RetryBehavior::Unspecified,
        };
        Self::with(HandlerErrorType::Internal, behavior, failure.message().to_owned(), Some(failure))
    }

    /// Its failure.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }
}

/// The error for a call of a handler's client, by gRPC's code.
impl From<ClientError> for HandlerError {
    fn from(error: ClientError) -> Self {
        use HandlerErrorType::*;
        let kind = match &error {
            ClientError::NotFound(_) => NotFound,
            ClientError::AlreadyStarted { .. } => Conflict,
            ClientError::Conversion(_) => BadRequest,
            ClientError::Rpc { code, .. } => match code {
                Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => BadRequest,
                Code::AlreadyExists => Conflict,
                Code::PermissionDenied => Unauthorized,
                Code::Unauthenticated => Unauthenticated,
                Code::ResourceExhausted => ResourceExhausted,
                Code::Unimplemented => NotImplemented,
                Code::Unavailable | Code::Aborted => Unavailable,
                Code::DeadlineExceeded => UpstreamTimeout,
                _ => Internal,
            },
            _ => Internal,
        };
        let cause = error.failure().cloned();
        Self::with(kind, RetryBehavior::Unspecified, error.to_string(), cause)
    }
}

/// The end of an operation without a result. It is not tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{failure}")]
pub struct OperationError {
    failure: Failure,
}

impl OperationError {
    /// The operation failed: the caller gets an application failure of the kind `OperationError`.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::failed_with(Failure::application("OperationError", message).non_retryable())
    }

    /// The operation failed with this failure, which the caller gets as the cause of its own.
    pub fn failed_with(failure: impl Into<Failure>) -> Self {
        Self { failure: failure.into() }
    }

    /// The operation was cancelled.
    pub fn canceled(message: impl Into<String>) -> Self {
        let info = FailureInfo::CanceledFailureInfo(Default::default());
        Self { failure: Failure::with_info(message.into(), info, None) }
    }

    /// Its failure.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }
}

/// The error of a handler, as it is answered.
pub(crate) enum NexusOutcome {
    /// The operation has ended with this failure.
    Operation(Failure),
    /// The request was not carried out.
    Handler(Failure),
}

impl From<Error> for NexusOutcome {
    fn from(error: Error) -> Self {
        if let Some(failure) = error.operation_failure() {
            return Self::Operation(failure.clone());
        }
        let failure = error.failure();
        match failure.kind() {
            FailureKind::NexusHandler { .. } => Self::Handler(failure),
            FailureKind::Cancelled => Self::Operation(failure),
            _ => Self::Handler(HandlerError::of(failure).failure),
        }
    }
}

impl From<HandlerError> for NexusOutcome {
    fn from(error: HandlerError) -> Self {
        Self::Handler(error.failure)
    }
}

/// What a failure of a handler says, for [`FailureKind`].
pub(crate) fn handler_kind(info: &NexusHandlerFailureInfo) -> FailureKind {
    let r#type = HandlerErrorType::named(&info.r#type);
    let retryable = match info.retry_behavior() {
        RetryBehavior::Retryable => true,
        RetryBehavior::NonRetryable => false,
        RetryBehavior::Unspecified => r#type.is_retryable(),
    };
    FailureKind::NexusHandler { r#type, retryable }
}
