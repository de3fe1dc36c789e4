//! The open request of a Nexus operation: taken for a handler, with everything that the handler gets.

use std::{marker::PhantomData, sync::Arc};

use segno_engine::{
    Rejection, Run,
    nexus::{self, RequestRef},
    state::nexus::Operation,
};
use segno_store::{NamespaceKey, RunKey};

use crate::{
    error::CallError,
    runs::Runs,
    slots::{Call, Current, RunSelector, SlotState},
    tokens::CallbackToken,
};

/// A request that its handler may have.
pub struct TakenRequest {
    /// The operation.
    pub operation: Operation,
    /// Its run.
    pub current: Arc<Current>,
}

impl Runs {
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
