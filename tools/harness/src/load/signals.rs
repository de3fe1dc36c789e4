//! Workflows that wait for a signal and complete with it.

use std::{rc::Rc, time::Instant};

use anyhow::Result;
use segno_proto::workflowservice::SignalWorkflowExecutionRequest;

use super::{outcome::Outcome, session::Session, worker::Workers, workflows};
use crate::wire::{self, CALL_TIMEOUT, NAMESPACE};

/// Start, signal, wait for the result.
pub async fn run(session: &Rc<Session>) -> Result<Outcome> {
    let workers = Workers::start(session);
    workflows::warm(session).await;
    let work = session.call_all(|_, started| call(session.clone(), started));
    let outcome = session.measure("", "workflow", work).await;
    workers.stop().await;
    outcome
}

async fn call(session: Rc<Session>, started: Instant) {
    let mut client = session.client();
    while let Some(index) = session.take_next(started) {
        let workflow_id = format!("{}-{index}", session.load.prefix);
        let begun = Instant::now();
        let Some(run_id) = workflows::start(&session, &mut client, "signal", &workflow_id, "").await else { continue };
        let signal = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: wire::execution(&workflow_id, &run_id),
            signal_name: "go".to_owned(),
            input: wire::text("hello"),
            request_id: format!("signal-{workflow_id}"),
            ..Default::default()
        };
        if let Err(status) = client.call(signal, CALL_TIMEOUT).await {
            session.failed("signal", &status);
        } else if workflows::result(&session, &mut client, &workflow_id, &run_id, "hello").await {
            session.finished(begun);
        }
    }
}
