//! Compiled code: instructions of a stack machine and the tables they refer to. Threads share it; it holds no value that
//! belongs to a run.
//!
//! A frame has numbered slots for parameters, variables and hidden values (what a loop goes over, how a `finally` goes on)
//! and an operand stack above them. At the beginning of a statement the operand stack is empty. Variables that another
//! function uses are in cells; a slot or a capture holds the cell.

use std::sync::Arc;

use crate::diagnostic::Position;
use crate::hir::{Access, Binary, FunctionKind};
use crate::library::{Function as LibraryFunction, Method};
use crate::value::Kind;

use super::tree::Tree;

/// The format of encoded code. Older ones stay readable: format 1 has no numbers of shared parts of constants.
pub const CODE_FORMAT: u8 = 2;

/// An instruction. Jumps hold the address of their target in [`Code::ops`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Null,
    True,
    False,
    Int(i32),
    /// Pushes a literal.
    Literal(u32),
    /// Pushes a constant of the file.
    Constant(u32),
    Load(u32),
    LoadCell(u32),
    LoadCapture(u32),
    Store(u32),
    StoreCell(u32),
    StoreCapture(u32),
    /// Puts a new cell with null into a slot.
    NewCell(u32),
    /// Moves the value of a slot into a new cell in that slot.
    BoxCell(u32),
    /// Replaces the cell of a slot by a new one with the same value.
    CopyCell(u32),
    /// Forgets slots.
    Clear {
        from: u32,
        to: u32,
    },
    Pop,
    /// Drops the top and these many below it.
    Discard(u32),
    Jump(u32),
    JumpIfFalse(u32),
    JumpIfTrue(u32),
    /// Jumps if the top is a false condition, else drops it.
    And(u32),
    /// Jumps if the top is a true condition, else drops it.
    Or(u32),
    /// Jumps if the top is not null, else drops it.
    NotNull(u32),
    /// Jumps if the top is null.
    IfNull(u32),
    Not,
    Negate,
    Typeof,
    Binary(Binary),
    Field {
        key: u32,
        access: Access,
    },
    Index {
        access: Access,
    },
    /// A list of the top values.
    MakeList(u32),
    ListPush,
    ListSpread,
    ObjectNew,
    ObjectField(u32),
    ObjectComputed,
    ObjectSpread,
    /// Joins the texts of the top values.
    Concat(u32),
    /// Pushes an element of the list below.
    Element {
        index: u32,
        access: Access,
    },
    /// Pushes a field of the object below.
    Part {
        key: u32,
        access: Access,
    },
    /// Replaces a list by its elements from here on.
    RestList(u32),
    /// Replaces an object by its fields but these ([`Code::keys`]).
    RestObject(u32),
    Call(u32),
    CallAsync(u32),
    Library {
        function: LibraryFunction,
        arguments: u32,
    },
    LibraryWith {
        function: LibraryFunction,
        arguments: u32,
        closure: u32,
    },
    Method {
        method: Method,
        arguments: u32,
    },
    MethodWith {
        method: Method,
        arguments: u32,
        closure: u32,
    },
    /// Assigns to a target; its indexes are below the value.
    Assign(u32),
    /// Pushes the value of a target; its indexes stay.
    Read {
        target: u32,
        access: Access,
    },
    Delete(u32),
    /// Calls a method that changes the target; its indexes are below the arguments.
    Change {
        target: u32,
        method: Method,
        arguments: u32,
    },
    /// Prepares to go over a value; it uses this slot and the next.
    IterStart(u32),
    /// Pushes the next element, or jumps.
    IterNext {
        slot: u32,
        end: u32,
    },
    /// Jumps unless the slot holds this number.
    UnlessKind {
        slot: u32,
        kind: u32,
        target: u32,
    },
    Throw,
    /// Throws an error object as it is.
    Rethrow,
    Return,
    /// Returns what `Workflow.continueAsNew` gave.
    ReturnNew,
    /// Awaits the top. The number is the height of the operand stack without the awaited value.
    Await {
        height: u32,
    },
    /// Awaits the top if it is a promise.
    AwaitReturn {
        height: u32,
    },
    /// Notes the cells that handlers use.
    Root,
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Int(i64),
    Float(f64),
    Str(Arc<str>),
}

/// A constant of the file, or the error that computing it raises.
pub(crate) type Constant = Result<Tree, (Kind, String)>;

/// Where a variable is, seen from a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a slot.
    Slot(u32),
    /// In the cell of a slot.
    Cell(u32),
    /// In a captured cell.
    Capture(u32),
}

/// A function with the places of the cells that it captures, seen from the frame that makes the closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosureInfo {
    pub function: u32,
    /// [`Place::Cell`] or [`Place::Capture`].
    pub sources: Vec<Place>,
}

/// What an assignment changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetInfo {
    pub place: Place,
    pub steps: Vec<StepInfo>,
}

/// A step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepInfo {
    /// The key, in [`Code::strings`].
    Field(u32),
    /// The index is on the operand stack.
    Index,
}

/// Where an error goes on that is thrown in a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Catch {
    pub start: u32,
    pub end: u32,
    pub target: u32,
    /// Slots from here on are forgotten.
    pub clear: u32,
}

/// A variable as inspection shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub name: Arc<str>,
    pub place: Place,
    /// The addresses where it is visible.
    pub start: u32,
    pub end: u32,
}

/// A compiled function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionInfo {
    pub name: Arc<str>,
    pub kind: FunctionKind,
    pub is_async: bool,
    pub params: u32,
    pub slots: u32,
    pub captures: u32,
    pub start: u32,
    pub end: u32,
    /// Innermost first.
    pub catches: Vec<Catch>,
    pub locals: Vec<Local>,
}

/// A handler of the workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandlerInfo {
    pub kind: FunctionKind,
    pub name: Arc<str>,
    /// In [`Code::closures`], with the workflow's frame as the maker.
    pub closure: u32,
    pub validate: Option<u32>,
}

/// `schedule(…)` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Temporal's cron text, without the zone.
    pub cron: Arc<str>,
    /// The IANA zone; empty if none is given.
    pub zone: String,
    /// The input of the run, as JSON.
    pub input: Option<String>,
    /// The task queue; empty if none is given.
    pub queue: String,
}

/// A compiled script.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    pub(crate) name: Arc<str>,
    pub(crate) file: Arc<str>,
    pub(crate) ops: Vec<Op>,
    /// Where each instruction comes from.
    pub(crate) positions: Vec<Position>,
    pub(crate) functions: Vec<FunctionInfo>,
    pub(crate) strings: Vec<Arc<str>>,
    pub(crate) literals: Vec<Literal>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) closures: Vec<ClosureInfo>,
    pub(crate) targets: Vec<TargetInfo>,
    /// Lists of keys, each in [`Code::strings`].
    pub(crate) keys: Vec<Vec<u32>>,
    pub(crate) handlers: Vec<HandlerInfo>,
    pub(crate) workflow: Option<u32>,
    /// Slots of the workflow's frame whose cells handlers use.
    pub(crate) root: Vec<u32>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) uses: Vec<Arc<str>>,
    pub(crate) tests: Vec<(Arc<str>, u32)>,
    /// Whether the script can set search attributes, so that their types are kept.
    pub(crate) needs_attribute_types: bool,
}

impl Code {
    /// The name of the workflow; empty for a test file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the file, as stacks show it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// `schedule(…)` of the file.
    #[must_use]
    pub const fn schedule(&self) -> Option<&Schedule> {
        self.schedule.as_ref()
    }

    /// Paths of `use` of a test file.
    #[must_use]
    pub fn uses(&self) -> &[Arc<str>] {
        &self.uses
    }

    /// Names of the tests of a test file.
    pub fn tests(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().map(|(name, _)| &**name)
    }

    /// Names of handlers of this kind ([`FunctionKind::Query`], `Signal`, `Update`), in order of declaration.
    pub fn handlers(&self, kind: FunctionKind) -> impl Iterator<Item = &str> {
        self.handlers.iter().filter(move |handler| handler.kind == kind).map(|handler| &*handler.name)
    }

    /// Bytes of memory that it takes, with its constants.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.size() + super::tree::memory(self.constants.iter().flatten())
    }

    /// Bytes of memory that it takes, without the values of constants.
    pub(crate) fn size(&self) -> usize {
        let texts: usize = self.strings.iter().map(|text| text.len() + 32).sum();
        let literals = self.literals.iter().map(|literal| match literal {
            Literal::Str(text) => text.len() + 32,
            Literal::Int(_) | Literal::Float(_) => 0,
        });
        let functions = self.functions.iter().map(|function| {
            size_of::<FunctionInfo>()
                + function.catches.len() * size_of::<Catch>()
                + function.locals.len() * size_of::<Local>()
        });
        let closures = self.closures.iter().map(|closure| closure.sources.len() * size_of::<Place>() + 32);
        let targets = self.targets.iter().map(|target| target.steps.len() * size_of::<StepInfo>() + 48);
        self.ops.len() * (size_of::<Op>() + size_of::<Position>())
            + texts
            + self.literals.len() * size_of::<Literal>()
            + literals.sum::<usize>()
            + functions.sum::<usize>()
            + closures.sum::<usize>()
            + targets.sum::<usize>()
    }

    /// Finds out what is known from the instructions.
    pub(crate) fn complete(&mut self) {
        self.needs_attribute_types = self.ops.iter().any(|op| {
            let (Op::Library { function, .. } | Op::LibraryWith { function, .. }) = op else { return false };
            matches!(
                function,
                LibraryFunction::WorkflowSetSearchAttributes
                    | LibraryFunction::WorkflowRun
                    | LibraryFunction::WorkflowStart
            )
        });
    }

    pub(crate) fn handler(&self, kind: FunctionKind, name: &str) -> Option<&HandlerInfo> {
        self.handlers.iter().find(|handler| handler.kind == kind && &*handler.name == name)
    }

    pub(crate) fn function(&self, number: u32) -> Option<&FunctionInfo> {
        self.functions.get(number as usize)
    }

    /// Where the instruction before this address comes from.
    pub(crate) fn position_before(&self, address: u32) -> Position {
        self.positions.get(address.saturating_sub(1) as usize).copied().unwrap_or_default()
    }
}
