//! A standalone activity without the activity itself, as stored in the state of its run. A tag, once used, is never
//! reused for another field.

use segno_proto::{
    Nanos,
    activity::{ActivityExecutionOutcome, ActivityOptions},
    common::Link,
};

use crate::state::activity::Activity;

/// A standalone activity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StandaloneRun {
    /// The options with which it was started.
    #[prost(message, required, tag = "1")]
    pub original: ActivityOptions,
    /// How long the first attempt is held back.
    #[prost(int64, tag = "2")]
    pub start_delay: Nanos,
    /// When the last attempt that began did so; 0 if none did.
    #[prost(int64, tag = "3")]
    pub last_started_time: Nanos,
    /// When the first attempt began; 0 if none did.
    #[prost(int64, tag = "4")]
    pub first_started_time: Nanos,
    /// How long the next attempt waits after the end of the last one; 0 if none failed since the start or a reset.
    #[prost(int64, tag = "5")]
    pub retry_interval: Nanos,
    /// Whether that follows from the retry policy.
    #[prost(bool, tag = "6")]
    pub retry_from_policy: bool,
    /// Who asked for cancellation.
    #[prost(message, optional, tag = "7")]
    pub cancel: Option<CancelRequest>,
    /// Recognises a repeated termination.
    #[prost(string, tag = "8")]
    pub terminate_request_id: String,
    /// Recognises a repeated pause.
    #[prost(string, tag = "9")]
    pub pause_request_id: String,
    /// Recognises a repeated resumption.
    #[prost(string, tag = "10")]
    pub unpause_request_id: String,
    /// Recognises a repeated reset.
    #[prost(string, tag = "11")]
    pub reset_request_id: String,
    /// Recognises a repeated change of options.
    #[prost(string, tag = "12")]
    pub update_request_id: String,
    /// The reset of an attempt that runs brings the original options back with the next one.
    #[prost(bool, tag = "13")]
    pub reset_restores_options: bool,
    /// Links by the requests that brought them.
    #[prost(message, repeated, tag = "14")]
    pub links: Vec<RequestLinks>,
    /// The activity as it was at its end.
    #[prost(message, optional, boxed, tag = "15")]
    pub ended: Option<Box<Activity>>,
    /// How it ended.
    #[prost(message, optional, tag = "16")]
    pub outcome: Option<ActivityExecutionOutcome>,
    /// The SDK of the worker that took the last attempt.
    #[prost(string, tag = "17")]
    pub sdk_name: String,
    /// Its version.
    #[prost(string, tag = "18")]
    pub sdk_version: String,
}

impl StandaloneRun {
    /// A worker begins an attempt.
    pub(crate) fn note_start(&mut self, now: Nanos, sdk_name: String, sdk_version: String) {
        self.sdk_name = sdk_name;
        self.sdk_version = sdk_version;
        self.last_started_time = now;
        if self.first_started_time == 0 {
            self.first_started_time = now;
        }
    }
}

/// Who asked for cancellation, and why.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CancelRequest {
    /// Who.
    #[prost(string, tag = "1")]
    pub identity: String,
    /// Why.
    #[prost(string, tag = "2")]
    pub reason: String,
    /// Recognises a repeated request.
    #[prost(string, tag = "3")]
    pub request_id: String,
}

/// The links of one start.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RequestLinks {
    /// The request that brought them.
    #[prost(string, tag = "1")]
    pub request_id: String,
    /// The links.
    #[prost(message, repeated, tag = "2")]
    pub links: Vec<Link>,
}
