//! The stored form of compiled code: stored with the version of a script, read once and cached. The format number comes
//! first.
//!
//! Reading checks that every number in an instruction refers to an existing entry, so executing such code cannot fail
//! on one.

use std::sync::Arc;

use crate::diagnostic::Position;
use crate::hir::FunctionKind;
use crate::machine::bytes::{Damage, Reader, Writer, checksum};
use crate::value::Kind;

use super::code::{
    CODE_FORMAT, Catch, ClosureInfo, Code, FunctionInfo, HandlerInfo, Literal, Local, Op, Place, Schedule, StepInfo,
    TargetInfo,
};
use super::op_format::{read_op, write_op};
use super::tree::{CODE_BYTES_MAX, TreeReader, TreeWriter};

/// Bytes of memory that stored code may take while it is read.
const READ_BYTES_MAX: usize = 4 * CODE_BYTES_MAX;

/// Bytes before the content: format and checksum.
const HEADER: usize = 9;

const KINDS: [FunctionKind; 8] = [
    FunctionKind::Workflow,
    FunctionKind::Function,
    FunctionKind::Arrow,
    FunctionKind::Query,
    FunctionKind::Signal,
    FunctionKind::Update,
    FunctionKind::Validate,
    FunctionKind::Test,
];

const ERRORS: [Kind; 12] = [
    Kind::Type,
    Kind::Field,
    Kind::Index,
    Kind::Number,
    Kind::Argument,
    Kind::Payload,
    Kind::Limit,
    Kind::Aggregate,
    Kind::Timeout,
    Kind::Canceled,
    Kind::NotFound,
    Kind::AlreadyStarted,
];

/// The index of an entry in its table.
pub(super) fn place<T: PartialEq>(table: &[T], wanted: &T) -> u8 {
    let place = table.iter().position(|known| known == wanted).unwrap_or(usize::MAX);
    u8::try_from(place).unwrap_or(u8::MAX)
}

fn of<T: Copy>(table: &[T], input: &mut Reader<'_>) -> Result<T, Damage> {
    table.get(input.byte()? as usize).copied().ok_or("a number stands for nothing")
}

impl Code {
    /// The code as bytes to store.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes.extend_from_slice(&[0; HEADER]);
        out.text(&self.name);
        out.text(&self.file);
        list(&mut out, &self.strings, |out, text| out.text(text));
        list(&mut out, &self.literals, write_literal);
        let mut trees = TreeWriter::default();
        out.count(self.constants.len());
        for constant in &self.constants {
            match constant {
                Ok(tree) => {
                    out.byte(0);
                    trees.write(&mut out, tree);
                }
                Err((kind, message)) => {
                    out.byte(1);
                    out.byte(place(&ERRORS, kind));
                    out.text(message);
                }
            }
        }
        list(&mut out, &self.closures, |out, closure| {
            out.number(closure.function);
            list(out, &closure.sources, write_place);
        });
        list(&mut out, &self.targets, |out, target| {
            write_place(out, &target.place);
            list(out, &target.steps, |out, step| match step {
                StepInfo::Index => out.number(0_u32),
                StepInfo::Field(key) => out.number(u64::from(*key) + 1),
            });
        });
        list(&mut out, &self.keys, |out, keys| list(out, keys, |out, key| out.number(*key)));
        list(&mut out, &self.functions, write_function);
        list(&mut out, &self.handlers, |out, handler| {
            out.byte(place(&KINDS, &handler.kind));
            out.text(&handler.name);
            out.number(handler.closure);
            out.number(handler.validate.map_or(0, |validate| u64::from(validate) + 1));
        });
        out.number(self.workflow.map_or(0, |workflow| u64::from(workflow) + 1));
        list(&mut out, &self.root, |out, slot| out.number(*slot));
        match &self.schedule {
            None => out.flag(false),
            Some(schedule) => {
                out.flag(true);
                out.text(&schedule.cron);
                out.text(&schedule.zone);
                out.text(&schedule.queue);
                out.flag(schedule.input.is_some());
                out.text(schedule.input.as_deref().unwrap_or_default());
            }
        }
        list(&mut out, &self.uses, |out, path| out.text(path));
        list(&mut out, &self.tests, |out, (name, function)| {
            out.text(name);
            out.number(*function);
        });
        list(&mut out, &self.ops, write_op);
        let mut last = Position::default();
        for at in &self.positions {
            out.signed(i64::from(at.line) - i64::from(last.line));
            out.signed(i64::from(at.column) - i64::from(last.column));
            last = *at;
        }
        let mut bytes = out.bytes;
        let (header, content) = bytes.split_at_mut(HEADER);
        let sum = checksum(content).to_le_bytes();
        header.iter_mut().zip([CODE_FORMAT].into_iter().chain(sum)).for_each(|(to, from)| *to = from);
        bytes
    }

    /// Reads code from bytes.
    ///
    /// # Errors
    /// The format is unknown, the bytes are damaged, or the code is larger than the compiler makes it; the text says which.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        read(bytes).map_err(|why| format!("the code cannot be read: {why}"))
    }
}

fn read(bytes: &[u8]) -> Result<Code, Damage> {
    let (header, content) = bytes.split_at_checked(HEADER).ok_or("it is too short")?;
    let (format, sum) = header.split_first().ok_or("it is too short")?;
    if !(1..=CODE_FORMAT).contains(format) {
        return Err("its format is unknown");
    }
    if bytes.len() > CODE_BYTES_MAX {
        return Err("it is too large");
    }
    if checksum(content).to_le_bytes() != *sum {
        return Err("its checksum is wrong");
    }
    let input = &mut Reader::new(content, READ_BYTES_MAX);
    let (name, file) = (input.shared()?, input.shared()?);
    let strings = read_list(input, Reader::shared)?;
    let literals = read_list(input, read_literal)?;
    let mut trees = TreeReader::default();
    let constants = read_list(input, |input| match input.byte()? {
        0 => trees.read(input).map(Ok),
        1 => Ok(Err((of(&ERRORS, input)?, input.string()?))),
        _ => Err("there is no such constant"),
    })?;
    let closures =
        read_list(input, |input| Ok(ClosureInfo { function: input.small()?, sources: read_list(input, read_place)? }))?;
    let targets = read_list(input, |input| {
        let place = read_place(input)?;
        let steps = read_list(input, |input| {
            Ok(match input.small()? {
                0 => StepInfo::Index,
                key => StepInfo::Field(key - 1),
            })
        })?;
        Ok(TargetInfo { place, steps })
    })?;
    let keys = read_list(input, |input| read_list(input, Reader::small))?;
    let functions = read_list(input, read_function)?;
    let handlers = read_list(input, |input| {
        Ok(HandlerInfo {
            kind: of(&KINDS, input)?,
            name: input.shared()?,
            closure: input.small()?,
            validate: input.small()?.checked_sub(1),
        })
    })?;
    let workflow = input.small()?.checked_sub(1);
    let root = read_list(input, Reader::small)?;
    let schedule = if input.flag()? {
        let (cron, zone, queue) = (input.shared()?, input.string()?, input.string()?);
        let has_input = input.flag()?;
        let text = input.string()?;
        Some(Schedule { cron, zone, input: has_input.then_some(text), queue })
    } else {
        None
    };
    let uses = read_list(input, Reader::shared)?;
    let tests = read_list(input, |input| Ok((input.shared()?, input.small()?)))?;
    let ops = read_list(input, read_op)?;
    let mut positions = Vec::with_capacity(ops.len());
    let mut last = Position::default();
    for _ in 0..ops.len() {
        let moved = |from: u32, by: i64| {
            i64::from(from).checked_add(by).and_then(|to| u32::try_from(to).ok()).ok_or("a position is nowhere")
        };
        last = Position { line: moved(last.line, input.signed()?)?, column: moved(last.column, input.signed()?)? };
        positions.push(last);
    }
    input.end()?;
    let mut code = Code {
        name,
        file,
        ops,
        positions,
        functions,
        strings,
        literals,
        constants,
        closures,
        targets,
        keys,
        handlers,
        workflow,
        root,
        schedule,
        uses,
        tests,
        needs_attribute_types: false,
    };
    check(&code)?;
    code.complete();
    Ok(code)
}

/// Every number must refer to an entry.
fn check(code: &Code) -> Result<(), Damage> {
    let within = |number: u32, count: usize, why: Damage| if (number as usize) < count { Ok(()) } else { Err(why) };
    let functions = code.functions.len();
    for closure in &code.closures {
        let function = code.function(closure.function).ok_or("there is no such function")?;
        if function.captures as usize != closure.sources.len() {
            return Err("a function captures something else");
        }
    }
    for target in &code.targets {
        for step in &target.steps {
            if let StepInfo::Field(key) = step {
                within(*key, code.strings.len(), "there is no such key")?;
            }
        }
    }
    for key in code.keys.iter().flatten() {
        within(*key, code.strings.len(), "there is no such key")?;
    }
    for handler in &code.handlers {
        within(handler.closure, code.closures.len(), "there is no such handler")?;
        if let Some(validate) = handler.validate {
            within(validate, code.closures.len(), "there is no such handler")?;
        }
    }
    for function in code.workflow.iter().chain(code.tests.iter().map(|(_, function)| function)) {
        within(*function, functions, "there is no such function")?;
    }
    for function in &code.functions {
        if function.start > function.end || function.end as usize > code.ops.len() || function.params > function.slots {
            return Err("a function is out of range");
        }
        for catch in &function.catches {
            if catch.clear > function.slots || !(function.start..function.end).contains(&catch.target) {
                return Err("a catch is out of range");
            }
        }
    }
    let addresses = code.ops.len();
    for op in &code.ops {
        match *op {
            Op::Literal(number) => within(number, code.literals.len(), "there is no such literal")?,
            Op::Constant(number) => within(number, code.constants.len(), "there is no such constant")?,
            Op::Jump(target)
            | Op::JumpIfFalse(target)
            | Op::JumpIfTrue(target)
            | Op::And(target)
            | Op::Or(target)
            | Op::NotNull(target)
            | Op::IfNull(target)
            | Op::IterNext { end: target, .. }
            | Op::UnlessKind { target, .. } => within(target, addresses, "there is no such address")?,
            Op::Field { key, .. } | Op::ObjectField(key) | Op::Part { key, .. } => {
                within(key, code.strings.len(), "there is no such key")?;
            }
            Op::RestObject(keys) => within(keys, code.keys.len(), "there are no such keys")?,
            Op::Call(closure)
            | Op::CallAsync(closure)
            | Op::LibraryWith { closure, .. }
            | Op::MethodWith { closure, .. } => within(closure, code.closures.len(), "there is no such function")?,
            Op::Assign(target) | Op::Read { target, .. } | Op::Delete(target) | Op::Change { target, .. } => {
                within(target, code.targets.len(), "there is no such target")?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn list<T>(out: &mut Writer, items: &[T], write: impl Fn(&mut Writer, &T)) {
    out.count(items.len());
    items.iter().for_each(|item| write(out, item));
}

fn read_list<'b, T>(
    input: &mut Reader<'b>,
    mut read: impl FnMut(&mut Reader<'b>) -> Result<T, Damage>,
) -> Result<Vec<T>, Damage> {
    let count = input.count()?;
    input.allocate(count * size_of::<T>())?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(read(input)?);
    }
    Ok(items)
}

fn write_literal(out: &mut Writer, literal: &Literal) {
    match literal {
        Literal::Int(number) => {
            out.byte(0);
            out.signed(*number);
        }
        Literal::Float(number) => {
            out.byte(1);
            out.double(*number);
        }
        Literal::Str(text) => {
            out.byte(2);
            out.text(text);
        }
    }
}

fn read_literal(input: &mut Reader<'_>) -> Result<Literal, Damage> {
    Ok(match input.byte()? {
        0 => Literal::Int(input.signed()?),
        1 => Literal::Float(finite(input)?),
        2 => Literal::Str(input.shared()?),
        _ => return Err("there is no such literal"),
    })
}

pub(super) fn finite(input: &mut Reader<'_>) -> Result<f64, Damage> {
    let number = input.double()?;
    if number.is_finite() { Ok(number) } else { Err("a double is none") }
}

fn write_place(out: &mut Writer, place: &Place) {
    let (tag, number) = match place {
        Place::Slot(slot) => (0, slot),
        Place::Cell(slot) => (1, slot),
        Place::Capture(number) => (2, number),
    };
    out.byte(tag);
    out.number(*number);
}

fn read_place(input: &mut Reader<'_>) -> Result<Place, Damage> {
    Ok(match input.byte()? {
        0 => Place::Slot(input.small()?),
        1 => Place::Cell(input.small()?),
        2 => Place::Capture(input.small()?),
        _ => return Err("there is no such place"),
    })
}

fn write_function(out: &mut Writer, function: &FunctionInfo) {
    out.text(&function.name);
    out.byte(place(&KINDS, &function.kind));
    out.flag(function.is_async);
    for number in [function.params, function.slots, function.captures, function.start, function.end] {
        out.number(number);
    }
    list(out, &function.catches, |out, catch| {
        for number in [catch.start, catch.end, catch.target, catch.clear] {
            out.number(number);
        }
    });
    list(out, &function.locals, |out, local| {
        out.text(&local.name);
        write_place(out, &local.place);
        out.number(local.start);
        out.number(local.end);
    });
}

fn read_function(input: &mut Reader<'_>) -> Result<FunctionInfo, Damage> {
    Ok(FunctionInfo {
        name: input.shared()?,
        kind: of(&KINDS, input)?,
        is_async: input.flag()?,
        params: input.small()?,
        slots: input.small()?,
        captures: input.small()?,
        start: input.small()?,
        end: input.small()?,
        catches: read_list(input, |input| {
            Ok(Catch { start: input.small()?, end: input.small()?, target: input.small()?, clear: input.small()? })
        })?,
        locals: read_list(input, |input| {
            Ok(Local { name: input.shared()?, place: read_place(input)?, start: input.small()?, end: input.small()? })
        })?,
    })
}

/// Threads share code.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Arc<Code>>();
};
