//! A run in the test host.

use std::collections::BTreeMap;

use crate::interface::{
    Command, End, Event, Failure, FailureInfo, LogLine, ParentClose, RetryPolicy, Start, TimeoutKind, WakeSet,
};

use super::operation::Operation;
use super::task::{Task, canceled};

/// How a run stands.
#[derive(Clone, Debug)]
pub(super) enum Status {
    Running,
    Completed(Vec<crate::interface::Payload>),
    Failed(Failure),
    Canceled(Vec<crate::interface::Payload>),
    Terminated,
    TimedOut,
    ContinuedAsNew,
}

impl Status {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed(_) => "COMPLETED",
            Self::Failed(_) => "FAILED",
            Self::Canceled(_) => "CANCELED",
            Self::Terminated => "TERMINATED",
            Self::TimedOut => "TIMED_OUT",
            Self::ContinuedAsNew => "CONTINUED_AS_NEW",
        }
    }

    /// How it ended; `None` if it runs, or another run follows.
    pub(super) fn end(&self) -> Option<End> {
        let failed = |message: &str, info| Failure { message: message.to_owned(), info, ..Failure::default() };
        Some(match self {
            Self::Running | Self::ContinuedAsNew => return None,
            Self::Completed(result) => Ok(result.clone()),
            Self::Failed(failure) => Err(failure.clone()),
            Self::Canceled(details) => Err(canceled(details.clone())),
            Self::Terminated => Err(failed("terminated", FailureInfo::Terminated)),
            Self::TimedOut => Err(failed(
                "workflow timeout",
                FailureInfo::Timeout { kind: TimeoutKind::StartToClose, last_heartbeat: Vec::new() },
            )),
        })
    }
}

/// What went into a turn and what came out of it.
#[derive(Clone, Debug)]
pub(super) struct TurnRecord {
    pub events: Vec<Event>,
    pub commands: Vec<Command>,
    pub log: Vec<LogLine>,
}

/// A run.
pub(super) struct Run {
    /// What it began with.
    pub start: Start,
    /// Its script; `None` if a mock plays it.
    pub script: Option<usize>,
    /// The run that started it as a child.
    pub parent: Option<usize>,
    pub parent_close: ParentClose,
    pub retry: Option<RetryPolicy>,
    /// In milliseconds; 0 is none.
    pub run_timeout: i64,
    pub status: Status,
    pub state: Option<Vec<u8>>,
    pub wake: WakeSet,
    /// Events since the last turn.
    pub recorded: Vec<Event>,
    pub turns: Vec<TurnRecord>,
    /// Pending timers, with their numbers on the agenda.
    pub timers: BTreeMap<String, u64>,
    pub tasks: BTreeMap<String, Task>,
    pub operations: BTreeMap<String, Operation>,
    pub log: Vec<LogLine>,
}

impl Run {
    pub(super) fn new(start: Start, script: Option<usize>) -> Self {
        Self {
            start,
            script,
            parent: None,
            parent_close: ParentClose::Terminate,
            retry: None,
            run_timeout: 0,
            status: Status::Running,
            state: None,
            wake: WakeSet::default(),
            recorded: Vec::new(),
            turns: Vec::new(),
            timers: BTreeMap::new(),
            tasks: BTreeMap::new(),
            operations: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.status, Status::Running)
    }
}
