//! Messages between runs. They are stored with the transition that sends them, delivered at least once, and recognised
//! by the receiver.

use segno_proto::{
    Nanos,
    common::{Callback, Header, Link, Payload, Payloads, WorkflowExecution},
    events::{HistoryEvent, StartChildWorkflowExecutionInitiatedEventAttributes},
    failure::Failure,
    sdk::UserMetadata,
    workflow::NewWorkflowExecutionInfo,
};

use crate::state::{ScheduledBy, versioning::InheritedVersioning};

/// One message on its way, as stored.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OutboxMessage {
    /// Number of the row within the sending run.
    #[prost(uint32, tag = "1")]
    pub sequence: u32,
    /// Who sends.
    #[prost(message, required, tag = "2")]
    pub sender: WorkflowExecution,
    /// The sender's namespace.
    #[prost(string, tag = "3")]
    pub sender_namespace: String,
    /// The content.
    #[prost(oneof = "Content", tags = "10, 11, 12, 13, 14, 30, 31, 32, 33, 34")]
    pub content: Option<Content>,
}

/// The content of a message.
// Messages are few and short-lived; a box would cost more than it saves.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Content {
    /// Start a child and report its run id.
    #[prost(message, tag = "10")]
    StartChild(StartChild),
    /// Signal another workflow and report the outcome.
    #[prost(message, tag = "11")]
    Signal(SignalExternal),
    /// Request another workflow's cancellation and report the outcome.
    #[prost(message, tag = "12")]
    Cancel(CancelExternal),
    /// Tell the parent how this child closed.
    #[prost(message, tag = "13")]
    ChildClosed(ChildClosed),
    /// Apply the parent close policy to a child.
    #[prost(message, tag = "14")]
    ParentClosed(ParentClosed),
    /// Start a workflow of a schedule and report its run id.
    #[prost(message, tag = "30")]
    StartScheduled(StartScheduled),
    /// Tell a schedule how a workflow closed that it started.
    #[prost(message, tag = "31")]
    ScheduledClosed(ScheduledClosed),
    /// End a workflow that is in the way of the next one of its schedule.
    #[prost(message, tag = "32")]
    EndScheduled(EndScheduled),
    /// Tell a Nexus operation how the workflow closed that stands for it.
    #[prost(message, tag = "33")]
    Callback(CallbackDue),
    /// Start the workflow of a script that is the handler of a Nexus operation. Such a message is never stored: the operation, or the
    /// caller outside, makes the request again.
    #[prost(message, tag = "34")]
    StartOperation(StartOperation),
}

/// See [`Content::StartChild`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct StartChild {
    /// The event that asked for it.
    #[prost(int64, tag = "1")]
    pub initiated_event_id: i64,
    /// Its content.
    #[prost(message, required, tag = "2")]
    pub attributes: StartChildWorkflowExecutionInitiatedEventAttributes,
    /// The top of the tree.
    #[prost(message, required, tag = "3")]
    pub root: WorkflowExecution,
    /// Summary and details for the child.
    #[prost(message, optional, tag = "4")]
    pub user_metadata: Option<UserMetadata>,
    /// The versioning that the child has from its parent.
    #[prost(message, optional, tag = "5")]
    pub inherited: Option<InheritedVersioning>,
    /// Whether its task queue is that of its parent.
    #[prost(bool, tag = "6")]
    pub shares_queue: bool,
}

impl StartChild {
    /// Whether a child, by its initiated event, has the task queue of its parent.
    pub(crate) fn shares_queue(parent: &str, child: &StartChildWorkflowExecutionInitiatedEventAttributes) -> bool {
        child.task_queue.as_ref().is_some_and(|queue| queue.name == parent)
    }
}

/// See [`Content::Signal`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct SignalExternal {
    /// The event that asked for it.
    #[prost(int64, tag = "1")]
    pub initiated_event_id: i64,
    /// Target namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// The target.
    #[prost(message, required, tag = "3")]
    pub target: WorkflowExecution,
    /// Signal name.
    #[prost(string, tag = "4")]
    pub name: String,
    /// Signal input.
    #[prost(message, optional, tag = "5")]
    pub input: Option<Payloads>,
    /// Signal header.
    #[prost(message, optional, tag = "6")]
    pub header: Option<Header>,
    /// Whether the target must be a child of the sender.
    #[prost(bool, tag = "7")]
    pub child_only: bool,
}

/// See [`Content::Cancel`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct CancelExternal {
    /// The event that asked for it.
    #[prost(int64, tag = "1")]
    pub initiated_event_id: i64,
    /// Target namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// The target.
    #[prost(message, required, tag = "3")]
    pub target: WorkflowExecution,
    /// Whether the target must be a child of the sender.
    #[prost(bool, tag = "4")]
    pub child_only: bool,
    /// Why.
    #[prost(string, tag = "5")]
    pub reason: String,
}

/// See [`Content::ChildClosed`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChildClosed {
    /// The parent's namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The parent.
    #[prost(message, required, tag = "2")]
    pub parent: WorkflowExecution,
    /// The event by which the parent asked for this child.
    #[prost(int64, tag = "3")]
    pub initiated_event_id: i64,
    /// The child's closing event.
    #[prost(message, required, tag = "4")]
    pub closing_event: HistoryEvent,
    /// First run of the child's chain: the run the parent knows.
    #[prost(string, tag = "5")]
    pub first_run_id: String,
}

/// See [`Content::ParentClosed`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ParentClosed {
    /// The child's namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The child: its workflow id and first run.
    #[prost(message, required, tag = "2")]
    pub child: WorkflowExecution,
    /// `ParentClosePolicy`: terminate or request cancel.
    #[prost(int32, tag = "3")]
    pub policy: i32,
    /// If the parent has not received which run was started: the event that initiated it.
    #[prost(int64, tag = "4")]
    pub unreported: i64,
}

/// See [`Content::StartScheduled`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct StartScheduled {
    /// Its number among the starts of the schedule.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// The workflow to start.
    #[prost(message, required, tag = "2")]
    pub workflow: NewWorkflowExecutionInfo,
    /// The schedule, as its user names it.
    #[prost(string, tag = "3")]
    pub schedule_id: String,
    /// Who starts it.
    #[prost(string, tag = "4")]
    pub identity: String,
    /// The time for which it is scheduled.
    #[prost(int64, tag = "5")]
    pub nominal: Nanos,
    /// Whether a caller asked for it.
    #[prost(bool, tag = "6")]
    pub manual: bool,
    /// Whether the schedule waits for its end.
    #[prost(bool, tag = "7")]
    pub single: bool,
    /// The result of the last workflow.
    #[prost(message, optional, tag = "8")]
    pub last_result: Option<Payloads>,
    /// How the last workflow failed.
    #[prost(message, optional, tag = "9")]
    pub last_failure: Option<Failure>,
}

/// See [`Content::ScheduledClosed`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScheduledClosed {
    /// The schedule, and which of its starts it was.
    #[prost(message, required, tag = "1")]
    pub by: ScheduledBy,
    /// The workflow, with the first run of its chain.
    #[prost(message, required, tag = "2")]
    pub workflow: WorkflowExecution,
    /// Its closing event.
    #[prost(message, required, tag = "3")]
    pub closing_event: HistoryEvent,
}

/// See [`Content::EndScheduled`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct EndScheduled {
    /// The workflow, with the first run of its chain.
    #[prost(message, required, tag = "1")]
    pub execution: WorkflowExecution,
    /// Whether it is terminated; otherwise its cancellation is requested.
    #[prost(bool, tag = "2")]
    pub terminate: bool,
    /// Why.
    #[prost(string, tag = "3")]
    pub reason: String,
    /// Who.
    #[prost(string, tag = "4")]
    pub identity: String,
}

/// See [`Content::Callback`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct CallbackDue {
    /// Which of the callbacks of the sender.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// The report for the receiver. It is read from the sender when the message is delivered, and not stored with it.
    #[prost(message, optional, tag = "2")]
    pub report: Option<CallbackReport>,
}

/// See [`Content::StartOperation`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct StartOperation {
    /// The namespace of the script.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The script, by its name.
    #[prost(string, tag = "2")]
    pub script: String,
    /// Its input.
    #[prost(message, optional, tag = "3")]
    pub input: Option<Payload>,
    /// By which a repeated request is recognised.
    #[prost(string, tag = "4")]
    pub request_id: String,
    /// Reports the end of the workflow.
    #[prost(message, optional, tag = "5")]
    pub callback: Option<Callback>,
    /// Links of the workflow's first event, if there is no callback that has them.
    #[prost(message, repeated, tag = "6")]
    pub links: Vec<Link>,
}

/// The end of a workflow, as its callback reports it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CallbackReport {
    /// The callback.
    #[prost(message, required, tag = "1")]
    pub callback: Callback,
    /// The event that closed the workflow.
    #[prost(message, required, tag = "2")]
    pub closing_event: HistoryEvent,
    /// When the workflow was started.
    #[prost(int64, tag = "3")]
    pub started_time: Nanos,
    /// The event that stands for the start of the operation.
    #[prost(message, optional, tag = "4")]
    pub link: Option<Link>,
    /// The end that a handler outside the server reported. It counts instead of the closing event.
    #[prost(message, optional, tag = "5")]
    pub reported: Option<ReportedEnd>,
}

/// The end of an operation, as a handler outside the server reported it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportedEnd {
    /// How it ended.
    #[prost(oneof = "ReportedOutcome", tags = "1, 2, 3")]
    pub outcome: Option<ReportedOutcome>,
    /// Links of its start.
    #[prost(message, repeated, tag = "4")]
    pub links: Vec<Link>,
}

/// The outcome of an operation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ReportedOutcome {
    /// With a result.
    #[prost(message, tag = "1")]
    Completed(Payload),
    /// With a failure.
    #[prost(message, tag = "2")]
    Failed(Failure),
    /// It was canceled.
    #[prost(message, tag = "3")]
    Canceled(Failure),
}
