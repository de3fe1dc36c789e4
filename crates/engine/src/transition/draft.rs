//! A transition in the making: the workspace every call writes into.
//!
//! It gives events their ids, keeps those that must wait for the worker ([`Draft::add_external`]), and closes with
//! [`Draft::finish`], where the rules are that hold for every transition: the tail is stored first, buffered events are flushed
//! as soon as no worker holds a task, and a full buffer fails the task that blocks it.

use std::{collections::BTreeMap, mem};

use bytes::Bytes;
use prost::Message;
use segno_proto::{
    Nanos,
    enums::EventType,
    events::{HistoryEvent, history_event::Attributes},
};

use crate::{
    events::event,
    machine::IllegalStep,
    shared::Shared,
    state::{
        Activity, TaskKind,
        outbox::{Content, OutboxMessage},
        run::Run,
        wake_set,
    },
    transition::{
        Applied, Context, Durability, Effect, Transition,
        task_events::{scheduled_event, started_event},
    },
};

/// Id of an event that waits in the buffer.
pub const BUFFERED_EVENT_ID: i64 = -123;

/// The workspace of one call.
pub struct Draft {
    /// The run as it will be.
    pub run: Run,
    /// Time and ids of this call.
    pub context: Context,
    /// Events of this transition, ids final.
    events: Vec<HistoryEvent>,
    /// Indexes in `events` where a new batch begins.
    batch_starts: Vec<usize>,
    /// Whether the new events may stay in the tail.
    deferred: bool,
    /// Whether state changed without an event.
    changed: bool,
    /// Whether state changed that is never stored.
    changed_in_memory: bool,
    /// Whether commands of a worker are being applied: events of other causes wait until all of them are.
    applies_commands: bool,
    /// A speculative workflow task that was there before this transition, by its stamp. Anything durable that happens
    /// while it is pending makes it part of history first.
    speculative: Option<u32>,
    /// Activities that were added, changed or removed, by their scheduled events.
    activities: Vec<i64>,
    outbox: Vec<OutboxMessage>,
    effects: Vec<Effect>,
    successor: Option<Box<Applied<()>>>,
    /// Where the state of the script is kept as a checkpoint.
    script_checkpoint: Option<u32>,
    /// A step that no machine has: the transition must not happen.
    illegal: Option<Box<IllegalStep>>,
}

impl Draft {
    /// Begins a transition of an existing run.
    pub fn new(run: &Run, context: Context) -> Self {
        Self::of(run.clone(), context)
    }

    /// Begins the first transition of a new run.
    pub fn of(run: Run, context: Context) -> Self {
        let speculative = run.state.task.as_ref().filter(|_| run.is_speculating()).map(|task| task.stamp);
        Self {
            speculative,
            run,
            context,
            events: Vec::new(),
            batch_starts: Vec::new(),
            deferred: false,
            changed: false,
            changed_in_memory: false,
            applies_commands: false,
            activities: Vec::new(),
            outbox: Vec::new(),
            effects: Vec::new(),
            successor: None,
            script_checkpoint: None,
            illegal: None,
        }
    }

    /// The state of the script after this transition is kept.
    pub(crate) fn keep_script_state(&mut self, slot: u32) {
        self.script_checkpoint = Some(slot);
    }

    /// Now.
    pub fn now(&self) -> Nanos {
        self.context.now
    }

    /// Adds an event to history; returns its id.
    pub fn add(&mut self, attributes: Attributes) -> i64 {
        self.add_event(event(self.context.now, attributes))
    }

    /// Adds a prepared event to history; returns its id.
    pub fn add_event(&mut self, mut event: HistoryEvent) -> i64 {
        self.settle_speculation();
        let id = self.run.state.next_event_id;
        event.event_id = id;
        event.task_id = id;
        self.run.state.next_event_id += 1;
        wake_set::note(&mut self.run.state, &event);
        self.events.push(event);
        id
    }

    /// Adds an event that something outside the workflow caused: while a worker holds a workflow task, or its commands
    /// are being applied, it waits in the buffer. Returns its id, which is [`BUFFERED_EVENT_ID`] if it waits.
    pub fn add_external(&mut self, attributes: Attributes) -> i64 {
        self.add_external_event(event(self.context.now, attributes))
    }

    /// Like [`Draft::add_external`] for a prepared event.
    pub fn add_external_event(&mut self, mut event: HistoryEvent) -> i64 {
        if !self.run.state.task_started() && !self.applies_commands {
            return self.add_event(event);
        }
        event.event_id = BUFFERED_EVENT_ID;
        self.run.state.buffered.push(event);
        self.changed = true;
        BUFFERED_EVENT_ID
    }

    /// From here on commands are applied. Workers predict the ids of their commands' events, so that no event of another
    /// cause may come between them.
    pub(crate) fn begin_commands(&mut self) {
        self.applies_commands = true;
    }

    /// All commands are applied. What waited is flushed with the next workflow task, or when the transition closes.
    pub(crate) fn end_commands(&mut self) {
        self.applies_commands = false;
    }

    /// An event of this transition, to add what its kind does not carry (user metadata).
    pub fn event_mut(&mut self, id: i64) -> Option<&mut HistoryEvent> {
        self.events.iter_mut().find(|event| event.event_id == id)
    }

    /// Makes the next event begin a batch of its own.
    pub fn begin_batch(&mut self) {
        if !self.events.is_empty() {
            self.batch_starts.push(self.events.len());
        }
    }

    /// Adds a pending activity.
    pub fn add_activity(&mut self, activity: Activity) {
        let id = activity.scheduled_event_id;
        self.activities.push(id);
        self.run.state.activities.insert(id, activity.into());
    }

    /// A pending activity that is about to change.
    pub fn activity_mut(&mut self, id: i64) -> Option<&mut Shared<Activity>> {
        self.activities.push(id);
        self.run.state.activities.get_mut(&id)
    }

    /// Takes out an activity that is over.
    pub fn remove_activity(&mut self, id: i64) -> Option<Shared<Activity>> {
        self.activities.push(id);
        self.run.state.activities.remove(&id)
    }

    /// State changed in a way no event shows.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// Notes a change of state that is never stored, and needs no store to be true.
    pub fn touch_memory(&mut self) {
        self.changed_in_memory = true;
    }

    /// Makes a speculative task that was there before part of history. What it owes is written now, in front of
    /// the next event.
    fn settle_speculation(&mut self) {
        let Some(stamp) = self.speculative.take() else { return };
        if self.run.is_speculating() && self.run.state.task.as_ref().is_some_and(|task| task.stamp == stamp) {
            self.materialise("");
        }
    }

    /// The speculative task that was there before is dealt with.
    pub(crate) fn forget_speculation(&mut self) {
        self.speculative = None;
    }

    /// Writes the events a transient or speculative task owes history; called when it completes or must become durable.
    pub(crate) fn materialise(&mut self, identity: &str) {
        self.forget_speculation();
        let Some(mut task) = self.run.state.task.clone() else { return };
        if !task.is_transient() && task.kind() != TaskKind::Speculative {
            return;
        }
        task.kind = TaskKind::Normal as i32;
        task.scheduled_event_id = self.run.state.next_event_id;
        // A run that has completed a workflow task is under way: nothing is held back from then on.
        self.run.state.first_task_due = 0;
        let scheduled = scheduled_event(&self.run, &task);
        self.add_event(scheduled);
        if task.started_event_id != 0 {
            task.started_event_id = self.run.state.next_event_id;
            let started = started_event(&task, identity);
            self.add_event(started);
            self.begin_batch();
        }
        self.run.state.task = Some(task);
    }

    /// The whole transition may stay in memory: a crash simply undoes it.
    pub fn defer(&mut self) {
        self.deferred = true;
    }

    /// The transition must not happen: a step in it is impossible.
    pub(crate) fn refuse(&mut self, illegal: IllegalStep) {
        self.illegal.get_or_insert_with(|| Box::new(illegal));
    }

    /// Adds a consequence. Nothing of a paused run is offered.
    pub fn effect(&mut self, effect: Effect) {
        let offers = !matches!(effect, Effect::StopActivity(_));
        if !(offers && self.run.is_paused() || self.effects.contains(&effect)) {
            self.effects.push(effect);
        }
    }

    /// Takes a consequence back.
    pub fn withdraw(&mut self, effect: &Effect) {
        self.effects.retain(|known| known != effect);
    }

    /// Sends a message to another run.
    pub fn send(&mut self, content: Content) {
        self.run.state.outbox_sequence += 1;
        self.outbox.push(OutboxMessage {
            sequence: self.run.state.outbox_sequence,
            sender: self.run.info.execution(),
            sender_namespace: self.run.info.namespace.clone(),
            content: Some(content),
        });
    }

    /// Names the run that follows this one.
    pub fn succeed_by(&mut self, successor: Applied<()>) {
        self.run.state.successor_run_id = successor.run.info.run_id.clone();
        self.successor = Some(Box::new(successor));
    }

    /// The run that follows this one, if it was named.
    pub(crate) fn successor(&self) -> Option<&Run> {
        let next = self.successor.as_ref().map(|next| &next.run);
        next.filter(|next| next.info.run_id == self.run.state.successor_run_id)
    }

    /// Names a run that takes this one's workflow id without continuing it.
    pub fn replace_by(&mut self, other: Applied<()>) {
        self.successor = Some(Box::new(other));
    }

    /// Gives buffered events their ids and puts them into history: in order of arrival, except that the ends of
    /// activities, children and operations come after everything else, as workers expect.
    pub fn flush_buffered(&mut self) {
        if self.run.state.buffered.is_empty() {
            return;
        }
        let buffered = mem::take(&mut self.run.state.buffered);
        let (ends, others): (Vec<_>, Vec<_>) = buffered.into_iter().partition(is_end_of_pending_work);
        let mut started_ids = BTreeMap::new();
        for mut event in others.into_iter().chain(ends) {
            wire_started_id(&mut event, &started_ids);
            let attributes = event.attributes.clone();
            let id = self.add_event(event);
            match attributes {
                Some(Attributes::ActivityTaskStartedEventAttributes(a)) => {
                    started_ids.insert(a.scheduled_event_id, id);
                }
                Some(Attributes::ChildWorkflowExecutionStartedEventAttributes(a)) => {
                    started_ids.insert(a.initiated_event_id, id);
                    if let Some(child) = self.run.state.children.get_mut(&a.initiated_event_id) {
                        child.started_event_id = id;
                    }
                }
                Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(a)) => {
                    let update = a.request.and_then(|request| request.meta).map(|meta| meta.update_id);
                    if let Some(record) = update.and_then(|update| self.run.state.updates.get_mut(&update)) {
                        record.admitted_event_id = id;
                    }
                }
                Some(Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(a)) => {
                    if let Some(attached) = self.run.state.attached_request_ids.get_mut(&a.attached_request_id) {
                        *attached = id;
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes the transition as it is; calls use [`Draft::finish`].
    pub(crate) fn seal<R>(mut self, reply: R) -> Applied<R> {
        let changed = self.changed || !self.events.is_empty() || !self.outbox.is_empty() || self.successor.is_some();
        let durability = match (changed, self.deferred) {
            (false, _) if !self.changed_in_memory => Durability::Unchanged,
            (false, _) | (true, true) => Durability::Memory,
            (true, false) => Durability::Durable,
        };
        if durability == Durability::Durable && self.run.is_running() {
            self.settle_speculation();
        }
        let mut batches = Vec::new();
        let mut bytes = 0;
        match durability {
            Durability::Unchanged => {}
            Durability::Memory => self.run.tail.append(&mut self.events),
            Durability::Durable => {
                if !self.run.tail.is_empty() {
                    batches.push(mem::take(&mut self.run.tail));
                }
                let mut rest = self.events;
                let mut cut: Vec<_> = self.batch_starts.into_iter().rev().map(|at| rest.split_off(at)).collect();
                cut.push(rest);
                batches.extend(cut.into_iter().rev().filter(|batch| !batch.is_empty()));
                bytes = batches.iter().flatten().map(Message::encoded_len).sum();
                self.run.state.history_bytes += bytes as i64;
                self.run.state.transitions += 1;
            }
        }
        let (outbox, successor, effects, illegal) = (self.outbox, self.successor, self.effects, self.illegal);
        let transition = Transition {
            durability,
            batches,
            bytes,
            activities: self.activities,
            outbox,
            successor,
            effects,
            script_state: None,
            script_checkpoint: self.script_checkpoint.map(|slot| (slot, Bytes::new())),
            compaction: None,
            illegal,
        };
        Applied { run: self.run, transition, reply }
    }
}

/// Ends of activities, children and Nexus operations: they follow everything else that was buffered.
fn is_end_of_pending_work(event: &HistoryEvent) -> bool {
    matches!(
        event.event_type(),
        EventType::ActivityTaskCompleted
            | EventType::ActivityTaskFailed
            | EventType::ActivityTaskTimedOut
            | EventType::ActivityTaskCanceled
            | EventType::ChildWorkflowExecutionCompleted
            | EventType::ChildWorkflowExecutionFailed
            | EventType::ChildWorkflowExecutionTimedOut
            | EventType::ChildWorkflowExecutionCanceled
            | EventType::ChildWorkflowExecutionTerminated
            | EventType::NexusOperationCompleted
            | EventType::NexusOperationFailed
            | EventType::NexusOperationCanceled
            | EventType::NexusOperationTimedOut
    )
}

/// Fills in the id of the started event that was itself waiting in the buffer.
fn wire_started_id(event: &mut HistoryEvent, started_ids: &BTreeMap<i64, i64>) {
    let Some(attributes) = event.attributes.as_mut() else { return };
    let (key, started) = match attributes {
        Attributes::ActivityTaskCompletedEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
        Attributes::ActivityTaskFailedEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
        Attributes::ActivityTaskTimedOutEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
        Attributes::ActivityTaskCanceledEventAttributes(a) => (a.scheduled_event_id, &mut a.started_event_id),
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(a) => {
            (a.initiated_event_id, &mut a.started_event_id)
        }
        Attributes::ChildWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
        Attributes::ChildWorkflowExecutionTimedOutEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
        Attributes::ChildWorkflowExecutionCanceledEventAttributes(a) => (a.initiated_event_id, &mut a.started_event_id),
        Attributes::ChildWorkflowExecutionTerminatedEventAttributes(a) => {
            (a.initiated_event_id, &mut a.started_event_id)
        }
        _ => return,
    };
    if *started == BUFFERED_EVENT_ID {
        *started = started_ids.get(&key).copied().unwrap_or(0);
    }
}
