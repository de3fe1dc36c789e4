//! Frames: the position of a piece of code, and its values.

use std::cell::RefCell;
use std::rc::Rc;

use crate::value::{LanguageError, Value};

/// A variable that several functions share.
pub(super) type Cell = Rc<RefCell<Value>>;

/// The cells that a function captured. Most capture none.
pub(super) type Captures = Option<Rc<[Cell]>>;

/// A function with what it captured.
#[derive(Clone)]
pub(super) struct Closure {
    pub function: u32,
    pub captures: Captures,
}

/// What a slot of a frame or a place of the operand stack holds.
pub(super) enum Slot {
    Value(Value),
    Cell(Cell),
}

/// A frame that waits for the one above it.
pub(super) struct Frame {
    pub function: u32,
    pub pc: u32,
    pub base: usize,
    pub captures: Captures,
}

/// A piece of code under way: the frame that runs, the frames below it, and the values of all of them. Only functions
/// that are not async have frames above another one, so code that waits has exactly one frame.
pub(super) struct Fiber {
    /// The number of the promise of this piece of code.
    pub number: u32,
    pub function: u32,
    /// The address of the next instruction.
    pub pc: u32,
    /// Where the slots of the frame begin in `values`.
    pub base: usize,
    pub captures: Captures,
    pub callers: Vec<Frame>,
    pub values: Vec<Slot>,
}

/// Code that called the code that runs now, by a call that is not over.
pub(super) struct Caller<'c> {
    pub fiber: &'c Fiber,
    pub up: Option<&'c Self>,
}

/// Why code does not go on. A pointer, so that results stay small.
pub(super) type Fault = Box<FaultKind>;

/// Why code does not go on.
pub(super) enum FaultKind {
    /// The language raised an error; it becomes an error object where it happened.
    LanguageError(LanguageError),
    /// An error object on its way to a `catch`.
    Throw(Value),
    Fatal(Box<Fatal>),
}

/// Why a turn, or the run, does not go on.
pub(super) enum Fatal {
    /// A limit was reached. The text is the stack.
    Limit(LanguageError, String),
    /// The run fails with this error object.
    Failed(Value),
    GivenUp,
    Defect(String),
}

impl From<LanguageError> for Fault {
    #[cold]
    fn from(raised: LanguageError) -> Self {
        Self::new(FaultKind::LanguageError(raised))
    }
}

impl From<Box<Fatal>> for Fault {
    #[cold]
    fn from(fatal: Box<Fatal>) -> Self {
        Self::new(FaultKind::Fatal(fatal))
    }
}

/// An error object on its way.
#[cold]
pub(super) fn throw(error: Value) -> Fault {
    Box::new(FaultKind::Throw(error))
}

/// The machine is in a state that must not be.
#[cold]
#[inline(never)]
pub(super) fn defect(what: &'static str) -> Fault {
    Box::new(FaultKind::Fatal(Box::new(Fatal::Defect(what.into()))))
}

impl Default for Slot {
    fn default() -> Self {
        Self::Value(Value::Null)
    }
}

impl Fiber {
    #[inline]
    pub fn push(&mut self, value: Value) {
        self.values.push(Slot::Value(value));
    }

    #[inline]
    pub fn pop(&mut self) -> Result<Value, Fault> {
        match self.values.pop() {
            Some(Slot::Value(value)) => Ok(value),
            _ => Err(defect("the operand stack is empty")),
        }
    }

    /// The top of the operand stack.
    #[inline]
    pub fn top(&mut self) -> Result<&mut Value, Fault> {
        match self.values.last_mut() {
            Some(Slot::Value(value)) => Ok(value),
            _ => Err(defect("the operand stack is empty")),
        }
    }

    /// The last values of the operand stack, in order.
    pub fn take(&mut self, count: usize) -> Result<Vec<Value>, Fault> {
        let from = self.values.len().checked_sub(count).filter(|from| *from >= self.base);
        let from = from.ok_or_else(|| defect("the operand stack is too short"))?;
        let mut values = Vec::with_capacity(count);
        for slot in self.values.drain(from..) {
            match slot {
                Slot::Value(value) => values.push(value),
                Slot::Cell(_) => return Err(defect("a cell is on the operand stack")),
            }
        }
        Ok(values)
    }

    #[inline]
    pub fn slot(&self, slot: u32) -> Result<&Slot, Fault> {
        self.values.get(self.base + slot as usize).ok_or_else(|| defect("no such slot"))
    }

    #[inline]
    pub fn slot_mut(&mut self, slot: u32) -> Result<&mut Slot, Fault> {
        self.values.get_mut(self.base + slot as usize).ok_or_else(|| defect("no such slot"))
    }

    /// The cell of a slot.
    #[inline]
    pub fn cell(&self, slot: u32) -> Result<&Cell, Fault> {
        match self.slot(slot)? {
            Slot::Cell(cell) => Ok(cell),
            Slot::Value(_) => Err(defect("a slot holds no cell")),
        }
    }

    #[inline]
    pub fn capture(&self, number: u32) -> Result<&Cell, Fault> {
        let captures = self.captures.as_deref().unwrap_or_default();
        captures.get(number as usize).ok_or_else(|| defect("no such capture"))
    }

    /// Forgets slots.
    pub fn clear(&mut self, from: u32, to: u32) -> Result<(), Fault> {
        let range = self.base + from as usize..self.base + to as usize;
        let slots = self.values.get_mut(range).ok_or_else(|| defect("no such slots"))?;
        slots.iter_mut().for_each(|slot| *slot = Slot::default());
        Ok(())
    }

    /// Makes a call: the last values are the arguments, which become the first slots of the new frame.
    pub fn enter(&mut self, closure: Closure, start: u32, params: usize, slots: usize) -> Result<(), Fault> {
        let base = self.values.len().checked_sub(params).ok_or_else(|| defect("arguments are missing"))?;
        let captures = std::mem::replace(&mut self.captures, closure.captures);
        self.callers.push(Frame { function: self.function, pc: self.pc, base: self.base, captures });
        (self.function, self.pc, self.base) = (closure.function, start, base);
        self.values.resize_with(base + slots, Slot::default);
        Ok(())
    }

    /// Drops the frame and goes back to the one below it, if there is one.
    pub fn leave(&mut self) {
        self.values.truncate(self.base);
        if let Some(frame) = self.callers.pop() {
            (self.function, self.pc, self.base, self.captures) = (frame.function, frame.pc, frame.base, frame.captures);
        }
    }
}

/// The value of a cell.
#[inline]
pub(super) fn get(cell: &Cell) -> Result<Value, Fault> {
    cell.try_borrow().map(|value| value.clone()).map_err(|_| defect("a cell is in use"))
}

/// Gives a cell another value.
#[inline]
pub(super) fn set(cell: &Cell, value: Value) -> Result<(), Fault> {
    // The old value is dropped after the borrow has ended.
    let old = match cell.try_borrow_mut() {
        Ok(mut place) => std::mem::replace(&mut *place, value),
        Err(_) => return Err(defect("a cell is in use")),
    };
    drop(old);
    Ok(())
}
