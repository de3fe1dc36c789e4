//! Requests to the handlers of Nexus operations that are scripts: no worker takes them, the server carries them out.

use std::sync::Arc;

use segno_engine::{nexus::RequestRef, outbox::StartOperation};
use segno_proto::{
    common::{Callback, callback},
    links::{from_url, to_url},
    nexus::{
        CancelOperationResponse, Request, Response, StartOperationRequest, StartOperationResponse, request, response,
        start_operation_response,
    },
};
use segno_runs::{Namespace, RefusedRequest, StartedScript};
use segno_store::RunKey;
use tokio::{sync::Semaphore, time::timeout_at};

use super::{
    Dispatch,
    direct_calls::{CallAnswer, DirectCall, DirectCallError},
};

/// Requests that are carried out at a time.
const AT_A_TIME: usize = 256;

/// Limits the requests that are carried out at a time. The others wait; the time that they have begins after that.
pub(super) struct ScriptRequests(Arc<Semaphore>);

impl Default for ScriptRequests {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Dispatch {
    /// Carries out the open request of an operation.
    pub(super) fn serve_request(&self, run: RunKey, request: RequestRef) {
        let (runs, permits) = (self.runs.clone(), self.script_requests.0.clone());
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            runs.serve_request(run, request).await;
        });
    }

    /// Carries out a direct call.
    pub(super) async fn call_script(&self, call: DirectCall) -> Result<CallAnswer, DirectCallError> {
        let Some(namespace) = self.runs.namespaces.by_key(call.queue.namespace) else {
            return Err(DirectCallError::Stopped);
        };
        let answer = async {
            let _permit = self.script_requests.0.acquire().await.map_err(|_| DirectCallError::Stopped)?;
            Ok(match self.script_answer(&namespace, call.request).await {
                Ok(response) => CallAnswer::Completed(response),
                Err(refused) => CallAnswer::Failed(None, Some(*refused.failure)),
            })
        };
        timeout_at(call.deadline, answer).await.map_err(|_| DirectCallError::TimedOut)?
    }

    async fn script_answer(&self, namespace: &Namespace, request: Request) -> Result<Option<Response>, RefusedRequest> {
        self.runs.refuse_overload()?;
        let variant = match request.variant {
            None => return Ok(None),
            Some(request::Variant::CancelOperation(cancel)) => {
                self.runs.cancel_script(namespace, &cancel.operation_token, ("", &Default::default(), 0)).await?;
                response::Variant::CancelOperation(CancelOperationResponse::default())
            }
            Some(request::Variant::StartOperation(start)) => {
                let start = self.start_of(namespace, start);
                let StartedScript { token, link } = self.runs.start_script(start).await?;
                let started = start_operation_response::Async {
                    operation_token: token,
                    links: to_url(&link).into_iter().collect(),
                    ..Default::default()
                };
                let variant = Some(start_operation_response::Variant::AsyncSuccess(started));
                response::Variant::StartOperation(StartOperationResponse { variant })
            }
        };
        Ok(Some(Response { variant: Some(variant) }))
    }

    /// The start of a script for a direct call.
    fn start_of(&self, namespace: &Namespace, call: StartOperationRequest) -> StartOperation {
        let mut links: Vec<_> = call.links.iter().filter_map(from_url).collect();
        let callback = (!call.callback.is_empty()).then(|| {
            let nexus = callback::Nexus { url: call.callback, header: call.callback_header };
            Callback { variant: Some(callback::Variant::Nexus(nexus)), links: std::mem::take(&mut links) }
        });
        StartOperation {
            namespace: namespace.name.clone(),
            script: call.operation,
            input: call.payload,
            request_id: if call.request_id.is_empty() { self.runs.ids.uuid() } else { call.request_id },
            callback,
            links,
        }
    }
}
