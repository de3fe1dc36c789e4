//! Moves the state of a run to another version of its script (section 7.4 of the reference).
//!
//! Code that waits goes on at the corresponding instruction ([`crate::migrate`] finds the place). The waiting statement and
//! the headers around it are the same, so its operand stack is, too. Variables go over by name, cells stay shared, and the
//! hidden slots of the loops and `finally` blocks around it move to where the new code keeps them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::compile::Code;
use crate::compile::code::{FunctionInfo, Local, Op, Place};
use crate::diagnostic::Position;
use crate::hir::{FunctionKind, Pattern, Program, VariableId};
use crate::interface::{Limits, TurnResult, Unpaced};
use crate::migrate::outline::{Correspondence, Outline};
use crate::migrate::{no_place, outline};
use crate::value::Value;

use super::frame::{Cell, Closure, Fiber, Slot, get};
use super::promise::{PromiseKind, Role};
use super::{Machine, version};

/// A version of a script.
#[derive(Clone, Copy)]
pub struct ScriptVersion<'a> {
    /// Its code.
    pub code: &'a Code,
    /// The source it was compiled from.
    pub source: &'a [u8],
}

/// Why a run cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrateError {
    /// Frames have no place in the new version: a line for each.
    NoPlace(Vec<String>),
    /// The stored state cannot be read, or does not fit its version.
    DamagedState(String),
}

impl fmt::Display for MigrateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlace(lines) => out.write_str(&lines.join("\n")),
            Self::DamagedState(why) => write!(out, "the state of the run cannot be read: {why}"),
        }
    }
}

impl std::error::Error for MigrateError {}

/// Moves the state of an open run to another version. What comes out is a turn without events: the new state, its wake
/// set, and commands that cancel timers which no variable of the new version holds. `attribute_types` are those of
/// the namespace, as in [`crate::interface::Start`].
///
/// # Errors
/// A frame has no place in the new version, or the state cannot be read.
pub fn migrate(
    old: ScriptVersion<'_>,
    new: ScriptVersion<'_>,
    state: &[u8],
    attribute_types: &[(String, String)],
    limits: &Limits,
) -> Result<TurnResult, MigrateError> {
    let mut pace = Unpaced;
    let mut machine = Machine::load(old.code, state, limits, &mut pace).map_err(MigrateError::DamagedState)?;
    let mut translation = Translation::new(old, new).ok_or_else(|| damaged("it does not belong to this version"))?;
    if machine.is_closed {
        return Err(damaged("the run is closed"));
    }
    translation.find_frames(&machine)?;
    translation.move_code(&mut machine)?;
    machine.code = new.code;
    machine.start.version = version(new.source);
    machine.start.attribute_types = attribute_types.to_vec();
    machine.sweep().map_err(|_| damaged("an error of it would be lost"))?;
    let turned = machine.finish().map_err(|error| damaged(format!("{error:?}")))?;
    // The new code must be able to read it.
    let mut pace = Unpaced;
    Machine::load(new.code, &turned.state, limits, &mut pace).map_err(MigrateError::DamagedState)?;
    Ok(turned)
}

fn damaged(why: impl Into<String>) -> MigrateError {
    MigrateError::DamagedState(why.into())
}

/// One version with what the code does not say.
struct Side<'a> {
    code: &'a Code,
    program: Program,
    captures: Vec<Vec<VariableId>>,
    outline: Outline,
}

impl<'a> Side<'a> {
    fn new(version: ScriptVersion<'a>) -> Option<Self> {
        let program = crate::check(version.source).program?;
        let captures = crate::compile::captures(&program)?;
        let side = Self { code: version.code, program, captures, outline: outline(version.source)? };
        // Code of an older compiler may number functions otherwise.
        let fits = side.program.functions.len() == side.code.functions.len()
            && side.program.functions.iter().zip(&side.code.functions).zip(&side.captures).all(
                |((function, info), captures)| {
                    function.name == info.name && function.kind == info.kind && captures.len() == info.captures as usize
                },
            );
        fits.then_some(side)
    }

    fn info(&self, function: usize) -> Option<&'a FunctionInfo> {
        self.code.functions.get(function)
    }

    /// The instructions in a function that wait at this position.
    fn waits(&self, info: &FunctionInfo, position: Position) -> impl Iterator<Item = u32> {
        (info.start..info.end).filter(move |address| {
            let op = self.code.ops.get(*address as usize);
            matches!(op, Some(Op::Await { .. } | Op::AwaitReturn { .. }))
                && self.code.positions.get(*address as usize) == Some(&position)
        })
    }

    /// The arrow that begins at this position, or the position behind its parenthesis.
    fn arrow_at(&self, position: Position) -> Option<usize> {
        self.program.functions.iter().position(|function| {
            function.kind == FunctionKind::Arrow && self.outline.word_at(function.at) == Some(position)
        })
    }

    /// Whether a variable belongs to the outermost block of the workflow, of which there is only one.
    fn is_outermost(&self, variable: VariableId) -> bool {
        let workflow = self.program.workflow.and_then(|workflow| self.program.functions.get(workflow));
        workflow.is_some_and(|workflow| {
            workflow.body.variables.contains(&variable)
                || workflow.params.iter().any(|param| fills(&param.pattern, variable))
        })
    }
}

/// Whether a pattern fills a variable.
fn fills(pattern: &Pattern, variable: VariableId) -> bool {
    match pattern {
        Pattern::Variable(id) => *id == variable,
        Pattern::List { items, rest, .. } => {
            *rest == Some(variable) || items.iter().any(|(item, _)| fills(item, variable))
        }
        Pattern::Object { fields, rest, .. } => {
            *rest == Some(variable) || fields.iter().any(|(_, item, _)| fills(item, variable))
        }
    }
}

/// Where a frame goes on in the new version.
struct NewFrame {
    function: usize,
    /// The address of the next instruction.
    pc: u32,
    place: Correspondence,
}

struct Translation<'a> {
    old: Side<'a>,
    new: Side<'a>,
    /// The new version, as messages show it.
    version: String,
    /// New frames by the number of their promise.
    frames: BTreeMap<u32, NewFrame>,
    /// Functions of frames. Of an arrow only these are known if something else in its statement has changed.
    functions: HashMap<usize, usize>,
    /// Cells of the outermost variables of the workflow in the new version, by name.
    outermost: HashMap<Arc<str>, Cell>,
}

impl<'a> Translation<'a> {
    fn new(old: ScriptVersion<'a>, new: ScriptVersion<'a>) -> Option<Self> {
        Some(Self {
            old: Side::new(old)?,
            new: Side::new(new)?,
            version: version(new.source).chars().take(12).collect(),
            frames: BTreeMap::new(),
            functions: HashMap::new(),
            outermost: HashMap::new(),
        })
    }

    /// Finds the places of all frames, and of arrows that conditions and `Task.map` will call.
    fn find_frames(&mut self, machine: &Machine<'_>) -> Result<(), MigrateError> {
        let mut missing = Vec::new();
        for (number, promise) in &machine.promises {
            let Some(fiber) = promise.coroutine().and_then(|coroutine| coroutine.fiber.as_ref()) else { continue };
            match self.find_frame(fiber) {
                Some(frame) => {
                    self.functions.insert(fiber.function as usize, frame.function);
                    self.frames.insert(*number, frame);
                }
                None => missing.push(self.line(fiber.function, self.old.code.position_before(fiber.pc))),
            }
        }
        for promise in machine.promises.values().filter(|promise| promise.end.is_none()) {
            let closure = match &promise.kind {
                PromiseKind::Condition { closure, .. } => Some(closure),
                PromiseKind::Combination(combination) => combination.map.as_ref().map(|map| &map.closure),
                _ => None,
            };
            if let Some(closure) = closure
                && self.function(closure.function as usize).is_none()
            {
                missing.push(self.closure_line(closure));
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(MigrateError::NoPlace(missing)) }
    }

    fn line(&self, function: u32, position: Position) -> String {
        let name = self.old.info(function as usize).map_or("", |info| &info.name);
        no_place(name, position, &self.version)
    }

    fn closure_line(&self, closure: &Closure) -> String {
        let at = self.old.program.functions.get(closure.function as usize).map(|function| function.at);
        self.line(closure.function, at.unwrap_or_default())
    }

    fn find_frame(&self, fiber: &Fiber) -> Option<NewFrame> {
        let old_info = self.old.info(fiber.function as usize)?;
        let wait = fiber.pc.checked_sub(1)?;
        let position = *self.old.code.positions.get(wait as usize)?;
        let place = self.old.outline.corresponding(position, &self.new.outline)?;
        let turn = self.old.waits(old_info, position).position(|address| address == wait)?;
        let fits = |info: &&FunctionInfo| info.kind == old_info.kind && info.name == old_info.name;
        let candidates = self.new.code.functions.iter().enumerate().filter(|(_, info)| fits(info));
        let mut found = candidates.filter_map(|(function, info)| {
            let address = self.new.waits(info, place.position).nth(turn)?;
            (self.new.code.ops.get(address as usize) == self.old.code.ops.get(wait as usize))
                .then_some((function, address))
        });
        // The same instruction, so the operand stack has the same height. An update and its validator have the same
        // parameters, but validators do not wait.
        let (function, address) = found.next()?;
        Some(NewFrame { function, pc: address + 1, place })
    }

    /// The new function of an old one.
    fn function(&self, function: usize) -> Option<usize> {
        if let Some(found) = self.functions.get(&function) {
            return Some(*found);
        }
        let old = self.old.program.functions.get(function)?;
        if old.kind == FunctionKind::Arrow {
            let position = self.old.outline.word_at(old.at)?;
            return self.new.arrow_at(self.old.outline.corresponding(position, &self.new.outline)?.position);
        }
        self.new.program.functions.iter().position(|new| {
            new.kind == old.kind
                && new.name == old.name
                && new.is_async == old.is_async
                && new.params.len() == old.params.len()
                && new.parent.is_some() == old.parent.is_some()
        })
    }

    /// Replaces all frames and closures of the machine.
    fn move_code(&mut self, machine: &mut Machine<'_>) -> Result<(), MigrateError> {
        // The workflow first: others share its variables.
        let mut numbers: Vec<u32> = self.frames.keys().copied().collect();
        numbers.sort_by_key(|number| {
            let coroutine = machine.promises.get(number).and_then(super::promise::Promise::coroutine);
            (coroutine.is_none_or(|coroutine| coroutine.role != Role::Main), *number)
        });
        let mut missing = Vec::new();
        for number in numbers {
            let coroutine = machine.promises.get_mut(&number).and_then(super::promise::Promise::coroutine_mut);
            let Some(coroutine) = coroutine else { continue };
            let is_main = coroutine.role == Role::Main;
            let Some(fiber) = coroutine.fiber.take() else { continue };
            let line = self.line(fiber.function, self.old.code.position_before(fiber.pc));
            match self.fiber(number, fiber) {
                Some(fiber) => {
                    if is_main {
                        self.note_outermost(&fiber);
                        machine.root = self.root(&fiber).ok_or_else(|| damaged("variables of handlers are missing"))?;
                    }
                    coroutine.fiber = Some(fiber);
                }
                None => missing.push(line),
            }
        }
        for promise in machine.promises.values_mut() {
            let closure = match &mut promise.kind {
                PromiseKind::Condition { closure, .. } => closure,
                PromiseKind::Combination(combination) => match &mut combination.map {
                    Some(map) => &mut map.closure,
                    None => continue,
                },
                _ => continue,
            };
            if promise.end.is_some() {
                continue;
            }
            match self.closure(closure) {
                Some(moved) => *closure = moved,
                None => missing.push(self.closure_line(closure)),
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(MigrateError::NoPlace(missing)) }
    }

    fn closure(&self, closure: &Closure) -> Option<Closure> {
        let function = self.function(closure.function as usize)?;
        let cells = closure.captures.as_deref().unwrap_or_default();
        let captures = self.captures(closure.function as usize, cells, function)?;
        Some(Closure { function: u32::try_from(function).ok()?, captures })
    }

    /// The captured cells of a new function: those of the same variables, or of the workflow. `None` if a variable exists
    /// but cannot be found.
    fn captures(&self, old_function: usize, cells: &[Cell], new_function: usize) -> Option<super::frame::Captures> {
        let old_captures = self.old.captures.get(old_function)?;
        let wanted = self.new.captures.get(new_function)?;
        let mut used = vec![false; cells.len()];
        let mut found: Vec<Cell> = Vec::with_capacity(wanted.len());
        for variable in wanted {
            let info = self.new.program.variables.get(*variable)?;
            let same = old_captures.iter().zip(cells).enumerate().find(|(place, (old, _))| {
                let old_info = self.old.program.variables.get(**old);
                !used.get(*place).copied().unwrap_or(true)
                    && old_info.is_some_and(|old| old.name == info.name && self.function(old.owner) == Some(info.owner))
            });
            if let Some((place, (_, cell))) = same {
                if let Some(used) = used.get_mut(place) {
                    *used = true;
                }
                found.push(Rc::clone(cell));
            } else if self.new.is_outermost(*variable) {
                found.push(Rc::clone(self.outermost.get(&info.name)?));
            } else if self.is_new(*variable) {
                found.push(cell(Value::Null));
            } else {
                return None;
            }
        }
        Some(if found.is_empty() { None } else { Some(found.into()) })
    }

    /// Whether the old version has no variable of this name in the function that declares it.
    fn is_new(&self, variable: VariableId) -> bool {
        let Some(new) = self.new.program.variables.get(variable) else { return false };
        !self
            .old
            .program
            .variables
            .iter()
            .any(|old| old.name == new.name && self.function(old.owner) == Some(new.owner))
    }

    fn fiber(&self, number: u32, mut fiber: Fiber) -> Option<Fiber> {
        let frame = self.frames.get(&number)?;
        let (old, new) = (self.old.info(fiber.function as usize)?, self.new.info(frame.function)?);
        let cells = fiber.captures.as_deref().unwrap_or_default();
        let captures = self.captures(fiber.function as usize, cells, frame.function)?;
        let operands = fiber.values.split_off((old.slots as usize).min(fiber.values.len()));
        let mut slots: Vec<Slot> = std::iter::repeat_with(Slot::default).take(new.slots as usize).collect();
        for (from, to) in self.hidden_slots(old, fiber.pc, new, frame, &fiber.values)? {
            let value = fiber.values.get_mut(from as usize).map(std::mem::take)?;
            *slots.get_mut(to as usize)? = value;
        }
        let mut names: HashMap<&str, Vec<u32>> = HashMap::new();
        for local in visible(old, fiber.pc) {
            names.entry(&local.name).or_default().extend(slot_of(local));
        }
        let mut taken: HashMap<&str, usize> = HashMap::new();
        for local in visible(new, frame.pc) {
            // Of several with one name, the outer ones come first.
            let turn = taken.entry(&local.name).or_default();
            let from = names.get(&*local.name).and_then(|slots| slots.get(*turn));
            *turn += 1;
            let value = from.and_then(|from| fiber.values.get_mut(*from as usize)).map(std::mem::take);
            let value = match (value.unwrap_or_default(), local.place) {
                (value, Place::Slot(_)) => Slot::Value(plain(value)),
                (Slot::Cell(cell), _) => Slot::Cell(cell),
                (Slot::Value(value), _) => Slot::Cell(cell(value)),
            };
            *slots.get_mut(slot_of(local)? as usize)? = value;
        }
        slots.extend(operands);
        let function = u32::try_from(frame.function).ok()?;
        Some(Fiber { number, function, pc: frame.pc, base: 0, captures, callers: Vec::new(), values: slots })
    }

    /// Pairs of slots that hold what loops, `switch` and `finally` around the frame keep.
    fn hidden_slots(
        &self,
        old: &FunctionInfo,
        old_pc: u32,
        new: &FunctionInfo,
        frame: &NewFrame,
        values: &[Slot],
    ) -> Option<Vec<(u32, u32)>> {
        let before = hidden(self.old.code, old, old_pc);
        let after = hidden(self.new.code, new, frame.pc);
        let mut pairs = Vec::new();
        // A label of a switch waits: the next ones compare with its value. Its cases do not need that.
        if frame.place.is_switch
            && let Some((old_start, new_start)) = frame.place.statements.last()
        {
            let from = switch_slot(self.old.code, old, *old_start)?;
            pairs.push((from, switch_slot(self.new.code, new, *new_start)?));
        }
        for (old_start, new_start) in &frame.place.statements {
            for from in before.iter().filter(|hidden| hidden.at == *old_start) {
                let to = after.iter().find(|hidden| hidden.at == *new_start && hidden.kind == from.kind);
                let Some(to) = to else {
                    // A `finally` that is gone: nothing of it is under way here.
                    continue;
                };
                if from.kind == HiddenKind::Finally && !frame.place.same_guarded {
                    // How the block goes on counts `break` and its kin in the `try` block.
                    let is_exit =
                        matches!(values.get(from.slot as usize), Some(Slot::Value(Value::Int(kind))) if *kind > 1);
                    if is_exit {
                        return None;
                    }
                }
                pairs.extend([(from.slot, to.slot), (from.slot + 1, to.slot + 1)]);
            }
        }
        Some(pairs)
    }

    fn note_outermost(&mut self, main: &Fiber) {
        let Some(info) = self.new.info(main.function as usize) else { return };
        for local in visible(info, main.pc) {
            if let Place::Cell(slot) = local.place
                && let Some(Slot::Cell(cell)) = main.values.get(slot as usize)
            {
                self.outermost.entry(local.name.clone()).or_insert_with(|| Rc::clone(cell));
            }
        }
    }

    /// The cells of the workflow's frame that handlers use.
    fn root(&self, main: &Fiber) -> Option<Vec<Cell>> {
        let cell = |slot: &u32| match main.values.get(*slot as usize) {
            Some(Slot::Cell(cell)) => Some(Rc::clone(cell)),
            _ => None,
        };
        self.new.code.root.iter().map(cell).collect()
    }
}

fn cell(value: Value) -> Cell {
    Rc::new(RefCell::new(value))
}

fn plain(slot: Slot) -> Value {
    match slot {
        Slot::Value(value) => value,
        Slot::Cell(cell) => get(&cell).unwrap_or(Value::Null),
    }
}

fn slot_of(local: &Local) -> Option<u32> {
    match local.place {
        Place::Slot(slot) | Place::Cell(slot) => Some(slot),
        Place::Capture(_) => None,
    }
}

/// The variables that the instruction before this address sees.
fn visible(info: &FunctionInfo, pc: u32) -> impl Iterator<Item = &Local> {
    let address = pc.saturating_sub(1);
    info.locals.iter().filter(move |local| local.start <= address && address < local.end)
}

/// What keeps hidden slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HiddenKind {
    Loop,
    Finally,
}

/// Two slots that a statement keeps for itself.
struct HiddenSlots {
    kind: HiddenKind,
    /// Where the statement begins.
    at: Position,
    slot: u32,
}

/// The slot in which the `switch` that begins here keeps its value.
fn switch_slot(code: &Code, info: &FunctionInfo, at: Position) -> Option<u32> {
    (info.start..info.end).find_map(|address| match code.ops.get(address as usize) {
        Some(Op::Store(slot)) if code.positions.get(address as usize) == Some(&at) => Some(*slot),
        _ => None,
    })
}

/// The hidden slots in use at the instruction before this address.
fn hidden(code: &Code, info: &FunctionInfo, pc: u32) -> Vec<HiddenSlots> {
    let address = pc.saturating_sub(1);
    let op = |address: u32| code.ops.get(address as usize);
    let at = |address: u32| code.positions.get(address as usize).copied().unwrap_or_default();
    let mut found = Vec::new();
    for place in info.start..info.end {
        match op(place) {
            Some(Op::IterNext { slot, end }) if place <= address && address < *end => {
                found.push(HiddenSlots { kind: HiddenKind::Loop, at: at(place), slot: *slot });
            }
            Some(Op::UnlessKind { slot, kind: 1, .. }) if address < place => {
                // The nearest one before whose errors this `finally` takes.
                let stores = |target: u32| op(target) == Some(&Op::Store(slot + 1)) && target < place;
                let catch = info.catches.iter().filter(|catch| stores(catch.target)).max_by_key(|catch| catch.target);
                if catch.is_some_and(|catch| catch.start <= address) {
                    found.push(HiddenSlots { kind: HiddenKind::Finally, at: at(place), slot: *slot });
                }
            }
            _ => {}
        }
    }
    found
}
