//! The effect of each instruction on the height of the operand stack.

use super::code::Op;
use super::{Compiler, index};

/// How many values an instruction takes from the operand stack and how many it puts there, if it does not jump.
pub(super) fn effect(op: &Op, compiler: &Compiler<'_>) -> (u32, u32) {
    let target = |number: u32| {
        let steps = compiler.code.targets.get(number as usize).map_or(&[][..], |target| &target.steps);
        index(steps.iter().filter(|step| matches!(step, super::code::StepInfo::Index)).count())
    };
    let params = |closure: u32| {
        let function = compiler.code.closures.get(closure as usize).map_or(0, |closure| closure.function);
        compiler.program.functions.get(function as usize).map_or(0, |function| index(function.params.len()))
    };
    match *op {
        Op::Null
        | Op::True
        | Op::False
        | Op::Int(_)
        | Op::Literal(_)
        | Op::Constant(_)
        | Op::Load(_)
        | Op::LoadCell(_)
        | Op::LoadCapture(_)
        | Op::ObjectNew
        | Op::Element { .. }
        | Op::Part { .. }
        | Op::IterNext { .. }
        | Op::Read { .. } => (0, 1),
        Op::Store(_)
        | Op::StoreCell(_)
        | Op::StoreCapture(_)
        | Op::Pop
        | Op::JumpIfFalse(_)
        | Op::JumpIfTrue(_)
        | Op::And(_)
        | Op::Or(_)
        | Op::NotNull(_)
        | Op::IterStart(_)
        | Op::Throw
        | Op::Rethrow
        | Op::Return
        | Op::ReturnNew
        | Op::ListPush
        | Op::ListSpread
        | Op::ObjectField(_)
        | Op::ObjectSpread => (1, 0),
        Op::NewCell(_)
        | Op::BoxCell(_)
        | Op::CopyCell(_)
        | Op::Clear { .. }
        | Op::Jump(_)
        | Op::IfNull(_)
        | Op::Root
        | Op::UnlessKind { .. } => (0, 0),
        Op::Not
        | Op::Negate
        | Op::Typeof
        | Op::Field { .. }
        | Op::RestList(_)
        | Op::RestObject(_)
        | Op::Await { .. }
        | Op::AwaitReturn { .. } => (1, 1),
        Op::Discard(count) => (count + 1, 0),
        Op::Binary(_) | Op::Index { .. } => (2, 1),
        Op::ObjectComputed => (2, 0),
        Op::MakeList(count) | Op::Concat(count) => (count, 1),
        Op::Call(closure) | Op::CallAsync(closure) => (params(closure), 1),
        Op::Library { arguments, .. } | Op::LibraryWith { arguments, .. } => (arguments, 1),
        Op::Method { arguments, .. } | Op::MethodWith { arguments, .. } => (arguments + 1, 1),
        Op::Assign(number) => (target(number) + 1, 0),
        Op::Delete(number) => (target(number), 0),
        Op::Change { target: number, arguments, .. } => (target(number) + arguments, 1),
    }
}
