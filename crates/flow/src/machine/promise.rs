//! Promises: the table of a run, how they end, and what happens when no code can reach them.
//!
//! The table holds no reference of its own. Values of scripts, items of combinations and code that waits hold
//! [`PromiseRef`]s; when the last one is dropped, its number is added to [`Machine::released`], which is processed
//! before the next effect.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use crate::interface::{Command, OperationKind};
use crate::value::{Kind, LanguageError, PromiseRef, Value};

use super::cancel::Interruption;
use super::combine::Combination;
use super::frame::{Closure, Fatal, Fiber};
use super::{Machine, error_type};

/// What is asked of a task, Nexus operation or child when its run, or its promise, is canceled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OnCancel {
    #[default]
    Try,
    Wait,
    Ignore,
}

impl OnCancel {
    pub fn named(name: &str) -> Self {
        match name {
            "wait" => Self::Wait,
            "ignore" => Self::Ignore,
            _ => Self::Try,
        }
    }
}

/// How a promise ended.
pub(super) type Outcome = Result<Value, Value>;

/// An entry of the table.
pub(super) struct Promise {
    pub id: Arc<str>,
    /// What scripts hold.
    pub reference: Weak<PromiseRef>,
    /// Whether it was awaited or given to a function of `Task`.
    pub heard: bool,
    /// When it was made.
    pub since: i64,
    pub kind: PromiseKind,
    pub end: Option<PromiseEnd>,
    /// Code that waits for it, in the order in which it began to wait.
    pub waiters: Vec<u32>,
    /// Combinations of which it is an item, once per item. Those that are decided stay until they are met: finding them
    /// at once would cost too much for a promise that is part of many.
    pub parents: Vec<u32>,
}

/// The end of a promise.
pub(super) struct PromiseEnd {
    /// Counts all ends of a run: what has a smaller number ended before.
    pub sequence: u64,
    pub outcome: Outcome,
}

/// What a promise stands for.
pub(super) enum PromiseKind {
    Task {
        name: Arc<str>,
        on_cancel: OnCancel,
        is_asked: bool,
    },
    /// `name`: service and operation, with a dot between them.
    Nexus {
        name: Arc<str>,
        on_cancel: OnCancel,
        is_asked: bool,
    },
    /// `owner` is the wait or combination whose time-out this is.
    Timer {
        due: i64,
        owner: Option<u32>,
    },
    /// `is_asked`: whether it was asked to cancel.
    /// `start_only`: the promise of `Workflow.start`.
    Child {
        name: Arc<str>,
        on_cancel: OnCancel,
        start_only: bool,
        is_asked: bool,
    },
    /// A signal or cancel request to another workflow.
    Send {
        name: Arc<str>,
    },
    Signal {
        name: Arc<str>,
        timer: Option<u32>,
        timeout: i64,
    },
    Condition {
        closure: Closure,
        timer: Option<u32>,
    },
    Code(Box<Coroutine>),
    Combination(Box<Combination>),
    /// Ended by the host of a test.
    Host,
}

/// A piece of async code.
pub(super) struct Coroutine {
    pub role: Role,
    /// `None` while it runs and when it is over.
    pub fiber: Option<Fiber>,
    pub waiting: Option<Rc<PromiseRef>>,
    /// An interruption that is kept until the next await that can be interrupted.
    pub interruption: Option<Interruption>,
    /// Whether `Task.cancel` has interrupted it.
    pub is_canceled: bool,
    /// Whether a cancel request of the run has interrupted it.
    pub is_interrupted: bool,
}

/// Whose code it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Main,
    Call,
    /// A handler of signals.
    Signal,
    /// The handler of the update with this id.
    Update(Arc<str>),
}

/// Work to do at once, before any code goes on.
pub(super) enum Work {
    End(u32, Outcome),
    /// As `Task.cancel` does, with this message.
    Cancel(u32, Arc<str>),
}

impl Promise {
    /// The operation of the server behind it.
    pub fn operation(&self) -> Option<OperationKind> {
        match self.kind {
            PromiseKind::Task { .. } => Some(OperationKind::Task),
            PromiseKind::Timer { .. } => Some(OperationKind::Timer),
            PromiseKind::Child { .. } => Some(OperationKind::Child),
            PromiseKind::Send { .. } => Some(OperationKind::Send),
            PromiseKind::Nexus { .. } => Some(OperationKind::Nexus),
            _ => None,
        }
    }

    pub fn coroutine(&self) -> Option<&Coroutine> {
        match &self.kind {
            PromiseKind::Code(coroutine) => Some(coroutine),
            _ => None,
        }
    }

    pub fn coroutine_mut(&mut self) -> Option<&mut Coroutine> {
        match &mut self.kind {
            PromiseKind::Code(coroutine) => Some(coroutine),
            _ => None,
        }
    }
}

impl Machine<'_> {
    /// Puts a promise into the table.
    pub(super) fn promise(&mut self, id: Arc<str>, kind: PromiseKind) -> Rc<PromiseRef> {
        let number = self.next_promise;
        self.next_promise += 1;
        let reference = Rc::new(PromiseRef::watched(number, id.clone(), Rc::clone(&self.released)));
        self.insert(number, id, kind, Rc::downgrade(&reference));
        reference
    }

    /// Puts a promise into the table that scripts never see.
    pub(super) fn hidden(&mut self, id: Arc<str>, kind: PromiseKind) -> u32 {
        let number = self.next_promise;
        self.next_promise += 1;
        self.insert(number, id, kind, Weak::new());
        number
    }

    fn insert(&mut self, number: u32, id: Arc<str>, kind: PromiseKind, reference: Weak<PromiseRef>) {
        let promise = Promise {
            id: id.clone(),
            reference,
            heard: false,
            since: self.now,
            kind,
            end: None,
            waiters: Vec::new(),
            parents: Vec::new(),
        };
        self.index_promise(number, &promise);
        self.promises.insert(number, promise);
    }

    /// Notes a pending promise where it is looked for.
    pub(super) fn index_promise(&mut self, number: u32, promise: &Promise) {
        if let Some(kind) = promise.operation() {
            self.operations.insert((kind, promise.id.clone()), number);
            self.pending[kind as usize] += 1;
        }
        match &promise.kind {
            PromiseKind::Signal { name, .. } => {
                self.signal_waits.entry(name.clone()).or_default().insert(number);
            }
            PromiseKind::Condition { .. } => {
                self.conditions.insert(number);
            }
            PromiseKind::Code(coroutine) if coroutine.role == Role::Call => self.pending_calls += 1,
            _ => {}
        }
    }

    fn unindex(&mut self, number: u32) {
        let Some(promise) = self.promises.get(&number) else { return };
        if let Some(kind) = promise.operation() {
            self.operations.remove(&(kind, promise.id.clone()));
            self.pending[kind as usize] = self.pending[kind as usize].saturating_sub(1);
        }
        match &promise.kind {
            PromiseKind::Signal { name, .. } => {
                if let Some(waits) = self.signal_waits.get_mut(name) {
                    waits.remove(&number);
                    if waits.is_empty() {
                        self.signal_waits.remove(&name.clone());
                    }
                }
            }
            PromiseKind::Condition { .. } => {
                self.conditions.remove(&number);
            }
            PromiseKind::Code(coroutine) if coroutine.role == Role::Call => {
                self.pending_calls = self.pending_calls.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Ends a promise and everything that ends with it.
    pub(super) fn end(&mut self, number: u32, outcome: Outcome) {
        self.do_work(Work::End(number, outcome));
    }

    /// Cancels a promise as `Task.cancel` does.
    pub(super) fn cancel(&mut self, number: u32, reason: Arc<str>) {
        self.do_work(Work::Cancel(number, reason));
    }

    /// Work that leads to more work is queued, so that the nesting of combinations costs no stack.
    fn do_work(&mut self, work: Work) {
        self.work.push_back(work);
        self.settle_work();
    }

    /// Does what is queued, unless that is under way.
    pub(super) fn settle_work(&mut self) {
        if self.is_working {
            return;
        }
        self.is_working = true;
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::End(number, outcome) => self.end_one(number, outcome),
                Work::Cancel(number, reason) => self.cancel_one(number, &reason),
            }
        }
        self.is_working = false;
    }

    fn end_one(&mut self, number: u32, outcome: Outcome) {
        if self.promises.get(&number).is_none_or(|promise| promise.end.is_some()) {
            return;
        }
        self.unindex(number);
        self.ends += 1;
        let sequence = self.ends;
        let Some(promise) = self.promises.get_mut(&number) else { return };
        let waiters = std::mem::take(&mut promise.waiters);
        let mut parents = std::mem::take(&mut promise.parents);
        let mut timer = None;
        match &mut promise.kind {
            PromiseKind::Signal { timer: time_out, .. } | PromiseKind::Condition { timer: time_out, .. } => {
                timer = time_out.take();
            }
            PromiseKind::Code(coroutine) => {
                coroutine.fiber = None;
                coroutine.waiting = None;
            }
            _ => {}
        }
        promise.end = Some(PromiseEnd { sequence, outcome: outcome.clone() });
        let is_reachable = promise.reference.strong_count() > 0;
        if let Some(timer) = timer {
            self.withdraw(timer);
        }
        for waiter in waiters {
            self.resume_with(waiter, outcome.clone());
        }
        self.debt += parents.len() as u64;
        parents.sort_unstable();
        for parent in parents {
            self.item_ended(parent, number);
        }
        if !is_reachable {
            self.promises.remove(&number);
        }
    }

    /// Lets code that waits go on when its turn comes.
    pub(super) fn resume_with(&mut self, number: u32, outcome: Outcome) {
        if let Some(coroutine) = self.promises.get_mut(&number).and_then(Promise::coroutine_mut) {
            coroutine.waiting = None;
            self.ready.push_back(super::ReadyStep::Resume(number, outcome));
        }
    }

    /// Code no longer waits for this promise.
    pub(super) fn stop_waiting(&mut self, number: u32) {
        let waiting = self.promises.get_mut(&number).and_then(Promise::coroutine_mut);
        let Some(waiting) = waiting.and_then(|coroutine| coroutine.waiting.take()) else { return };
        if let Some(promise) = self.promises.get_mut(&waiting.number) {
            promise.waiters.retain(|waiter| *waiter != number);
        }
    }

    /// Takes a pending promise out of the table as if it had never been.
    pub(super) fn withdraw(&mut self, number: u32) {
        if self.promises.get(&number).is_none_or(|promise| promise.end.is_some()) {
            return;
        }
        self.unindex(number);
        let Some(promise) = self.promises.remove(&number) else { return };
        match promise.kind {
            PromiseKind::Timer { .. } => self.cancel_timer(number, &promise.id),
            PromiseKind::Signal { timer: Some(timer), .. } | PromiseKind::Condition { timer: Some(timer), .. } => {
                self.withdraw(timer);
            }
            PromiseKind::Combination(combination) => {
                if let Some(timer) = combination.timer {
                    self.withdraw(timer);
                }
            }
            _ => {}
        }
    }

    /// Cancels a timer of the server. One that was started in this turn leaves no command.
    pub(super) fn cancel_timer(&mut self, number: u32, id: &Arc<str>) {
        if let Some(place) = self.timers_started.remove(&number) {
            if let Some(command) = self.commands.get_mut(place) {
                *command = None;
            }
            return;
        }
        let place = self.push_command(Command::CancelTimer { id: id.to_string() });
        self.cancels.insert((OperationKind::Timer, id.clone()), place);
    }

    /// Deals with promises whose last reference has disappeared.
    pub(super) fn sweep(&mut self) -> Result<(), Box<Fatal>> {
        loop {
            let released = match self.released.try_borrow_mut() {
                Ok(mut released) => std::mem::take(&mut *released),
                Err(_) => return Err(Box::new(Fatal::Defect("released promises are in use".to_owned()))),
            };
            if released.is_empty() {
                return Ok(());
            }
            for number in released {
                self.release(number)?;
            }
        }
    }

    fn release(&mut self, number: u32) -> Result<(), Box<Fatal>> {
        let Some(promise) = self.promises.get_mut(&number) else { return Ok(()) };
        if let Some(ended) = &promise.end {
            let lost = match (&ended.outcome, &promise.kind, promise.heard) {
                (Err(error), PromiseKind::Code(_), false) => Some(error.clone()),
                _ => None,
            };
            self.promises.remove(&number);
            return lost.map_or(Ok(()), |error| self.unheard(error));
        }
        let is_withdrawn = match &promise.kind {
            PromiseKind::Timer { .. } | PromiseKind::Signal { .. } | PromiseKind::Condition { .. } => true,
            // A combination that does something when it ends goes on.
            PromiseKind::Combination(combination) => !combination.has_effect(),
            _ => false,
        };
        if is_withdrawn {
            self.withdraw(number);
        }
        Ok(())
    }

    /// An async function failed and no code can catch it: the run fails. An interruption by a cancel request is no
    /// error of the script.
    pub(super) fn unheard(&self, error: Value) -> Result<(), Box<Fatal>> {
        if self.cancel_requested.is_some() && error_type(&error) == Some("Canceled") {
            return Ok(());
        }
        Err(Box::new(Fatal::Failed(error)))
    }

    /// The error of what was canceled.
    pub(super) fn canceled(&self, reason: &str) -> Value {
        let message = if reason.is_empty() { "canceled" } else { reason };
        crate::pure::error::from_raised(&LanguageError::new(Kind::Canceled, message), "")
    }
}
