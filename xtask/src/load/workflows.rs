//! Callers that run one workflow after the other: start, wait for the result by a long poll, start the next.

use std::{rc::Rc, time::Instant};

use anyhow::Result;
use tonic::Status;

use super::{outcome::Outcome, session::Session, worker::Workers};
use crate::wire::{self, CALL_TIMEOUT, Client, request};

/// Runs workflows of one type to their results, which are all "hello".
pub async fn run(session: &Rc<Session>, kind: &'static str) -> Result<Outcome> {
    let workers = Workers::start(session);
    let outcome = measure(session, "", kind).await;
    workers.stop().await;
    outcome
}

/// The same with workers that run already.
pub async fn measure(session: &Rc<Session>, name: &str, kind: &'static str) -> Result<Outcome> {
    let work = session.call_all(|_, started| call(session.clone(), kind, started));
    session.measure(name, "workflow", work).await
}

/// Only starts workflows: no worker, no waiting for results.
pub async fn start_only(session: &Rc<Session>) -> Result<Outcome> {
    let work = session.call_all(|_, started| start_all(session.clone(), started));
    session.measure("", "workflow", work).await
}

/// One caller.
async fn call(session: Rc<Session>, kind: &'static str, started: Instant) {
    let mut client = session.client();
    while let Some(index) = session.take_next(started) {
        let begun = Instant::now();
        if one(&session, &mut client, kind, &format!("{}-{index}", session.load.prefix)).await {
            session.finished(begun);
        }
    }
}

/// One workflow from its start to its result; whether it came to the right one.
pub async fn one(session: &Session, client: &mut Client, kind: &str, workflow_id: &str) -> bool {
    let start = wire::start(kind, workflow_id, session.queue(), "hello");
    let run_id = match client.start_workflow_execution(request(start, CALL_TIMEOUT)).await {
        Ok(reply) => reply.into_inner().run_id,
        Err(status) => {
            session.failed("start", &status);
            return false;
        }
    };
    match wire::wait_closed(client, workflow_id, &run_id).await {
        Ok(event) if wire::closing_result(&event) == "hello" => return true,
        Ok(event) => session.failed("result", &Status::unknown(wire::closing_result(&event))),
        Err(status) => session.failed("result", &status),
    }
    false
}

/// One caller that does not wait.
async fn start_all(session: Rc<Session>, started: Instant) {
    let mut client = session.client();
    while let Some(index) = session.take_next(started) {
        let begun = Instant::now();
        let start = wire::start("one-activity", &format!("{}-{index}", session.load.prefix), session.queue(), "hello");
        match client.start_workflow_execution(request(start, CALL_TIMEOUT)).await {
            Ok(_) => session.finished(begun),
            Err(status) => session.failed("start", &status),
        }
    }
}
