//! Metrics of a worker, if its client has metrics (see [`crate::telemetry::Metrics`]).

use std::time::Duration;

use segno_proto::{
    command::Command,
    enums::CommandType,
    workflowservice::{PollActivityTaskQueueResponse, PollWorkflowTaskQueueResponse},
};

use super::{shared::Shared, slots::Slots};
use crate::telemetry::Metrics;

/// Labels that everything of a worker has, and one of its own.
type Labels<'a> = [(&'a str, &'a str); 3];

impl Shared {
    fn counting<'a>(&'a self, label: (&'a str, &'a str)) -> Option<(&'a Metrics, Labels<'a>)> {
        let metrics = self.client.metrics()?;
        Some((metrics, [("namespace", self.client.namespace()), ("task_queue", &self.queue), label]))
    }

    /// The worker begins.
    pub(super) fn meter_start(&self) {
        let Some((metrics, labels)) = self.counting(("worker_type", "Worker")) else { return };
        metrics.count("temporal_worker_start", &labels);
    }

    /// A poll ended, with or without a task. `kind` is the one that is polled for.
    pub(super) fn meter_poll(&self, kind: PolledKind, found: bool) {
        let Some((metrics, labels)) = self.counting(("poller_type", kind.name())) else { return };
        let name = match (kind, found) {
            (PolledKind::Task | PolledKind::Nexus, true) => return,
            (PolledKind::Nexus, false) => "temporal_nexus_poll_no_task",
            (PolledKind::Task, false) => "temporal_activity_poll_no_task",
            (_, true) => "temporal_workflow_task_queue_poll_succeed",
            (_, false) => "temporal_workflow_task_queue_poll_empty",
        };
        metrics.count(name, &labels);
    }

    /// A task begins.
    pub(super) fn meter_task_start(&self, kind: &str, task: &PollActivityTaskQueueResponse) {
        let Some((metrics, labels)) = self.counting(("activity_type", kind)) else { return };
        let scheduled = task.current_attempt_scheduled_time.as_ref();
        metrics.observe_since("temporal_activity_schedule_to_start_latency_seconds", &labels, scheduled);
        self.meter_slots(metrics, "ActivityWorker", &self.slots);
    }

    /// An attempt of a task is over.
    pub(super) fn meter_task_end(
        &self,
        kind: &str,
        task: &PollActivityTaskQueueResponse,
        took: Duration,
        succeeded: bool,
        failed: bool,
    ) {
        let Some((metrics, labels)) = self.counting(("activity_type", kind)) else { return };
        metrics.observe("temporal_activity_execution_latency_seconds", &labels, took);
        if failed {
            metrics.count("temporal_activity_execution_failed", &labels);
        }
        if succeeded {
            let scheduled = task.scheduled_time.as_ref();
            metrics.observe_since("temporal_activity_succeed_endtoend_latency_seconds", &labels, scheduled);
        }
        self.meter_slots(metrics, "ActivityWorker", &self.slots);
    }

    fn meter_slots(&self, metrics: &Metrics, worker_type: &str, slots: &Slots) {
        let labels =
            [("namespace", self.client.namespace()), ("task_queue", &*self.queue), ("worker_type", worker_type)];
        let used = slots.used();
        metrics.set("temporal_worker_task_slots_used", &labels, used);
        metrics.set("temporal_worker_task_slots_available", &labels, slots.max().saturating_sub(used));
    }

    /// A request to a Nexus operation comes.
    pub(super) fn meter_nexus_start(&self, service: &str, scheduled: Option<&prost_types::Timestamp>) {
        let Some((metrics, labels)) = self.counting(("nexus_service", service)) else { return };
        metrics.observe_since("temporal_nexus_task_schedule_to_start_latency_seconds", &labels, scheduled);
        self.meter_slots(metrics, "NexusWorker", &self.nexus_slots);
    }

    /// A request to a Nexus operation was handled.
    pub(super) fn meter_nexus_end(
        &self,
        service: &str,
        scheduled: Option<&prost_types::Timestamp>,
        took: Duration,
        failed: bool,
    ) {
        let Some((metrics, labels)) = self.counting(("nexus_service", service)) else { return };
        metrics.observe("temporal_nexus_task_execution_latency_seconds", &labels, took);
        metrics.observe_since("temporal_nexus_task_endtoend_latency_seconds", &labels, scheduled);
        if failed {
            metrics.count("temporal_nexus_task_execution_failed", &labels);
        }
        self.meter_slots(metrics, "NexusWorker", &self.nexus_slots);
    }

    /// A workflow task came, for a run that is in memory or not.
    pub(super) fn meter_workflow_task_start(&self, task: &PollWorkflowTaskQueueResponse, was_cached: bool) {
        let Some((metrics, labels)) = self.counting(("workflow_type", workflow_type(task))) else { return };
        let scheduled = task.scheduled_time.as_ref();
        metrics.observe_since("temporal_workflow_task_schedule_to_start_latency_seconds", &labels, scheduled);
        if was_cached {
            metrics.count("temporal_sticky_cache_hit", &labels[..2]);
        } else if task.previous_started_event_id > 0 {
            metrics.count("temporal_sticky_cache_miss", &labels[..2]);
        }
    }

    /// A workflow task is answered with these commands.
    pub(super) fn meter_workflow_task_end(
        &self,
        task: &PollWorkflowTaskQueueResponse,
        took: Duration,
        commands: &[Command],
    ) {
        let Some((metrics, labels)) = self.counting(("workflow_type", workflow_type(task))) else { return };
        metrics.observe("temporal_workflow_task_execution_latency_seconds", &labels, took);
        let closes = commands.last().and_then(|command| match command.command_type() {
            CommandType::CompleteWorkflowExecution => Some("temporal_workflow_completed"),
            CommandType::FailWorkflowExecution => Some("temporal_workflow_failed"),
            CommandType::CancelWorkflowExecution => Some("temporal_workflow_canceled"),
            CommandType::ContinueAsNewWorkflowExecution => Some("temporal_workflow_continue_as_new"),
            _ => None,
        });
        if let Some(name) = closes {
            metrics.count(name, &labels);
        }
    }

    /// A workflow task failed.
    pub(super) fn meter_workflow_task_failed(&self, task: &PollWorkflowTaskQueueResponse) {
        let Some((metrics, labels)) = self.counting(("workflow_type", workflow_type(task))) else { return };
        metrics.count("temporal_workflow_task_execution_failed", &labels);
    }

    /// Runs are in memory; so many had to go.
    pub(super) fn meter_cache(&self, size: usize, evicted: usize) {
        let Some((metrics, labels)) = self.counting(("worker_type", "WorkflowWorker")) else { return };
        metrics.set("temporal_sticky_cache_size", &labels[..2], size);
        for _ in 0..evicted {
            metrics.count("temporal_sticky_cache_total_forced_eviction", &labels[..2]);
        }
    }
}

/// The tasks that a poll is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolledKind {
    Task,
    Workflow,
    Sticky,
    Nexus,
}

impl PolledKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Task => "activity_task",
            Self::Workflow => "workflow_task",
            Self::Sticky => "sticky_workflow_task",
            Self::Nexus => "nexus_task",
        }
    }
}

fn workflow_type(task: &PollWorkflowTaskQueueResponse) -> &str {
    task.workflow_type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default()
}
