//! The open request of a Nexus operation: taken for a handler, with everything that the handler gets.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use segno_engine::{
    Rejection, Run,
    nexus::{self, CancelAnswer, RequestRef, StartAnswer},
    state::nexus::Operation,
};
use segno_proto::{Nanos, failure::Failure};
use segno_store::{NamespaceKey, RunKey};

use crate::{
    error::CallError,
    runs::Runs,
    slots::{Call, Current, RunSelector, SlotState, WorkflowKey},
    tokens::CallbackToken,
};

/// A request that its handler may have.
pub struct TakenRequest {
    /// The operation.
    pub operation: Operation,
    /// Its run.
    pub current: Arc<Current>,
}

/// The outcome of a request that this node itself made to a handler.
pub enum RequestOutcome {
    /// The answer to the request to start the operation.
    Start(StartAnswer),
    /// The answer to the request to cancel it.
    Cancel(CancelAnswer),
    /// The settings of the server do not allow it; it is made again after this pause at the earliest.
    Postponed(Failure, Nanos),
    /// It was not made: it is offered where its handlers are now.
    GivenBack,
}

/// The pause before a request is taken again that could not be.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Runs {
    /// Like [`Runs::take_request`]; tries again as long as the run cannot be read. `None` if the request is over or elsewhere.
    pub async fn take_request_when_possible(
        self: &Arc<Self>,
        run: RunKey,
        request: RequestRef,
    ) -> Option<TakenRequest> {
        loop {
            match self.take_request(run, request).await {
                Ok(taken) => return taken,
                Err(error) if !error.is_temporary() || error == CallError::Moved || self.is_stopping() => {
                    tracing::debug!(%error, "a request of a Nexus operation was over before it was made");
                    return None;
                }
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Lets a run have the outcome of a request that this node made. What cannot be noted is given up by the run when the time of the
    /// request is over, and repeated.
    pub async fn end_request(
        self: &Arc<Self>,
        run: &Run,
        request: RequestRef,
        outcome: Result<RequestOutcome, CallError>,
    ) {
        let key = WorkflowKey::new(NamespaceKey(run.info.namespace_key), &run.info.workflow_id);
        let selector = RunSelector::run(run.info.run_id.clone());
        let noted = match outcome {
            Ok(outcome) => {
                let note = move |run: &Run, context| match outcome {
                    RequestOutcome::Start(answer) => nexus::answer_start(run, context, request, answer),
                    RequestOutcome::Cancel(answer) => nexus::answer_cancel(run, context, request, answer),
                    RequestOutcome::Postponed(why, pause) => nexus::postpone(run, context, request, why, pause),
                    RequestOutcome::GivenBack => nexus::give_back(run, context, request),
                };
                self.apply(&key, &selector, note).await
            }
            Err(error) => Err(error),
        };
        match noted {
            Ok(()) => {}
            Err(CallError::Rejected(Rejection::NexusTaskNotFound)) => {
                tracing::debug!("a request of a Nexus operation was over before its answer came");
            }
            Err(error) => tracing::warn!(%error, "the answer to a request of a Nexus operation was not noted"),
        }
    }

    /// Takes the request of an operation for its handler. Nothing is stored. `None` if the run is gone.
    pub async fn take_request(
        self: &Arc<Self>,
        run: RunKey,
        request: RequestRef,
    ) -> Result<Option<TakenRequest>, CallError> {
        let Some(key) = self.workflow_of(run).await? else { return Ok(None) };
        let take = Call {
            selector: RunSelector::default(),
            delivered: Vec::new(),
            creates: false,
            lazy: true,
            decide: move |current: &Run, context| match current.info.run_key == run.0 {
                true => nexus::take(current, context, request),
                false => Err(Rejection::TaskObsolete),
            },
            after: |state: &mut SlotState, _: &_| state.current.clone(),
            types: PhantomData,
        };
        let (operation, current) = self.call(&key, take).await?;
        let current = current.filter(|current| current.key() == run);
        Ok(current.map(|current| TakenRequest { operation, current }))
    }

    /// The token by which the end of an operation is reported to its run; empty if its namespace is gone.
    pub fn callback_token(&self, run: &Run, operation: &Operation) -> String {
        let info = &run.info;
        let token = CallbackToken {
            namespace_id: info.namespace_id.clone(),
            workflow_id: info.workflow_id.clone(),
            run_id: info.run_id.clone(),
            scheduled_event_id: operation.scheduled_event_id,
            request_id: operation.request_id.clone(),
        };
        let namespace = self.namespaces.by_key(NamespaceKey(info.namespace_key));
        namespace.map(|namespace| token.seal(&namespace.token_key)).unwrap_or_default()
    }
}
