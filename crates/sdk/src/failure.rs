//! Errors: [`Failure`] represents Temporal's failure chain, [`Error`] is what bodies of workflows and tasks return. `?`
//! converts any error into it.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use segno_proto::{
    common::Payloads,
    enums::{ApplicationErrorCategory, RetryState as WireRetryState, TimeoutType as WireTimeoutType},
    failure::{self as wire, failure::FailureInfo},
};
use serde::{Serialize, de::DeserializeOwned};

pub use error::{Error, Result};

use crate::{
    converter,
    nexus::{HandlerErrorType, handler_kind},
};

mod error;

/// Why a task, workflow or call failed, as the server stores it: a message, a kind, perhaps a cause. Cheap to clone.
#[derive(Clone)]
pub struct Failure(Arc<Inner>);

struct Inner {
    wire: wire::Failure,
    kind: FailureKind,
    cause: Option<Failure>,
}

/// The kind of the failure.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FailureKind {
    /// User code said so.
    Application {
        /// The kind that it gave; for a Rust error the last segment of its type's path.
        kind: String,
        /// Whether it is of no use to try again.
        non_retryable: bool,
    },
    /// A task failed for good; the cause says why.
    Task {
        /// The task's kind.
        kind: String,
        /// The task's id.
        id: String,
        /// Why it is not tried again.
        retry_state: RetryState,
    },
    /// A child workflow failed; the cause says why.
    Child {
        /// The workflow's kind.
        kind: String,
        /// The workflow's id.
        workflow_id: String,
        /// The run's id.
        run_id: String,
        /// Why it is not tried again.
        retry_state: RetryState,
    },
    /// It took too long.
    Timeout {
        /// Which time-out it was.
        r#type: TimeoutType,
    },
    /// It was cancelled.
    Cancelled,
    /// It was terminated.
    Terminated,
    /// The server itself failed.
    Server,
    /// A Nexus operation failed; the cause says why.
    Nexus {
        /// The endpoint.
        endpoint: String,
        /// The service.
        service: String,
        /// The operation.
        operation: String,
        /// Its token, if it was started; else empty.
        token: String,
    },
    /// The handler of a Nexus operation did not carry a request out.
    NexusHandler {
        /// The type of the error.
        r#type: HandlerErrorType,
        /// Whether the server sends the request again.
        retryable: bool,
    },
}

/// Why there is no further attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum RetryState {
    #[default]
    Unspecified,
    InProgress,
    NonRetryableFailure,
    Timeout,
    MaximumAttemptsReached,
    RetryPolicyNotSet,
    InternalServerError,
    CancelRequested,
}

/// Which time-out it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum TimeoutType {
    #[default]
    Unspecified,
    StartToClose,
    ScheduleToStart,
    ScheduleToClose,
    Heartbeat,
}

impl Failure {
    /// A failure of user code without a kind of its own.
    #[allow(clippy::new_ret_no_self)] // It is a failure in all but name: see `FailureBuilder`.
    pub fn new(message: impl Into<String>) -> FailureBuilder {
        Self::application("Error", message)
    }

    /// A failure of user code of this kind.
    pub fn application(kind: impl Into<String>, message: impl Into<String>) -> FailureBuilder {
        let info = wire::ApplicationFailureInfo { r#type: kind.into(), ..Default::default() };
        FailureBuilder(Self::with_info(message.into(), FailureInfo::ApplicationFailureInfo(info), None))
    }

    /// The failure that a cancelled workflow or task returns.
    pub fn cancelled() -> Self {
        let info = FailureInfo::CanceledFailureInfo(wire::CanceledFailureInfo::default());
        Self::with_info("cancelled".to_owned(), info, None)
    }

    pub(crate) fn terminated(message: impl Into<String>) -> Self {
        let info = FailureInfo::TerminatedFailureInfo(wire::TerminatedFailureInfo::default());
        Self::with_info(message.into(), info, None)
    }

    pub(crate) fn timeout(kind: WireTimeoutType, message: impl Into<String>) -> Self {
        let info = wire::TimeoutFailureInfo { timeout_type: kind as i32, ..Default::default() };
        Self::with_info(message.into(), FailureInfo::TimeoutFailureInfo(info), None)
    }

    pub(crate) fn with_info(message: String, info: FailureInfo, cause: Option<Failure>) -> Self {
        let cause = cause.map(|cause| Box::new(cause.to_wire()));
        Self::from_wire(wire::Failure { message, failure_info: Some(info), cause, ..Default::default() })
    }

    /// A failure from the wire.
    pub fn from_wire(mut wire: wire::Failure) -> Self {
        converter::codec::reveal(&mut wire);
        if wire.source.is_empty() {
            wire.source = "segno-rust".to_owned();
        }
        let cause = wire.cause.as_deref().cloned().map(Self::from_wire);
        let kind = kind_of(&wire);
        Self(Arc::new(Inner { wire, kind, cause }))
    }

    /// The failure for the wire.
    pub fn to_wire(&self) -> wire::Failure {
        self.0.wire.clone()
    }

    /// The kind of the failure.
    pub fn kind(&self) -> &FailureKind {
        &self.0.kind
    }

    /// Its own message, without its cause.
    pub fn message(&self) -> &str {
        &self.0.wire.message
    }

    /// Where it happened, as far as its language says.
    pub fn stack_trace(&self) -> &str {
        &self.0.wire.stack_trace
    }

    /// The failure that caused it.
    pub fn cause(&self) -> Option<&Failure> {
        self.0.cause.as_ref()
    }

    /// Whether it comes from a cancellation: itself, or as the cause of a failed task or child.
    pub fn is_cancelled(&self) -> bool {
        match self.kind() {
            FailureKind::Cancelled => true,
            FailureKind::Task { .. } | FailureKind::Child { .. } | FailureKind::Nexus { .. } => {
                self.cause().is_some_and(Self::is_cancelled)
            }
            _ => false,
        }
    }

    /// The kind that user code gave, here or in what caused this.
    pub fn application_kind(&self) -> Option<&str> {
        match self.kind() {
            FailureKind::Application { kind, .. } => Some(kind),
            _ => self.cause().and_then(Self::application_kind),
        }
    }

    /// Whether user code expects it.
    pub fn is_benign(&self) -> bool {
        matches!(&self.0.wire.failure_info, Some(FailureInfo::ApplicationFailureInfo(info))
            if info.category == ApplicationErrorCategory::Benign as i32)
    }

    fn detail_payloads(&self) -> Option<&Payloads> {
        match self.0.wire.failure_info.as_ref()? {
            FailureInfo::ApplicationFailureInfo(info) => info.details.as_ref(),
            FailureInfo::CanceledFailureInfo(info) => info.details.as_ref(),
            FailureInfo::TimeoutFailureInfo(info) => info.last_heartbeat_details.as_ref(),
            _ => None,
        }
    }

    /// The details that [`FailureBuilder::details`] added, here or in the nearest cause that has any.
    pub fn details<T: DeserializeOwned>(&self) -> Option<T> {
        match self.detail_payloads().and_then(|details| details.payloads.first()) {
            Some(first) => converter::decode_payload(first).ok(),
            None => self.cause()?.details(),
        }
    }

    /// Whether it is of no use to try again, as far as the failure itself says.
    pub fn is_non_retryable(&self) -> bool {
        match self.kind() {
            FailureKind::Application { non_retryable, .. } => *non_retryable,
            FailureKind::NexusHandler { retryable, .. } => !retryable,
            _ => false,
        }
    }

    /// When to try again, if it says so.
    pub(crate) fn next_retry_delay(&self) -> Option<Duration> {
        match &self.0.wire.failure_info {
            Some(FailureInfo::ApplicationFailureInfo(info)) => {
                info.next_retry_delay.and_then(|delay| Duration::try_from(delay).ok())
            }
            _ => None,
        }
    }
}

/// A failure that is being made. It is used like a [`Failure`] and becomes one, or an [`Error`], with `into()`.
#[derive(Clone)]
pub struct FailureBuilder(Failure);

impl FailureBuilder {
    /// It is of no use to try again.
    pub fn non_retryable(self) -> Self {
        self.change(|info| info.non_retryable = true)
    }

    /// Adds a value to read later with [`Failure::details`]. A value that cannot be serialised is left out.
    pub fn details<T: Serialize + ?Sized>(self, details: &T) -> Self {
        let payload = converter::encode_json(details).ok();
        self.change(|info| info.details = payload.map(|payload| Payloads { payloads: vec![payload] }))
    }

    /// The next attempt comes after this time, instead of that of the retry policy.
    pub fn retry_after(self, delay: Duration) -> Self {
        self.change(|info| info.next_retry_delay = crate::options::wire_duration(delay))
    }

    /// It is expected, and neither logged nor counted as an error.
    pub fn benign(self) -> Self {
        self.change(|info| info.category = ApplicationErrorCategory::Benign as i32)
    }

    /// The failure that caused it.
    pub fn caused_by(self, cause: impl Into<Failure>) -> Self {
        let mut wire = self.0.to_wire();
        wire.cause = Some(Box::new(cause.into().to_wire()));
        Self(Failure::from_wire(wire))
    }

    /// The functions that were called, for people.
    pub(crate) fn stack_trace(self, stack_trace: String) -> Self {
        Self(Failure::from_wire(wire::Failure { stack_trace, ..self.0.to_wire() }))
    }

    fn change(self, change: impl FnOnce(&mut wire::ApplicationFailureInfo)) -> Self {
        let mut wire = self.0.to_wire();
        if let Some(FailureInfo::ApplicationFailureInfo(info)) = &mut wire.failure_info {
            change(info);
        }
        Self(Failure::from_wire(wire))
    }
}

impl std::ops::Deref for FailureBuilder {
    type Target = Failure;
    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl From<FailureBuilder> for Failure {
    fn from(builder: FailureBuilder) -> Self {
        builder.0
    }
}

impl fmt::Display for FailureBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FailureBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for FailureBuilder {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        StdError::source(&self.0)
    }
}

fn kind_of(wire: &wire::Failure) -> FailureKind {
    let application = |kind: &str, non_retryable| FailureKind::Application { kind: kind.to_owned(), non_retryable };
    match &wire.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => application(&info.r#type, info.non_retryable),
        Some(FailureInfo::TimeoutFailureInfo(info)) => FailureKind::Timeout { r#type: timeout_type(info.timeout_type) },
        Some(FailureInfo::CanceledFailureInfo(_)) => FailureKind::Cancelled,
        Some(FailureInfo::TerminatedFailureInfo(_)) => FailureKind::Terminated,
        Some(FailureInfo::ServerFailureInfo(_) | FailureInfo::ResetWorkflowFailureInfo(_)) => FailureKind::Server,
        Some(FailureInfo::ActivityFailureInfo(info)) => FailureKind::Task {
            kind: info.activity_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default(),
            id: info.activity_id.clone(),
            retry_state: retry_state(info.retry_state),
        },
        Some(FailureInfo::ChildWorkflowExecutionFailureInfo(info)) => {
            let execution = info.workflow_execution.clone().unwrap_or_default();
            FailureKind::Child {
                kind: info.workflow_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default(),
                workflow_id: execution.workflow_id,
                run_id: execution.run_id,
                retry_state: retry_state(info.retry_state),
            }
        }
        Some(FailureInfo::NexusOperationExecutionFailureInfo(info)) => FailureKind::Nexus {
            endpoint: info.endpoint.clone(),
            service: info.service.clone(),
            operation: info.operation.clone(),
            token: info.operation_token.clone(),
        },
        Some(FailureInfo::NexusHandlerFailureInfo(info)) => handler_kind(info),
        None => application("", false),
    }
}

fn retry_state(state: i32) -> RetryState {
    match WireRetryState::try_from(state).unwrap_or_default() {
        WireRetryState::Unspecified => RetryState::Unspecified,
        WireRetryState::InProgress => RetryState::InProgress,
        WireRetryState::NonRetryableFailure => RetryState::NonRetryableFailure,
        WireRetryState::Timeout => RetryState::Timeout,
        WireRetryState::MaximumAttemptsReached => RetryState::MaximumAttemptsReached,
        WireRetryState::RetryPolicyNotSet => RetryState::RetryPolicyNotSet,
        WireRetryState::InternalServerError => RetryState::InternalServerError,
        WireRetryState::CancelRequested => RetryState::CancelRequested,
    }
}

fn timeout_type(kind: i32) -> TimeoutType {
    match WireTimeoutType::try_from(kind).unwrap_or_default() {
        WireTimeoutType::Unspecified => TimeoutType::Unspecified,
        WireTimeoutType::StartToClose => TimeoutType::StartToClose,
        WireTimeoutType::ScheduleToStart => TimeoutType::ScheduleToStart,
        WireTimeoutType::ScheduleToClose => TimeoutType::ScheduleToClose,
        WireTimeoutType::Heartbeat => TimeoutType::Heartbeat,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind(), self.cause()) {
            (FailureKind::Task { kind, .. }, Some(cause)) => write!(f, "task {kind} failed: {cause}"),
            (FailureKind::Child { kind, .. }, Some(cause)) => write!(f, "child {kind} failed: {cause}"),
            (FailureKind::Nexus { service, operation, .. }, Some(cause)) => {
                write!(f, "Nexus operation {service}.{operation} failed: {cause}")
            }
            // Servers that translate old answers give it no message of its own.
            (FailureKind::NexusHandler { .. }, Some(cause)) if self.message().is_empty() => cause.fmt(f),
            (FailureKind::Task { kind, .. }, None) => write!(f, "task {kind} failed: {}", self.message()),
            (FailureKind::Child { kind, .. }, None) => write!(f, "child {kind} failed: {}", self.message()),
            _ => f.write_str(self.message()),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Failure");
        debug.field("kind", self.kind()).field("message", &self.message());
        if let Some(cause) = self.cause() {
            debug.field("cause", cause);
        }
        debug.finish()
    }
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.0.wire == other.0.wire
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause().map(|cause| cause as &(dyn StdError + 'static))
    }
}
