//! Cancellation of the run and of single promises.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::interface::{Command, OperationKind};
use crate::pure;
use crate::value::{Kind, Value};

use super::Machine;
use super::combine::ItemValue;
use super::promise::{OnCancel, Promise, PromiseKind};

/// An interruption that waits for the next await that can be interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interruption {
    /// The message of the error; empty for `canceled`.
    pub reason: Arc<str>,
    /// Whether it comes from a cancel request of the run.
    pub is_request: bool,
}

/// How a wait takes an interruption.
enum Waits {
    /// For async functions that are running: these are interrupted instead.
    ForCode(Vec<u32>),
    /// For an operation that ends by itself or is left alone.
    Protected,
    Plain,
}

impl Machine<'_> {
    /// A cancel request for the run.
    pub(super) fn request_cancel(&mut self, reason: &str) {
        if self.cancel_requested.is_some() {
            return;
        }
        let reason: Arc<str> = reason.into();
        self.cancel_requested = Some(reason.clone());
        // A condition may ask whether it was requested.
        self.has_changed = true;
        let numbers: Vec<u32> = self.promises.keys().copied().collect();
        for &number in &numbers {
            if self.on_cancel(number).is_some_and(|on_cancel| on_cancel != OnCancel::Ignore) {
                self.ask_to_cancel(number, &reason);
            }
        }
        self.interrupt_all(&numbers, &reason);
        let awaited = self.awaited();
        for &number in &numbers {
            if self.on_cancel(number) == Some(OnCancel::Try) && !awaited.contains(&number) {
                self.fail_canceled(number, &reason);
            }
        }
    }

    /// Interrupts every piece of code; those that wait for others leave it to them.
    fn interrupt_all(&mut self, numbers: &[u32], reason: &Arc<str>) {
        let for_code = self.leads_to(|promise| matches!(promise.kind, PromiseKind::Code(_)));
        let protected = self.leads_to(|promise| match promise.kind {
            PromiseKind::Task { on_cancel, .. }
            | PromiseKind::Nexus { on_cancel, .. }
            | PromiseKind::Child { on_cancel, .. } => on_cancel != OnCancel::Try,
            _ => false,
        });
        // Through these an error can arrive.
        let arrives = self.leads_to_waiters(&for_code);
        for &number in numbers {
            let promise = self.promises.get_mut(&number).filter(|promise| promise.end.is_none());
            let Some(coroutine) = promise.and_then(Promise::coroutine_mut) else { continue };
            coroutine.is_interrupted = true;
            let Some(waiting) = coroutine.waiting.as_ref().map(|waiting| waiting.number) else { continue };
            if for_code.contains(&waiting) && arrives.contains(&number) {
                continue;
            }
            if protected.contains(&waiting) {
                coroutine.interruption = Some(Interruption { reason: reason.clone(), is_request: true });
                continue;
            }
            self.stop_waiting(number);
            let error = self.canceled(reason);
            self.resume_with(number, Err(error));
        }
    }

    /// Code that does not wait for other code, and all that waits for it. What is not among these waits in a circle.
    fn leads_to_waiters(&self, for_code: &BTreeSet<u32>) -> BTreeSet<u32> {
        let is_first = |promise: &Promise| {
            let waiting = promise.coroutine().and_then(|coroutine| coroutine.waiting.as_ref());
            promise.end.is_none() && waiting.is_some_and(|waiting| !for_code.contains(&waiting.number))
        };
        let first = self.promises.iter().filter(|(_, promise)| is_first(promise));
        let mut found: BTreeSet<u32> = first.map(|(number, _)| *number).collect();
        let mut queue: Vec<u32> = found.iter().copied().collect();
        while let Some(number) = queue.pop() {
            let Some(promise) = self.promises.get(&number) else { continue };
            let parents = promise.parents.iter().filter(|parent| self.is_undecided(**parent));
            for next in promise.waiters.iter().chain(parents) {
                if found.insert(*next) {
                    queue.push(*next);
                }
            }
        }
        found
    }

    /// Pending promises of a kind, and the combinations of which they are a part.
    fn leads_to(&self, is_of: impl Fn(&Promise) -> bool) -> BTreeSet<u32> {
        let pending = self.promises.iter().filter(|(_, promise)| promise.end.is_none() && is_of(promise));
        let mut found: BTreeSet<u32> = pending.map(|(number, _)| *number).collect();
        let mut queue: Vec<u32> = found.iter().copied().collect();
        while let Some(number) = queue.pop() {
            let Some(promise) = self.promises.get(&number) else { continue };
            for parent in &promise.parents {
                if self.is_undecided(*parent) && found.insert(*parent) {
                    queue.push(*parent);
                }
            }
        }
        found
    }

    /// Promises for which code waits, also through combinations.
    fn awaited(&self) -> BTreeSet<u32> {
        let waited = self.promises.iter().filter(|(_, promise)| !promise.waiters.is_empty());
        let mut found: BTreeSet<u32> = waited.map(|(number, _)| *number).collect();
        let mut queue: Vec<u32> = found.iter().copied().collect();
        while let Some(number) = queue.pop() {
            let Some(promise) = self.promises.get(&number) else { continue };
            let PromiseKind::Combination(combination) = &promise.kind else { continue };
            for item in &combination.items {
                if let ItemValue::Promise(item) = &item.value
                    && found.insert(item.number)
                {
                    queue.push(item.number);
                }
            }
        }
        found
    }

    /// What a pending task, Nexus operation or child does when it is canceled.
    fn on_cancel(&self, number: u32) -> Option<OnCancel> {
        match self.promises.get(&number)? {
            Promise {
                end: None,
                kind:
                    PromiseKind::Task { on_cancel, .. }
                    | PromiseKind::Nexus { on_cancel, .. }
                    | PromiseKind::Child { on_cancel, .. },
                ..
            } => Some(*on_cancel),
            _ => None,
        }
    }

    /// Asks the server to cancel a task, Nexus operation or child, once.
    fn ask_to_cancel(&mut self, number: u32, reason: &str) {
        let Some(promise) = self.promises.get_mut(&number) else { return };
        let (kind, command) = match &mut promise.kind {
            PromiseKind::Task { is_asked, .. } if !*is_asked => {
                *is_asked = true;
                (OperationKind::Task, Command::CancelTask { id: promise.id.to_string() })
            }
            PromiseKind::Nexus { is_asked, .. } if !*is_asked => {
                *is_asked = true;
                (OperationKind::Nexus, Command::CancelNexus { id: promise.id.to_string() })
            }
            PromiseKind::Child { is_asked, .. } if !*is_asked => {
                *is_asked = true;
                let workflow_id = promise.id.to_string();
                (OperationKind::Child, Command::CancelChild { workflow_id, reason: reason.to_owned() })
            }
            _ => return,
        };
        let id = promise.id.clone();
        let place = self.push_command(command);
        self.cancels.insert((kind, id), place);
    }

    /// Ends a task, Nexus operation or child that is not waited for until the server says so.
    fn fail_canceled(&mut self, number: u32, reason: &str) {
        let Some(promise) = self.promises.get(&number) else { return };
        let (kind, operation, name) = match &promise.kind {
            PromiseKind::Task { name, .. } => ("task", OperationKind::Task, name),
            PromiseKind::Nexus { name, .. } => ("nexus", OperationKind::Nexus, name),
            PromiseKind::Child { name, .. } => ("workflow", OperationKind::Child, name),
            _ => return,
        };
        let source = Value::object([
            ("kind", Value::text(kind)),
            ("name", Value::Str(name.clone())),
            ("item_id", Value::Str(promise.id.clone())),
        ]);
        let message = if reason.is_empty() { "canceled" } else { reason };
        let kind = Kind::Canceled;
        let error = pure::error::make(kind.name(), message, Value::Null, kind.retryable(), Value::Null, source, "");
        self.lingering.insert((operation, promise.id.clone()));
        self.end(number, Err(error));
    }

    /// `Task.cancel` of one promise.
    pub(super) fn cancel_one(&mut self, number: u32, reason: &Arc<str>) {
        let Some(promise) = self.promises.get_mut(&number).filter(|promise| promise.end.is_none()) else { return };
        match &mut promise.kind {
            PromiseKind::Timer { .. } => {
                let id = promise.id.clone();
                let error = self.canceled(reason);
                self.end(number, Err(error));
                self.cancel_timer(number, &id);
            }
            PromiseKind::Signal { .. } | PromiseKind::Condition { .. } => {
                let error = self.canceled(reason);
                self.end(number, Err(error));
            }
            PromiseKind::Task { on_cancel, .. }
            | PromiseKind::Nexus { on_cancel, .. }
            | PromiseKind::Child { on_cancel, .. } => {
                let on_cancel = *on_cancel;
                self.ask_to_cancel(number, reason);
                if on_cancel != OnCancel::Wait {
                    self.fail_canceled(number, reason);
                }
            }
            PromiseKind::Code(coroutine) => {
                if !coroutine.is_canceled {
                    coroutine.is_canceled = true;
                    self.interrupt(number, &Interruption { reason: reason.clone(), is_request: false });
                }
            }
            PromiseKind::Combination(combination) => {
                let mut seen = BTreeSet::new();
                for item in &combination.items {
                    if let ItemValue::Promise(item) = &item.value
                        && seen.insert(item.number)
                    {
                        self.work.push_back(super::promise::Work::Cancel(item.number, reason.clone()));
                    }
                }
            }
            PromiseKind::Send { .. } | PromiseKind::Host => {}
        }
    }

    /// Interrupts a piece of code, or the functions that it waits for.
    fn interrupt(&mut self, number: u32, interruption: &Interruption) {
        let mut queue = vec![number];
        let mut seen = BTreeSet::new();
        while let Some(number) = queue.pop() {
            if !seen.insert(number) {
                continue;
            }
            let Some(coroutine) = self.promises.get(&number).and_then(Promise::coroutine) else { continue };
            let waiting = coroutine.waiting.as_ref().map(|waiting| waiting.number);
            let waits = waiting.map(|waiting| self.how_it_waits(waiting));
            match waits {
                Some(Waits::Plain) => {
                    self.stop_waiting(number);
                    let error = self.canceled(&interruption.reason);
                    self.resume_with(number, Err(error));
                }
                Some(Waits::ForCode(numbers)) => {
                    let is_request = interruption.is_request;
                    let fresh = numbers.into_iter().rev().filter(|number| self.take_interruption(*number, is_request));
                    queue.extend(fresh);
                }
                // It runs, or waits for something protected: kept until its next await.
                Some(Waits::Protected) | None => {
                    if let Some(coroutine) = self.promises.get_mut(&number).and_then(Promise::coroutine_mut) {
                        coroutine.interruption = Some(interruption.clone());
                    }
                }
            }
        }
    }

    /// Marks a function as interrupted; `false` if it was before.
    fn take_interruption(&mut self, number: u32, is_request: bool) -> bool {
        let Some(coroutine) = self.promises.get_mut(&number).and_then(Promise::coroutine_mut) else { return false };
        let mark = if is_request { &mut coroutine.is_interrupted } else { &mut coroutine.is_canceled };
        !std::mem::replace(mark, true)
    }

    /// The error of a kept interruption, if this await takes it.
    pub(super) fn interruption(&mut self, number: u32, awaited: u32) -> Option<Value> {
        let coroutine = self.promises.get(&number).and_then(Promise::coroutine)?;
        let interruption = coroutine.interruption.clone()?;
        let waits = self.how_it_waits(awaited);
        if matches!(waits, Waits::Protected) {
            return None;
        }
        if let Some(coroutine) = self.promises.get_mut(&number).and_then(Promise::coroutine_mut) {
            coroutine.interruption = None;
        }
        match waits {
            Waits::Protected => None,
            Waits::Plain => Some(self.canceled(&interruption.reason)),
            Waits::ForCode(numbers) => {
                for number in numbers {
                    if self.take_interruption(number, interruption.is_request) {
                        self.interrupt(number, &interruption);
                    }
                }
                None
            }
        }
    }

    fn how_it_waits(&mut self, awaited: u32) -> Waits {
        let (mut codes, mut is_protected) = (Vec::new(), false);
        let mut queue = vec![awaited];
        let mut seen = BTreeSet::new();
        while let Some(number) = queue.pop() {
            if !seen.insert(number) {
                continue;
            }
            let Some(promise) = self.promises.get(&number).filter(|promise| promise.end.is_none()) else { continue };
            match &promise.kind {
                PromiseKind::Code(_) => codes.push(number),
                PromiseKind::Task { on_cancel, .. }
                | PromiseKind::Nexus { on_cancel, .. }
                | PromiseKind::Child { on_cancel, .. } => {
                    is_protected |= *on_cancel != OnCancel::Try;
                }
                PromiseKind::Combination(combination) => {
                    queue.extend(combination.items.iter().filter_map(|item| match &item.value {
                        ItemValue::Promise(promise) => Some(promise.number),
                        ItemValue::Value(_) => None,
                    }));
                }
                _ => {}
            }
        }
        // Steps: a script must pay for making this long.
        self.debt += seen.len() as u64;
        codes.sort_unstable();
        if !codes.is_empty() {
            Waits::ForCode(codes)
        } else if is_protected {
            Waits::Protected
        } else {
            Waits::Plain
        }
    }
}
