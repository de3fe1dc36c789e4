//! Spans around calls, workflows and tasks, and the trace that connects them.
//!
//! With the feature `otel` the OpenTelemetry context is propagated in the header that Temporal's SDKs use for it, in
//! the form that the global propagator writes: from a client to the workflow, and from there to its tasks and children.
//! A layer of `tracing-opentelemetry` exports these spans.

use std::collections::BTreeMap;

use segno_proto::common::Payload;
use tracing::Span;

/// A workflow or a task, for the fields of a span.
pub(crate) struct SpanFields<'a> {
    pub kind: &'a str,
    pub workflow_id: &'a str,
    pub run_id: &'a str,
}

/// Around a call of a client.
pub(crate) fn call_span(call: &str, name: &str, workflow_id: &str) -> Span {
    tracing::info_span!("call", otel.name = %format_args!("{call}:{name}"), otel.kind = "client", workflow_id)
}

/// Around a workflow task of a workflow; its parent is the call that started the run.
pub(crate) fn workflow_span(headers: impl FnOnce() -> BTreeMap<String, Payload>, run: &SpanFields<'_>) -> Span {
    let SpanFields { kind, workflow_id, run_id } = run;
    with_parent(
        headers,
        || tracing::info_span!("workflow", otel.name = %format_args!("RunWorkflow:{kind}"), kind, workflow_id, run_id),
    )
}

/// Around an attempt of a task; its parent is the call that started the workflow.
pub(crate) fn task_span(headers: &BTreeMap<String, Payload>, task: &SpanFields<'_>, id: &str, attempt: u32) -> Span {
    let SpanFields { kind, workflow_id, run_id } = task;
    with_parent(
        || headers.clone(),
        || {
            tracing::info_span!(
                "task",
                otel.name = %format_args!("RunActivity:{kind}"),
                otel.kind = "server",
                kind,
                id,
                attempt,
                workflow_id,
                run_id
            )
        },
    )
}

/// The header of Temporal's SDKs for traces.
#[cfg(feature = "otel")]
pub(crate) const HEADER: &str = "_tracer-data";

/// Adds the current context to headers, if there is one.
#[cfg(feature = "otel")]
pub(crate) fn inject(headers: &mut BTreeMap<String, Payload>) {
    let mut carrier = std::collections::HashMap::new();
    opentelemetry::global::get_text_map_propagator(|propagator| propagator.inject(&mut carrier));
    if !carrier.is_empty()
        && let Ok(payload) = crate::converter::encode_json(&carrier)
    {
        headers.insert(HEADER.to_owned(), payload);
    }
}

/// The context that headers carry.
#[cfg(feature = "otel")]
fn parent(headers: &BTreeMap<String, Payload>) -> Option<opentelemetry::Context> {
    let carrier: std::collections::HashMap<String, String> =
        crate::converter::decode_payload(headers.get(HEADER)?).ok()?;
    Some(opentelemetry::global::get_text_map_propagator(|propagator| propagator.extract(&carrier)))
}

#[cfg(feature = "otel")]
fn with_parent<T>(headers: impl FnOnce() -> BTreeMap<String, Payload>, make: impl FnOnce() -> T) -> T {
    let Some(parent) = parent(&headers()) else { return make() };
    let _current = parent.attach();
    make()
}

/// A future whose current context is the one that headers carry.
#[cfg(feature = "otel")]
pub(crate) fn in_trace<F: Future>(headers: &BTreeMap<String, Payload>, future: F) -> impl Future<Output = F::Output> {
    use opentelemetry::context::FutureExt;
    future.with_context(parent(headers).unwrap_or_else(opentelemetry::Context::current))
}

/// The same without OpenTelemetry: the future itself.
#[cfg(not(feature = "otel"))]
pub(crate) fn in_trace<F: Future>(_: &BTreeMap<String, Payload>, future: F) -> F {
    future
}

#[cfg(not(feature = "otel"))]
fn with_parent<T>(_: impl FnOnce() -> BTreeMap<String, Payload>, make: impl FnOnce() -> T) -> T {
    make()
}
