//! Batch jobs: they go on after a crash, and do what they do once to each workflow.
//!
//! A client of its own starts workflows that wait for three signals, and has each signal sent by a job: by a list, slowly,
//! so that the server dies within a page; or by a filter, to more workflows than a page has. One job of a namespace may be
//! open at a time, so there is one such client.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use segno_proto::{
    batch::BatchOperationSignal,
    common::Execution,
    enums::{BatchOperationState as State, ExecutionType},
    events::history_event::Attributes,
    workflowservice::{
        DescribeBatchOperationRequest, StartBatchOperationRequest, start_batch_operation_request::Operation,
    },
};
use tonic::Code;

use super::{
    flows::{Shared, insist, result, start},
    ledger::{Breach, Kind},
};
use crate::wire::{self, Client, NAMESPACE};

/// Workflows of a job by list, and its steps in a second.
const LISTED_WORKFLOWS: usize = 24;
const PER_SECOND: f32 = 60.0;
/// Workflows of a job by filter: more than a page, which is 256.
const FILTER_JOB_WORKFLOWS: usize = 300;
/// Jobs by list for each one by filter.
const LISTS_PER_FILTER: u64 = 4;
/// Starts under way at once.
const CONCURRENT_STARTS_MAX: usize = 16;
/// A signal that is not in history after so long on a server that stays up is not there.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One set of workflows after the other until the campaign stops.
pub async fn run(shared: Rc<Shared>, mut client: Client) {
    let mut index = 0;
    while !shared.stopping.get() {
        let by_filter = index % (LISTS_PER_FILTER + 1) == 1;
        if let Err(breach) = signalled(&shared, &mut client, &format!("batch-{index}"), by_filter).await {
            shared.ledger.breach(breach);
        }
        index += 1;
    }
}

type Target = (String, String);

async fn signalled(shared: &Rc<Shared>, client: &mut Client, name: &str, by_filter: bool) -> Result<(), Breach> {
    let ids: Vec<String> = (0..if by_filter { FILTER_JOB_WORKFLOWS } else { LISTED_WORKFLOWS })
        .map(|number| format!("{name}-{number}"))
        .collect();
    let mut targets: Vec<Target> = Vec::new();
    for some in ids.chunks(CONCURRENT_STARTS_MAX) {
        let mut starts = tokio::task::JoinSet::new();
        for id in some {
            let (shared, mut client, id) = (shared.clone(), client.clone(), id.clone());
            starts.spawn_local(async move {
                let run_id = start(&shared, &mut client, Kind::Signals, &id, "").await?;
                Ok((id, run_id))
            });
        }
        while let Some(started) = starts.join_next().await {
            let failed = |error| Err(Breach::Wrong(format!("a caller of the harness failed: {error}")));
            targets.push(started.unwrap_or_else(failed)?);
        }
    }
    for signal in ["s0", "s1", "s2"] {
        for (id, run_id) in &targets {
            shared.ledger.note(Kind::Signals, id, run_id, |facts, _| {
                facts.signals.insert(signal.to_owned(), false);
            });
        }
        let job = format!("{name}-{signal}");
        let round = shared.ledger.round();
        begin(client, &job, signal, if by_filter { Err(name) } else { Ok(&targets) }).await?;
        shared.ledger.count_fact();
        ended(shared, client, &job, round, targets.len() as i64).await?;
        for (id, run_id) in &targets {
            shared.ledger.note(Kind::Signals, id, run_id, |facts, _| {
                facts.signals.insert(signal.to_owned(), true);
            });
            arrived(shared, client, &job, round, (id, run_id), signal).await?;
        }
    }
    for (id, run_id) in &targets {
        result(shared, client, Kind::Signals, id, run_id).await?;
    }
    Ok(())
}

/// Starts a job that signals workflows, given as a list or by the beginning of their ids.
async fn begin(client: &mut Client, job: &str, signal: &str, targets: Result<&[Target], &str>) -> Result<(), Breach> {
    let operation = BatchOperationSignal { signal: signal.to_owned(), ..Default::default() };
    let listed = targets.iter().flat_map(|targets| targets.iter());
    let call = StartBatchOperationRequest {
        namespace: NAMESPACE.to_owned(),
        job_id: job.to_owned(),
        reason: "crash".to_owned(),
        target_executions: listed.map(target).collect(),
        visibility_query: targets.err().map(|name| format!("WorkflowId STARTS_WITH '{name}-'")).unwrap_or_default(),
        max_operations_per_second: if targets.is_ok() { PER_SECOND } else { 0.0 },
        operation: Some(Operation::SignalOperation(operation)),
        ..Default::default()
    };
    let begun = client.insist_once(&call, Code::AlreadyExists).await;
    begun.map(drop).map_err(|status| Breach::Wrong(format!("{job} was refused: {status}")))
}

fn target((id, run_id): &Target) -> Execution {
    Execution { r#type: ExecutionType::Workflow.into(), business_id: id.clone(), run_id: run_id.clone() }
}

/// Waits for the end of a job, whose figures must be right.
async fn ended(shared: &Shared, client: &mut Client, job: &str, round: u32, targets: i64) -> Result<(), Breach> {
    let call = DescribeBatchOperationRequest { namespace: NAMESPACE.to_owned(), job_id: job.to_owned() };
    loop {
        let said = match client.insist(&call).await {
            Ok(reply) => reply,
            Err(status) if status.code() == Code::NotFound && shared.ledger.crashed_since(round) => {
                return Err(Breach::Lost(format!("{job}: acknowledged in round {round} or later, but gone")));
            }
            Err(status) => return Err(Breach::Wrong(format!("{job} cannot be described: {status}"))),
        };
        let figures = (said.total_operation_count, said.complete_operation_count, said.failure_operation_count);
        match said.state() {
            State::Completed if figures == (targets, targets, 0) => return Ok(()),
            State::Running if figures.1 <= targets && figures.2 == 0 => tokio::time::sleep(POLL_INTERVAL).await,
            state => {
                return Err(Breach::Wrong(format!(
                    "{job} is {}, with {figures:?} for {targets} workflows",
                    state.as_str_name()
                )));
            }
        }
    }
}

/// What a job says it did is there. A signal may wait for the end of a workflow task before it is in history.
async fn arrived(
    shared: &Shared,
    client: &mut Client,
    job: &str,
    round: u32,
    (id, run_id): (&str, &str),
    signal: &str,
) -> Result<(), Breach> {
    let mut since = (shared.ledger.round(), Instant::now());
    loop {
        let events = insist(async || wire::history(client, id, run_id).await).await;
        let events = events.map_err(|status| Breach::Wrong(format!("{id}: its history cannot be read: {status}")))?;
        let is_there = events.iter().any(|event| {
            matches!(&event.attributes,
                Some(Attributes::WorkflowExecutionSignaledEventAttributes(it)) if it.signal_name == signal)
        });
        if is_there {
            return Ok(());
        }
        if shared.ledger.crashed_since(since.0) {
            since = (shared.ledger.round(), Instant::now());
        }
        if since.1.elapsed() > SIGNAL_TIMEOUT {
            let text = format!("{job} has completed, but {id} has no {signal}");
            let was_crash = shared.ledger.crashed_since(round);
            return Err(if was_crash { Breach::Lost(text) } else { Breach::Wrong(text) });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
