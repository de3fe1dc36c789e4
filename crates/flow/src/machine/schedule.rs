//! Pieces of async code: how they start, wait, go on and end; and the order in which they do.

use std::rc::Rc;
use std::sync::Arc;

use crate::pure;
use crate::value::{Kind, LanguageError, PromiseRef, Value};

use super::frame::{Caller, Closure, Fatal, Fault, FaultKind, Fiber, Slot, defect, throw};
use super::promise::{Coroutine, Outcome, Promise, PromiseKind, Role};
use super::run::Exit;
use super::{Counter, Machine, ReadyStep, RunOutcome, error_type};
use crate::interface::Command;

impl Machine<'_> {
    /// A fiber at the beginning of a function. Arguments that the function does not take are dropped.
    pub(super) fn fiber(&mut self, number: u32, closure: &Closure, arguments: &[Value]) -> Result<Fiber, Fault> {
        let info = self.code.function(closure.function).ok_or_else(|| defect("no such function"))?;
        self.charge_units(info.slots as usize);
        let mut values = Vec::with_capacity(info.slots as usize + 8);
        values.extend(arguments.iter().take(info.params as usize).cloned().map(Slot::Value));
        values.resize_with(info.slots as usize, Slot::default);
        Ok(Fiber {
            number,
            function: closure.function,
            pc: info.start,
            base: 0,
            captures: closure.captures.clone(),
            callers: Vec::new(),
            values,
        })
    }

    /// A fiber that stands nowhere, for calls by the machine itself.
    pub(super) fn nowhere() -> Fiber {
        Fiber {
            number: u32::MAX,
            function: u32::MAX,
            pc: 0,
            base: 0,
            captures: None,
            callers: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Calls a function without effects: a condition, a validator, a query. It has steps of its own.
    #[inline(never)]
    pub(super) fn evaluate(
        &mut self,
        closure: &Closure,
        arguments: &[Value],
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        self.count_steps();
        let (spent, steps_max, depth, is_pure) = (self.spent, self.steps_max, self.depth, self.is_pure);
        (self.spent, self.steps_max, self.is_pure) = (0, self.limits.steps_without_effects, true);
        (self.fuel, self.window) = (0, 0);
        let result = self.evaluate_within(closure, arguments, up);
        self.count_steps();
        (self.spent, self.steps_max, self.is_pure) = (spent + self.spent, steps_max, is_pure);
        (self.fuel, self.window) = (0, 0);
        self.depth = depth;
        result
    }

    fn evaluate_within(
        &mut self,
        closure: &Closure,
        arguments: &[Value],
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        self.deeper()?;
        let mut fiber = self.fiber(u32::MAX, closure, arguments)?;
        match self.run(&mut fiber, 0, up)? {
            Exit::Returned(value) => Ok(value),
            Exit::New(_) | Exit::Waits => Err(defect("code without effects waits")),
        }
    }

    /// The instruction that calls an async function.
    #[inline(never)]
    pub(super) fn call_async(&mut self, fiber: &mut Fiber, closure: u32, up: Option<&Caller<'_>>) -> Result<(), Fault> {
        let closure = self.closure(fiber, closure)?;
        let params = self.code.function(closure.function).map_or(0, |info| info.params);
        let arguments = fiber.take(params as usize)?;
        let promise = self.start_call(fiber, &closure, &arguments, up)?;
        fiber.push(promise);
        Ok(())
    }

    /// Calls an async function: runs it until it waits and gives its promise.
    #[inline(never)]
    pub(super) fn start_call(
        &mut self,
        fiber: &Fiber,
        closure: &Closure,
        arguments: &[Value],
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        if self.is_pure {
            return Err(LanguageError::type_error("no effects allowed here").into());
        }
        if self.pending_calls >= self.limits.pending_calls {
            let message = format!("limit of {} pending async calls reached", self.limits.pending_calls);
            return Err(LanguageError::new(Kind::Limit, message).into());
        }
        self.deeper()?;
        let id = self.next_id(Counter::Call);
        let reference = self.promise(id, code(Role::Call));
        let callee = self.fiber(reference.number, closure, arguments)?;
        let depth = self.depth;
        let caller = Caller { fiber, up };
        self.drive(callee, Some(&caller))?;
        self.depth = depth.saturating_sub(1);
        Ok(Value::Promise(reference))
    }

    /// Starts the workflow's body or a handler.
    pub(super) fn start_code(&mut self, role: Role, closure: &Closure, arguments: &[Value]) -> Result<(), Box<Fatal>> {
        let id: Arc<str> = match role {
            Role::Main => "main".into(),
            _ => "handler".into(),
        };
        let number = self.hidden(id, code(role));
        let fiber = self.fiber(number, closure, arguments).map_err(fatal)?;
        self.depth = 0;
        self.drive(fiber, None).map_err(fatal)
    }

    /// Runs a piece of async code until it waits or ends.
    #[inline(never)]
    fn drive(&mut self, mut fiber: Fiber, up: Option<&Caller<'_>>) -> Result<(), Fault> {
        self.has_changed = true;
        let number = fiber.number;
        match self.run(&mut fiber, 0, up) {
            Ok(Exit::Waits) => {
                let coroutine = self.promises.get_mut(&number).and_then(Promise::coroutine_mut);
                coroutine.ok_or_else(|| defect("code is not in the table"))?.fiber = Some(fiber);
                Ok(())
            }
            Ok(Exit::Returned(value)) => self.finish_code(fiber, Ok(value), false),
            Ok(Exit::New(value)) => self.finish_code(fiber, Ok(value), true),
            Err(fault) => match *fault {
                FaultKind::Throw(error) => self.finish_code(fiber, Err(error), false),
                other => Err(Box::new(other)),
            },
        }
    }

    /// A piece of async code has ended.
    #[inline(never)]
    fn finish_code(&mut self, fiber: Fiber, outcome: Outcome, is_new: bool) -> Result<(), Fault> {
        let number = fiber.number;
        let promise = self.promises.get(&number).ok_or_else(|| defect("code is not in the table"))?;
        let role = promise.coroutine().map(|coroutine| coroutine.role.clone());
        match (role, outcome) {
            (None, _) => Err(defect("no code")),
            (Some(Role::Call), Err(error)) if !promise.heard && promise.reference.strong_count() == 0 => {
                self.unheard(error.clone())?;
                self.end(number, Err(error));
                Ok(())
            }
            (Some(Role::Call), outcome) => {
                self.end(number, outcome);
                Ok(())
            }
            (Some(Role::Main), outcome) => self.finish_main(&fiber, outcome, is_new),
            (Some(Role::Signal), outcome) => {
                self.promises.remove(&number);
                match outcome {
                    Ok(_) => Ok(()),
                    Err(error) => Ok(self.unheard(error)?),
                }
            }
            (Some(Role::Update(id)), outcome) => {
                self.promises.remove(&number);
                let end = match outcome {
                    Ok(value) => pure::payload::write(&value).map(|payload| vec![payload]).map_err(|raised| {
                        let stack = self.stack_text(&fiber, None);
                        pure::error::to_failure(&pure::error::from_raised(&raised, &stack))
                    }),
                    Err(error) => Err(pure::error::to_failure(&error)),
                };
                self.command(Command::EndUpdate { id: id.to_string(), end })?;
                Ok(())
            }
        }
    }

    fn finish_main(&mut self, fiber: &Fiber, outcome: Outcome, is_new: bool) -> Result<(), Fault> {
        let closing = match outcome {
            Err(error) => RunOutcome::Failed(error),
            Ok(value) if is_new => RunOutcome::New(value),
            Ok(value) => match pure::payload::write(&value) {
                Ok(payload) => RunOutcome::Returned(payload),
                Err(raised) => RunOutcome::Failed(self.error_object(&raised, fiber, None)?),
            },
        };
        if matches!(closing, RunOutcome::Failed(_)) {
            // Timers that were started for nothing leave no command. The error of the body is the one that counts.
            while self.sweep().is_err() {}
        } else {
            self.sweep()?;
            // What failed and was never heard cannot be heard.
            let lost = self.promises.values().filter(|promise| {
                !promise.heard && promise.coroutine().is_some_and(|coroutine| coroutine.role == Role::Call)
            });
            let lost = lost.filter_map(|promise| promise.end.as_ref()).filter(|end| end.outcome.is_err());
            if let Some(Err(error)) = lost.min_by_key(|end| end.sequence).map(|end| end.outcome.clone()) {
                self.unheard(error)?;
            }
        }
        self.closing = Some(closing);
        Ok(())
    }

    /// Awaits the promise on top of the operand stack. `true`: the code waits now.
    #[inline(never)]
    pub(super) fn wait(&mut self, fiber: &mut Fiber, up: Option<&Caller<'_>>) -> Result<bool, Fault> {
        let promise = match fiber.top()? {
            Value::Promise(promise) => Rc::clone(promise),
            Value::List(_) => {
                return Err(LanguageError::type_error("await takes one promise; use Task.all for a list").into());
            }
            _ => return Ok(false),
        };
        if !fiber.callers.is_empty() || self.is_pure {
            return Err(defect("code that may not wait waits"));
        }
        fiber.values.pop();
        let entry = self.promises.get_mut(&promise.number).ok_or_else(|| defect("a promise is not in the table"))?;
        entry.heard = true;
        match &entry.end {
            Some(end) => match end.outcome.clone() {
                Ok(value) => {
                    self.check_value(&value)?;
                    fiber.push(value);
                    Ok(false)
                }
                Err(error) => Err(throw(self.thrown_here(error, fiber, up))),
            },
            None => {
                self.sweep()?;
                if let Some(error) = self.interruption(fiber.number, promise.number) {
                    return Err(throw(self.thrown_here(error, fiber, up)));
                }
                self.wait_for(fiber.number, promise)?;
                Ok(true)
            }
        }
    }

    fn wait_for(&mut self, number: u32, promise: Rc<PromiseRef>) -> Result<(), Fault> {
        let entry = self.promises.get_mut(&promise.number).ok_or_else(|| defect("a promise is not in the table"))?;
        entry.waiters.push(number);
        let coroutine = self.promises.get_mut(&number).and_then(Promise::coroutine_mut);
        coroutine.ok_or_else(|| defect("code is not in the table"))?.waiting = Some(promise);
        Ok(())
    }

    /// An error as it is thrown at an await: with a stack if it has none.
    pub(super) fn thrown_here(&mut self, error: Value, fiber: &Fiber, up: Option<&Caller<'_>>) -> Value {
        let has_stack = match &error {
            Value::Object(object) => matches!(object.get("stack"), Some(Value::Str(stack)) if !stack.is_empty()),
            _ => true,
        };
        if has_stack {
            return error;
        }
        let stack = self.stack_text(fiber, up);
        let mut cost = pure::Cost::default();
        cost.touch(stack.len());
        self.charge(cost);
        pure::error::with_stack(error, &stack)
    }

    /// Lets everything go on that can, in order, until all wait; then looks at conditions, again and again.
    pub(super) fn go_on(&mut self) -> Result<(), Box<Fatal>> {
        loop {
            self.sweep()?;
            self.check_broken()?;
            while let Some(ready) = self.ready.pop_front() {
                self.depth = 0;
                match ready {
                    ReadyStep::Resume(number, outcome) => self.resume(number, outcome)?,
                    ReadyStep::Map(number) => {
                        self.has_changed = true;
                        let mut fiber = Self::nowhere();
                        self.map_on(&mut fiber, number, None).map_err(fatal)?;
                    }
                }
                if self.closing.is_some() {
                    return Ok(());
                }
                self.sweep()?;
                self.check_broken()?;
            }
            if !self.has_changed || !self.check_conditions()? {
                return self.withdraw_cycles();
            }
        }
    }

    /// Fails the run if a limit was reached while no code ran.
    fn check_broken(&mut self) -> Result<(), Box<Fatal>> {
        self.broken.take().map_or(Ok(()), |raised| Err(Box::new(Fatal::Limit(raised, String::new()))))
    }

    fn resume(&mut self, number: u32, outcome: Outcome) -> Result<(), Box<Fatal>> {
        let Some(promise) = self.promises.get_mut(&number) else { return Ok(()) };
        let Some(coroutine) = promise.coroutine_mut() else { return Ok(()) };
        let Some(mut fiber) = coroutine.fiber.take() else { return Ok(()) };
        self.depth = u32::from(coroutine.role == Role::Call);
        if matches!(&outcome, Err(error) if error_type(error) == Some("Canceled")) {
            coroutine.interruption = None;
        }
        let fault = match outcome {
            Ok(value) => {
                let checked = self.check_value(&value);
                fiber.push(value);
                checked.err().map(Fault::from)
            }
            Err(error) => Some(throw(self.thrown_here(error, &fiber, None))),
        };
        if let Some(fault) = fault
            && let Err(fault) = self.unwind(&mut fiber, fault, 0, None)
        {
            return match *fault {
                FaultKind::Throw(error) => self.finish_code(fiber, Err(error), false).map_err(fatal),
                other => Err(fatal(Box::new(other))),
            };
        }
        self.drive(fiber, None).map_err(fatal)
    }

    /// Ends the first condition that is true. `false`: none is.
    fn check_conditions(&mut self) -> Result<bool, Box<Fatal>> {
        self.has_changed = false;
        let mut after = None;
        loop {
            let next = match after {
                None => self.conditions.first().copied(),
                Some(after) => self.conditions.range(after + 1..).next().copied(),
            };
            let Some(number) = next else { return Ok(false) };
            after = Some(number);
            let Some(Promise { kind: PromiseKind::Condition { closure, .. }, .. }) = self.promises.get(&number) else {
                continue;
            };
            let closure = closure.clone();
            self.debt += 10;
            if self.spent > self.steps_max {
                let raised = LanguageError::new(Kind::Limit, format!("step limit of {} reached", self.steps_max));
                return Err(Box::new(Fatal::Limit(raised, String::new())));
            }
            if let Some(outcome) = self.check_condition(&closure, None).map_err(fatal)? {
                self.end(number, outcome);
                // The code that waits changes things; others are checked again after that.
                self.has_changed = true;
                return Ok(true);
            }
        }
    }

    /// Evaluates a condition; `None` if it is false.
    #[inline(never)]
    pub(super) fn check_condition(
        &mut self,
        closure: &Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Option<Outcome>, Fault> {
        let value = match self.evaluate(closure, &[], up) {
            Ok(value) => value,
            Err(fault) => match *fault {
                FaultKind::Throw(error) => return Ok(Some(Err(error))),
                other => return Err(Box::new(other)),
            },
        };
        match pure::condition(&value) {
            Ok(true) => Ok(Some(Ok(Value::Bool(true)))),
            Ok(false) => Ok(None),
            Err(raised) => {
                let fiber = self.fiber(u32::MAX, closure, &[])?;
                Ok(Some(Err(self.error_object(&raised, &fiber, up)?)))
            }
        }
    }

    /// Notes the cells of variables that handlers use.
    pub(super) fn take_root(&mut self, fiber: &Fiber) -> Result<(), Fault> {
        self.root = self.code.root.iter().map(|slot| fiber.cell(*slot).cloned()).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The function of a handler with the variables of the workflow that it uses.
    pub(super) fn handler(&self, closure: u32) -> Result<Closure, Fault> {
        let info = self.code.closures.get(closure as usize).ok_or_else(|| defect("no such closure"))?;
        let mut cells = Vec::with_capacity(info.sources.len());
        for source in &info.sources {
            let place = match source {
                crate::compile::code::Place::Cell(slot) => self.code.root.iter().position(|root| root == slot),
                _ => None,
            };
            let cell = place.and_then(|place| self.root.get(place));
            cells.push(Rc::clone(cell.ok_or_else(|| defect("a variable of a handler is missing"))?));
        }
        let captures = if cells.is_empty() { None } else { Some(cells.into()) };
        Ok(Closure { function: info.function, captures })
    }
}

fn code(role: Role) -> PromiseKind {
    PromiseKind::Code(Box::new(Coroutine {
        role,
        fiber: None,
        waiting: None,
        interruption: None,
        is_canceled: false,
        is_interrupted: false,
    }))
}

/// A fault outside of any code is fatal.
#[expect(clippy::boxed_local, reason = "faults are boxed wherever they go")]
pub(super) fn fatal(fault: Fault) -> Box<Fatal> {
    match *fault {
        FaultKind::Fatal(fatal) => fatal,
        FaultKind::LanguageError(raised) if raised.kind == Kind::Limit => Box::new(Fatal::Limit(raised, String::new())),
        FaultKind::LanguageError(raised) => Box::new(Fatal::Failed(pure::error::from_raised(&raised, ""))),
        FaultKind::Throw(error) => Box::new(Fatal::Failed(error)),
    }
}
