//! Heartbeats of a worker about itself, and its shutdown.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

use segno_proto::{
    enums::{TaskQueueType, WorkerStatus},
    worker::{WorkerHeartbeat, WorkerHostInfo, WorkerPollerInfo, WorkerSlotsInfo},
    workflowservice::{RecordWorkerHeartbeatRequest, ShutdownWorkerRequest},
};
use tokio::sync::watch;
use tonic::Code;

use super::{
    options::Pollers,
    shared::{Counts, RunningAttempts, Shared},
    slots::Slots,
};

/// How often a worker reports.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long a report may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long the server may take to hear that a worker ends.
pub(super) const SHUTDOWN_CALL_LIMIT: Duration = Duration::from_secs(5);

/// Reports until `stop`.
pub(super) async fn run(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        if !send(&shared, WorkerStatus::Running).await {
            return;
        }
        tokio::select! {
            _ = tokio::time::sleep(INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Reports once. False: the server takes no reports.
pub(super) async fn send(shared: &Shared, status: WorkerStatus) -> bool {
    let request = RecordWorkerHeartbeatRequest {
        namespace: shared.client.namespace().to_owned(),
        identity: shared.identity.clone(),
        worker_heartbeat: vec![heartbeat(shared, status)],
        ..Default::default()
    };
    let mut service = shared.client.service();
    match tokio::time::timeout(LIMIT, service.record_worker_heartbeat(request)).await {
        Ok(Err(status)) if status.code() == Code::Unimplemented => false,
        Ok(Err(status)) => {
            tracing::debug!(code = ?status.code(), message = status.message(), "a report about the worker was not taken");
            true
        }
        _ => true,
    }
}

/// Tells the server that the worker with the present key takes nothing: it ends the polls and gives up the sticky
/// queue.
pub(super) async fn announce_shutdown(shared: &Shared) {
    let mut types = Vec::new();
    if !shared.workflows.is_empty() {
        types.push(TaskQueueType::Workflow as i32);
    }
    if !shared.tasks.is_empty() {
        types.push(TaskQueueType::Activity as i32);
    }
    if !shared.nexus.is_empty() {
        types.push(TaskQueueType::Nexus as i32);
    }
    let request = ShutdownWorkerRequest {
        namespace: shared.client.namespace().to_owned(),
        sticky_task_queue: if shared.workflows.is_empty() { String::new() } else { shared.sticky_queue() },
        identity: shared.identity.clone(),
        reason: "graceful shutdown".to_owned(),
        worker_heartbeat: Some(heartbeat(shared, WorkerStatus::ShuttingDown)),
        worker_instance_key: shared.instance_key(),
        task_queue: shared.queue.clone(),
        task_queue_types: types,
    };
    let mut service = shared.client.service();
    match tokio::time::timeout(SHUTDOWN_CALL_LIMIT, service.shutdown_worker(request)).await {
        Ok(Ok(_)) => {}
        Ok(Err(status)) => {
            tracing::debug!(code = ?status.code(), message = status.message(), "the server did not hear that a worker ends");
        }
        Err(_) => tracing::debug!("the server did not hear in time that a worker ends"),
    }
}

/// The report about the worker.
fn heartbeat(shared: &Shared, status: WorkerStatus) -> WorkerHeartbeat {
    let poller_info = |active: usize, pollers: Pollers| {
        Some(WorkerPollerInfo {
            current_pollers: count(active),
            is_autoscaling: matches!(pollers, Pollers::Auto { .. }),
            ..Default::default()
        })
    };
    let slots_info = |running: &RunningAttempts, slots: &Slots, counts: &Counts| {
        let (used, max) = (running.count(), slots.max());
        Some(WorkerSlotsInfo {
            current_available_slots: count(max.saturating_sub(used)),
            current_used_slots: count(used),
            slot_supplier_kind: slots.kind().to_owned(),
            total_processed_tasks: counts.processed.load(Ordering::Relaxed),
            total_failed_tasks: counts.failed.load(Ordering::Relaxed),
            ..Default::default()
        })
    };
    WorkerHeartbeat {
        worker_instance_key: shared.instance_key(),
        worker_identity: shared.identity.clone(),
        host_info: Some(WorkerHostInfo {
            host_name: host_name(),
            process_id: std::process::id().to_string(),
            ..Default::default()
        }),
        task_queue: shared.queue.clone(),
        deployment_version: shared.options.deployment.as_ref().map(|deployment| deployment.version().to_wire()),
        sdk_name: "segno-rust".to_owned(),
        sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
        status: status as i32,
        start_time: Some(shared.started_at.into()),
        heartbeat_time: Some(SystemTime::now().into()),
        activity_task_slots_info: match shared.tasks.is_empty() {
            true => None,
            false => slots_info(&shared.running, &shared.slots, &shared.counts),
        },
        nexus_task_slots_info: match shared.nexus.is_empty() {
            true => None,
            false => slots_info(&shared.nexus_running, &shared.nexus_slots, &shared.nexus_counts),
        },
        nexus_poller_info: match shared.nexus.is_empty() {
            true => None,
            false => poller_info(shared.nexus_scaling.active(), shared.options.nexus_pollers),
        },
        activity_poller_info: match shared.tasks.is_empty() {
            true => None,
            false => poller_info(shared.task_scaling.active(), shared.options.task_pollers),
        },
        workflow_poller_info: match shared.workflows.is_empty() {
            true => None,
            false => poller_info(shared.pollers_workflow().active(), shared.options.workflow_pollers),
        },
        ..Default::default()
    }
}

fn count(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// As the environment or Linux says; empty if neither does.
fn host_name() -> String {
    let name = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}
