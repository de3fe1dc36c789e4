//! Figures of scripts beside their rate: queries, resumes late in a long history, many that are suspended.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Result;
use segno_proto::{
    query::WorkflowQuery,
    workflowservice::{DescribeWorkflowExecutionRequest, QueryWorkflowRequest, SignalWorkflowExecutionRequest},
};

use super::{fill, outcome::Outcome, scripts, session::Session, worker::Workers, workflows};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE};

/// It waits for good, with three variables, and answers a query.
const WAITING: &str = "workflow waiting(name) {
  let count = 1
  const limit = 10
  query state() { return [name, count, limit] }
  await wait_for_signal(\"go\")
  count += 1
  return count
}
";
/// Each signal is a turn; one above 0 also adds that many timers, two events each.
const LONG: &str = "workflow long(name) {
  let turns = 0
  while (true) {
    const timers = Number(await wait_for_signal(\"s\"))
    if (timers > 0) await Task.all(List.range(timers).map(i => Task.delay(\"1ms\")))
    turns += 1
  }
}
";
/// Timers that one signal starts.
const TIMERS: usize = 500;
/// Signals that are measured, early and late.
const MEASURED_SIGNALS: usize = 2_000;
/// How often the length of the history is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long a server with suspended scripts is watched.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// Queries of as many scripts as there are callers.
pub async fn queries(session: &Rc<Session>) -> Result<Outcome> {
    scripts::deploy(session, WAITING).await?;
    for index in 0..session.load.concurrency {
        workflows::start(session, &mut session.client(), "waiting", &id(session, index), "hello").await;
    }
    let work = session.call_all(|caller, started| {
        let session = session.clone();
        async move {
            let mut client = session.client();
            while session.take_next(started).is_some() {
                let query = QueryWorkflowRequest {
                    namespace: NAMESPACE.to_owned(),
                    execution: wire::execution(&id(&session, caller), ""),
                    query: Some(WorkflowQuery { query_type: "state".to_owned(), ..Default::default() }),
                    ..Default::default()
                };
                let begun = Instant::now();
                match client.call(query, CALL_TIMEOUT).await {
                    Ok(_) => session.finished(begun),
                    Err(status) => session.failed("query", &status),
                }
            }
        }
    });
    session.measure("", "query", work).await
}

/// Resumes of one script, at the beginning of its history and after `count` events.
pub async fn history(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    scripts::deploy(session, LONG).await?;
    let (mut client, long) = (session.client(), id(session, 0));
    workflows::start(session, &mut client, "long", &long, "hello").await;
    let early = session.measure("early turns", "turn", signals(session, &mut client, &long)).await?;
    let begun = Instant::now();
    let mut events = length(&mut client, &long).await?;
    while events < session.load.count as i64 && begun.elapsed() < session.load.time_max {
        signal(session, &mut client, &long, TIMERS).await;
        // The timers have fired when a turn was added to their own events.
        let expected = events + 2 * TIMERS as i64;
        while events < expected {
            tokio::time::sleep(POLL_INTERVAL).await;
            events = length(&mut client, &long).await?;
        }
    }
    let mut late = session.measure("late turns", "turn", signals(session, &mut client, &long)).await?;
    late.extras.push(("events before".to_owned(), events as f64));
    if let Some((early_cost, late_cost)) = early.cost.zip(late.cost) {
        let ratio = late.each(late_cost.cpu_ms) / early.each(early_cost.cpu_ms);
        late.extras.push(("CPU per turn, late/early".to_owned(), ratio));
    }
    Ok(vec![early, late])
}

/// Events of a run, removed ones included.
async fn length(client: &mut Client, workflow_id: &str) -> Result<i64> {
    let describe = DescribeWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        execution: wire::execution(workflow_id, ""),
    };
    let described = client.call(describe, CALL_TIMEOUT).await?;
    Ok(described.workflow_execution_info.map_or(0, |info| info.history_length))
}

async fn signals(session: &Session, client: &mut Client, workflow_id: &str) {
    for _ in 0..MEASURED_SIGNALS {
        let begun = Instant::now();
        signal(session, client, workflow_id, 0).await;
        session.finished(begun);
    }
}

async fn signal(session: &Session, client: &mut Client, workflow_id: &str, timers: usize) {
    let signal = SignalWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(workflow_id, ""),
        signal_name: "s".to_owned(),
        input: wire::text(&timers.to_string()),
        ..Default::default()
    };
    if let Err(status) = client.call(signal, CALL_TIMEOUT).await {
        session.failed("signal", &status);
    }
}

/// Many suspended scripts: what each takes in memory, what they cost at rest, and one-task scripts beside them.
pub async fn open(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    scripts::deploy(session, WAITING).await?;
    scripts::deploy(session, scripts::ONE_TASK).await?;
    let workers = Workers::start(session);
    let none = workflows::measure(session, "none suspended", "one_task", "-none").await?;
    let rss_mib = session.rss_mib();
    let mut filled = fill::start(session, "suspended", "waiting").await?;
    if let Some((before, after)) = rss_mib.zip(session.rss_mib()) {
        filled.extras.push(("memory growth, KiB/workflow".to_owned(), filled.each((after - before) * 1024.0)));
    }
    workers.stop().await;
    let rest = async {
        tokio::time::sleep(IDLE_TIME).await;
        session.record(IDLE_TIME);
    };
    let mut rest = session.measure("at rest", "watch", rest).await?;
    if let Some(cost) = rest.cost {
        rest.extras.push(("CPU, ms per second".to_owned(), cost.cpu_ms / IDLE_TIME.as_secs_f64()));
    }
    let workers = Workers::start(session);
    let mut many = workflows::measure(session, "many suspended", "one_task", "-many").await?;
    workers.stop().await;
    if let Some((none_cost, many_cost)) = none.cost.zip(many.cost) {
        let ratio = many.each(many_cost.cpu_ms) / none.each(none_cost.cpu_ms);
        many.extras.push(("CPU per workflow, many/none suspended".to_owned(), ratio));
    }
    Ok(vec![none, filled, rest, many])
}

fn id(session: &Session, index: usize) -> String {
    format!("{}-{index}", session.load.prefix)
}
