//! Instructions as bytes.

use crate::hir::{Access, Binary};
use crate::library::{Function as LibraryFunction, Method};
use crate::machine::bytes::{Damage, Reader, Writer};

use super::code::Op;
use super::format::place;

const ACCESSES: [Access; 3] = [Access::Plain, Access::Optional, Access::Soft];

const BINARIES: [Binary; 12] = [
    Binary::Add,
    Binary::Subtract,
    Binary::Multiply,
    Binary::Divide,
    Binary::Remainder,
    Binary::Equal,
    Binary::NotEqual,
    Binary::Less,
    Binary::LessOrEqual,
    Binary::Greater,
    Binary::GreaterOrEqual,
    Binary::In,
];

/// Writes the number of an instruction and its operands. Numbers are never reused.
pub(super) fn write_op(out: &mut Writer, op: &Op) {
    let mut plain = |tag: u8, numbers: &[u32]| {
        out.byte(tag);
        numbers.iter().for_each(|number| out.number(*number));
    };
    match *op {
        Op::Null => plain(0, &[]),
        Op::True => plain(1, &[]),
        Op::False => plain(2, &[]),
        Op::Int(number) => {
            out.byte(3);
            out.signed(number.into());
        }
        Op::Literal(number) => plain(4, &[number]),
        Op::Constant(number) => plain(5, &[number]),
        Op::Load(slot) => plain(6, &[slot]),
        Op::LoadCell(slot) => plain(7, &[slot]),
        Op::LoadCapture(number) => plain(8, &[number]),
        Op::Store(slot) => plain(9, &[slot]),
        Op::StoreCell(slot) => plain(10, &[slot]),
        Op::StoreCapture(number) => plain(11, &[number]),
        Op::NewCell(slot) => plain(12, &[slot]),
        Op::BoxCell(slot) => plain(13, &[slot]),
        Op::CopyCell(slot) => plain(14, &[slot]),
        Op::Clear { from, to } => plain(15, &[from, to]),
        Op::Pop => plain(16, &[]),
        Op::Discard(count) => plain(17, &[count]),
        Op::Jump(target) => plain(18, &[target]),
        Op::JumpIfFalse(target) => plain(19, &[target]),
        Op::JumpIfTrue(target) => plain(20, &[target]),
        Op::And(target) => plain(21, &[target]),
        Op::Or(target) => plain(22, &[target]),
        Op::NotNull(target) => plain(23, &[target]),
        Op::IfNull(target) => plain(24, &[target]),
        Op::Not => plain(25, &[]),
        Op::Negate => plain(26, &[]),
        Op::Typeof => plain(27, &[]),
        Op::Binary(operator) => plain(28, &[place(&BINARIES, &operator).into()]),
        Op::Field { key, access } => plain(29, &[place(&ACCESSES, &access).into(), key]),
        Op::Index { access } => plain(30, &[place(&ACCESSES, &access).into()]),
        Op::MakeList(count) => plain(31, &[count]),
        Op::ListPush => plain(32, &[]),
        Op::ListSpread => plain(33, &[]),
        Op::ObjectNew => plain(34, &[]),
        Op::ObjectField(key) => plain(35, &[key]),
        Op::ObjectComputed => plain(36, &[]),
        Op::ObjectSpread => plain(37, &[]),
        Op::Concat(count) => plain(38, &[count]),
        Op::Element { index, access } => plain(39, &[place(&ACCESSES, &access).into(), index]),
        Op::Part { key, access } => plain(40, &[place(&ACCESSES, &access).into(), key]),
        Op::RestList(from) => plain(41, &[from]),
        Op::RestObject(keys) => plain(42, &[keys]),
        Op::Call(closure) => plain(43, &[closure]),
        Op::CallAsync(closure) => plain(44, &[closure]),
        Op::Library { function, arguments } => {
            plain(45, &[place(LibraryFunction::ALL, &function).into(), arguments]);
        }
        Op::LibraryWith { function, arguments, closure } => {
            plain(46, &[place(LibraryFunction::ALL, &function).into(), arguments, closure]);
        }
        Op::Method { method, arguments } => plain(47, &[place(Method::ALL, &method).into(), arguments]),
        Op::MethodWith { method, arguments, closure } => {
            plain(48, &[place(Method::ALL, &method).into(), arguments, closure]);
        }
        Op::Assign(target) => plain(49, &[target]),
        Op::Read { target, access } => plain(50, &[place(&ACCESSES, &access).into(), target]),
        Op::Delete(target) => plain(51, &[target]),
        Op::Change { target, method, arguments } => {
            plain(52, &[place(Method::ALL, &method).into(), target, arguments]);
        }
        Op::IterStart(slot) => plain(53, &[slot]),
        Op::IterNext { slot, end } => plain(54, &[slot, end]),
        Op::UnlessKind { slot, kind, target } => plain(55, &[slot, kind, target]),
        Op::Throw => plain(56, &[]),
        Op::Rethrow => plain(57, &[]),
        Op::Return => plain(58, &[]),
        Op::ReturnNew => plain(59, &[]),
        Op::Await { height } => plain(60, &[height]),
        Op::AwaitReturn { height } => plain(61, &[height]),
        Op::Root => plain(62, &[]),
    }
}

pub(super) fn read_op(input: &mut Reader<'_>) -> Result<Op, Damage> {
    /// An entry of a table whose numbers are varints.
    fn entry<T: Copy>(table: &[T], input: &mut Reader<'_>) -> Result<T, Damage> {
        table.get(input.small()? as usize).copied().ok_or("a number stands for nothing")
    }
    Ok(match input.byte()? {
        0 => Op::Null,
        1 => Op::True,
        2 => Op::False,
        3 => Op::Int(i32::try_from(input.signed()?).map_err(|_| "a number is too large")?),
        4 => Op::Literal(input.small()?),
        5 => Op::Constant(input.small()?),
        6 => Op::Load(input.small()?),
        7 => Op::LoadCell(input.small()?),
        8 => Op::LoadCapture(input.small()?),
        9 => Op::Store(input.small()?),
        10 => Op::StoreCell(input.small()?),
        11 => Op::StoreCapture(input.small()?),
        12 => Op::NewCell(input.small()?),
        13 => Op::BoxCell(input.small()?),
        14 => Op::CopyCell(input.small()?),
        15 => Op::Clear { from: input.small()?, to: input.small()? },
        16 => Op::Pop,
        17 => Op::Discard(input.small()?),
        18 => Op::Jump(input.small()?),
        19 => Op::JumpIfFalse(input.small()?),
        20 => Op::JumpIfTrue(input.small()?),
        21 => Op::And(input.small()?),
        22 => Op::Or(input.small()?),
        23 => Op::NotNull(input.small()?),
        24 => Op::IfNull(input.small()?),
        25 => Op::Not,
        26 => Op::Negate,
        27 => Op::Typeof,
        28 => Op::Binary(entry(&BINARIES, input)?),
        29 => Op::Field { access: entry(&ACCESSES, input)?, key: input.small()? },
        30 => Op::Index { access: entry(&ACCESSES, input)? },
        31 => Op::MakeList(input.small()?),
        32 => Op::ListPush,
        33 => Op::ListSpread,
        34 => Op::ObjectNew,
        35 => Op::ObjectField(input.small()?),
        36 => Op::ObjectComputed,
        37 => Op::ObjectSpread,
        38 => Op::Concat(input.small()?),
        39 => Op::Element { access: entry(&ACCESSES, input)?, index: input.small()? },
        40 => Op::Part { access: entry(&ACCESSES, input)?, key: input.small()? },
        41 => Op::RestList(input.small()?),
        42 => Op::RestObject(input.small()?),
        43 => Op::Call(input.small()?),
        44 => Op::CallAsync(input.small()?),
        45 => Op::Library { function: entry(LibraryFunction::ALL, input)?, arguments: input.small()? },
        46 => Op::LibraryWith {
            function: entry(LibraryFunction::ALL, input)?,
            arguments: input.small()?,
            closure: input.small()?,
        },
        47 => Op::Method { method: entry(Method::ALL, input)?, arguments: input.small()? },
        48 => Op::MethodWith { method: entry(Method::ALL, input)?, arguments: input.small()?, closure: input.small()? },
        49 => Op::Assign(input.small()?),
        50 => Op::Read { access: entry(&ACCESSES, input)?, target: input.small()? },
        51 => Op::Delete(input.small()?),
        52 => Op::Change { method: entry(Method::ALL, input)?, target: input.small()?, arguments: input.small()? },
        53 => Op::IterStart(input.small()?),
        54 => Op::IterNext { slot: input.small()?, end: input.small()? },
        55 => Op::UnlessKind { slot: input.small()?, kind: input.small()?, target: input.small()? },
        56 => Op::Throw,
        57 => Op::Rethrow,
        58 => Op::Return,
        59 => Op::ReturnNew,
        60 => Op::Await { height: input.small()? },
        61 => Op::AwaitReturn { height: input.small()? },
        62 => Op::Root,
        _ => return Err("there is no such instruction"),
    })
}
