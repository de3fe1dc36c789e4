//! Input and output of a turn. The server translates these types from and to its protocol.

use std::sync::Arc;

/// A payload: bytes with metadata that says how they are encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Metadata by name, sorted by name.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// The encoded value.
    pub data: Vec<u8>,
}

impl Payload {
    /// Its bytes, with those of the metadata.
    #[must_use]
    pub fn size(&self) -> usize {
        self.data.len() + self.metadata.iter().map(|(name, value)| name.len() + value.len() + 64).sum::<usize>()
    }
}

/// The bytes of several payloads.
fn sizes<'p>(payloads: impl IntoIterator<Item = &'p Payload>) -> usize {
    payloads.into_iter().map(|payload| payload.size() + 64).sum()
}

/// A failure as the protocol has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// Who says so (`segno-flow`, `PythonSDK`).
    pub source: String,
    /// The stack of the code that says so.
    pub stack_trace: String,
    /// What led to it.
    pub cause: Option<Box<Failure>>,
    /// What kind of failure it is.
    pub info: FailureInfo,
    /// The failure as it was encoded when it came in. Set only on the outermost one. What leaves unchanged leaves as this.
    pub encoded: Option<Arc<[u8]>>,
}

impl Failure {
    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let mut bytes = 0;
        let mut next = Some(self);
        while let Some(failure) = next {
            let texts = failure.message.len() + failure.source.len() + failure.stack_trace.len();
            let info = match &failure.info {
                FailureInfo::Application { kind, details, .. } => kind.len() + sizes(details),
                FailureInfo::Timeout { last_heartbeat: details, .. }
                | FailureInfo::Canceled { details }
                | FailureInfo::Reset { last_heartbeat: details } => sizes(details),
                FailureInfo::Activity { id, name, identity, .. } => id.len() + name.len() + identity.len(),
                FailureInfo::Child { namespace, workflow_id, run_id, name, .. } => {
                    namespace.len() + workflow_id.len() + run_id.len() + name.len()
                }
                FailureInfo::Nexus { endpoint, service, operation, token, .. } => {
                    endpoint.len() + service.len() + operation.len() + token.len()
                }
                FailureInfo::NexusHandler { kind, .. } => kind.len(),
                FailureInfo::None | FailureInfo::Terminated | FailureInfo::Server { .. } => 0,
            };
            bytes += size_of::<Self>() + texts + info + failure.encoded.as_ref().map_or(0, |encoded| encoded.len());
            next = failure.cause.as_deref();
        }
        bytes
    }
}

/// The kinds of failures. Fields are those of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the protocol")]
pub enum FailureInfo {
    #[default]
    None,
    Application {
        kind: String,
        non_retryable: bool,
        details: Vec<Payload>,
    },
    Timeout {
        kind: TimeoutKind,
        last_heartbeat: Vec<Payload>,
    },
    Canceled {
        details: Vec<Payload>,
    },
    Terminated,
    Server {
        non_retryable: bool,
    },
    Reset {
        last_heartbeat: Vec<Payload>,
    },
    Activity {
        id: String,
        name: String,
        scheduled_event_id: i64,
        started_event_id: i64,
        identity: String,
        retry_state: i32,
    },
    Child {
        namespace: String,
        workflow_id: String,
        run_id: String,
        name: String,
        initiated_event_id: i64,
        started_event_id: i64,
        retry_state: i32,
    },
    Nexus {
        scheduled_event_id: i64,
        endpoint: String,
        service: String,
        operation: String,
        token: String,
    },
    NexusHandler {
        kind: String,
        retry_behavior: i32,
    },
}

/// Which time-out it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the protocol")]
pub enum TimeoutKind {
    #[default]
    Unspecified,
    StartToClose,
    ScheduleToStart,
    ScheduleToClose,
    Heartbeat,
}

/// The outcome of an operation.
pub type End = Result<Vec<Payload>, Failure>;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub time: i64,
    /// What.
    pub kind: EventKind,
}

impl Event {
    /// The bytes of its payloads and texts.
    #[must_use]
    pub fn size(&self) -> usize {
        let end = |end: &End| match end {
            Ok(payloads) => sizes(payloads),
            Err(failure) => failure.size(),
        };
        match &self.kind {
            EventKind::Started(start) => {
                let attributes = start.memo.iter().chain(&start.search_attributes).map(|(_, payload)| payload);
                sizes(start.input.iter().chain(attributes))
            }
            EventKind::Signaled { input, .. } | EventKind::Update { input, .. } => sizes(input),
            EventKind::CancelRequested { reason } => reason.len(),
            EventKind::TaskEnded { end: ended, .. }
            | EventKind::NexusEnded { end: ended, .. }
            | EventKind::ChildEnded { end: ended, .. } => end(ended),
            _ => 0,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The run began. Always the first event, and only that.
    Started(Box<Start>),
    /// A signal arrived.
    Signaled {
        /// Its name.
        name: String,
        /// Its arguments.
        input: Vec<Payload>,
    },
    /// A caller asked to cancel the run.
    CancelRequested {
        /// The reason; may be empty.
        reason: String,
    },
    /// The run was reset: what follows belongs to a new run with the same state.
    Reset {
        /// The id of the new run.
        run_id: String,
    },
    /// An update arrived.
    Update {
        /// The id of the update; answers name it.
        id: String,
        /// The name of the handler.
        name: String,
        /// Its arguments.
        input: Vec<Payload>,
    },
    /// A task ended. The failure is the outermost one (activity failure with a cause).
    TaskEnded {
        /// The id of the task.
        id: String,
        /// How it ended.
        end: End,
    },
    /// A Nexus operation ended. The failure is the outermost one (Nexus operation failure with a cause).
    NexusEnded {
        /// Its id.
        id: String,
        /// How it ended.
        end: End,
    },
    /// A timer fired.
    TimerFired {
        /// Its id.
        id: String,
    },
    /// A child has started.
    ChildStarted {
        /// Its workflow id.
        workflow_id: String,
        /// Its run id.
        run_id: String,
    },
    /// A child could not be started.
    ChildNotStarted {
        /// Its workflow id.
        workflow_id: String,
        /// Why.
        reason: NotSent,
    },
    /// A child ended. The failure is the outermost one (child workflow failure with a cause).
    ChildEnded {
        /// Its workflow id.
        workflow_id: String,
        /// How it ended.
        end: End,
    },
    /// A signal or cancel request to another workflow has arrived there, or could not be delivered.
    SendEnded {
        /// The id of the promise (`send-1`).
        id: String,
        /// Why it could not be delivered.
        failed: Option<NotSent>,
    },
    /// The state was moved to this version, see [`crate::migrate`].
    Migrated,
}

/// Why a message could not be sent to another workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// No such workflow, namespace or script. The text says which.
    NotFound(String),
    /// A workflow of that id exists.
    AlreadyStarted,
    /// Anything else.
    Other(String),
}

/// What a run knows about itself from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields of Workflow.info()")]
pub struct Start {
    pub workflow_id: String,
    pub run_id: String,
    pub name: String,
    /// The version of the script, all 64 digits.
    pub version: String,
    pub namespace: String,
    pub task_queue: String,
    pub attempt: u32,
    /// In milliseconds since 1970.
    pub started_at: i64,
    /// Workflow id and run id.
    pub parent: Option<(String, String)>,
    /// The run id of the run before this one, empty if there is none.
    pub continued_from: String,
    /// The cron text, empty if there is none.
    pub cron: String,
    pub memo: Vec<(String, Payload)>,
    pub search_attributes: Vec<(String, Payload)>,
    /// Arguments of the workflow.
    pub input: Vec<Payload>,
    /// The types of the search attributes of the namespace, for checks: `Keyword`, `Text`, `Int`, `Double`, `Bool`,
    /// `Datetime`, `KeywordList`.
    pub attribute_types: Vec<(String, String)>,
}

/// What a turn asks the server to do, in program order.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Start a task.
    ScheduleTask(Box<ScheduleTask>),
    /// Ask a task to cancel.
    CancelTask {
        /// Its id.
        id: String,
    },
    /// Start a Nexus operation.
    ScheduleNexus(Box<ScheduleNexus>),
    /// Ask a Nexus operation to cancel.
    CancelNexus {
        /// Its id.
        id: String,
    },
    /// Start a timer.
    StartTimer {
        /// Its id.
        id: String,
        /// In milliseconds.
        duration: i64,
    },
    /// Cancel a timer.
    CancelTimer {
        /// Its id.
        id: String,
    },
    /// Start a child.
    StartChild(Box<StartChild>),
    /// Ask a child to cancel.
    CancelChild {
        /// Its workflow id.
        workflow_id: String,
        /// The reason.
        reason: String,
    },
    /// Send a signal to another workflow.
    Signal {
        /// The id of the promise.
        id: String,
        /// The workflow to signal.
        workflow_id: String,
        /// Its run id; empty for the current one.
        run_id: String,
        /// The name of the signal.
        name: String,
        /// Its arguments.
        input: Vec<Payload>,
    },
    /// Ask another workflow to cancel.
    CancelWorkflow {
        /// The id of the promise.
        id: String,
        /// The workflow.
        workflow_id: String,
        /// Its run id; empty for the current one.
        run_id: String,
        /// The reason.
        reason: String,
    },
    /// Merge into the memo; `None` removes. At most one per turn.
    SetMemo(Vec<(String, Option<Payload>)>),
    /// Merge into the search attributes; `None` removes. At most one per turn.
    SetSearchAttributes(Vec<(String, Option<Payload>)>),
    /// An update was accepted.
    AcceptUpdate {
        /// Its id.
        id: String,
    },
    /// An update was rejected.
    RejectUpdate {
        /// Its id.
        id: String,
        /// Why.
        failure: Failure,
    },
    /// An accepted update has ended.
    EndUpdate {
        /// Its id.
        id: String,
        /// How.
        end: End,
    },
    /// The run completes. Always the last command, as are the next three.
    Complete {
        /// The result: none or one payload.
        result: Vec<Payload>,
    },
    /// The run fails.
    Fail {
        /// Why.
        failure: Failure,
    },
    /// The run is canceled.
    Cancel {
        /// Details of the error that left the body.
        details: Vec<Payload>,
    },
    /// A new run follows.
    ContinueAsNew(Box<ContinueAsNew>),
}

impl Command {
    /// Whether the run ends with it.
    #[must_use]
    pub const fn closes(&self) -> bool {
        matches!(self, Self::Complete { .. } | Self::Fail { .. } | Self::Cancel { .. } | Self::ContinueAsNew(_))
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let retry = |retry: &Option<RetryPolicy>| {
            retry.iter().flat_map(|retry| &retry.non_retryable).map(|text| text.len() + 24).sum::<usize>()
        };
        let fields = |fields: &[(String, Payload)]| {
            fields.iter().map(|(name, payload)| name.len() + payload.size() + 88).sum::<usize>()
        };
        let changes = |changes: &[(String, Option<Payload>)]| {
            changes.iter().map(|(name, change)| name.len() + 88 + sizes(change)).sum::<usize>()
        };
        size_of::<Self>()
            + match self {
                Self::ScheduleTask(task) => {
                    let texts = task.id.len() + task.name.len() + task.queue.len() + task.summary.len();
                    size_of::<ScheduleTask>() + texts + sizes(&task.input) + retry(&task.retry)
                }
                Self::ScheduleNexus(order) => {
                    let names = order.id.len() + order.endpoint.len() + order.service.len() + order.operation.len();
                    let headers = order.headers.iter().map(|(name, value)| name.len() + value.len() + 48);
                    let more = order.summary.len() + headers.sum::<usize>();
                    size_of::<ScheduleNexus>() + names + more + sizes(&order.input)
                }
                Self::StartChild(child) => {
                    let texts = child.workflow_id.len() + child.name.len() + child.queue.len();
                    let more = child.cron.len() + child.summary.len() + retry(&child.retry);
                    let attributes = fields(&child.memo) + fields(&child.search_attributes);
                    size_of::<StartChild>() + texts + more + attributes + sizes(&child.input)
                }
                Self::CancelTask { id } | Self::CancelNexus { id } | Self::CancelTimer { id } => id.len(),
                Self::StartTimer { id, .. } | Self::AcceptUpdate { id } => id.len(),
                Self::CancelChild { workflow_id, reason } => workflow_id.len() + reason.len(),
                Self::Signal { id, workflow_id, run_id, name, input } => {
                    id.len() + workflow_id.len() + run_id.len() + name.len() + sizes(input)
                }
                Self::CancelWorkflow { id, workflow_id, run_id, reason } => {
                    id.len() + workflow_id.len() + run_id.len() + reason.len()
                }
                Self::SetMemo(set) | Self::SetSearchAttributes(set) => changes(set),
                Self::RejectUpdate { id, failure } | Self::EndUpdate { id, end: Err(failure) } => {
                    id.len() + failure.size()
                }
                Self::EndUpdate { id, end: Ok(payloads) } => id.len() + sizes(payloads),
                Self::Complete { result: payloads } | Self::Cancel { details: payloads } => sizes(payloads),
                Self::Fail { failure } => failure.size(),
                Self::ContinueAsNew(next) => {
                    let signals = next.signals.iter().map(|(name, input)| name.len() + sizes(input) + 48);
                    size_of::<ContinueAsNew>() + next.queue.len() + sizes(&next.input) + signals.sum::<usize>()
                }
            }
    }
}

/// How often and when to try again. Zero and empty mean the server's default.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names of the protocol")]
pub struct RetryPolicy {
    /// In milliseconds.
    pub initial_interval: i64,
    pub backoff: f64,
    /// In milliseconds.
    pub max_interval: i64,
    /// 0 is without limit.
    pub max_attempts: i32,
    pub non_retryable: Vec<String>,
}

/// A task to start. Durations in milliseconds, 0 is none.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names of the options")]
pub struct ScheduleTask {
    pub id: String,
    pub name: String,
    /// Empty: the default of the run (its task queue, or `default` if that is `segno-flow`).
    pub queue: String,
    pub input: Vec<Payload>,
    pub start_to_close: i64,
    pub schedule_to_close: i64,
    pub schedule_to_start: i64,
    pub heartbeat: i64,
    pub retry: Option<RetryPolicy>,
    /// 1 to 5; 0: the run's.
    pub priority: i32,
    pub summary: String,
}

/// A Nexus operation to start. Durations in milliseconds, 0 is none.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names of the arguments and options")]
pub struct ScheduleNexus {
    pub id: String,
    pub endpoint: String,
    pub service: String,
    pub operation: String,
    /// None or one.
    pub input: Option<Payload>,
    pub schedule_to_close: i64,
    pub schedule_to_start: i64,
    pub start_to_close: i64,
    /// Names and values, sorted by name.
    pub headers: Vec<(String, String)>,
    pub summary: String,
}

/// What happens to a child when its parent closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the options")]
pub enum ParentClose {
    #[default]
    Terminate,
    Abandon,
    Cancel,
}

/// Whether the id of a closed workflow may be used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the options")]
pub enum IdReuse {
    #[default]
    Allow,
    AllowFailed,
    Reject,
}

/// A child to start. Durations in milliseconds, 0 is none.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names of the options")]
pub struct StartChild {
    pub workflow_id: String,
    pub name: String,
    /// Empty: the run's.
    pub queue: String,
    pub input: Vec<Payload>,
    pub execution_timeout: i64,
    pub run_timeout: i64,
    pub retry: Option<RetryPolicy>,
    pub parent_close: ParentClose,
    pub id_reuse: IdReuse,
    pub cron: String,
    pub memo: Vec<(String, Payload)>,
    pub search_attributes: Vec<(String, Payload)>,
    pub priority: i32,
    pub summary: String,
}

/// The run that follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContinueAsNew {
    /// Its arguments.
    pub input: Vec<Payload>,
    /// Empty: as this run.
    pub queue: String,
    /// In milliseconds; 0: as this run.
    pub run_timeout: i64,
    /// Whether the new run keeps the version of this one instead of taking the current one.
    pub same_version: bool,
    /// Signals that no code has taken, in order; they belong to the new run.
    pub signals: Vec<(String, Vec<Payload>)>,
}

/// A line that the script logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// In milliseconds since 1970.
    pub time: i64,
    /// The line of the source.
    pub line: u32,
    /// The message.
    pub message: String,
    /// The data, as JSON.
    pub data: Option<String>,
}

/// When the server must execute the next turn. Everything that is not listed is recorded only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WakeSet {
    /// Names of signals that have a wait or a handler, sorted.
    pub signals: Vec<String>,
    /// What the end of each pending operation does, sorted by kind and id. For a child that `Workflow.start` began the
    /// end is its start; whether the start of a child wakes is in [`Operation::wakes_on_start`].
    pub operations: Vec<Operation>,
    /// Groups, numbered by their place.
    pub groups: Vec<Group>,
    /// Signals that no code has taken.
    pub signals_waiting: usize,
}

/// A pending operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// What it is.
    pub kind: OperationKind,
    /// Its id: activity id, timer id, workflow id of the child, `send-⟨n⟩`, `nexus-⟨n⟩`.
    pub id: String,
    /// What its end does.
    pub wake: Wake,
    /// Whether the start of a child wakes too.
    pub wakes_on_start: bool,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OperationKind {
    Task,
    Timer,
    Child,
    Send,
    Nexus,
}

/// What the end of an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// A turn follows.
    Wakes,
    /// It is recorded only.
    Ignored,
    /// It counts for a group.
    Group(u32),
}

/// Operations of which a number must end before a turn follows: an awaited `all`, `any` or `settle` of plain operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many ends that count are missing. A turn follows when it becomes 0.
    pub missing: u32,
    /// What a completion does.
    pub completion: GroupEffect,
    /// What a failure does.
    pub failure: GroupEffect,
}

/// What an end does to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupEffect {
    /// One less is missing.
    Counts,
    /// A turn follows at once.
    Satisfies,
}

/// What limits a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps for one event.
    pub steps: u64,
    /// Steps of a query, a validator or a condition.
    pub steps_without_effects: u64,
    /// Bytes of the stored state.
    pub state_bytes: usize,
    /// Bytes of one value as JSON.
    pub value_bytes: usize,
    /// Bytes of all values during a turn.
    pub memory_bytes: usize,
    /// Nested calls.
    pub call_depth: u32,
    /// Pending tasks, timers, children, sends and Nexus operations, each.
    pub pending: usize,
    /// Pending async calls.
    pub pending_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 5_000_000,
            steps_without_effects: 100_000,
            state_bytes: 4 << 20,
            value_bytes: 4 << 20,
            memory_bytes: 64 << 20,
            call_depth: 200,
            pending: 2_000,
            pending_calls: 10_000,
        }
    }
}

/// Decides whether a turn goes on.
pub trait Pace {
    /// Called at least every 1,000 steps with the number of steps of the turn so far. `false` ends the turn with
    /// [`TurnError::GivenUp`]; nothing of it counts.
    fn go_on(&mut self, steps: u64) -> bool;
}

/// Never ends a turn.
pub struct Unpaced;

impl Pace for Unpaced {
    fn go_on(&mut self, _steps: u64) -> bool {
        true
    }
}

/// What a turn gives.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnResult {
    /// The state to store. Also that of a closed run: queries read it.
    pub state: Vec<u8>,
    /// What the server must do.
    pub commands: Vec<Command>,
    /// What the script logged during this turn.
    pub log: Vec<LogLine>,
    /// Lines that are missing in it because there were too many.
    pub log_dropped: u64,
    /// When the next turn is due.
    pub wake: WakeSet,
    /// Steps executed.
    pub steps: u64,
    /// Markdown for user interfaces, if the script set it in this turn.
    pub details: Option<String>,
}

/// Why there is no result of a turn. None of these is the script's own failure: that is [`Command::Fail`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnError {
    /// [`Pace`] ended it.
    GivenUp,
    /// The stored state cannot be read.
    DamagedState(String),
    /// The machine found itself in a state that must not be.
    Defect(String),
}
