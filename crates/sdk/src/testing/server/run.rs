//! One run: its history, pending operations, and current workflow task.

use std::collections::BTreeMap;

use segno_proto::{
    Nanos,
    common::{Payload, WorkflowExecution, WorkflowType},
    enums::TaskQueueKind,
    events::*,
    nanos_duration, nanos_timestamp,
    taskqueue::TaskQueue,
    update,
};

use super::{
    event::{Event, HistoryEvent, event_type},
    nexus::PendingOperation,
    pending_task::PendingTask,
};
use crate::failure::Failure;

/// How long a worker has for a workflow task: Temporal's default.
pub(crate) const WORKFLOW_TASK_TIMEOUT: Nanos = 10_000_000_000;

/// The namespace that names appear in.
pub(crate) const NAMESPACE: &str = "default";

/// A run of a workflow.
pub(crate) struct Run {
    pub(crate) workflow_id: String,
    pub(crate) run_id: String,
    pub(crate) first_run_id: String,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) history: Vec<HistoryEvent>,
    /// The parent, which learns how it ends.
    pub(crate) parent: Option<Parent>,
    pub(crate) workflow_task: WorkflowTask,
    /// Messages that came during a workflow task: written when the task is completed.
    pub(crate) buffered: Vec<Inbound>,
    /// By the event id of ActivityTaskScheduled.
    pub(crate) tasks: BTreeMap<i64, PendingTask>,
    /// By timer id: the event id of TimerStarted.
    pub(crate) timers: BTreeMap<String, i64>,
    /// By the event id of StartChildWorkflowExecutionInitiated.
    pub(crate) children: BTreeMap<i64, PendingChild>,
    /// By the event id of NexusOperationScheduled.
    pub(crate) operations: BTreeMap<i64, PendingOperation>,
    /// Updates that no workflow task has answered, in the order in which they came.
    pub(crate) updates: Vec<update::Request>,
    /// By update id: the event id of the acceptance.
    pub(crate) accepted: BTreeMap<String, i64>,
    /// How updates ended, by update id; a rejected one is among them.
    pub(crate) outcomes: BTreeMap<String, UpdateOutcome>,
    pub(crate) memo: BTreeMap<String, Payload>,
    pub(crate) search_attributes: BTreeMap<String, Payload>,
    pub(crate) cancel_requested: bool,
    pub(crate) closed: Option<CloseOutcome>,
}

/// How an update ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UpdateOutcome {
    Completed(Vec<Payload>),
    Failed(Failure),
    Rejected(Failure),
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) enum CloseOutcome {
    Completed(Vec<Payload>),
    Failed(Failure),
    Canceled(Vec<Payload>),
    Terminated(String),
    TimedOut,
    /// The run that goes on.
    ContinuedAsNew(usize),
}

/// The run that started a child.
#[derive(Clone, Copy)]
pub(crate) struct Parent {
    pub(crate) run: usize,
    pub(crate) initiated_event_id: i64,
}

/// A child as its parent sees it.
pub(crate) struct PendingChild {
    pub(crate) attributes: StartChildWorkflowExecutionInitiatedEventAttributes,
    pub(crate) run: Option<usize>,
    pub(crate) started_event_id: i64,
}

/// The workflow task of a run; there is at most one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WorkflowTask {
    None,
    Scheduled {
        event_id: i64,
        attempt: u32,
        /// It exists only because of updates; if they are all rejected, it leaves no trace.
        speculative: bool,
    },
    Started {
        scheduled_event_id: i64,
        event_id: i64,
        attempt: u32,
        speculative: bool,
    },
}

/// A message to a run from outside of its workflow tasks.
#[allow(clippy::large_enum_variant)] // Short-lived, and few.
pub(crate) enum Inbound {
    /// An event that can be written as it is.
    Event(Event),
    /// The end of a task: the event that it started in, and how it ended. Event ids that they need of each other are
    /// known only when they are written.
    Task { started: ActivityTaskStartedEventAttributes, end: Event },
    /// A child started; the parent notes the event id.
    ChildStarted { initiated_event_id: i64, event: Event },
}

impl Run {
    /// A run without history.
    pub(crate) fn new(workflow_id: String, run_id: String, kind: String, queue: String) -> Self {
        Self {
            workflow_id,
            first_run_id: run_id.clone(),
            run_id,
            kind,
            queue,
            history: Vec::new(),
            parent: None,
            workflow_task: WorkflowTask::None,
            buffered: Vec::new(),
            tasks: BTreeMap::new(),
            timers: BTreeMap::new(),
            children: BTreeMap::new(),
            operations: BTreeMap::new(),
            updates: Vec::new(),
            accepted: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            memo: BTreeMap::new(),
            search_attributes: BTreeMap::new(),
            cancel_requested: false,
            closed: None,
        }
    }

    /// Its ids as the wire has them.
    pub(crate) fn execution(&self) -> WorkflowExecution {
        WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.run_id.clone() }
    }

    /// Its kind as the wire has it.
    pub(crate) fn workflow_type(&self) -> WorkflowType {
        WorkflowType { name: self.kind.clone() }
    }

    /// Its task queue as the wire has it.
    pub(crate) fn task_queue(&self) -> TaskQueue {
        TaskQueue { name: self.queue.clone(), kind: TaskQueueKind::Normal as i32, ..Default::default() }
    }

    /// Writes an event at the end of the history and returns its id.
    pub(crate) fn write(&mut self, now: Nanos, event: Event) -> i64 {
        let event_id = i64::try_from(self.history.len()).unwrap_or(i64::MAX) + 1;
        self.history.push(HistoryEvent {
            event_id,
            event_time: Some(nanos_timestamp(now)),
            event_type: event_type(&event) as i32,
            task_id: event_id,
            attributes: Some(event),
            ..Default::default()
        });
        event_id
    }

    /// Takes what came from outside: now, or after the workflow task that is under way. Says whether a workflow task has
    /// to be scheduled for it.
    pub(crate) fn receive(&mut self, now: Nanos, inbound: Inbound) -> bool {
        match &mut self.workflow_task {
            WorkflowTask::Started { speculative, .. } => {
                *speculative = false;
                self.buffered.push(inbound);
                false
            }
            WorkflowTask::Scheduled { speculative, .. } => {
                *speculative = false;
                self.write_inbound(now, inbound);
                false
            }
            WorkflowTask::None => {
                self.write_inbound(now, inbound);
                true
            }
        }
    }

    fn write_inbound(&mut self, now: Nanos, inbound: Inbound) {
        match inbound {
            Inbound::Event(mut event) => {
                let child = self.name_start_of_child(&mut event);
                self.write(now, event);
                if let Some(initiated_event_id) = child {
                    self.children.remove(&initiated_event_id);
                }
            }
            Inbound::ChildStarted { initiated_event_id, event } => {
                let event_id = self.write(now, event);
                if let Some(child) = self.children.get_mut(&initiated_event_id) {
                    child.started_event_id = event_id;
                }
            }
            Inbound::Task { started, mut end } => {
                let event_id = self.write(now, Event::ActivityTaskStartedEventAttributes(started));
                match &mut end {
                    Event::ActivityTaskCompletedEventAttributes(end) => end.started_event_id = event_id,
                    Event::ActivityTaskFailedEventAttributes(end) => end.started_event_id = event_id,
                    Event::ActivityTaskTimedOutEventAttributes(end) => end.started_event_id = event_id,
                    Event::ActivityTaskCanceledEventAttributes(end) => end.started_event_id = event_id,
                    _ => {}
                }
                self.write(now, end);
            }
        }
    }

    /// Writes what came during a workflow task that has just ended. Says whether there was anything.
    pub(crate) fn flush(&mut self, now: Nanos) -> bool {
        let buffered = std::mem::take(&mut self.buffered);
        let any = !buffered.is_empty();
        for inbound in buffered {
            self.write_inbound(now, inbound);
        }
        any
    }

    /// Sets the event id of the start in the event of a child's end, and returns the event id of its initiation. Only when
    /// the end is written is the event id known, as the start may have come in the same buffer.
    fn name_start_of_child(&self, event: &mut Event) -> Option<i64> {
        let (initiated, started) = match event {
            Event::ChildWorkflowExecutionCompletedEventAttributes(end) => {
                (end.initiated_event_id, &mut end.started_event_id)
            }
            Event::ChildWorkflowExecutionFailedEventAttributes(end) => {
                (end.initiated_event_id, &mut end.started_event_id)
            }
            Event::ChildWorkflowExecutionCanceledEventAttributes(end) => {
                (end.initiated_event_id, &mut end.started_event_id)
            }
            Event::ChildWorkflowExecutionTimedOutEventAttributes(end) => {
                (end.initiated_event_id, &mut end.started_event_id)
            }
            Event::ChildWorkflowExecutionTerminatedEventAttributes(end) => {
                (end.initiated_event_id, &mut end.started_event_id)
            }
            _ => return None,
        };
        *started = self.children.get(&initiated)?.started_event_id;
        Some(initiated)
    }

    /// Writes WorkflowTaskScheduled.
    pub(crate) fn schedule_workflow_task(&mut self, now: Nanos, attempt: u32, speculative: bool) {
        let event = WorkflowTaskScheduledEventAttributes {
            task_queue: Some(self.task_queue()),
            start_to_close_timeout: Some(nanos_duration(WORKFLOW_TASK_TIMEOUT)),
            attempt: i32::try_from(attempt).unwrap_or(i32::MAX),
        };
        let event_id = self.write(now, Event::WorkflowTaskScheduledEventAttributes(event));
        self.workflow_task = WorkflowTask::Scheduled { event_id, attempt, speculative };
    }

    /// Ends everything that the run waits for.
    pub(crate) fn close(&mut self, closed: CloseOutcome) {
        self.closed = Some(closed);
        self.workflow_task = WorkflowTask::None;
        self.tasks.clear();
        self.timers.clear();
        self.operations.clear();
        let unfinished: Vec<String> = self
            .updates
            .drain(..)
            .filter_map(|request| request.meta.map(|meta| meta.update_id))
            .chain(std::mem::take(&mut self.accepted).into_keys())
            .collect();
        for update_id in unfinished {
            let failure =
                Failure::application("AcceptedUpdateCompletedWorkflow", "the workflow closed before the update");
            self.outcomes.entry(update_id).or_insert_with(|| UpdateOutcome::Failed(failure.into()));
        }
    }
}
