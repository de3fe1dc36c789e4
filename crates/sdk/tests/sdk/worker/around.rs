//! What stands around workflows and tasks: interceptors, traces, slots, pauses.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use opentelemetry::{
    Context as Trace,
    context::FutureExt,
    propagation::{Extractor, Injector, TextMapPropagator, text_map_propagator::FieldIter},
};
use segno_sdk::{
    Client, ClientCall, ClientError, ClientInterceptor, Failure, TaskFn, TaskInterceptor, WorkflowStatus,
    interceptor::{InterceptedRun, OutboundCall, WorkflowInterceptor},
    prelude::*,
    raw::{Attributes, Payload, enums::TaskQueueKind},
    testing::TestServer,
};

use super::{queue, server};

fn payload(text: &str) -> Payload {
    let metadata = [("encoding".to_owned(), "json/plain".into())].into();
    Payload { metadata, data: format!("{text:?}").into(), ..Default::default() }
}

/// Sends a header from a client over the workflow to its tasks.
#[derive(Clone, Default)]
struct Tenant(Arc<Mutex<Vec<String>>>);

impl ClientInterceptor for Tenant {
    fn before(&self, call: &mut ClientCall) -> Result<(), ClientError> {
        call.headers.insert("tenant".to_owned(), payload("acme"));
        Ok(())
    }
}

impl WorkflowInterceptor for Tenant {
    fn outbound(&self, run: &InterceptedRun, call: &mut OutboundCall) {
        if let Some(tenant) = run.headers.get("tenant") {
            call.headers.insert("tenant".to_owned(), tenant.clone());
        }
    }
}

impl TaskInterceptor for Tenant {
    fn execute(
        &self,
        ctx: TaskContext,
        input: Vec<Payload>,
        next: TaskFn,
    ) -> BoxFuture<'static, Result<Vec<Payload>, Failure>> {
        let info = ctx.info();
        let tenant = info.headers.get("tenant").map(|tenant| String::from_utf8_lossy(&tenant.data).into_owned());
        self.0.lock().unwrap().push(format!("{} {} {tenant:?}", info.kind, info.is_local));
        next(ctx, input)
    }
}

/// A trace is a text here.
#[derive(Clone, Debug, PartialEq)]
struct TraceId(String);

#[derive(Debug)]
struct Propagator;

impl TextMapPropagator for Propagator {
    fn inject_context(&self, context: &Trace, injector: &mut dyn Injector) {
        if let Some(TraceId(id)) = context.get::<TraceId>() {
            injector.set("traceparent", id.clone());
        }
    }
    fn extract_with_context(&self, context: &Trace, extractor: &dyn Extractor) -> Trace {
        let id = extractor.get("traceparent").unwrap_or_default().to_owned();
        context.with_value(TraceId(id))
    }
    fn fields(&self) -> FieldIter<'_> {
        FieldIter::new(&[])
    }
}

#[task]
async fn whose() -> Result<String> {
    Ok(Trace::current().get::<TraceId>().map(|TraceId(id)| id.clone()).unwrap_or_default())
}

#[workflow]
async fn traced_child(ctx: Context) -> Result<String> {
    Ok(ctx.schedule_local::<Whose>(()).await?)
}

#[workflow]
async fn traced(ctx: Context) -> Result<(String, String)> {
    let task = ctx.schedule::<Whose>(()).await?;
    Ok((task, ctx.schedule_workflow::<TracedChild>("child", ()).await?))
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn headers_and_traces_reach_tasks() {
    let server = server().await;
    opentelemetry::global::set_text_map_propagator(Propagator);
    let tenant = Tenant::default();
    // Headers do not pass the codec.
    let builder = Client::builder().target(server.address()).interceptor(tenant.clone()).codec(super::client::Inverted);
    let queue = queue(&builder.connect().await.unwrap());
    let worker = queue
        .worker()
        .workflow::<Traced>()
        .workflow::<TracedChild>()
        .task::<Whose>()
        .interceptor(tenant.clone())
        .workflow_interceptor(tenant.clone())
        .build()
        .unwrap();
    let trace = Trace::new().with_value(TraceId("00-abc".to_owned()));
    let body = queue.execute::<Traced>("traced", ()).with_context(trace);
    let (task, local) = worker.run_until(body).await.unwrap();
    assert_eq!((task.as_str(), local.as_str()), ("00-abc", "00-abc"));
    assert_eq!(*tenant.0.lock().unwrap(), ["whose false Some(\"\\\"acme\\\"\")", "whose true Some(\"\\\"acme\\\"\")"]);
    // As other SDKs write it.
    let started = queue.client().handle::<Traced>("traced").history().await.unwrap().remove(0);
    let Some(segno_sdk::raw::Attributes::WorkflowExecutionStartedEventAttributes(started)) = started.attributes else {
        panic!("the first event")
    };
    let data = started.header.unwrap().fields["_tracer-data"].data.clone();
    let carrier: HashMap<String, String> = serde_json::from_slice(&data).unwrap();
    assert_eq!(carrier, HashMap::from([("traceparent".to_owned(), "00-abc".to_owned())]));
}

#[derive(Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[derive(Clone, Default)]
struct Counted(Arc<Busy>);

#[tasks]
impl Counted {
    #[task]
    async fn work_a_little(&self) -> Result<()> {
        self.0.most.fetch_max(self.0.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[workflow]
async fn many_locals(ctx: Context) -> Result<()> {
    try_join_all((0..6).map(|_| ctx.schedule_local::<WorkALittle>(()))).await?;
    try_join_all((0..6).map(|_| ctx.schedule::<WorkALittle>(()))).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn slots_are_counted_by_kind() {
    let server = server().await;
    let queue = queue(&server.client());
    let counted = Counted::default();
    let worker = queue.worker().workflow::<ManyLocals>().tasks(counted.clone());
    let worker = worker.max_concurrent_local_tasks(2).max_concurrent_tasks(1).max_concurrent_workflow_tasks(1);
    worker.build().unwrap().run_until(queue.execute::<ManyLocals>("locals", ())).await.unwrap();
    assert_eq!(counted.0.most.load(Ordering::SeqCst), 2);
    // A poll for cached runs would keep the only slot for workflow tasks for a minute: no task goes to a sticky queue.
    let history = queue.client().handle::<ManyLocals>("locals").history().await.unwrap();
    let kinds = history.into_iter().filter_map(|event| match event.attributes {
        Some(Attributes::WorkflowTaskScheduledEventAttributes(scheduled)) => Some(scheduled.task_queue.unwrap().kind()),
        _ => None,
    });
    assert!(kinds.collect::<Vec<_>>().iter().all(|kind| *kind == TaskQueueKind::Normal));
}

const GO: Signal<()> = Signal::named("go");

#[workflow]
async fn pausable(ctx: Context) -> Result<u32> {
    ctx.receive(GO).await?;
    Ok(7)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn a_workflow_is_paused_and_goes_on_after_the_pause() {
    let settings = ["--dynamic-config-value", "frontend.WorkflowPauseEnabled=true"];
    let server = settings.into_iter().fold(TestServer::builder(), |server, setting| server.argument(setting));
    let server = server.start().await.unwrap();
    let queue = queue(&server.client());
    let worker = queue.worker().workflow::<Pausable>().build().unwrap();
    let body = async {
        let handle = queue.start::<Pausable>("pausable", ()).await?;
        // Not while a workflow task runs: it would go on with what came meanwhile.
        while handle.history().await?.len() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        handle.pause("a break").await?;
        assert_eq!(handle.describe().await?.status, WorkflowStatus::Paused);
        handle.signal(GO, ()).await?;
        let early = tokio::time::timeout(Duration::from_millis(500), handle.result()).await;
        assert!(early.is_err(), "it goes on only when the pause ends: {early:?}");
        handle.unpause("enough").await?;
        let result = tokio::time::timeout(Duration::from_secs(10), handle.result()).await;
        assert_eq!(result.expect("it goes on")?, 7);
        let missing = queue.client().handle::<Pausable>("missing");
        for outcome in [missing.pause("x").await, missing.unpause("x").await] {
            assert!(outcome.is_err());
        }
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}
