//! The caller's deadline, from the `grpc-timeout` header.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Request, Status};

use crate::peers::CallMetadata;

/// How long the server lets a long poll wait at most.
const LONG_POLL_MAX: Duration = Duration::from_secs(60);
/// A poll must be willing to wait at least this long.
const POLL_MIN: Duration = Duration::from_secs(2);
/// An answer must have time to travel.
const TRAVEL_TIME: Duration = Duration::from_secs(1);
/// A call without a deadline gets this one.
const CALL_DEFAULT: Duration = Duration::from_secs(30);

/// Time left as the caller says.
fn timeout<T>(request: &Request<T>) -> Option<Duration> {
    CallMetadata::of(request).timeout
}

/// Until when a worker's poll waits: a second before the caller gives up, and a minute at most.
pub fn poll<T>(request: &Request<T>) -> Result<Instant, Status> {
    let timeout = timeout(request).ok_or_else(|| Status::invalid_argument("Context timeout is not set."))?;
    if timeout < POLL_MIN {
        return Err(Status::failed_precondition("Context timeout is too short."));
    }
    Ok(Instant::now() + (timeout - TRAVEL_TIME).min(LONG_POLL_MAX))
}

/// Until when a call may take.
pub fn call<T>(request: &Request<T>) -> Instant {
    let now = Instant::now();
    now + timeout(request).unwrap_or(CALL_DEFAULT).min(Duration::from_secs(86_400))
}

/// Until when a history read may wait for news: `most`, but a second before the caller gives up.
pub fn long_read<T>(request: &Request<T>, most: Duration) -> Instant {
    let left = timeout(request).map_or(most, |timeout| timeout.saturating_sub(TRAVEL_TIME).min(most));
    Instant::now() + left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(seconds: Option<u64>) -> Request<()> {
        let mut request = Request::new(());
        let timeout = seconds.map(Duration::from_secs);
        request.extensions_mut().insert(CallMetadata { timeout, ..Default::default() });
        request
    }

    #[tokio::test]
    async fn polls_need_time() {
        assert_eq!(poll(&request(None)).expect_err("no deadline").message(), "Context timeout is not set.");
        assert_eq!(poll(&request(Some(1))).expect_err("short").message(), "Context timeout is too short.");
        assert!(poll(&request(Some(70))).is_ok());
    }
}
