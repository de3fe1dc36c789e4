//! The operations that a worker handles.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use segno_proto::common::Payload;

use super::{NexusContext, NexusOperation, error::HandlerErrorType, start::StartedOperation};
use crate::{
    converter,
    definition::Data,
    failure::{Error, Result},
    nexus::HandlerError,
    panics,
};

/// What a service adds to a worker; [`nexus_service`](macro@crate::nexus_service) implements it for a type named after the
/// trait: `OrdersHandler::new(..)` for `Orders`.
pub trait NexusService: Send + Sync + 'static {
    /// Adds the operations.
    fn register(self, registry: &mut NexusRegistry);
}

/// A request to a handler.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NexusRequest {
    /// Start the operation with this input.
    Start(Option<Payload>),
    /// Cancel the operation with this token.
    Cancel(String),
}

/// The handler of an operation. To a request to cancel the answer is not looked at. It never panics.
pub type NexusFn = Arc<
    dyn Fn(NexusContext, NexusRequest) -> BoxFuture<'static, Result<StartedOperation<Option<Payload>>>> + Send + Sync,
>;

type StartFn = dyn Fn(NexusContext, Option<Payload>) -> Answer<StartedOperation<Option<Payload>>> + Send + Sync;
type CancelFn = dyn Fn(NexusContext, String) -> Answer<()> + Send + Sync;

/// The functions for one operation.
#[derive(Clone)]
struct Functions {
    start: Arc<StartFn>,
    cancel: Option<Arc<CancelFn>>,
}

type Answer<T> = BoxFuture<'static, Result<T>>;

/// The operations that a worker handles, by service and name.
#[derive(Clone, Default)]
pub struct NexusRegistry {
    services: BTreeMap<&'static str, BTreeMap<&'static str, Functions>>,
    duplicates: BTreeSet<String>,
}

impl NexusRegistry {
    /// Adds an operation.
    pub fn operation<I: Data, O: Data, F>(
        &mut self,
        operation: NexusOperation<I, O>,
        start: impl Fn(NexusContext, I) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<StartedOperation<O>>> + Send + 'static,
    {
        let start = Arc::new(start);
        let start = move |ctx: NexusContext, input: Option<Payload>| {
            let start = start.clone();
            async move {
                let payloads: Vec<Payload> = input.into_iter().collect();
                let input = converter::decode(&payloads, 1)
                    .map_err(|error| HandlerError::new(HandlerErrorType::BadRequest, error.to_string()))?;
                start(ctx, input).await?.encode()
            }
            .boxed()
        };
        let functions = Functions { start: Arc::new(start), cancel: None };
        let (service, name) = (operation.service(), operation.name());
        if self.services.entry(service).or_default().insert(name, functions).is_some() {
            self.duplicates.insert(format!("{service}.{name}"));
        }
    }

    /// How an operation that was added is cancelled. Without this an operation that is a workflow is cancelled with it.
    pub fn cancel<I, O, F>(
        &mut self,
        operation: NexusOperation<I, O>,
        cancel: impl Fn(NexusContext, String) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let functions =
            self.services.get_mut(operation.service()).and_then(|service| service.get_mut(operation.name()));
        if let Some(functions) = functions {
            functions.cancel = Some(Arc::new(move |ctx: NexusContext, token: String| cancel(ctx, token).boxed()));
        }
    }

    /// The handler of an operation.
    pub(crate) fn handler(&self, service: &str, operation: &str) -> Result<NexusFn, HandlerError> {
        let not_found = |what: &str, name: &str, known: String| {
            HandlerError::new(
                HandlerErrorType::NotFound,
                format!("this worker has no {what} {name:?}; it has: {known}"),
            )
        };
        let Some(operations) = self.services.get(service) else {
            let known: Vec<&str> = self.services.keys().copied().collect();
            return Err(not_found("service", service, known.join(", ")));
        };
        let Some(functions) = operations.get(operation).cloned() else {
            let known: Vec<&str> = operations.keys().copied().collect();
            return Err(not_found("operation", operation, known.join(", ")));
        };
        Ok(Arc::new(move |ctx: NexusContext, request: NexusRequest| {
            let functions = functions.clone();
            let body = async move {
                match (request, &functions.cancel) {
                    (NexusRequest::Start(input), _) => (functions.start)(ctx, input).await,
                    (NexusRequest::Cancel(token), Some(cancel)) => {
                        cancel(ctx, token).await.map(|()| StartedOperation::completed(None))
                    }
                    (NexusRequest::Cancel(token), None) => ctx
                        .cancel_workflow(&token)
                        .await
                        .map(|()| StartedOperation::completed(None))
                        .map_err(Error::from),
                }
            };
            async move {
                match panics::catch_future(body).await {
                    Ok(outcome) => outcome,
                    Err(panic) => Err(panic.failure().into()),
                }
            }
            .boxed()
        }))
    }

    /// Names of services, sorted.
    pub(crate) fn services(&self) -> Vec<&'static str> {
        self.services.keys().copied().collect()
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }

    /// Operations that were added more than once.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = &str> {
        self.duplicates.iter().map(String::as_str)
    }
}
