//! Callers that run one workflow after the other: start, wait for the result by a long poll, start the next.

use std::{rc::Rc, time::Instant};

use anyhow::Result;
use segno_proto::workflowservice::DescribeWorkflowExecutionRequest;
use tokio::task::JoinSet;
use tonic::Status;

use super::{outcome::Outcome, session::Session, worker::Workers};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE};

/// Workflows whose histories are weighed.
const SAMPLE: usize = 20;
/// Workflows that are run before anything is measured.
const WARM_UP_RUNS: usize = 4;

/// Runs workflows of one type, which all give back their input.
pub async fn run(session: &Rc<Session>, kind: &'static str) -> Result<Outcome> {
    let workers = Workers::start(session);
    warm(session).await;
    let outcome = measure(session, "", kind, "").await;
    workers.stop().await;
    outcome
}

/// A few workflows that are not measured: a queue that was never polled is slow at first on some servers, and no
/// queue in use is like that.
pub async fn warm(session: &Rc<Session>) {
    let mut warming = JoinSet::new();
    for index in 0..WARM_UP_RUNS {
        let session = session.clone();
        warming.spawn_local(async move {
            let mut client = session.client();
            let workflow_id = format!("{}-warm-{index}", session.load.prefix);
            if let Some(run_id) = start(&session, &mut client, "one-activity", &workflow_id, "warm").await {
                result(&session, &mut client, &workflow_id, &run_id, "warm").await;
            }
        });
    }
    while warming.join_next().await.is_some() {}
}

/// The same with workers that run already; the tag sets the ids of this part apart.
pub async fn measure(session: &Rc<Session>, name: &str, kind: &'static str, tag: &'static str) -> Result<Outcome> {
    let work = session.call_all(|_, started| {
        let session = session.clone();
        async move {
            let mut client = session.client();
            while let Some((index, begun)) = session.take_due(started).await {
                if one(&session, &mut client, kind, &format!("{}{tag}-{index}", session.load.prefix)).await {
                    session.finished(begun);
                }
            }
        }
    });
    let mut outcome = session.measure(name, "workflow", work).await?;
    if let Some(cost) = outcome.cost.filter(|_| outcome.count() > 0) {
        let history = history_bytes(session, tag, outcome.count().min(SAMPLE)).await?;
        outcome.extras.push(("history, bytes/workflow".to_owned(), history));
        outcome.extras.push(("bytes written/bytes of history".to_owned(), outcome.each(cost.written_bytes) / history));
    }
    Ok(outcome)
}

/// The mean size of the histories of a part's first workflows, as the server tells it.
async fn history_bytes(session: &Session, tag: &str, count: usize) -> Result<f64> {
    let (mut client, mut bytes) = (session.client(), 0);
    for index in 0..count {
        let workflow_id = format!("{}{tag}-{index}", session.load.prefix);
        let execution = wire::execution(&workflow_id, "");
        let call = DescribeWorkflowExecutionRequest { namespace: NAMESPACE.to_owned(), execution };
        let reply = client.call(call, CALL_TIMEOUT).await?;
        bytes += reply.workflow_execution_info.map_or(0, |info| info.history_size_bytes);
    }
    Ok(bytes as f64 / count as f64)
}

/// Only starts workflows: no worker, no waiting for results.
pub async fn start_all(session: &Rc<Session>, name: &str, kind: &'static str) -> Result<Outcome> {
    let work = session.call_all(|_, started| {
        let session = session.clone();
        async move {
            let mut client = session.client();
            while let Some(index) = session.take_next(started) {
                let begun = Instant::now();
                let workflow_id = format!("{}-{index}", session.load.prefix);
                if start(&session, &mut client, kind, &workflow_id, session.input()).await.is_some() {
                    session.finished(begun);
                }
            }
        }
    });
    session.measure(name, "workflow", work).await
}

/// One workflow from its start to its result; whether it came to the right one.
pub async fn one(session: &Session, client: &mut Client, kind: &str, workflow_id: &str) -> bool {
    let Some(run_id) = start(session, client, kind, workflow_id, session.input()).await else { return false };
    result(session, client, workflow_id, &run_id, session.output()).await
}

/// Starts a workflow; its run id, unless that failed.
pub async fn start(
    session: &Session,
    client: &mut Client,
    kind: &str,
    workflow_id: &str,
    input: &str,
) -> Option<String> {
    let start = wire::start(kind, workflow_id, session.queue(), input);
    match client.call(start, CALL_TIMEOUT).await {
        Ok(reply) => Some(reply.run_id),
        Err(status) => {
            session.failed("start", &status);
            None
        }
    }
}

/// Waits for the end of a run; whether it is the expected one.
pub async fn result(session: &Session, client: &mut Client, workflow_id: &str, run_id: &str, expected: &str) -> bool {
    match wire::wait_closed(client, workflow_id, run_id).await {
        Ok(event) if wire::closing_result(&event) == expected => return true,
        Ok(event) => {
            let text: String = wire::closing_result(&event).chars().take(80).collect();
            session.failed("result", &Status::unknown(text));
        }
        Err(status) => session.failed("result", &status),
    }
    false
}
