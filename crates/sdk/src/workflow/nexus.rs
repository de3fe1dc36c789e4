//! Nexus operations as a workflow sees them: [`NexusClient`] schedules them, [`NexusFuture`] is one, and their events.

use std::{
    marker::PhantomData,
    panic::Location,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use futures_util::future::FusedFuture;
use segno_proto::{
    command::ScheduleNexusOperationCommandAttributes,
    common::{Header, Payload},
};
use serde_json::Value;

use super::{
    Context,
    commands::{CommandRequest, ExpectedEvent},
    core::{Counter, Shared},
    futures::{Decode, Operation, operation_future},
    interceptor::OutboundKind,
    nexus_start::outcome,
    nexus_target::NexusTarget,
    operation::OpKind,
};
use crate::{
    converter::{self, ConversionError},
    definition::Data,
    failure::Failure,
    nexus::NexusOperation,
    options::{NexusOptions, wire_duration},
};

/// A type with a method for each operation of a service, as [`nexus_service`](macro@crate::nexus_service) makes one:
/// [`Context::nexus`].
pub trait NexusStub {
    /// The stub that calls through this client.
    fn new(client: NexusClient) -> Self;
}

/// Schedules operations of an endpoint. Cheap to clone.
#[derive(Clone)]
pub struct NexusClient {
    shared: Arc<Shared>,
    scope: u64,
    endpoint: Arc<str>,
    options: Arc<NexusOptions>,
}

impl NexusStub for NexusClient {
    fn new(client: NexusClient) -> Self {
        client
    }
}

impl<S: Send + Sync + 'static> Context<S> {
    /// The services behind a Nexus endpoint: `ctx.nexus::<OrdersClient>("orders").price(item)` schedules an operation and
    /// returns its future. `OrdersClient` is what [`nexus_service`](macro@crate::nexus_service) makes of the trait
    /// `Orders`; with [`NexusClient`] in its place operations are called by name.
    pub fn nexus<C: NexusStub>(&self, endpoint: &str) -> C {
        C::new(NexusClient {
            shared: self.shared.clone(),
            scope: self.scope,
            endpoint: endpoint.into(),
            options: Arc::default(),
        })
    }
}

impl NexusClient {
    /// The same with options for the operations that it schedules.
    pub fn with_options(mut self, options: NexusOptions) -> Self {
        self.options = Arc::new(options);
        self
    }

    /// Schedules an operation.
    #[track_caller]
    pub fn start<I: Data, O: Data>(&self, operation: NexusOperation<I, O>, input: I) -> NexusFuture<O> {
        let input = converter::encode(&input, 1);
        self.schedule(operation.service(), operation.name(), input, |payloads| converter::decode(payloads, 1))
    }

    /// Schedules an operation by name. An input of `null` is none.
    #[track_caller]
    pub fn start_raw(&self, service: &str, operation: &str, input: Value) -> NexusFuture<Value> {
        let input = match input {
            Value::Null => Ok(Vec::new()),
            input => converter::encode_json(&input).map(|input| vec![input]),
        };
        self.schedule(service, operation, input, |payloads| converter::decode(payloads, 1))
    }

    #[track_caller]
    fn schedule<T>(
        &self,
        service: &str,
        operation: &str,
        mut input: Result<Vec<Payload>, ConversionError>,
        decode: Decode<T>,
    ) -> NexusFuture<T> {
        let name = format!("{service}.{operation}");
        let header = match &mut input {
            Ok(input) => self.shared.outbound(OutboundKind::Nexus, &name, input),
            Err(_) => None,
        };
        let target = Box::new(NexusTarget {
            endpoint: self.endpoint.to_string(),
            service: service.to_owned(),
            operation: operation.to_owned(),
        });
        let cancellation = self.options.cancellation;
        let place = Location::caller();
        let mut core = self.shared.core();
        core.note_call(place);
        let sequence = core.count(Counter::Nexus);
        let op = core.add(self.scope, OpKind::Nexus { target: target.clone(), token: None, cancellation });
        match input {
            _ if core.scopes.reason(self.scope).is_some() => core.resolve(op, Err(Failure::cancelled())),
            Err(error) => core.fail_task(Failure::application("Conversion", error.to_string())),
            Ok(input) => {
                let attributes = Box::new(attributes(&target, input, header, &self.options));
                let summary = self.options.summary.clone();
                let expected = ExpectedEvent::Nexus { op, target, sequence };
                core.push_for(op, CommandRequest::Nexus { attributes, summary }, expected);
            }
        }
        drop(core);
        NexusFuture::new(Operation::new(self.shared.clone(), op), name, decode)
    }
}

fn attributes(
    target: &NexusTarget,
    input: Vec<Payload>,
    header: Option<Header>,
    options: &NexusOptions,
) -> ScheduleNexusOperationCommandAttributes {
    let intercepted = header.map(|header| header.fields).unwrap_or_default();
    let intercepted =
        intercepted.into_iter().filter_map(|(key, value)| Some((key, converter::decode_payload(&value).ok()?)));
    ScheduleNexusOperationCommandAttributes {
        endpoint: target.endpoint.clone(),
        service: target.service.clone(),
        operation: target.operation.clone(),
        input: input.into_iter().next(),
        schedule_to_close_timeout: options.schedule_to_close.and_then(wire_duration),
        schedule_to_start_timeout: options.schedule_to_start.and_then(wire_duration),
        start_to_close_timeout: options.start_to_close.and_then(wire_duration),
        nexus_header: intercepted.chain(options.headers.iter().cloned()).collect(),
    }
}

operation_future!(
    /// A Nexus operation that was scheduled. Its id is `Service.operation`.
    NexusFuture
);

impl<T> NexusFuture<T> {
    /// Waits until the handler has started the operation, and gives its token; `None` if the handler completed it at once.
    pub fn started(&self) -> NexusStartedFuture {
        let shared = self.operation.shared.clone();
        let mut core = shared.core();
        let operation = self.operation.id;
        let (scope, known) = match core.ops.get(&operation) {
            Some(op) => {
                let known = match (&op.kind, &op.outcome) {
                    (OpKind::Nexus { token: Some(token), .. }, _) => Some(Ok(Some(token.clone()))),
                    (_, Some((_, Ok(_)))) => Some(Ok(None)),
                    (_, Some((_, Err(failure)))) => Some(Err(failure.clone())),
                    _ => None,
                };
                (op.scope, known)
            }
            None => (super::scope_tree::ROOT, Some(Ok(None))),
        };
        let id = core.add(scope, OpKind::NexusStarted { operation });
        if let Some(started) = known {
            core.resolve(id, outcome(&started));
        }
        drop(core);
        NexusStartedFuture { operation: Operation::new(shared, id) }
    }
}

/// The start of a Nexus operation.
#[must_use = "it does nothing unless it is awaited"]
pub struct NexusStartedFuture {
    operation: Operation,
}

impl Future for NexusStartedFuture {
    type Output = Result<Option<String>, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let outcome = self.operation.poll(context, "NexusStartedFuture");
        outcome
            .map(|started| started.map(|token| token.first().and_then(|token| converter::decode_payload(token).ok())))
    }
}
