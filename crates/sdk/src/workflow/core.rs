//! The shared state of the futures of one workflow: its operations, its commands, and which operations may become
//! ready.
//!
//! The rule that makes every combinator correct: at most one operation becomes ready at a time, and of several
//! candidates it is the one that is earliest in history. So the winner of a race follows from history and not from the
//! order of polls.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    task::{Context as TaskContext, Poll, Waker},
};

use segno_proto::{command::Command, common::Payload, protocol};

use super::{
    chosen_ids::ChosenTasks,
    commands::{CommandRequest, ExpectedEvent, STATE_PREFIX},
    info::{StartInfo, StoredPayload, UpdateInfo},
    interceptor::Rules,
    last_call::{self, Place},
    matching::{Difference, SentCommand},
    operation::{BoxFuture, Op, OpId, OpKind, Outcome},
    queue::{RootId, RunQueue},
    random::{Generator, Seed},
    sabotage::{self, Sabotage},
    scope_tree::Scopes,
    signals::Signals,
    sorted::Sorted,
};
use crate::{
    failure::{Error, Failure},
    lock::lock,
    panics,
    versioning::DeploymentVersion,
};

/// A command of this workflow task.
pub(crate) struct PendingCommand {
    pub command: Command,
    pub expected: ExpectedEvent,
    /// Where the code asked for it.
    pub place: Option<Place>,
    /// Withdrawn before it was sent.
    pub withdrawn: bool,
}

/// The counters for ids: one for each kind, so that commands of one kind do not shift the ids of others.
#[derive(Clone, Copy)]
pub(crate) enum Counter {
    Task,
    Timer,
    Child,
    Nexus,
    Local,
}

impl Counter {
    const ALL: usize = 5;
}

/// The command of an operation that waits for the start of a child.
struct DeferredCommand {
    child: OpId,
    op: OpId,
    ask: CommandRequest,
    expected: ExpectedEvent,
}

/// How the run ends.
pub(crate) enum Closing {
    Returned(Result<Vec<Payload>, Error>),
}

/// A future that becomes a root of its own.
pub(crate) struct SpawnedFuture {
    pub id: RootId,
    pub future: BoxFuture<()>,
    /// The update that it handles.
    pub update: Option<Arc<UpdateInfo>>,
}

/// Handlers of signals and updates that run.
#[derive(Clone, Copy, Default)]
pub(crate) struct UnfinishedHandlers {
    /// All of them.
    pub all: u32,
    /// Those that the end of the workflow may cut off.
    pub abandoned: u32,
}

impl UnfinishedHandlers {
    pub fn begin(&mut self, abandoned: bool) {
        self.all += 1;
        self.abandoned += u32::from(abandoned);
    }

    pub fn end(&mut self, abandoned: bool) {
        self.all -= 1;
        self.abandoned -= u32::from(abandoned);
    }
}

/// Why a workflow task fails without any word to user code.
pub(crate) enum Poison {
    /// A payload cannot be read or written, or the like.
    Failure(Failure),
    /// Code that history cannot follow.
    Violation(Box<Difference>),
}

/// A workflow task that is replayed: what its workflow task left in history that the code asks for.
#[derive(Default)]
pub(crate) struct ReplayedTask {
    /// Patches, and whether they were deprecated.
    pub patches: Vec<(String, bool)>,
}

/// How a run was before code that may only read: see [`Core::before`].
pub(crate) struct CoreSnapshot {
    next_op: OpId,
    next_root: RootId,
    counters: [u64; Counter::ALL],
    user_random: Generator,
    streams: Sorted<String, Generator>,
    commands: usize,
    spawned: usize,
    changed_state: BTreeMap<String, Option<Payload>>,
    patches: BTreeMap<String, bool>,
}

/// The changes that [`Core::take_back`] took back. Values of the user's are dropped with this, when the core is no longer held.
pub(crate) struct RevertedChanges {
    /// Whether there were commands that only a workflow may issue.
    pub asked: bool,
    _dropped: (Vec<(OpId, Op)>, Vec<SpawnedFuture>),
}

pub(crate) struct Core {
    pub info: StartInfo,
    pub seed: Seed,
    pub user_random: Generator,
    pub streams: Sorted<String, Generator>,
    /// Nanoseconds since the epoch: when this workflow task's workflow task was started.
    pub time: i64,
    /// `Some` while a workflow task is replayed.
    pub replayed: Option<ReplayedTask>,
    pub suggest_continue_as_new: bool,
    /// Whether new runs of this workflow go to another version than the one to which this run is pinned.
    pub target_version_changed: bool,
    /// The version of the worker that executes this workflow task, or executed it before a replay.
    pub version: Option<Arc<DeploymentVersion>>,

    /// Where the code called its context last.
    pub last_call: Option<Place>,
    pub ops: Sorted<OpId, Box<Op>>,
    next_op: OpId,
    next_root: RootId,
    next_resolution: u64,
    granted: Option<OpId>,
    /// Resolved operations that the code waits for, in history's order.
    asked: Sorted<(u64, OpId), ()>,
    /// Resolved operations whose results were not taken yet.
    resolved: usize,
    pub conditions: Sorted<OpId, ()>,
    pub by_event: Sorted<i64, OpId>,
    counters: [u64; Counter::ALL],

    pub commands: Vec<PendingCommand>,
    pub messages: Vec<protocol::Message>,
    /// Commands of operations that were dropped in the poll that goes on, by age.
    dropped: BTreeMap<OpId, (CommandRequest, ExpectedEvent)>,
    /// This workflow task made progress: a command, a result taken.
    pub progress: bool,

    pub scopes: Scopes,
    pub signals: Signals,
    pub promises: Sorted<String, (u64, Outcome)>,
    pub patches: BTreeMap<String, bool>,
    /// State that this workflow task changed; the rest is in the memo.
    pub changed_state: BTreeMap<String, Option<Payload>>,
    pub memo: Sorted<String, StoredPayload>,
    pub search: Sorted<String, StoredPayload>,
    pub details: String,
    pub open_children: Sorted<String, ()>,
    pub chosen_tasks: ChosenTasks,
    /// Signals to children that are not started yet, by the child: a server would not find it.
    deferred: Vec<DeferredCommand>,

    pub spawned: Vec<SpawnedFuture>,
    pub aborted: Vec<RootId>,
    pub unfinished: UnfinishedHandlers,
    /// The update whose handler or validator is called now.
    pub current_update: Option<Arc<UpdateInfo>>,
    pub closing: Option<Closing>,
    pub poison: Option<Poison>,
    /// Local operations whose futures were dropped.
    pub cancelled_locals: Vec<String>,
}

/// The part of a workflow that its contexts and futures hold.
pub(crate) struct Shared {
    core: Mutex<Core>,
    pub queue: Arc<RunQueue>,
    pub rules: Arc<Rules>,
}

impl Shared {
    pub fn new(
        info: StartInfo,
        seed: Seed,
        memo: Sorted<String, StoredPayload>,
        search: Sorted<String, StoredPayload>,
        rules: Arc<Rules>,
    ) -> Arc<Self> {
        let core = Core {
            memo,
            search,
            info,
            seed,
            user_random: seed.part("user").generator(),
            streams: Sorted::default(),
            time: 0,
            replayed: None,
            suggest_continue_as_new: false,
            target_version_changed: false,
            version: None,
            last_call: None,
            ops: Sorted::default(),
            next_op: 1,
            next_root: 1,
            next_resolution: 1,
            granted: None,
            asked: Sorted::default(),
            resolved: 0,
            conditions: Sorted::default(),
            by_event: Sorted::default(),
            counters: [0; Counter::ALL],
            commands: Vec::new(),
            messages: Vec::new(),
            dropped: BTreeMap::new(),
            progress: false,
            scopes: Scopes::default(),
            signals: Signals::default(),
            promises: Sorted::default(),
            patches: BTreeMap::new(),
            changed_state: BTreeMap::new(),
            details: String::new(),
            open_children: Sorted::default(),
            chosen_tasks: ChosenTasks::default(),
            deferred: Vec::new(),
            spawned: Vec::new(),
            aborted: Vec::new(),
            unfinished: UnfinishedHandlers::default(),
            current_update: None,
            closing: None,
            poison: None,
            cancelled_locals: Vec::new(),
        };
        Arc::new(Self { core: Mutex::new(core), queue: Arc::default(), rules })
    }

    /// Never held while user code runs.
    pub fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }
}

impl Core {
    /// The number of the next thing of a type, from 0.
    pub fn count(&mut self, kind: Counter) -> u64 {
        let stands_still = self.is_replaying() && sabotage::is_on(Sabotage::CounterNotAdvanced);
        let counter = &mut self.counters[kind as usize];
        if stands_still {
            return *counter;
        }
        *counter += 1;
        *counter - 1
    }

    pub fn next_root(&mut self) -> RootId {
        self.next_root += 1;
        self.next_root - 1
    }

    pub fn next_resolution(&mut self) -> u64 {
        self.next_resolution += 1;
        self.next_resolution - 1
    }

    /// A new operation. In a cancelled scope it has ended before it began.
    pub fn add(&mut self, scope: u64, kind: OpKind) -> OpId {
        let id = self.next_op;
        self.next_op += 1;
        if matches!(kind, OpKind::Condition { .. }) {
            self.conditions.insert(id, ());
        }
        let op = Op {
            kind,
            scope,
            place: self.last_call,
            waker: None,
            outcome: None,
            event_id: 0,
            command: None,
            detached: false,
            cancel_sent: false,
        };
        self.ops.insert(id, Box::new(op));
        id
    }

    /// The value that [`set_state`](super::WorkflowContext::set_state) left under a key.
    pub fn state(&self, key: &str) -> Option<Payload> {
        match self.changed_state.get(key) {
            Some(changed) => changed.clone(),
            None => self.memo.get(format!("{STATE_PREFIX}{key}").as_str()).map(StoredPayload::payload),
        }
    }

    pub fn is_replaying(&self) -> bool {
        self.replayed.is_some()
    }

    /// The time of this workflow task.
    pub fn time(&self) -> i64 {
        if sabotage::is_on(Sabotage::TimeIsNow) {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            return now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        }
        self.time
    }

    /// Notes where the code calls its context. A line of this crate is none of the user's.
    pub fn note_call(&mut self, place: Place) {
        if !panics::is_own_source(place.file()) {
            self.last_call = Some(place);
            last_call::set(Some(place));
        }
    }

    /// Adds a command to this workflow task.
    pub fn push(&mut self, ask: CommandRequest, expected: ExpectedEvent) -> usize {
        self.push_at(None, ask, expected)
    }

    /// The same for a command that this line asked for.
    pub fn push_at(&mut self, place: Option<Place>, ask: CommandRequest, expected: ExpectedEvent) -> usize {
        self.progress = true;
        self.commands.push(PendingCommand { command: ask.into_command(), expected, place, withdrawn: false });
        self.commands.len() - 1
    }

    /// Adds the command that an operation stands for.
    pub fn push_for(&mut self, id: OpId, ask: CommandRequest, expected: ExpectedEvent) {
        let place = self.ops.get(&id).and_then(|op| op.place);
        let index = self.push_at(place, ask, expected);
        if let Some(op) = self.ops.get_mut(&id) {
            op.command = Some(index);
        }
    }

    /// Adds the command that an operation stands for: at once, or when a child was started.
    pub fn push_when_started(&mut self, child: Option<OpId>, op: OpId, ask: CommandRequest, expected: ExpectedEvent) {
        let waits = child.filter(|child| {
            self.ops.get(child).is_some_and(|child| {
                child.outcome.is_none() && matches!(&child.kind, OpKind::Child { run_id, .. } if run_id.is_empty())
            })
        });
        match waits {
            Some(child) => self.deferred.push(DeferredCommand { child, op, ask, expected }),
            None => self.push_for(op, ask, expected),
        }
    }

    /// A child was started, or will never be: what waited for that goes on.
    pub fn child_started(&mut self, child: OpId, failure: Option<&Failure>) {
        let (ready, rest) = std::mem::take(&mut self.deferred).into_iter().partition(|there| there.child == child);
        self.deferred = rest;
        for DeferredCommand { op, ask, expected, .. } in ready {
            // Its future was dropped.
            if self.ops.get(&op).is_none_or(|op| op.outcome.is_some()) {
                continue;
            }
            match failure {
                None => self.push_for(op, ask, expected),
                Some(failure) => self.resolve(op, Err(failure.clone())),
            }
        }
    }

    /// The operation has an outcome now.
    pub fn resolve(&mut self, id: OpId, outcome: Outcome) {
        let at = self.next_resolution();
        self.resolve_at(id, at, outcome);
    }

    /// The same, at a point of history that may have passed.
    pub fn resolve_at(&mut self, id: OpId, at: u64, outcome: Outcome) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        if op.outcome.is_some() {
            return;
        }
        let chosen = match &op.kind {
            OpKind::Task { id, .. } if self.chosen_tasks.contains(id) => Some((id.clone(), outcome.clone())),
            _ => None,
        };
        if op.detached {
            self.forget(id);
        } else {
            op.outcome = Some((at, outcome));
            self.resolved += 1;
            self.conditions.remove(&id);
            if op.waker.is_some() {
                self.asked.insert((at, id), ());
            }
            self.end_deferred(id);
        }
        if let Some((task, outcome)) = chosen {
            self.end_chosen_task(id, &task, at, &outcome);
        }
    }

    /// Futures that wait for the start of a child end when the child ends, or when the code drops it.
    fn end_deferred(&mut self, child: OpId) {
        if self.deferred.iter().any(|there| there.child == child) {
            self.child_started(child, Some(&Failure::cancelled()));
        }
    }

    /// Removes an operation.
    pub fn forget(&mut self, id: OpId) -> Option<Box<Op>> {
        let op = self.ops.remove(&id)?;
        self.end_deferred(id);
        self.conditions.remove(&id);
        if op.event_id != 0 && self.by_event.get(&op.event_id) == Some(&id) {
            self.by_event.remove(&op.event_id);
        }
        if let Some((at, _)) = &op.outcome {
            self.resolved -= 1;
            self.asked.remove(&(*at, id));
            if self.granted == Some(id) {
                self.granted = None;
            }
        }
        Some(op)
    }

    /// A future asks for its operation.
    pub fn poll(&mut self, id: OpId, context: &TaskContext<'_>) -> Poll<Outcome> {
        let Some(op) = self.ops.get_mut(&id) else { return Poll::Pending };
        if let Some((at, _)) = &op.outcome {
            let at = *at;
            if self.granted == Some(id) || (self.granted.is_none() && self.resolved == 1) || Self::grants_all() {
                self.progress = true;
                if let Some((_, outcome)) = self.forget(id).and_then(|op| op.outcome) {
                    return Poll::Ready(outcome);
                }
                return Poll::Pending;
            }
            self.asked.insert((at, id), ());
        }
        match &op.waker {
            Some(waker) if waker.will_wake(context.waker()) => {}
            _ => op.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Sabotage for the tests of the tests: the operation that is polled first is ready first.
    fn grants_all() -> bool {
        sabotage::is_on(Sabotage::NoGrant)
    }

    /// Lets the earliest of the operations that were polled become ready. Gives whom to wake, once the core is
    /// no longer held.
    pub fn grant(&mut self) -> Option<Waker> {
        if self.granted.is_some() {
            return None;
        }
        let ((_, id), ()) = self.asked.pop_first()?;
        self.granted = Some(id);
        self.ops.get_mut(&id).and_then(|op| op.waker.take())
    }

    /// At rest: an operation that was granted and not polled is no longer waited for.
    pub fn ungrant(&mut self) {
        self.granted = None;
    }

    /// A command for an operation that was dropped: sent when the poll ends, by age.
    pub fn push_dropped(&mut self, id: OpId, ask: CommandRequest, expected: ExpectedEvent) {
        self.dropped.insert(id, (ask, expected));
    }

    /// The end of a poll.
    pub fn flush_dropped(&mut self) {
        for (_, (ask, expected)) in std::mem::take(&mut self.dropped) {
            self.push(ask, expected);
        }
    }

    /// The run has ended: the server ends the rest.
    pub fn discard_dropped(&mut self) {
        self.dropped.clear();
    }

    /// Called before a query or a validator: code that replay does not call, so that it must leave nothing behind.
    pub fn before(&self) -> CoreSnapshot {
        CoreSnapshot {
            next_op: self.next_op,
            next_root: self.next_root,
            counters: self.counters,
            user_random: self.user_random.clone(),
            streams: self.streams.clone(),
            commands: self.commands.len(),
            spawned: self.spawned.len(),
            changed_state: self.changed_state.clone(),
            patches: self.patches.clone(),
        }
    }

    /// Takes back what was done since.
    pub fn take_back(&mut self, before: CoreSnapshot) -> RevertedChanges {
        let mut asked = self.commands.len() > before.commands
            || self.spawned.len() > before.spawned
            || self.changed_state != before.changed_state;
        let ops: Vec<(OpId, Op)> =
            (before.next_op..self.next_op).filter_map(|id| self.forget(id).map(|op| (id, *op))).collect();
        for (id, op) in &ops {
            match &op.kind {
                OpKind::Task { id: task, .. } => self.withdraw_chosen_task(*id, task),
                OpKind::Child { workflow_id, .. } if op.command.is_some() => {
                    self.open_children.remove(workflow_id);
                }
                OpKind::Local { .. } => asked = true,
                _ => {}
            }
        }
        self.next_op = before.next_op;
        self.next_root = before.next_root;
        self.counters = before.counters;
        self.user_random = before.user_random;
        self.streams = before.streams;
        self.commands.truncate(before.commands);
        let spawned = self.spawned.split_off(before.spawned);
        self.changed_state = before.changed_state;
        self.patches = before.patches;
        RevertedChanges { asked, _dropped: (ops, spawned) }
    }

    /// Fails the workflow task: what happened is nothing that user code could handle.
    pub fn fail_task(&mut self, failure: impl Into<Failure>) {
        self.poison.get_or_insert(Poison::Failure(failure.into()));
    }

    /// Ends the workflow task: the commands that are to be sent, and what is to be found in history of them.
    pub fn take_commands(&mut self) -> (Vec<Command>, VecDeque<SentCommand>) {
        let mut commands = Vec::with_capacity(self.commands.len());
        let mut expected = VecDeque::with_capacity(self.commands.len());
        for pending in std::mem::take(&mut self.commands) {
            if let Some(op) = pending.expected.op().and_then(|op| self.ops.get_mut(&op)) {
                op.command = None;
            }
            if !pending.withdrawn {
                commands.push(pending.command);
                expected.push_back(SentCommand { expected: pending.expected, place: pending.place });
            }
        }
        (commands, expected)
    }
}
