//! The kinds of work there are, by name.

use std::str::FromStr;

use super::flows;

/// What kind of work to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// A workflow that completes in its first task.
    Empty,
    /// Start, a workflow task that schedules an activity, the activity, a workflow task that completes, the result read by a long poll:
    /// eight calls, the smallest workflow that does something.
    OneActivity,
    /// Ten activities, one after the other.
    Chain,
    /// A hundred activities at once.
    FanOut,
    /// A workflow that completes with the signal it waits for.
    Signal,
    /// Updates that the worker rejects.
    UpdateRejected,
    /// Updates that the worker accepts and completes in one task.
    UpdateAccepted,
    /// Sleeping workflows that wake at the same moment.
    Timers,
    /// A workflow with one child.
    Children,
    /// A workflow with one Nexus operation, which its handler completes at once.
    Operation,
    /// Starts alone, with no worker.
    StartOnly,
    /// Runs of many events.
    LongHistory,
    /// One activity, on top of many open workflows.
    Open,
    /// Activities that wait for a worker, then get one.
    Backlog,
    /// One activity with a payload of 1 KiB.
    Payload1K,
    /// One activity with a payload of 256 KiB.
    Payload256K,
    /// Pages and counts over many workflows with search attributes, at rest and beside other work.
    Lists,
    /// One activity, as a script that the server executes.
    Script,
    /// A hundred activities at once, as a script that the server executes.
    ScriptFanOut,
    /// Queries of scripts.
    ScriptQuery,
    /// Turns of a script early and late in its history.
    ScriptHistory,
    /// Scripts of one activity, on top of many suspended scripts.
    ScriptOpen,
    /// Reports of workers that do nothing else.
    Heartbeats,
    /// Schedules of which some are due in the same second.
    Schedules,
    /// A batch operation over many workflows, beside other calls.
    Batch,
}

/// Every workload, by the name it has on the command line and in tables.
pub const WORKLOADS: &[(&str, Workload)] = &[
    ("empty", Workload::Empty),
    ("one-activity", Workload::OneActivity),
    ("chain", Workload::Chain),
    ("fan-out", Workload::FanOut),
    ("signal", Workload::Signal),
    ("update-rejected", Workload::UpdateRejected),
    ("update-accepted", Workload::UpdateAccepted),
    ("timers", Workload::Timers),
    ("children", Workload::Children),
    ("operation", Workload::Operation),
    ("start-only", Workload::StartOnly),
    ("long-history", Workload::LongHistory),
    ("open", Workload::Open),
    ("backlog", Workload::Backlog),
    ("payload-1k", Workload::Payload1K),
    ("payload-256k", Workload::Payload256K),
    ("lists", Workload::Lists),
    ("script", Workload::Script),
    ("script-fan-out", Workload::ScriptFanOut),
    ("script-query", Workload::ScriptQuery),
    ("script-history", Workload::ScriptHistory),
    ("script-open", Workload::ScriptOpen),
    ("heartbeats", Workload::Heartbeats),
    ("schedules", Workload::Schedules),
    ("batch", Workload::Batch),
];

/// Activities of a chain.
const CHAIN_STEPS: usize = 10;

impl Workload {
    /// Its name.
    pub fn name(self) -> &'static str {
        WORKLOADS.iter().find(|(_, workload)| *workload == self).map_or("", |(name, _)| name)
    }

    /// Whether the work is only itself with a sticky queue, as SDKs have it: updates are speculative only then, and
    /// without one a workflow task is given the whole history again.
    pub fn needs_sticky(self) -> bool {
        let long = matches!(self, Self::Chain | Self::FanOut | Self::LongHistory | Self::Backlog);
        long || matches!(self, Self::UpdateRejected | Self::UpdateAccepted)
    }

    /// Whether each step of a chain is an operation.
    pub fn counts_steps(self) -> bool {
        self == Self::LongHistory
    }

    /// What workflows are started with.
    pub fn input(self) -> String {
        match self {
            Self::Chain => flows::chain_plan(CHAIN_STEPS),
            Self::Payload1K => "x".repeat(1 << 10),
            Self::Payload256K => "x".repeat(256 << 10),
            _ => "hello".to_owned(),
        }
    }

    /// What workflows come to, when that is not their input.
    pub fn output(self) -> Option<&'static str> {
        (self == Self::Chain).then_some("hello")
    }
}

impl FromStr for Workload {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        WORKLOADS.iter().find(|(name, _)| *name == text).map(|(_, workload)| *workload).ok_or(())
    }
}
