//! Errors about code that differs from its history.

use std::fmt;

/// How code and history differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    /// Another task, or another id.
    TaskTypeMismatch,
    /// A timer of another length.
    TimerDurationMismatch,
    /// Another child.
    ChildWorkflowMismatch,
    /// Another Nexus operation.
    NexusOperationMismatch,
    /// Another local operation.
    OperationNameMismatch,
    /// Other keys of state, memo or search attributes.
    StateKeyMismatch,
    /// A command of another type.
    CommandTypeMismatch,
    /// History has a command that the code does not ask for.
    RemovedCommand,
    /// The code asks for a command that history does not have.
    ExtraCommand,
    /// A patch that the code no longer asks for, or another one.
    PatchMismatch,
    /// The code ends where history goes on.
    ClosedEarly,
    /// Code outside of the workflow woke one of its futures.
    ForeignWake,
    /// A workflow task that does not come to rest.
    NeverRests,
}

/// Where and how code and history differ. It reaches no user code: the workflow task fails and the run waits for a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeterminismViolation {
    /// How they differ.
    pub kind: ViolationKind,
    /// The workflow.
    pub workflow_id: String,
    /// The run.
    pub run_id: String,
    /// The event that does not fit; 0 if there is none.
    pub event_id: i64,
    /// The end of the workflow task whose commands are compared; 0 if there is none.
    pub task_completed_event_id: i64,
    /// Which one of its type it is, from 1; 0 if that says nothing.
    pub sequence: u64,
    /// The event in history.
    pub expected: String,
    /// The command that the code issues.
    pub actual: String,
    /// File, line and column at which the code issues it, if it is one that a call asks for.
    pub place: Option<String>,
}

impl fmt::Display for DeterminismViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, event_id, sequence, expected, actual, place, .. } = self;
        let what = match kind {
            ViolationKind::TaskTypeMismatch => "task",
            ViolationKind::TimerDurationMismatch => "timer",
            ViolationKind::ChildWorkflowMismatch => "child",
            ViolationKind::NexusOperationMismatch => "Nexus operation",
            ViolationKind::OperationNameMismatch => "operation",
            ViolationKind::StateKeyMismatch => "state",
            ViolationKind::PatchMismatch => "patch",
            ViolationKind::ForeignWake | ViolationKind::NeverRests => return f.write_str(actual),
            _ => "command",
        };
        if *sequence != 0 {
            write!(f, "{what} #{sequence}: ")?;
        }
        match *event_id {
            0 => write!(f, "history has {expected}, the code asks for {actual}")?,
            _ => write!(f, "event {event_id} {expected}, the code asks for {actual}")?,
        }
        match place {
            Some(place) => write!(f, " at {place}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DeterminismViolation {}

impl DeterminismViolation {
    /// All of it, for people who look at the failed workflow task.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "kind": format!("{:?}", self.kind),
            "workflow_id": self.workflow_id,
            "run_id": self.run_id,
            "event_id": self.event_id,
            "task_completed_event_id": self.task_completed_event_id,
            "sequence": self.sequence,
            "expected": self.expected,
            "actual": self.actual,
            "place": self.place,
        })
    }
}
