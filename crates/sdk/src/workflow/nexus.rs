//! Nexus operations as a workflow sees them: [`NexusClient`] schedules them, [`NexusFuture`] is one, and their events.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use futures_util::future::FusedFuture;
use segno_proto::{
    command::ScheduleNexusOperationCommandAttributes,
    common::{Header, Payload},
    events::{NexusOperationScheduledEventAttributes, history_event::Attributes},
    failure::{Failure as WireFailure, NexusOperationFailureInfo, failure::FailureInfo},
};
use serde_json::Value;

use super::{
    Context,
    commands::{CommandRequest, ExpectedEvent},
    core::{Core, Counter, Shared},
    events::resolve_event,
    futures::{Decode, Operation, operation_future},
    interceptor::OutboundKind,
    operation::{OpId, OpKind, Outcome},
};
use crate::{
    converter::{self, ConversionError},
    definition::Data,
    failure::Failure,
    nexus::NexusOperation,
    options::{NexusCancellationType, NexusOptions, wire_duration},
};

/// An operation by its names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NexusTarget {
    pub endpoint: String,
    pub service: String,
    pub operation: String,
}

impl NexusTarget {
    /// The operation that an event scheduled.
    pub fn of(event: &NexusOperationScheduledEventAttributes) -> Self {
        let (endpoint, service, operation) = (&event.endpoint, &event.service, &event.operation);
        Self { endpoint: endpoint.clone(), service: service.clone(), operation: operation.clone() }
    }
}

impl fmt::Display for NexusTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nexus operation \"{}.{}\" of endpoint {:?}", self.service, self.operation, self.endpoint)
    }
}

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
    pub fn start<I: Data, O: Data>(&self, operation: NexusOperation<I, O>, input: I) -> NexusFuture<O> {
        let input = converter::encode(&input, 1);
        self.schedule(operation.service(), operation.name(), input, |payloads| converter::decode(payloads, 1))
    }

    /// Schedules an operation by name. An input of `null` is none.
    pub fn start_raw(&self, service: &str, operation: &str, input: Value) -> NexusFuture<Value> {
        let input = match input {
            Value::Null => Ok(Vec::new()),
            input => converter::encode_json(&input).map(|input| vec![input]),
        };
        self.schedule(service, operation, input, |payloads| converter::decode(payloads, 1))
    }

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
        let mut core = self.shared.core();
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

/// The start of an operation as the outcome of what waits for it.
fn outcome(started: &Result<Option<String>, Failure>) -> Outcome {
    let token = started.as_ref().map_err(Failure::clone)?;
    Ok(token.iter().filter_map(|token| converter::encode_json(token).ok()).collect())
}

/// The futures that wait for the start of an operation.
pub(super) fn resolve_started(core: &mut Core, of: OpId, started: &Result<Option<String>, Failure>) {
    let is_waiting = |kind: &OpKind| matches!(kind, OpKind::NexusStarted { operation } if *operation == of);
    let waiting: Vec<OpId> = core.ops.iter().filter(|(_, op)| is_waiting(&op.kind)).map(|(id, _)| *id).collect();
    for id in waiting {
        core.resolve(id, outcome(started));
    }
}

/// The scheduled event of the operation that this event ends.
pub(crate) fn ended(attributes: &Attributes) -> Option<i64> {
    use Attributes as A;
    Some(match attributes {
        A::NexusOperationCompletedEventAttributes(event) => event.scheduled_event_id,
        A::NexusOperationFailedEventAttributes(event) => event.scheduled_event_id,
        A::NexusOperationCanceledEventAttributes(event) => event.scheduled_event_id,
        A::NexusOperationTimedOutEventAttributes(event) => event.scheduled_event_id,
        _ => return None,
    })
}

/// Applies an event of an operation; other events change nothing.
pub(super) fn deliver(core: &mut Core, attributes: Attributes) {
    use Attributes as A;
    match attributes {
        A::NexusOperationStartedEventAttributes(event) => {
            let Some(id) = core.by_event.get(&event.scheduled_event_id).copied() else { return };
            if let Some(OpKind::Nexus { token, .. }) = core.ops.get_mut(&id).map(|op| &mut op.kind) {
                *token = Some(event.operation_token.clone());
            }
            resolve_started(core, id, &Ok(Some(event.operation_token)));
        }
        A::NexusOperationCompletedEventAttributes(event) => {
            // No value at all is how handlers in other languages say that there is none.
            let is_value = |value: &Payload| !value.metadata.is_empty() || !value.data.is_empty();
            let result = event.result.into_iter().filter(is_value).collect();
            end(core, event.scheduled_event_id, Ok(result));
        }
        A::NexusOperationFailedEventAttributes(event) => fail(core, event.scheduled_event_id, event.failure),
        A::NexusOperationCanceledEventAttributes(event) => fail(core, event.scheduled_event_id, event.failure),
        A::NexusOperationTimedOutEventAttributes(event) => fail(core, event.scheduled_event_id, event.failure),
        A::NexusOperationCancelRequestCompletedEventAttributes(event) => {
            if waits_for_request(core, event.scheduled_event_id) {
                end(core, event.scheduled_event_id, Err(Failure::cancelled()));
            }
        }
        A::NexusOperationCancelRequestFailedEventAttributes(event) => {
            if waits_for_request(core, event.scheduled_event_id) {
                let failure = not_cancelled(core, event.scheduled_event_id, event.failure);
                end(core, event.scheduled_event_id, Err(failure));
            }
        }
        _ => {}
    }
}

/// Whether the code waits until the handler has taken the request to cancel.
fn waits_for_request(core: &Core, scheduled_event_id: i64) -> bool {
    let op = core.by_event.get(&scheduled_event_id).and_then(|id| core.ops.get(id));
    op.is_some_and(|op| {
        matches!(op.kind, OpKind::Nexus { cancellation: NexusCancellationType::WaitRequested, .. }) && op.cancel_sent
    })
}

fn fail(core: &mut Core, scheduled_event_id: i64, failure: Option<WireFailure>) {
    end(core, scheduled_event_id, Err(Failure::from_wire(failure.unwrap_or_default())));
}

fn end(core: &mut Core, scheduled_event_id: i64, outcome: Outcome) {
    if let Some(id) = core.by_event.get(&scheduled_event_id).copied() {
        resolve_started(core, id, &outcome.as_ref().map(|_| None).map_err(Failure::clone));
        resolve_event(core, scheduled_event_id, outcome);
    }
}

/// The handler did not take the request to cancel: the operation goes on, and the code waits no longer.
fn not_cancelled(core: &Core, scheduled_event_id: i64, cause: Option<WireFailure>) -> Failure {
    let op = core.by_event.get(&scheduled_event_id).and_then(|id| core.ops.get(id)).map(|op| &op.kind);
    let mut info = NexusOperationFailureInfo { scheduled_event_id, ..Default::default() };
    if let Some(OpKind::Nexus { target, token, .. }) = op {
        info.endpoint.clone_from(&target.endpoint);
        info.service.clone_from(&target.service);
        info.operation.clone_from(&target.operation);
        info.operation_token = token.clone().unwrap_or_default();
    }
    let message = "the handler refused to cancel the operation".to_owned();
    let info = FailureInfo::NexusOperationExecutionFailureInfo(info);
    Failure::with_info(message, info, cause.map(Failure::from_wire))
}
