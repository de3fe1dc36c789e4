//! Counters of the node: plain atomics, which the server prints.

use std::sync::atomic::{AtomicU64, Ordering};

use segno_engine::{
    Run,
    state::{Activity, RunInfo},
};

use crate::labels::{Family, Latency};

macro_rules! counters {
    ($($name:ident: $help:literal),+ $(,)?) => {
        /// Counters of a node, all growing from zero.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $(#[doc = $help] pub $name: AtomicU64,)+
            /// Bytes of the state of a script after a turn.
            pub flow_state_bytes: Histogram<8, 2>,
            /// Commits in a group.
            pub commit_group: Histogram<0, 1>,
            /// Time to make a group of commits durable.
            pub commit_time: Latency,
            /// Runs started, by namespace and type.
            pub started_by_type: Family<2>,
            /// Runs closed, by namespace, type and status.
            pub closed_by_type: Family<3>,
            /// Workflow tasks handed to workers, by namespace and queue.
            pub workflow_tasks_by_queue: Family<2>,
            /// Activity tasks handed to workers, by namespace, queue and type.
            pub activity_tasks_by_queue: Family<3>,
            /// Requests of Nexus operations handed to workers, by the namespace of the caller, and endpoint.
            pub nexus_requests_by_endpoint: Family<2>,
        }

        impl Metrics {
            /// Name, help text and value of every counter.
            pub fn read(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $help, self.$name.load(Ordering::Relaxed))),+]
            }
        }
    };
}

counters! {
    commits: "Transitions made durable.",
    syncs: "Group commits: durable transactions, each one sync.",
    committed_bytes: "Bytes of history, state and messages in what was made durable.",
    commit_failures: "Commits that failed.",
    audit_lines_lost: "Entries of the audit log that could not be written.",
    calls_combined: "Calls that shared the commit of another call on the same run.",
    runs_started: "Workflow runs started.",
    runs_closed: "Workflow runs closed.",
    workflow_tasks_started: "Workflow tasks handed to workers.",
    activity_tasks_started: "Activity tasks handed to workers.",
    activity_tasks_eager: "Activity tasks handed to workers in answers to workflow tasks.",
    tasks_met: "Tasks of this node's runs that met a worker of this node without asking the home of their queue.",
    tasks_given_back: "Tasks given back because the worker's connection was gone.",
    queue_overflows: "Tasks not kept in memory because a queue was over its limit.",
    runs_loaded: "Runs loaded from storage.",
    runs_evicted: "Runs dropped from the cache.",
    wakes: "Wake-ups carried out.",
    messages_delivered: "Messages delivered between runs.",
    workers_lost: "Workers whose lease ended: gone, silent, or shut down while they had work.",
    activities_moved: "Attempts of activities that were taken from lost workers and are tried again.",
    activities_lost: "Activities that failed because their worker was lost and no attempt was left.",
    activities_quarantined: "Activities that were paused because too many workers were lost while they had them.",
    workflow_tasks_moved: "Workflow tasks that were taken from lost workers.",
    orphans_found: "Attempts that never reached the worker they were handed to.",
    flow_turns: "Turns of scripts.",
    flow_inline_turns: "Turns of scripts that were executed in the commit of their event.",
    flow_steps: "Steps that scripts executed.",
    flow_failed_turns: "Turns of scripts that failed and are tried again.",
    flow_log_dropped: "Lines that scripts logged and that were dropped because a run logged too much.",
    commands_sent: "Commands handed to workers.",
    commands_dropped: "Commands that no worker took in time.",
    routing_changes: "Changes of the routing of worker deployments.",
    version_transitions: "Workflows that moved to another version of their workers.",
    nexus_requests_failed: "Requests of Nexus operations that handlers answered with an error.",
    callbacks_delivered: "Callbacks that completed a Nexus operation.",
    callbacks_failed: "Callbacks that failed for good.",
    versions_drained: "Versions of workers that were found to have no pinned workflows left.",
}

/// Adds many.
pub fn add(counter: &AtomicU64, many: u64) {
    counter.fetch_add(many, Ordering::Relaxed);
}

/// Adds one.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    /// A run was started.
    pub fn run_started(&self, info: &RunInfo) {
        count(&self.runs_started);
        self.started_by_type.count([&info.namespace, &info.workflow_type]);
    }

    /// A workflow task was handed to a worker: to a poll, or eagerly in the answer to another call.
    pub fn workflow_task_started(&self, info: &RunInfo) {
        count(&self.workflow_tasks_started);
        self.workflow_tasks_by_queue.count([&info.namespace, &info.task_queue]);
    }

    /// An activity task was handed to a worker, likewise.
    pub fn activity_task_started(&self, info: &RunInfo, activity: &Activity) {
        count(&self.activity_tasks_started);
        self.activity_tasks_by_queue.count([&info.namespace, &activity.queue, &activity.activity_type]);
    }

    /// A handler answered the request of a Nexus operation with an error.
    pub fn nexus_request_failed(&self) {
        count(&self.nexus_requests_failed);
    }

    /// A run was closed.
    pub fn run_closed(&self, run: &Run) {
        count(&self.runs_closed);
        let status = run.status().as_str_name().trim_start_matches("WORKFLOW_EXECUTION_STATUS_");
        self.closed_by_type.count([&run.info.namespace, &run.info.workflow_type, status]);
    }
}

/// How values are distributed: buckets up to 2 to the power of `FIRST`, then of `STEP` more each.
#[derive(Debug, Default)]
pub struct Histogram<const FIRST: u32, const STEP: u32> {
    /// Values up to each bound and above the one before, then those above all of them.
    buckets: [AtomicU64; BOUNDS + 1],
    sum: AtomicU64,
}

/// Bounds of a [`Histogram`].
const BOUNDS: usize = 8;

impl<const FIRST: u32, const STEP: u32> Histogram<FIRST, STEP> {
    fn bounds() -> impl Iterator<Item = u64> {
        (0..BOUNDS as u32).map(|place| 1 << (FIRST + STEP * place))
    }

    /// Counts a value.
    pub fn observe(&self, value: u64) {
        let place = Self::bounds().take_while(|bound| *bound < value).count();
        count(&self.buckets[place]);
        add(&self.sum, value);
    }

    /// Upper bound of each bucket (`None` above the last) with the number of values up to it, and the sum of all values.
    pub fn read(&self) -> (Vec<(Option<u64>, u64)>, u64) {
        let bounds = Self::bounds().map(Some).chain([None]);
        let mut total = 0;
        let counted = bounds.zip(&self.buckets).map(|(bound, bucket)| {
            total += bucket.load(Ordering::Relaxed);
            (bound, total)
        });
        (counted.collect(), self.sum.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let histogram = Histogram::<8, 2>::default();
        for value in [0, 256, 257, 5 << 20] {
            histogram.observe(value);
        }
        let (buckets, sum) = histogram.read();
        assert_eq!((buckets[0], buckets[1]), ((Some(256), 2), (Some(1024), 3)));
        assert_eq!((buckets[7], buckets[8], sum), ((Some(4 << 20), 3), (None, 4), 513 + (5 << 20)));
        let groups = Histogram::<0, 1>::default();
        [1, 2, 3, 200].into_iter().for_each(|group| groups.observe(group));
        let bounds: Vec<_> = groups.read().0;
        assert_eq!((bounds[0], bounds[1], bounds[2]), ((Some(1), 1), (Some(2), 2), (Some(4), 3)));
        assert_eq!((bounds[7], bounds[8]), ((Some(128), 3), (None, 4)));
    }
}
