//! Options of a node.

use segno_deployments::DeploymentLimits;
use segno_engine::{lease::LeaseSettings, limits::Limits};

/// Most tasks that a queue keeps in memory, unless the node is configured otherwise.
const QUEUE_TASKS_MAX: usize = 50_000;

/// Options of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Memory for cached runs.
    pub cache_bytes_max: usize,
    /// Limits of runs.
    pub limits: Limits,
    /// How long workers count as alive.
    pub leases: LeaseSettings,
    /// Whether polls of a worker that begins to shut down end at once.
    pub polls_end_on_shutdown: bool,
    /// Whether workflows may be paused.
    pub workflow_pause: bool,
    /// Whether there are workflow rules.
    pub workflow_rules: bool,
    /// Whether completions of workflow tasks may come in pages.
    pub completion_pages: bool,
    /// Whether clients may start Nexus operations without a workflow.
    pub nexus_standalone: bool,
    /// Whether standalone activities may have completion callbacks.
    pub activity_callbacks: bool,
    /// Whether updates may have completion callbacks.
    pub update_callbacks: bool,
    /// Whether workflows may call operations of the server itself.
    pub system_operations: bool,
    /// Options of worker deployments.
    pub deployments: DeploymentLimits,
    /// Most tasks that a queue keeps in memory; it reads the others from storage when it runs low.
    pub queue_tasks_max: usize,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            cache_bytes_max: 64 * 1024 * 1024,
            limits: Limits::default(),
            leases: LeaseSettings::default(),
            polls_end_on_shutdown: true,
            workflow_pause: false,
            workflow_rules: false,
            completion_pages: false,
            nexus_standalone: false,
            activity_callbacks: false,
            update_callbacks: false,
            system_operations: false,
            deployments: DeploymentLimits::default(),
            queue_tasks_max: QUEUE_TASKS_MAX,
        }
    }
}
