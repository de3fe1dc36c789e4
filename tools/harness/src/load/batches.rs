//! A batch operation over many workflows, and what other calls notice of it.
//!
//! `--fill` open workflows are started. Then `--count` workflows are started, one at a time, with nothing else going on; and
//! again one at a time while a job terminates the others. Measured are the job's steps per second and the starts.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use segno_proto::{
    batch::BatchOperationTermination,
    enums::BatchOperationState,
    workflowservice::{
        DescribeBatchOperationRequest, DescribeBatchOperationResponse, StartBatchOperationRequest,
        start_batch_operation_request::Operation,
    },
};

use super::{fill, outcome::Outcome, session::Session};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE};

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Between two starts of those that are measured.
const START_INTERVAL: Duration = Duration::from_millis(2);
/// How long a job may take.
const JOB_TIMEOUT: Duration = Duration::from_secs(600);

/// Fills the server, and measures starts alone and beside a job.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let filled = fill::open(session, "opened").await?;
    let alone = session.measure("alone", "start", starts(session, "alone", None)).await?;
    let job = format!("{}-job", session.load.prefix);
    let mut client = session.client();
    let begun = Instant::now();
    start_job(session, &mut client, &job).await?;
    let mut beside = session.measure("beside a batch", "start", starts(session, "beside", Some(&job))).await?;
    let done = ended(&mut client, &job, begun).await?;
    let took = begun.elapsed().as_secs_f64();
    beside.extras.push(("steps of the batch".to_owned(), done.complete_operation_count as f64));
    beside.extras.push(("steps that failed".to_owned(), done.failure_operation_count as f64));
    beside.extras.push(("steps per second".to_owned(), done.complete_operation_count as f64 / took));
    beside.extras.push(("p99, beside/alone".to_owned(), beside.percentile_ms(0.99) / alone.percentile_ms(0.99)));
    Ok(vec![beside, alone, filled])
}

/// Starts workflows one at a time: as many as the load has, or until a job has ended.
async fn starts(session: &Rc<Session>, name: &str, job: Option<&str>) {
    let mut client = session.client();
    let mut index = 0;
    loop {
        let is_over = match job {
            None => index >= session.load.count,
            Some(job) => index % 50 == 0 && !is_running(&mut client, job).await,
        };
        if is_over {
            return;
        }
        let id = format!("{}-{name}-{index}", session.load.prefix);
        let start = wire::start("beside", &id, &format!("{}-beside", session.load.prefix), "");
        let begun = Instant::now();
        match client.call(start, CALL_TIMEOUT).await {
            Ok(_) => session.record(begun.elapsed()),
            Err(status) => session.failed("start", &status),
        }
        index += 1;
        tokio::time::sleep(START_INTERVAL).await;
    }
}

async fn start_job(session: &Session, client: &mut Client, job: &str) -> Result<()> {
    let call = StartBatchOperationRequest {
        namespace: NAMESPACE.to_owned(),
        job_id: job.to_owned(),
        reason: "load".to_owned(),
        visibility_query: format!("TaskQueue = '{}' AND ExecutionStatus = 'Running'", fill::queue(session)),
        operation: Some(Operation::TerminationOperation(BatchOperationTermination::default())),
        ..Default::default()
    };
    client.call(call, CALL_TIMEOUT).await?;
    Ok(())
}

async fn described(client: &mut Client, job: &str) -> Result<DescribeBatchOperationResponse, tonic::Status> {
    let call = DescribeBatchOperationRequest { namespace: NAMESPACE.to_owned(), job_id: job.to_owned() };
    client.call(call, CALL_TIMEOUT).await
}

async fn is_running(client: &mut Client, job: &str) -> bool {
    described(client, job).await.is_ok_and(|said| said.state() == BatchOperationState::Running)
}

async fn ended(client: &mut Client, job: &str, begun: Instant) -> Result<DescribeBatchOperationResponse> {
    loop {
        let said = described(client, job).await?;
        match said.state() {
            BatchOperationState::Completed => return Ok(said),
            BatchOperationState::Running if begun.elapsed() < JOB_TIMEOUT => tokio::time::sleep(POLL_INTERVAL).await,
            state => bail!("the job is {}", state.as_str_name()),
        }
    }
}
