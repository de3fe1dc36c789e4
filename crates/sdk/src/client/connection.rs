//! The services of a server: deadlines and retries of calls.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use bytes::Bytes;
use prost::Message;
#[cfg(feature = "testing")]
use segno_proto::{
    operatorservice::operator_service_client::OperatorServiceClient,
    testservice::test_service_client::TestServiceClient,
};
use segno_proto::{
    segno_worker::worker_service_client::WorkerServiceClient,
    workflowservice::workflow_service_client::WorkflowServiceClient,
};
use tonic::{Code, Response, Status};
use uuid::Uuid;

use super::{
    metered::MeteredChannel,
    unary::{EncodedCall, MESSAGE_BYTES_MAX, Method},
};

/// One attempt of a call that does not wait for anything.
const ATTEMPT: Duration = Duration::from_secs(20);
/// One attempt of a call that waits for news; the server answers before, with none.
const LONG_POLL: Duration = Duration::from_secs(70);
/// How long attempts are repeated.
const RETRY_TIME_MAX: Duration = Duration::from_secs(60);

/// Temporal's service.
pub(crate) type Service = WorkflowServiceClient<MeteredChannel>;
/// Segno's own service for workers.
pub(crate) type WorkerService = WorkerServiceClient<MeteredChannel>;

/// The clock of a server for tests.
#[cfg(feature = "testing")]
pub(crate) type TestService = TestServiceClient<MeteredChannel>;

/// The operator's service, for endpoints of tests.
#[cfg(feature = "testing")]
pub(crate) type OperatorService = OperatorServiceClient<MeteredChannel>;

/// The services of a server.
#[derive(Clone)]
pub(super) struct Connection {
    pub channel: MeteredChannel,
}

impl Connection {
    pub fn service(&self) -> Service {
        WorkflowServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub fn worker_service(&self) -> WorkerService {
        WorkerServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    #[cfg(feature = "testing")]
    pub fn test_service(&self) -> TestService {
        TestServiceClient::new(self.channel.clone())
    }

    #[cfg(feature = "testing")]
    pub fn operator_service(&self) -> OperatorService {
        OperatorServiceClient::new(self.channel.clone())
    }

    /// A call that is repeated while the server cannot be reached or is too busy. The caller sends the same request each
    /// time, with the same request id: it has an effect once.
    pub async fn call<T, F, C>(&self, call: C) -> Result<T, Status>
    where
        C: FnMut(Service) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.repeat(call, ATTEMPT, RETRY_TIME_MAX).await
    }

    /// One attempt of a call that workers make all the time.
    pub async fn once<Q, A>(&self, method: &Method<Q, A>, request: &Q, limit: Duration) -> Result<A, Status>
    where
        Q: Message,
        A: Message + Default,
    {
        method.decode(self.once_encoded(&method.encode(request), limit).await?)
    }

    /// One attempt of a call that was encoded before.
    pub async fn once_encoded(&self, call: &EncodedCall, limit: Duration) -> Result<Bytes, Status> {
        self.channel.unary(call, limit).await
    }

    /// The same, repeated as [`Connection::call`] does; the bytes are the same each time.
    pub async fn send<Q, A>(&self, method: &Method<Q, A>, request: &Q) -> Result<A, Status>
    where
        Q: Message,
        A: Message + Default,
    {
        method.decode(self.send_encoded(&method.encode(request)).await?)
    }

    async fn send_encoded(&self, call: &EncodedCall) -> Result<Bytes, Status> {
        let mut retries = RetryState::default();
        loop {
            match self.channel.unary(call, ATTEMPT).await {
                Ok(answer) => return Ok(answer),
                Err(status) => retries.wait(status, RETRY_TIME_MAX).await?,
            }
        }
    }

    /// As [`Connection::call`], for a call that waits for news.
    pub async fn long_poll<T, F, C>(&self, call: C) -> Result<T, Status>
    where
        C: FnMut(Service) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.repeat(call, LONG_POLL, RETRY_TIME_MAX).await
    }

    async fn repeat<T, F, C>(&self, mut call: C, attempt: Duration, time_max: Duration) -> Result<T, Status>
    where
        C: FnMut(Service) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut retries = RetryState::default();
        loop {
            let outcome = tokio::time::timeout(attempt, call(self.service())).await;
            let status = match outcome {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no answer within {attempt:?}")),
            };
            retries.wait(status, time_max).await?;
        }
    }
}

/// A call that failed and is tried again.
#[derive(Default)]
struct RetryState {
    /// Counted from the first failure: an attempt that waits for news may take long by itself.
    since: Option<Instant>,
    waits: Waits,
}

impl RetryState {
    /// Waits until the next attempt. `Err`: there is none.
    async fn wait(&mut self, status: Status, time_max: Duration) -> Result<(), Status> {
        if !is_retryable(status.code()) || is_too_large(&status) {
            return Err(status);
        }
        let wait = self.waits.next(status.code());
        if self.since.get_or_insert_with(Instant::now).elapsed() + wait > time_max {
            return Err(status);
        }
        tracing::debug!(code = ?status.code(), message = status.message(), ?wait, "a call is repeated");
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Whether a call that ended so may have better luck.
pub(crate) fn is_retryable(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Unknown
            | Code::Internal
            | Code::DataLoss
            | Code::OutOfRange
            | Code::Cancelled
            | Code::DeadlineExceeded
    )
}

/// Whether a server refused a message for its size, in the words that gRPC has for it. It has the code of a server that is
/// too busy, but the same message will be refused again.
fn is_too_large(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted && status.message().contains("message larger than max")
}

/// Waits between attempts: 100 ms, each 1.7 times longer, up to 5 s, with a fifth of chance. A server that is too busy
/// is left alone for a second at first.
#[derive(Default)]
pub(crate) struct Waits {
    attempts: i32,
}

impl Waits {
    pub fn next(&mut self, code: Code) -> Duration {
        let first = if code == Code::ResourceExhausted { 1.0 } else { 0.1 };
        let seconds = (first * 1.7f64.powi(self.attempts)).min(5.0);
        self.attempts = (self.attempts + 1).min(30);
        let chance = f64::from(Uuid::new_v4().as_bytes()[0]) / 255.0;
        Duration::from_secs_f64(seconds * (0.8 + 0.4 * chance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        let mut waits = Waits::default();
        let list: Vec<f64> = (0..40).map(|_| waits.next(Code::Unavailable).as_secs_f64()).collect();
        assert!((0.08..=0.12).contains(&list[0]), "{list:?}");
        assert!((0.136..=0.204).contains(&list[1]), "{list:?}");
        assert!(list.iter().skip(10).all(|wait| (4.0..=6.0).contains(wait)), "{list:?}");
        assert!(Waits::default().next(Code::ResourceExhausted) >= Duration::from_millis(800));
    }

    #[test]
    fn what_is_repeated() {
        assert!(is_retryable(Code::Unavailable));
        for code in
            [Code::NotFound, Code::AlreadyExists, Code::InvalidArgument, Code::PermissionDenied, Code::Unimplemented]
        {
            assert!(!is_retryable(code), "{code:?}");
        }
        let refused = |message| is_too_large(&Status::resource_exhausted(message));
        assert!(refused("grpc: received message larger than max (5000123 vs. 4194304)"));
        assert!(!refused("namespace rate limit exceeded"));
    }
}
