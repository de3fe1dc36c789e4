//! Stack traces: `at f (file:line:column)`, innermost first; after a line `awaited by` the code that awaits it.

use crate::value::Value;

use super::combine::Item;
use super::frame::{Caller, Cell, Fiber, Slot};
use super::promise::{Promise, PromiseEnd, PromiseKind};
use super::{Machine, ReadyStep};

/// Combinations among which the one is looked for through which code is awaited.
const PARENTS_MAX: usize = 16;

/// Bytes that a promise needs besides its values.
const PROMISE_BYTES: usize = 200;

/// Lines of a stack.
const LINES_MAX: usize = 250;

impl Machine<'_> {
    /// The stack of code that runs.
    pub(super) fn stack_text(&self, fiber: &Fiber, up: Option<&Caller<'_>>) -> String {
        let mut text = String::new();
        let mut lines = 0;
        self.frames(fiber, &mut text, &mut lines);
        let mut outermost = fiber;
        let mut next = up;
        while let Some(caller) = next {
            text.push_str("\nawaited by");
            self.frames(caller.fiber, &mut text, &mut lines);
            outermost = caller.fiber;
            next = caller.up;
        }
        self.awaited_by(outermost.number, &mut text, &mut lines);
        text
    }

    /// The stack of code that waits.
    pub(super) fn waiting_stack(&self, fiber: &Fiber) -> String {
        self.stack_text(fiber, None)
    }

    fn frames(&self, fiber: &Fiber, text: &mut String, lines: &mut usize) {
        self.frame(fiber.function, fiber.pc, text, lines);
        for frame in fiber.callers.iter().rev() {
            self.frame(frame.function, frame.pc, text, lines);
        }
    }

    fn frame(&self, function: u32, pc: u32, text: &mut String, lines: &mut usize) {
        let Some(info) = self.code.function(function) else { return };
        *lines += 1;
        if *lines > LINES_MAX {
            return;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let at = self.code.position_before(pc);
        text.push_str(&format!("at {} ({}:{}:{})", info.name, self.code.file, at.line, at.column));
    }

    /// Follows who waits for a piece of code, also through combinations.
    fn awaited_by(&self, number: u32, text: &mut String, lines: &mut usize) {
        let mut number = number;
        while *lines <= LINES_MAX {
            let Some(promise) = self.promises.get(&number) else { return };
            if let Some(waiter) = promise.waiters.first() {
                number = *waiter;
                if let Some(fiber) =
                    self.promises.get(waiter).and_then(Promise::coroutine).and_then(|code| code.fiber.as_ref())
                {
                    text.push_str("\nawaited by");
                    self.frames(fiber, text, lines);
                }
            } else if let Some(parent) =
                promise.parents.iter().take(PARENTS_MAX).find(|parent| self.is_undecided(**parent))
            {
                number = *parent;
                *lines += 1;
            } else {
                return;
            }
        }
    }

    /// The position where a fiber stands.
    pub(super) fn line(&self, fiber: &Fiber) -> u32 {
        self.code.position_before(fiber.pc).line
    }

    /// What all values of the run take.
    fn footprint(&self, fiber: &Fiber, up: Option<&Caller<'_>>) -> Footprint {
        let mut found = Footprint { memory: self.under_way + self.command_bytes, ..Footprint::default() };
        found.fiber(fiber);
        let mut next = up;
        while let Some(caller) = next {
            found.fiber(caller.fiber);
            next = caller.up;
        }
        for promise in self.promises.values() {
            found.bytes(PROMISE_BYTES);
            found.bytes((promise.waiters.len() + promise.parents.len()) * size_of::<u32>());
            if let Some(PromiseEnd { outcome: Ok(value) | Err(value), .. }) = &promise.end {
                found.value(value);
            }
            match &promise.kind {
                PromiseKind::Code(code) => code.fiber.iter().for_each(|fiber| found.fiber(fiber)),
                PromiseKind::Combination(combination) => {
                    if let Some(map) = &combination.map {
                        found.value(&map.list);
                    }
                    found.bytes(combination.items.len() * size_of::<Item>());
                    found.count += combination.items.len();
                }
                _ => {}
            }
        }
        self.root.iter().for_each(|cell| found.cell(cell));
        for signal in self.signals.values().flatten() {
            signal.input.iter().for_each(|payload| found.bytes(payload.size() + 32));
        }
        for ready in &self.ready {
            if let ReadyStep::Resume(_, Ok(value) | Err(value)) = ready {
                found.value(value);
            }
        }
        found
    }

    #[inline(never)]
    pub(super) fn check_memory(
        &mut self,
        fiber: &Fiber,
        up: Option<&Caller<'_>>,
    ) -> Result<(), crate::value::LanguageError> {
        let found = self.footprint(fiber, up);
        let memory_max = self.limits.memory_bytes * MEMORY_PER_BYTE;
        if found.json > self.limits.memory_bytes {
            return Err(crate::pure::MemoryLimit::Turn(self.limits.memory_bytes).error());
        }
        if found.memory > memory_max {
            return Err(crate::pure::MemoryLimit::TurnMemory(memory_max).error());
        }
        // Looking must not cost more than running, and no more than what is left may be taken until then.
        let left = ((memory_max - found.memory) / MEMORY_PER_STEP) as u64;
        let interval = super::MEMORY_INTERVAL.max(left.min(super::MEMORY_INTERVAL + 4 * found.count as u64));
        self.debt += (found.count / VALUES_PER_STEP) as u64;
        self.memory_due = self.turn_steps + interval;
        Ok(())
    }
}

/// Bytes of memory that all values of a turn may take, for each byte of JSON that they may have.
const MEMORY_PER_BYTE: usize = 3;

/// No step takes more memory than this.
const MEMORY_PER_STEP: usize = 1_024;

/// Values that are looked at in the time of a step.
const VALUES_PER_STEP: usize = 64;

/// What values take; shared ones count as often as they occur.
#[derive(Default)]
struct Footprint {
    /// Bytes as JSON.
    json: usize,
    /// Bytes of memory.
    memory: usize,
    /// How much was looked at.
    count: usize,
}

impl Footprint {
    fn bytes(&mut self, bytes: usize) {
        self.json += bytes;
        self.memory += bytes;
        self.count += 1;
    }

    fn value(&mut self, value: &Value) {
        self.json += value.size();
        self.memory += value.memory();
        self.count += 1;
    }

    fn cell(&mut self, cell: &Cell) {
        if let Ok(value) = cell.try_borrow() {
            self.value(&value);
        }
    }

    fn fiber(&mut self, fiber: &Fiber) {
        self.bytes(fiber.values.len() * size_of::<Slot>());
        for slot in &fiber.values {
            match slot {
                Slot::Value(value) => self.value(value),
                Slot::Cell(cell) => self.cell(cell),
            }
        }
    }
}
