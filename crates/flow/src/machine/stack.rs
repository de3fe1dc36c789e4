//! Texts that say where code stands: `at f (file:line:column)`, innermost first; code that awaits it after a line
//! `awaited by`.

use crate::value::Value;

use super::Machine;
use super::frame::{Caller, Fiber};
use super::promise::{Promise, PromiseKind};

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

    /// Bytes of all values of the run: shared ones count as often as they occur. Also says how much was looked at.
    pub(super) fn memory(&self, fiber: &Fiber, up: Option<&Caller<'_>>) -> (usize, usize) {
        let mut bytes = fiber.size();
        let mut count = fiber.values.len();
        let mut next = up;
        while let Some(caller) = next {
            bytes += caller.fiber.size();
            count += caller.fiber.values.len();
            next = caller.up;
        }
        for promise in self.promises.values() {
            count += 1;
            bytes += PROMISE_BYTES;
            if let Some(end) = &promise.end {
                let (Ok(value) | Err(value)) = &end.outcome;
                bytes += value.size();
            }
            match &promise.kind {
                PromiseKind::Code(code) => {
                    if let Some(fiber) = &code.fiber {
                        bytes += fiber.size();
                        count += fiber.values.len();
                    }
                }
                PromiseKind::Combination(combination) => {
                    if let Some(map) = &combination.map {
                        bytes += map.list.size();
                    }
                    count += combination.items.len();
                }
                _ => {}
            }
        }
        bytes += self.root.iter().map(super::frame::cell_size).sum::<usize>();
        for queue in self.signals.values() {
            for signal in queue {
                bytes += signal.input.iter().map(|payload| payload.data.len() + 32).sum::<usize>();
                count += 1;
            }
        }
        for ready in &self.ready {
            if let super::Ready::Resume(_, Ok(value) | Err(value)) = ready {
                bytes += Value::size(value);
            }
        }
        (bytes, count)
    }

    #[inline(never)]
    pub(super) fn check_memory(&mut self, fiber: &Fiber, up: Option<&Caller<'_>>) -> Result<(), crate::value::Raised> {
        let (bytes, count) = self.memory(fiber, up);
        if bytes > self.limits.memory_bytes {
            return Err(crate::pure::memory_limit());
        }
        // Looking must not cost more than running.
        self.memory_due = self.turn_steps + super::MEMORY_INTERVAL + 4 * count as u64;
        Ok(())
    }
}
