//! Segno's own protocol for workers: a lease, renewed by heartbeats that list the tasks that began and ended since.
//!
//! One heartbeat is under way at a time. The server detects a lost answer by the token of the heartbeat: its error has
//! the token to use, and the worker repeats the heartbeat. A worker that the server took for lost begins anew with
//! another instance key, and stops its tasks, because other workers have them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message;
use segno_proto::{
    google::rpc,
    segno_worker::{HeartbeatRequest, TokenMismatch},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tonic::{Code, Request, Status};

use super::{report, shared::Shared};
use crate::{client::ClientError, lock::lock, options::wire_duration, task::CancelReason};

const TOKEN_MISMATCH: &str = "segno.worker.v1.TokenMismatch";
const WORKER_INACTIVE: &str = "segno.worker.v1.WorkerInactive";

/// The server's reply to a heartbeat.
#[derive(Debug, PartialEq)]
enum Reply {
    /// The lease runs from now.
    Taken { token: Bytes, lease: Duration },
    /// An answer was lost. Nothing was taken.
    Mismatch { token: Bytes },
    /// The lease is over.
    Inactive,
    /// The server does not know this protocol.
    Unknown,
    /// Try again.
    Failed(Refusal),
}

/// A code and a message.
#[derive(Debug, PartialEq)]
struct Refusal(Code, String);

/// A worker's lease.
pub(super) struct Lease {
    shared: Arc<Shared>,
    token: Bytes,
    granted: Duration,
}

impl Lease {
    /// Registers the worker. `None`: the server does not know this protocol.
    pub(super) async fn register(shared: &Arc<Shared>) -> Result<Option<Self>, ClientError> {
        let mut lease = Self { shared: shared.clone(), token: Bytes::new(), granted: shared.options.lease };
        let mut waits = crate::client::Waits::default();
        for _ in 0..30 {
            match lease.beat().await {
                Reply::Taken { .. } => return Ok(Some(lease)),
                Reply::Unknown => return Ok(None),
                Reply::Mismatch { .. } | Reply::Inactive => {}
                Reply::Failed(Refusal(code, message)) if !crate::client::is_retryable(code) => {
                    return Err(ClientError::Rpc { code, message });
                }
                Reply::Failed(Refusal(code, message)) => {
                    let wait = waits.next(code);
                    tracing::debug!(?code, message, ?wait, "the worker is not registered yet");
                    tokio::time::sleep(wait).await;
                }
            }
        }
        Err(ClientError::Rpc { code: Code::Unavailable, message: "the worker could not be registered".to_owned() })
    }

    /// Keeps the lease until `stop`.
    pub(super) async fn keep(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let wait = match self.beat().await {
                Reply::Taken { .. } => self.granted / 3,
                Reply::Mismatch { .. } | Reply::Inactive => Duration::ZERO,
                Reply::Failed(Refusal(code, message)) => {
                    tracing::warn!(?code, message, "a heartbeat of the worker was not taken");
                    self.granted / 12
                }
                Reply::Unknown => {
                    // The server was exchanged for one without leases. Whether it is changed back is seen by asking.
                    tracing::warn!("the server no longer keeps leases");
                    self.granted
                }
            };
            tokio::select! {
                _ = tokio::time::sleep(wait) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// One heartbeat. Keeps the token and the deltas as the answer says.
    async fn beat(&mut self) -> Reply {
        let (bound_activities, unbound_activities) = lock(&self.shared.deltas).say();
        let request = HeartbeatRequest {
            namespace: self.shared.client.namespace().to_owned(),
            worker_instance_key: self.shared.instance_key(),
            token: self.token.clone(),
            lease: wire_duration(self.shared.options.lease),
            bound_activities,
            unbound_activities,
        };
        let mut service = self.shared.client.worker_service();
        let sent_at = Instant::now();
        // A heartbeat that takes as long as the time to the next is as good as lost.
        let limit = (self.granted / 3).max(Duration::from_secs(1));
        let answer = match timeout(limit, service.heartbeat(Request::new(request))).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("no answer within {limit:?}"))),
        };
        let reply = match answer {
            Ok(answer) => {
                let granted = answer.lease.and_then(|lease| Duration::try_from(lease).ok());
                let lease = granted.filter(|lease| !lease.is_zero()).unwrap_or(self.granted);
                Reply::Taken { token: answer.token, lease }
            }
            Err(status) => reply_of(&status),
        };
        if let Reply::Taken { lease, .. } = &reply {
            let until = sent_at + *lease;
            *lock(&self.shared.leased_until) = Some(until);
        }
        if reply == Reply::Inactive {
            self.shared.running.cancel_all(CancelReason::WorkerLost);
            // Polls under the old key end with what they have. Dropped, they might take tasks along.
            report::announce_shutdown(&self.shared).await;
        }
        self.note(&reply);
        reply
    }

    fn note(&mut self, reply: &Reply) {
        let mut deltas = lock(&self.shared.deltas);
        match reply {
            Reply::Taken { token, lease } => {
                deltas.taken();
                (self.token, self.granted) = (token.clone(), *lease);
            }
            Reply::Mismatch { token } => {
                deltas.repeat();
                self.token = token.clone();
            }
            Reply::Inactive => {
                deltas.clear();
                drop(deltas);
                tracing::warn!(
                    instance = self.shared.instance_key(),
                    "the server took this worker for lost; it begins anew"
                );
                self.token = Bytes::new();
                self.shared.running.cancel_all(CancelReason::WorkerLost);
                self.shared.renew_instance();
            }
            Reply::Unknown | Reply::Failed(_) => deltas.repeat(),
        }
    }
}

/// The reply that a refusal stands for.
fn reply_of(status: &Status) -> Reply {
    let failed = || Reply::Failed(Refusal(status.code(), status.message().to_owned()));
    match status.code() {
        Code::Unimplemented => Reply::Unknown,
        Code::FailedPrecondition => {
            let details = rpc::Status::decode(status.details()).map(|status| status.details).unwrap_or_default();
            let detail = |name: &str| details.iter().find(|detail| detail.type_url.rsplit('/').next() == Some(name));
            if detail(WORKER_INACTIVE).is_some() {
                return Reply::Inactive;
            }
            match detail(TOKEN_MISMATCH).map(|detail| TokenMismatch::decode(detail.value.as_ref())) {
                Some(Ok(mismatch)) => Reply::Mismatch { token: mismatch.current_token },
                _ => failed(),
            }
        }
        _ => failed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    fn refusal(name: &str, detail: &impl Message) -> Status {
        let detail =
            prost_types::Any { type_url: format!("type.googleapis.com/{name}"), value: detail.encode_to_vec() };
        let status = rpc::Status { details: vec![detail], ..Default::default() };
        Status::with_details(Code::FailedPrecondition, "no", status.encode_to_vec().into())
    }

    #[test]
    fn refusals_are_understood() {
        let mismatch = TokenMismatch { current_token: token("next") };
        assert_eq!(reply_of(&refusal(TOKEN_MISMATCH, &mismatch)), Reply::Mismatch { token: token("next") });
        assert_eq!(reply_of(&refusal(WORKER_INACTIVE, &segno_proto::segno_worker::WorkerInactive {})), Reply::Inactive);
        assert_eq!(reply_of(&Status::unimplemented("what?")), Reply::Unknown);
        assert!(matches!(reply_of(&Status::failed_precondition("else")), Reply::Failed(_)));
        assert!(matches!(reply_of(&Status::unavailable("gone")), Reply::Failed(_)));
    }
}
