//! Cycles of references through conditions.
//!
//! References are counted, which finds everything unreachable except cycles. Only a condition can be part of one: its
//! function uses a variable that holds the promise of the condition, or a combination with it. The search for such
//! cycles runs when everything waits, and only if a pending condition uses a variable with a promise in it.

use std::collections::BTreeSet;

use crate::value::Value;

use super::Machine;
use super::combine::{Combination, ItemValue};
use super::frame::{Captures, Fatal, Fiber, Slot};
use super::promise::PromiseKind;

/// Promises that can be reached, and those whose own references are not followed yet.
#[derive(Default)]
struct ReachablePromises {
    numbers: BTreeSet<u32>,
    queue: Vec<u32>,
    /// Values that were looked at.
    visited: usize,
}

impl ReachablePromises {
    fn number(&mut self, number: u32) {
        if self.numbers.insert(number) {
            self.queue.push(number);
        }
    }

    fn value(&mut self, value: &Value) {
        self.visited += 1;
        match value {
            Value::Promise(promise) => self.number(promise.number),
            Value::List(list) => list.items().iter().for_each(|item| self.value(item)),
            Value::Object(object) => object.iter().for_each(|(_, item)| self.value(item)),
            _ => {}
        }
    }

    fn captures(&mut self, captures: &Captures) {
        for cell in captures.as_deref().unwrap_or_default() {
            if let Ok(value) = cell.try_borrow() {
                self.value(&value);
            }
        }
    }

    fn fiber(&mut self, fiber: &Fiber) {
        for slot in &fiber.values {
            match slot {
                Slot::Value(value) => self.value(value),
                Slot::Cell(cell) => {
                    if let Ok(value) = cell.try_borrow() {
                        self.value(&value);
                    }
                }
            }
        }
        self.captures(&fiber.captures);
    }

    fn combination(&mut self, combination: &Combination) {
        for item in &combination.items {
            match &item.value {
                ItemValue::Promise(promise) => self.number(promise.number),
                ItemValue::Value(value) => self.value(value),
            }
        }
        if let Some(map) = &combination.map {
            self.value(&map.list);
            self.captures(&map.closure.captures);
        }
    }
}

impl Machine<'_> {
    /// Withdraws what only unreachable conditions hold.
    pub(super) fn withdraw_cycles(&mut self) -> Result<(), Box<Fatal>> {
        let mut visited = 0;
        let is_possible = self.conditions.iter().any(|number| self.holds_promise(*number, &mut visited));
        self.charge_units(visited);
        if !is_possible {
            return Ok(());
        }
        let mut reached = ReachablePromises::default();
        for cell in &self.root {
            if let Ok(value) = cell.try_borrow() {
                reached.value(&value);
            }
        }
        for (number, promise) in &self.promises {
            match &promise.kind {
                _ if promise.end.is_some() => {}
                PromiseKind::Code(coroutine) => {
                    reached.number(*number);
                    coroutine.fiber.iter().for_each(|fiber| reached.fiber(fiber));
                    coroutine.waiting.iter().for_each(|waiting| reached.number(waiting.number));
                }
                PromiseKind::Combination(combination) if combination.has_effect() => reached.number(*number),
                _ => {}
            }
        }
        while let Some(number) = reached.queue.pop() {
            let Some(promise) = self.promises.get(&number) else { continue };
            match (&promise.end, &promise.kind) {
                (Some(end), _) => {
                    let (Ok(value) | Err(value)) = &end.outcome;
                    reached.value(value);
                }
                (None, PromiseKind::Condition { closure, .. }) => reached.captures(&closure.captures),
                (None, PromiseKind::Combination(combination)) => reached.combination(combination),
                _ => {}
            }
        }
        let lost: Vec<u32> =
            self.conditions.iter().copied().filter(|number| !reached.numbers.contains(number)).collect();
        self.charge_units(reached.visited);
        for number in lost {
            self.withdraw(number);
        }
        // What they held is released now.
        self.sweep()
    }

    fn holds_promise(&self, number: u32, visited: &mut usize) -> bool {
        let Some(PromiseKind::Condition { closure, .. }) = self.promises.get(&number).map(|promise| &promise.kind)
        else {
            return false;
        };
        let mut held = ReachablePromises::default();
        held.captures(&closure.captures);
        *visited += held.visited;
        !held.numbers.is_empty()
    }
}
