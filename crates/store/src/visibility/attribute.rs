//! Attributes that filters can name: those of the server, and custom ones.

/// The type of an attribute's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A text compared as a whole.
    Keyword,
    /// Several such texts; one that fits is enough.
    KeywordList,
    /// A text searched by its words.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Double,
    /// True or false.
    Bool,
    /// A moment, in nanoseconds since the epoch.
    Datetime,
}

/// An attribute that a filter can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// The user's name for the workflow.
    WorkflowId,
    /// The run's id.
    RunId,
    /// Name of the workflow type.
    WorkflowType,
    /// Open, or how it closed: the number of a `WorkflowExecutionStatus`.
    ExecutionStatus,
    /// When the run was created.
    StartTime,
    /// When its first workflow task was due.
    ExecutionTime,
    /// When it closed.
    CloseTime,
    /// From execution time to close, in nanoseconds.
    ExecutionDuration,
    /// Its task queue.
    TaskQueue,
    /// Number of events, once closed.
    HistoryLength,
    /// Bytes of history, once closed.
    HistorySizeBytes,
    /// Number of transitions, once closed.
    StateTransitionCount,
    /// The parent's workflow id.
    ParentWorkflowId,
    /// The parent's run id.
    ParentRunId,
    /// The workflow id at the top of the tree of parents.
    RootWorkflowId,
    /// The run id at the top of the tree of parents.
    RootRunId,
    /// Highest attempt among pending activities that failed before.
    ActivityAttempts,
    /// Last failure of the pending activity with the most attempts.
    ActivityLastFailure,
    /// Attempt of the pending workflow task, if earlier ones failed.
    WorkflowTaskAttempts,
    /// Why the last attempt of the pending workflow task failed.
    WorkflowTaskLastFailure,
    /// One with a number: predefined ones have small numbers, those of a namespace begin at 1000.
    Numbered(u32, Kind),
}

impl Attribute {
    /// The type of its values.
    pub fn kind(self) -> Kind {
        match self {
            Self::Numbered(_, kind) => kind,
            Self::StartTime | Self::ExecutionTime | Self::CloseTime => Kind::Datetime,
            Self::ExecutionStatus
            | Self::ExecutionDuration
            | Self::HistoryLength
            | Self::HistorySizeBytes
            | Self::StateTransitionCount
            | Self::ActivityAttempts
            | Self::WorkflowTaskAttempts => Kind::Int,
            Self::ActivityLastFailure | Self::WorkflowTaskLastFailure => Kind::Text,
            _ => Kind::Keyword,
        }
    }
}
