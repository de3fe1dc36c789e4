//! Workers that do nothing but say that they are there: how Temporal's SDKs do, and in Segno's own protocol.
//!
//! A fleet registers, rests for a while, and goes on to report. Each worker keeps to one connection and waits for each answer, as SDKs do;
//! with `--connections` as large as `--fill` every worker has one of its own, which costs the server pings. None of it may
//! cause a commit. A kind that a server does not offer is left out.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Result, ensure};
use prost::Message;
use prost_types::Timestamp;
use segno_proto::{
    enums::WorkerStatus,
    segno_worker::HeartbeatRequest,
    worker::{WorkerHeartbeat, WorkerHostInfo, WorkerPollerInfo, WorkerSlotsInfo},
    workflowservice::RecordWorkerHeartbeatRequest,
};
use tonic::{Code, Status};

use super::{outcome::Outcome, session::Session};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE, millis};

/// How often SDKs report.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// How long a fleet rests: longer than it takes a server to look after idle connections.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// The lease that is asked for: long enough for all workers to be served on a slow machine.
const LEASE_MS: u64 = 600_000;
/// As many workers as the share of a core is told for.
const FLEET: f64 = 10_000.0;

/// Workers of one kind.
struct Fleet {
    clients: Vec<Client>,
    /// Whether they report by Segno's own protocol.
    lease: bool,
    prefix: String,
    /// Tokens of the last answers, in Segno's own protocol.
    tokens: RefCell<Vec<Vec<u8>>>,
    begun: SystemTime,
}

/// A fleet of each kind, one after the other.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let (port, connections) = (session.load.port, session.load.connections.max(1));
    let mut outcomes = Vec::new();
    for lease in [false, true] {
        let name = if lease { "lease" } else { "stock" };
        let fleet = Rc::new(Fleet {
            clients: (0..connections).map(|_| wire::client(port)).collect::<Result<_>>()?,
            lease,
            prefix: format!("{}-{name}", session.load.prefix),
            tokens: RefCell::new(vec![Vec::new(); session.load.fill]),
            begun: SystemTime::now(),
        });
        match fleet.report(0).await {
            Ok(()) => outcomes.extend(measure(session, &fleet, name).await?),
            Err(status) if status.code() == Code::Unimplemented => {
                println!("  {name}: not offered by this server ({})", status.message());
            }
            Err(status) => return Err(status.into()),
        }
    }
    Ok(outcomes)
}

async fn measure(session: &Rc<Session>, fleet: &Rc<Fleet>, name: &str) -> Result<[Outcome; 3]> {
    let workers = session.load.fill;
    let rss_mib = session.rss_mib();
    let registering = session.call_all(|caller, _| {
        let (session, fleet) = (session.clone(), fleet.clone());
        async move {
            for worker in own(&session, caller) {
                report(&session, &fleet, worker).await;
            }
        }
    });
    let mut registered = session.measure(&format!("{name}, registered"), "worker", registering).await?;
    if let Some((before, after)) = rss_mib.zip(session.rss_mib()) {
        registered.extras.push(("memory growth, KiB/worker".to_owned(), (after - before) * 1024.0 / workers as f64));
    }
    let resting = async {
        tokio::time::sleep(IDLE_TIME).await;
        (0..IDLE_TIME.as_secs()).for_each(|_| session.record(Duration::from_secs(1)));
    };
    let rested = session.measure(&format!("{name}, at rest"), "second", resting).await?;
    let reporting = session.call_all(|caller, started| {
        let (session, fleet) = (session.clone(), fleet.clone());
        async move {
            for worker in own(&session, caller).cycle() {
                if session.take_next(started).is_none() {
                    break;
                }
                report(&session, &fleet, worker).await;
            }
        }
    });
    let mut reported = session.measure(name, "heartbeat", reporting).await?;
    if !fleet.lease {
        reported.extras.push(("bytes/heartbeat".to_owned(), fleet.own_report(0).encoded_len() as f64));
    }
    for outcome in [&registered, &rested, &reported] {
        let Some(commits) = outcome.cost.and_then(|cost| cost.commits) else { continue };
        ensure!(commits == 0.0, "{}\n  {commits} commits, where there may be none", outcome.line());
    }
    if let Some((rest, report)) = rested.cost.zip(reported.cost) {
        let resting = rest.cpu_ms / IDLE_TIME.as_millis() as f64 / workers as f64;
        let reporting = reported.each(report.cpu_ms) / REPORT_INTERVAL.as_millis() as f64;
        let share = (resting + reporting) * FLEET * 100.0;
        reported.extras.push((format!("{FLEET} workers, a report a minute, % of a core"), share));
    }
    Ok([registered, rested, reported])
}

/// The workers of one caller: no other caller reports for them, so that each waits for its answers.
fn own(session: &Session, caller: usize) -> impl Iterator<Item = usize> + Clone + use<> {
    (caller..session.load.fill).step_by(session.load.concurrency)
}

async fn report(session: &Session, fleet: &Fleet, worker: usize) {
    let begun = Instant::now();
    match fleet.report(worker).await {
        Ok(()) => session.finished(begun),
        Err(status) => session.failed("heartbeat", &status),
    }
}

impl Fleet {
    async fn report(&self, worker: usize) -> Result<(), Status> {
        let mut client = self.clients[worker % self.clients.len()].clone();
        if self.lease {
            let call = HeartbeatRequest {
                namespace: NAMESPACE.to_owned(),
                worker_instance_key: self.key(worker),
                token: self.tokens.borrow()[worker].clone().into(),
                lease: Some(millis(LEASE_MS)),
                ..Default::default()
            };
            let answer = client.call(call, CALL_TIMEOUT).await?;
            self.tokens.borrow_mut()[worker] = answer.token.into();
        } else {
            let call = RecordWorkerHeartbeatRequest {
                namespace: NAMESPACE.to_owned(),
                identity: format!("{worker}@host"),
                worker_heartbeat: vec![self.own_report(worker)],
                ..Default::default()
            };
            client.call(call, CALL_TIMEOUT).await?;
        }
        Ok(())
    }

    fn key(&self, worker: usize) -> String {
        format!("{}-{worker:05}", self.prefix)
    }

    /// Everything that SDKs tell of a worker, once a minute.
    fn own_report(&self, worker: usize) -> WorkerHeartbeat {
        let slots = |kind: &str| {
            Some(WorkerSlotsInfo {
                current_available_slots: 95,
                current_used_slots: 5,
                slot_supplier_kind: kind.to_owned(),
                total_processed_tasks: 123_456,
                total_failed_tasks: 12,
                last_interval_processed_tasks: 600,
                last_interval_failure_tasks: 1,
            })
        };
        let now = Timestamp::from(SystemTime::now());
        let poller = |current_pollers| {
            Some(WorkerPollerInfo { current_pollers, last_successful_poll_time: Some(now), is_autoscaling: true })
        };
        WorkerHeartbeat {
            worker_instance_key: self.key(worker),
            worker_identity: format!("{worker}@host"),
            host_info: Some(WorkerHostInfo {
                host_name: format!("service-7d9f8b6c5-{worker:05}"),
                // A process is told apart by this; here each has one worker.
                worker_grouping_key: format!("{}-group-{worker:05}", self.prefix),
                process_id: worker.to_string(),
                current_host_cpu_usage: 0.25,
                current_host_mem_usage: 0.5,
            }),
            task_queue: format!("{}-queue-{}", self.prefix, worker % 10),
            sdk_name: "temporal-python".to_owned(),
            sdk_version: "1.20.0".to_owned(),
            status: WorkerStatus::Running.into(),
            start_time: Some(self.begun.into()),
            heartbeat_time: Some(now),
            elapsed_since_last_heartbeat: Some(millis(REPORT_INTERVAL.as_millis() as u64)),
            workflow_task_slots_info: slots("Fixed"),
            activity_task_slots_info: slots("Fixed"),
            nexus_task_slots_info: slots("Fixed"),
            local_activity_slots_info: slots("Fixed"),
            workflow_poller_info: poller(2),
            workflow_sticky_poller_info: poller(3),
            activity_poller_info: poller(5),
            nexus_poller_info: poller(5),
            total_sticky_cache_hit: 98_765,
            total_sticky_cache_miss: 432,
            current_sticky_cache_size: 600,
            ..Default::default()
        }
    }
}
