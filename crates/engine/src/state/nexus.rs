//! A Nexus operation that a workflow waits for, as stored in the state of its run. A tag, once used, is never reused for another
//! field.

use segno_proto::{Nanos, failure::Failure};

/// The endpoint of the operations of the server itself. It is not in the table of endpoints, whose names cannot begin like that.
pub const SYSTEM_ENDPOINT: &str = "__temporal_system";

/// A pending operation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Operation {
    /// Id of its scheduled event.
    #[prost(int64, tag = "1")]
    pub scheduled_event_id: i64,
    /// The endpoint, by the name that the workflow used.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// The endpoint's id.
    #[prost(string, tag = "3")]
    pub endpoint_id: String,
    /// Name of the service.
    #[prost(string, tag = "4")]
    pub service: String,
    /// Name of the operation.
    #[prost(string, tag = "5")]
    pub operation: String,
    /// By which its handler recognises repeated starts.
    #[prost(string, tag = "6")]
    pub request_id: String,
    /// Time for the whole; 0 is unlimited.
    #[prost(int64, tag = "7")]
    pub schedule_to_close: Nanos,
    /// Time until it is started; 0 is unlimited.
    #[prost(int64, tag = "8")]
    pub schedule_to_start: Nanos,
    /// Time from its start to its end; 0 is unlimited.
    #[prost(int64, tag = "9")]
    pub start_to_close: Nanos,
    /// When it was scheduled.
    #[prost(int64, tag = "10")]
    pub scheduled_time: Nanos,
    /// When its handler started it; 0 before.
    #[prost(int64, tag = "11")]
    pub started_time: Nanos,
    /// The handler's name for it; empty before it is started.
    #[prost(string, tag = "12")]
    pub token: String,
    /// The request that starts it.
    #[prost(message, required, tag = "13")]
    pub start: HandlerRequest,
    /// The request that cancels it, if the workflow asked for one.
    #[prost(message, optional, tag = "14")]
    pub cancellation: Option<Cancellation>,
}

/// The request of a workflow to cancel an operation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Cancellation {
    /// The event that requested it.
    #[prost(int64, tag = "1")]
    pub requested_event_id: i64,
    /// When.
    #[prost(int64, tag = "2")]
    pub requested_time: Nanos,
    /// The request to the handler.
    #[prost(message, required, tag = "3")]
    pub request: HandlerRequest,
    /// The handler's answer.
    #[prost(enumeration = "CancellationResult", tag = "4")]
    pub result: i32,
}

/// How a handler answered the request to cancel an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CancellationResult {
    /// Not yet.
    Pending = 0,
    /// It was accepted.
    Succeeded = 1,
    /// It was refused for good.
    Failed = 2,
}

/// A request to a handler, over all its attempts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HandlerRequest {
    /// Attempts that have ended.
    #[prost(int32, tag = "1")]
    pub attempts: i32,
    /// Distinguishes the current attempt from others.
    #[prost(uint32, tag = "2")]
    pub stamp: u32,
    /// When a worker took the current attempt; 0 while it waits for one.
    #[prost(int64, tag = "3")]
    pub taken_time: Nanos,
    /// When the current attempt is due: in the future during back-off; 0 for the first attempt.
    #[prost(int64, tag = "4")]
    pub due_time: Nanos,
    /// When the last attempt ended.
    #[prost(int64, tag = "5")]
    pub last_attempt_end: Nanos,
    /// How it failed.
    #[prost(message, optional, tag = "6")]
    pub last_failure: Option<Failure>,
}

impl HandlerRequest {
    /// A request that no worker has had.
    pub(crate) fn new() -> Self {
        Self { stamp: 1, ..Default::default() }
    }

    /// Whether the current attempt may be handed to a worker now.
    pub fn is_waiting(&self, now: Nanos) -> bool {
        self.taken_time == 0 && self.due_time <= now
    }

    /// Whether the next attempt is not due yet. One that a worker has was due, also if the clock has been set back since.
    pub fn is_backing_off(&self, now: Nanos) -> bool {
        self.taken_time == 0 && self.due_time > now
    }
}

impl Operation {
    /// Whether the server itself is its handler.
    pub fn is_of_server(&self) -> bool {
        self.endpoint == SYSTEM_ENDPOINT
    }

    /// Whether its handler has started it.
    pub fn is_started(&self) -> bool {
        self.started_time != 0
    }

    /// Notes that its handler has started it.
    pub(crate) fn start(&mut self, token: String, time: Nanos, answered: Nanos) {
        self.started_time = time;
        self.token = token;
        let attempts = self.start.attempts + 1;
        self.start = HandlerRequest { attempts, last_attempt_end: answered, ..Default::default() };
    }

    /// The request that goes to the handler now, if one does: the start, or a cancellation that has no answer. True for a
    /// cancellation.
    pub fn open_request(&self) -> Option<(&HandlerRequest, bool)> {
        if !self.is_started() {
            return Some((&self.start, false));
        }
        let cancellation = self.cancellation.as_ref()?;
        (cancellation.result() == CancellationResult::Pending).then_some((&cancellation.request, true))
    }

    /// The same, to change it.
    pub(crate) fn open_request_mut(&mut self) -> Option<(&mut HandlerRequest, bool)> {
        if !self.is_started() {
            return Some((&mut self.start, false));
        }
        let cancellation = self.cancellation.as_mut()?;
        (cancellation.result() == CancellationResult::Pending).then_some((&mut cancellation.request, true))
    }

    /// Whether a worker has its request, which memory alone knows.
    pub fn is_taken(&self) -> bool {
        self.open_request().is_some_and(|(request, _)| request.taken_time != 0)
    }

    /// Whether a request of it may be handed to a worker now.
    pub fn is_waiting(&self, now: Nanos) -> bool {
        self.open_request().is_some_and(|(request, _)| request.is_waiting(now))
    }
}
