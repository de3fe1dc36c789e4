//! The interpreter loop. Calls of functions that are not async push a frame; everything that may wait is elsewhere.
//!
//! The loop itself holds few local values, because calls from the library back into scripts nest it.

use std::cell::RefCell;
use std::rc::Rc;

use crate::compile::code::{Literal, Op, Place};
use crate::hir::{Access, Binary};
use crate::pure;
use crate::value::{Kind, LanguageError, Value};

use super::Machine;
use super::frame::{Caller, Captures, Closure, Fatal, Fault, FaultKind, Fiber, Slot, defect, get, set, throw};
use super::iterate::{iter_next, iter_start};

/// How a piece of code stopped.
pub(super) enum Exit {
    Returned(Value),
    /// It returned what `Workflow.continueAsNew` gave.
    New(Value),
    /// It waits; the machine knows for what.
    Waits,
}

/// Steps after which limits and pace are looked at.
const WINDOW: u64 = 1_000;

impl Machine<'_> {
    /// Runs a fiber until the frame at `floor` returns or the code waits.
    pub(super) fn run(&mut self, fiber: &mut Fiber, floor: usize, up: Option<&Caller<'_>>) -> Result<Exit, Fault> {
        loop {
            match self.steps(fiber, floor, up) {
                Ok(exit) => return Ok(exit),
                Err(fault) => self.unwind(fiber, fault, floor, up)?,
            }
        }
    }

    /// Executes instructions until something is to be decided outside of the loop.
    fn steps(&mut self, fiber: &mut Fiber, floor: usize, up: Option<&Caller<'_>>) -> Result<Exit, Fault> {
        let code = self.code;
        loop {
            if self.fuel == 0 {
                self.refuel(fiber, up)?;
            }
            self.fuel -= 1;
            let Some(op) = code.ops.get(fiber.pc as usize) else {
                return Err(defect("no such instruction"));
            };
            fiber.pc += 1;
            match *op {
                Op::Null => fiber.push(Value::Null),
                Op::True => fiber.push(Value::Bool(true)),
                Op::False => fiber.push(Value::Bool(false)),
                Op::Int(number) => fiber.push(Value::Int(number.into())),
                Op::Literal(number) => {
                    let value = match code.literals.get(number as usize) {
                        Some(Literal::Int(number)) => Value::Int(*number),
                        Some(Literal::Float(number)) => Value::Float(*number),
                        Some(Literal::Str(text)) => Value::Str(text.clone()),
                        None => return Err(defect("no such literal")),
                    };
                    fiber.push(value);
                }
                Op::Constant(number) => {
                    let value = self.constant(number)?;
                    fiber.push(value);
                }
                Op::Load(slot) => match fiber.slot(slot)? {
                    Slot::Value(value) => {
                        let value = value.clone();
                        fiber.push(value);
                    }
                    Slot::Cell(_) => return Err(defect("a slot holds a cell")),
                },
                Op::LoadCell(slot) => {
                    let value = get(fiber.cell(slot)?)?;
                    fiber.push(value);
                }
                Op::LoadCapture(number) => {
                    let value = get(fiber.capture(number)?)?;
                    fiber.push(value);
                }
                Op::Store(slot) => {
                    let value = fiber.pop()?;
                    *fiber.slot_mut(slot)? = Slot::Value(value);
                }
                Op::StoreCell(slot) => {
                    let value = fiber.pop()?;
                    set(fiber.cell(slot)?, value)?;
                }
                Op::StoreCapture(number) => {
                    let value = fiber.pop()?;
                    set(fiber.capture(number)?, value)?;
                }
                Op::NewCell(slot) => *fiber.slot_mut(slot)? = Slot::Cell(Rc::new(RefCell::new(Value::Null))),
                Op::BoxCell(slot) => {
                    let slot = fiber.slot_mut(slot)?;
                    if let Slot::Value(value) = slot {
                        let value = std::mem::replace(value, Value::Null);
                        *slot = Slot::Cell(Rc::new(RefCell::new(value)));
                    }
                }
                Op::CopyCell(slot) => {
                    let value = get(fiber.cell(slot)?)?;
                    *fiber.slot_mut(slot)? = Slot::Cell(Rc::new(RefCell::new(value)));
                }
                Op::Clear { from, to } => fiber.clear(from, to)?,
                Op::Pop => drop(fiber.pop()?),
                Op::Discard(count) => drop(fiber.take(count as usize + 1)?),
                Op::Jump(target) => fiber.pc = target,
                Op::JumpIfFalse(target) => {
                    if !condition(fiber.top()?)? {
                        fiber.pc = target;
                    }
                    fiber.values.pop();
                }
                Op::JumpIfTrue(target) => {
                    if condition(fiber.top()?)? {
                        fiber.pc = target;
                    }
                    fiber.values.pop();
                }
                Op::And(target) => {
                    if condition(fiber.top()?)? {
                        fiber.values.pop();
                    } else {
                        fiber.pc = target;
                    }
                }
                Op::Or(target) => {
                    if condition(fiber.top()?)? {
                        fiber.pc = target;
                    } else {
                        fiber.values.pop();
                    }
                }
                Op::NotNull(target) => {
                    if matches!(fiber.top()?, Value::Null) {
                        fiber.values.pop();
                    } else {
                        fiber.pc = target;
                    }
                }
                Op::IfNull(target) => {
                    if matches!(fiber.top()?, Value::Null) {
                        fiber.pc = target;
                    }
                }
                Op::Not => {
                    let top = fiber.top()?;
                    *top = Value::Bool(!condition(top)?);
                }
                Op::Negate => {
                    let top = fiber.top()?;
                    *top = pure::negate(top)?;
                }
                Op::Typeof => {
                    let top = fiber.top()?;
                    *top = Value::text(top.type_name());
                }
                Op::Binary(operator) => {
                    let right = fiber.pop()?;
                    let left = fiber.top()?;
                    match quick(operator, left, &right) {
                        Some(value) => *left = value,
                        None => self.binary(operator, left, &right)?,
                    }
                }
                Op::Field { key, access } => self.field(fiber, key, access)?,
                Op::Index { access } => self.index(fiber, access)?,
                Op::MakeList(count) => self.make_list(fiber, count)?,
                Op::ListPush => self.list_push(fiber)?,
                Op::ListSpread => self.list_spread(fiber)?,
                Op::ObjectNew => fiber.push(Value::Object(Rc::default())),
                Op::ObjectField(key) => self.object_field(fiber, key)?,
                Op::ObjectComputed => self.object_computed(fiber)?,
                Op::ObjectSpread => self.object_spread(fiber)?,
                Op::Concat(count) => self.concat(fiber, count)?,
                Op::Element { index, access } => self.element(fiber, index, access)?,
                Op::Part { key, access } => self.part(fiber, key, access)?,
                Op::RestList(from) => self.rest_list(fiber, from)?,
                Op::RestObject(keys) => self.rest_object(fiber, keys)?,
                Op::Call(closure) => self.call(fiber, closure)?,
                Op::CallAsync(closure) => self.call_async(fiber, closure, up)?,
                Op::Library { function, arguments } => self.library(fiber, function, arguments, up)?,
                Op::LibraryWith { function, arguments, closure } => {
                    self.library_with(fiber, function, arguments, closure, up)?;
                }
                Op::Method { method, arguments } => self.method(fiber, method, arguments)?,
                Op::MethodWith { method, arguments, closure } => {
                    self.method_with(fiber, method, arguments, closure, up)?;
                }
                Op::Assign(target) => self.assign(fiber, target)?,
                Op::Read { target, access } => self.read(fiber, target, access)?,
                Op::Delete(target) => self.delete(fiber, target)?,
                Op::Change { target, method, arguments } => self.change(fiber, target, method, arguments)?,
                Op::IterStart(slot) => iter_start(fiber, slot)?,
                Op::IterNext { slot, end } => iter_next(fiber, slot, end)?,
                Op::UnlessKind { slot, kind, target } => match fiber.slot(slot)? {
                    Slot::Value(Value::Int(number)) if *number == i64::from(kind) => {}
                    _ => fiber.pc = target,
                },
                Op::Throw => return Err(self.throw(fiber, up)?),
                Op::Rethrow => return Err(throw(fiber.pop()?)),
                Op::Return => {
                    let value = fiber.pop()?;
                    if fiber.callers.len() == floor {
                        fiber.leave();
                        return Ok(Exit::Returned(value));
                    }
                    fiber.leave();
                    self.depth -= 1;
                    fiber.push(value);
                }
                Op::ReturnNew => {
                    let value = fiber.pop()?;
                    fiber.leave();
                    return Ok(Exit::New(value));
                }
                Op::Await { .. } => {
                    if self.wait(fiber, up)? {
                        return Ok(Exit::Waits);
                    }
                }
                Op::AwaitReturn { .. } => {
                    if matches!(fiber.top()?, Value::Promise(_)) && self.wait(fiber, up)? {
                        return Ok(Exit::Waits);
                    }
                }
                Op::Root => self.take_root(fiber)?,
            }
        }
    }

    /// Counts the steps since the last time, and asks whether to go on.
    #[inline(never)]
    fn refuel(&mut self, fiber: &Fiber, up: Option<&Caller<'_>>) -> Result<(), Fault> {
        self.count_steps();
        if self.spent > self.steps_max {
            let raised = LanguageError::new(Kind::Limit, format!("step limit of {} reached", self.steps_max));
            return Err(raised.into());
        }
        if !self.pace.go_on(self.turn_steps) {
            return Err(Box::new(Fatal::GivenUp).into());
        }
        if self.turn_steps >= self.memory_due {
            self.check_memory(fiber, up)?;
        }
        self.window = WINDOW.min(self.steps_max - self.spent + 1);
        self.fuel = self.window;
        Ok(())
    }

    /// Moves what was used of the window to the counters.
    pub(super) fn count_steps(&mut self) {
        let used = self.window - self.fuel + self.debt;
        self.debt = 0;
        self.window = self.fuel;
        self.spent += used;
        self.turn_steps += used;
    }

    /// Counts what a function of the library cost.
    pub(super) fn charge(&mut self, cost: pure::Cost) {
        if cost.steps <= self.fuel {
            self.fuel -= cost.steps;
        } else {
            // Looked at before the next instruction.
            self.debt += cost.steps - self.fuel;
            self.fuel = 0;
        }
    }

    /// Counts what an instruction touches besides what every instruction does.
    pub(super) fn charge_units(&mut self, units: usize) {
        if units >= 16 {
            self.charge(pure::Cost { steps: (units / 16) as u64 });
        }
    }

    /// Refuses a value that is too large or nested too deeply.
    pub(super) fn check_value(&self, value: &Value) -> Result<(), LanguageError> {
        pure::within(value, self.limits.value_bytes)
    }

    /// Finds the `catch` of an error and goes on there. An error that leaves the frame at `floor` is given back.
    #[inline(never)]
    #[expect(clippy::boxed_local, reason = "faults are boxed wherever they go")]
    pub(super) fn unwind(
        &mut self,
        fiber: &mut Fiber,
        fault: Fault,
        floor: usize,
        up: Option<&Caller<'_>>,
    ) -> Result<(), Fault> {
        let error = match *fault {
            FaultKind::Throw(error) => error,
            FaultKind::LanguageError(raised) => self.error_object(&raised, fiber, up)?,
            FaultKind::Fatal(fatal) => return Err(fatal.into()),
        };
        loop {
            let info = self.code.function(fiber.function).ok_or_else(|| defect("no such function"))?;
            let address = fiber.pc.saturating_sub(1);
            self.charge_units(info.catches.len());
            let catch = info.catches.iter().find(|catch| (catch.start..catch.end).contains(&address));
            if let Some(catch) = catch {
                fiber.values.truncate(fiber.base + info.slots as usize);
                fiber.clear(catch.clear, info.slots)?;
                self.charge_units(info.slots as usize);
                fiber.push(error);
                fiber.pc = catch.target;
                return Ok(());
            }
            if fiber.callers.len() == floor {
                fiber.leave();
                return Err(throw(error));
            }
            fiber.leave();
            self.depth -= 1;
        }
    }

    /// The error object of an error that the language raised here. A limit ends the run instead.
    #[inline(never)]
    pub(super) fn error_object(
        &mut self,
        raised: &LanguageError,
        fiber: &Fiber,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let stack = self.stack_text(fiber, up);
        if raised.kind == Kind::Limit {
            return Err(Box::new(Fatal::Limit(raised.clone(), stack)).into());
        }
        let mut cost = pure::Cost::default();
        cost.touch(stack.len());
        self.charge(cost);
        Ok(pure::error::from_raised(raised, &stack))
    }

    #[inline(never)]
    fn throw(&mut self, fiber: &mut Fiber, up: Option<&Caller<'_>>) -> Result<Fault, Fault> {
        let value = fiber.pop()?;
        let mut cost = pure::Cost::default();
        cost.touch(value.size());
        let error = pure::error::thrown(value);
        let stack = self.stack_text(fiber, up);
        cost.touch(stack.len());
        self.charge(cost);
        let error = pure::error::with_stack(error, &stack);
        self.check_value(&error)?;
        Ok(throw(error))
    }

    #[inline(never)]
    fn constant(&mut self, number: u32) -> Result<Value, Fault> {
        let place = number as usize;
        if let Some(Some(value)) = self.constants.get(place) {
            return Ok(value.clone());
        }
        match self.code.constants.get(place) {
            Some(Ok(constant)) => {
                let before = self.grown.visited;
                let value = self.grown.value(constant);
                let visited = self.grown.visited - before;
                self.charge_units(visited);
                if self.constants.len() <= place {
                    self.constants.resize(place + 1, None);
                }
                if let Some(cached) = self.constants.get_mut(place) {
                    *cached = Some(value.clone());
                }
                Ok(value)
            }
            Some(Err((kind, message))) => Err(LanguageError::new(*kind, message.clone()).into()),
            None => Err(defect("no such constant")),
        }
    }

    #[inline(never)]
    fn binary(&mut self, operator: Binary, left: &mut Value, right: &Value) -> Result<(), Fault> {
        let mut cost = pure::Cost::default();
        let value = pure::binary(operator, left, right, &mut cost);
        self.charge(cost);
        let value = value?;
        self.check_value(&value)?;
        *left = value;
        Ok(())
    }

    #[inline(never)]
    fn field(&mut self, fiber: &mut Fiber, key: u32, access: Access) -> Result<(), Fault> {
        let key = self.code.strings.get(key as usize).ok_or_else(|| defect("no such string"))?;
        self.charge_units(key.len());
        let top = fiber.top()?;
        if let Value::Object(object) = top
            && let Some(value) = object.get(key)
        {
            let value = value.clone();
            *top = value;
            return Ok(());
        }
        let mut cost = pure::Cost::default();
        cost.touch(pure::access_units(top, &Value::Null));
        *top = pure::field(top, key, access)?.unwrap_or(Value::Null);
        self.charge(cost);
        Ok(())
    }

    #[inline(never)]
    fn index(&mut self, fiber: &mut Fiber, access: Access) -> Result<(), Fault> {
        let index = fiber.pop()?;
        let top = fiber.top()?;
        let mut cost = pure::Cost::default();
        cost.touch(pure::access_units(top, &index));
        *top = pure::index(top, &index, access)?.unwrap_or(Value::Null);
        self.charge(cost);
        Ok(())
    }

    /// A function with the cells that it captures, seen from this frame.
    pub(super) fn closure(&mut self, fiber: &Fiber, number: u32) -> Result<Closure, Fault> {
        let info = self.code.closures.get(number as usize).ok_or_else(|| defect("no such closure"))?;
        if info.sources.is_empty() {
            return Ok(Closure { function: info.function, captures: None });
        }
        self.charge_units(info.sources.len());
        let mut cells = Vec::with_capacity(info.sources.len());
        for source in &info.sources {
            cells.push(match source {
                Place::Cell(slot) => Rc::clone(fiber.cell(*slot)?),
                Place::Capture(number) => Rc::clone(fiber.capture(*number)?),
                Place::Slot(_) => return Err(defect("a slot cannot be captured")),
            });
        }
        let captures: Captures = Some(cells.into());
        Ok(Closure { function: info.function, captures })
    }

    #[inline(never)]
    fn call(&mut self, fiber: &mut Fiber, closure: u32) -> Result<(), Fault> {
        let closure = self.closure(fiber, closure)?;
        self.enter(fiber, closure)
    }

    /// Pushes the frame of a call whose arguments are on the operand stack.
    pub(super) fn enter(&mut self, fiber: &mut Fiber, closure: Closure) -> Result<(), Fault> {
        let info = self.code.function(closure.function).ok_or_else(|| defect("no such function"))?;
        self.deeper()?;
        self.charge_units(info.slots as usize);
        fiber.enter(closure, info.start, info.params as usize, info.slots as usize)
    }

    /// Counts a nested call.
    pub(super) fn deeper(&mut self) -> Result<(), LanguageError> {
        if self.depth >= self.limits.call_depth {
            let message = format!("call depth limit of {} reached", self.limits.call_depth);
            return Err(LanguageError::new(Kind::Limit, message));
        }
        self.depth += 1;
        Ok(())
    }
}

/// Operators on two integers, and equality of what is not nested.
fn quick(operator: Binary, left: &Value, right: &Value) -> Option<Value> {
    let (Value::Int(left), Value::Int(right)) = (left, right) else { return None };
    Some(match operator {
        Binary::Add => Value::Int(left.checked_add(*right)?),
        Binary::Subtract => Value::Int(left.checked_sub(*right)?),
        Binary::Multiply => Value::Int(left.checked_mul(*right)?),
        Binary::Equal => Value::Bool(left == right),
        Binary::NotEqual => Value::Bool(left != right),
        Binary::Less => Value::Bool(left < right),
        Binary::LessOrEqual => Value::Bool(left <= right),
        Binary::Greater => Value::Bool(left > right),
        Binary::GreaterOrEqual => Value::Bool(left >= right),
        Binary::Divide | Binary::Remainder | Binary::In => return None,
    })
}

fn condition(value: &Value) -> Result<bool, LanguageError> {
    match value {
        Value::Bool(value) => Ok(*value),
        value => pure::condition(value),
    }
}
