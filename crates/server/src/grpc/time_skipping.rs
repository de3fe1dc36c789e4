//! TestService of Temporal's test server: locks time skipping, sleeps, and returns the time.
//!
//! The service exists only on a server that skips time ([`SkippingClock`]). An unlock without a lock is refused as by
//! the test server.

use std::sync::Arc;

use segno_node::{Node, NotLocked, SkippingClock};
use segno_proto::{
    Nanos, duration_nanos, nanos_timestamp,
    testservice::{
        GetCurrentTimeResponse, LockTimeSkippingRequest, LockTimeSkippingResponse, SleepRequest, SleepResponse,
        SleepUntilRequest, UnlockTimeSkippingRequest, UnlockTimeSkippingResponse, test_service_server::TestService,
    },
    timestamp_nanos,
};
use tonic::{Request, Response, Status};

/// Temporal's TestService.
pub struct TimeSkipping {
    node: Arc<Node>,
}

impl TimeSkipping {
    /// The service, if the node skips time.
    pub fn new(node: &Arc<Node>) -> Option<Self> {
        node.runs.skipping_clock().map(|_| Self { node: node.clone() })
    }

    fn clock(&self) -> Result<&SkippingClock, Status> {
        self.node.runs.skipping_clock().ok_or_else(|| Status::unimplemented("this server does not skip time"))
    }
}

fn not_locked(_: NotLocked) -> Status {
    Status::unknown("Application error processing RPC")
}

fn duration(request: &SleepRequest) -> Nanos {
    duration_nanos(request.duration.as_ref())
}

#[tonic::async_trait]
impl TestService for TimeSkipping {
    async fn lock_time_skipping(
        &self,
        _: Request<LockTimeSkippingRequest>,
    ) -> Result<Response<LockTimeSkippingResponse>, Status> {
        self.clock()?.lock_skipping();
        Ok(Response::new(LockTimeSkippingResponse {}))
    }

    async fn unlock_time_skipping(
        &self,
        _: Request<UnlockTimeSkippingRequest>,
    ) -> Result<Response<UnlockTimeSkippingResponse>, Status> {
        self.clock()?.unlock_skipping().map_err(not_locked)?;
        Ok(Response::new(UnlockTimeSkippingResponse {}))
    }

    async fn sleep(&self, request: Request<SleepRequest>) -> Result<Response<SleepResponse>, Status> {
        let at = self.node.runs.clock_now().saturating_add(duration(request.get_ref()));
        self.clock()?.sleep_until(at).await;
        Ok(Response::new(SleepResponse {}))
    }

    async fn sleep_until(&self, request: Request<SleepUntilRequest>) -> Result<Response<SleepResponse>, Status> {
        let at = request.get_ref().timestamp.as_ref().map_or(0, timestamp_nanos);
        self.clock()?.sleep_until(at).await;
        Ok(Response::new(SleepResponse {}))
    }

    async fn unlock_time_skipping_with_sleep(
        &self,
        request: Request<SleepRequest>,
    ) -> Result<Response<SleepResponse>, Status> {
        self.clock()?.sleep_unlocked(duration(request.get_ref())).await.map_err(not_locked)?;
        Ok(Response::new(SleepResponse {}))
    }

    async fn get_current_time(&self, _: Request<()>) -> Result<Response<GetCurrentTimeResponse>, Status> {
        Ok(Response::new(GetCurrentTimeResponse { time: Some(nanos_timestamp(self.node.runs.clock_now())) }))
    }
}
