//! Statements. `break`, `continue` and `return` that leave a `try` with `finally` note in two hidden slots how to go on,
//! and the end of the `finally` block dispatches: so each `finally` is compiled once.

use std::collections::BTreeMap;

use crate::diagnostic::Position;
use crate::hir::{
    Access, Argument, Arm, Binary, Block, Callee, Case, Catch as HirCatch, Expr, ExprKind, Function, FunctionKind,
    Pattern, Statement, StatementKind, Target, VariableId,
};
use crate::library::Function as LibraryFunction;

use super::code::{Catch, FunctionInfo, Local, Op, Place};
use super::effect::effect;
use super::{CompileError, Compiler, DEPTH_MAX, failed, index, too_deep};

/// An address that is known later.
pub(super) type Label = usize;

/// What surrounds a statement.
enum Context {
    Loop { on_break: Label, on_continue: Label, mark: u32 },
    Switch { on_break: Label, mark: u32 },
    Finally { slot: u32, label: Label, exits: Vec<Exit>, mark: u32 },
}

/// How a statement leaves what surrounds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// To the end of the context of this number.
    Break(usize),
    Continue(usize),
    /// The value is on the operand stack.
    Return,
    ReturnNew,
}

/// Kinds of ends of a `try` block as the hidden slot holds them; exits follow.
const NORMAL: i32 = 0;
const THROWN: i32 = 1;
const FIRST_EXIT: u32 = 2;

/// One function under way.
pub(super) struct Body<'c, 'p> {
    pub(super) compiler: &'c mut Compiler<'p>,
    number: usize,
    is_async: bool,
    places: BTreeMap<VariableId, Place>,
    /// The first free slot.
    top: u32,
    slots: u32,
    /// Values on the operand stack.
    pub(super) height: u32,
    labels: Vec<Option<u32>>,
    patches: Vec<(usize, Label)>,
    contexts: Vec<Context>,
    catches: Vec<Catch>,
    locals: Vec<Local>,
    depth: u32,
    /// Where an optional access inside of a chain goes on.
    pub(super) chain: Option<Label>,
}

pub(super) fn compile(
    compiler: &mut Compiler<'_>,
    number: usize,
    function: &Function,
    captures: Vec<VariableId>,
) -> Result<FunctionInfo, CompileError> {
    let start = index(compiler.code.ops.len());
    let count = index(captures.len());
    let places = captures.into_iter().enumerate().map(|(place, id)| (id, Place::Capture(index(place)))).collect();
    let mut body = Body {
        compiler,
        number,
        is_async: function.is_async,
        places,
        top: 0,
        slots: 0,
        height: 0,
        labels: Vec::new(),
        patches: Vec::new(),
        contexts: Vec::new(),
        catches: Vec::new(),
        locals: Vec::new(),
        depth: 0,
        chain: None,
    };
    body.function(function)?;
    body.patch(function.at)?;
    let (slots, catches, locals) = (body.slots, body.catches, body.locals);
    let mut info = FunctionInfo {
        name: function.name.clone(),
        kind: function.kind,
        is_async: function.is_async,
        params: index(function.params.len()),
        slots,
        captures: count,
        start,
        end: index(compiler.code.ops.len()),
        catches,
        locals,
    };
    for local in &mut info.locals {
        local.end = local.end.min(info.end);
    }
    Ok(info)
}

impl Body<'_, '_> {
    fn function(&mut self, function: &Function) -> Result<(), CompileError> {
        // Arguments arrive in the first slots.
        self.reserve(index(function.params.len()));
        let mut bound = Vec::new();
        for (place, param) in function.params.iter().enumerate() {
            if let Pattern::Variable(variable) = param.pattern {
                let slot = index(place);
                if self.compiler.captured.contains(&variable) {
                    self.emit(Op::BoxCell(slot), function.at);
                    self.places.insert(variable, Place::Cell(slot));
                } else {
                    self.places.insert(variable, Place::Slot(slot));
                }
                self.local(variable);
            } else {
                variables_of(&param.pattern, &mut bound);
            }
        }
        for &variable in &bound {
            self.declare(variable, function.at);
        }
        // A default may call a function that uses variables of the body, so these exist before.
        for &variable in &function.body.variables {
            self.declare(variable, function.at);
        }
        if function.kind == FunctionKind::Workflow {
            self.root(function.at);
        }
        for (place, param) in function.params.iter().enumerate() {
            let slot = index(place);
            match &param.pattern {
                Pattern::Variable(variable) => {
                    if let Some(default) = &param.default {
                        let end = self.label();
                        self.load(*variable, default.at)?;
                        self.jump(Op::NotNull, end, default.at);
                        self.expr(default)?;
                        self.place(end);
                        self.store(*variable, default.at)?;
                    }
                }
                pattern => {
                    self.emit(Op::Load(slot), function.at);
                    self.with_default(pattern, param.default.as_ref())?;
                    self.emit(Op::Clear { from: slot, to: slot + 1 }, function.at);
                }
            }
        }
        self.statements(&function.body.statements)?;
        self.emit(Op::Null, function.at);
        self.emit(Op::Return, function.at);
        Ok(())
    }

    fn root(&mut self, at: Position) {
        let mut slots = Vec::new();
        for (variable, place) in &mut self.compiler.workflow_places {
            if let Some(Place::Cell(slot)) = self.places.get(variable) {
                *place = Place::Cell(*slot);
                slots.push(*slot);
            }
        }
        self.compiler.code.root = slots;
        self.emit(Op::Root, at);
    }

    pub(super) fn enter(&mut self, at: Position) -> Result<(), CompileError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(too_deep(at)) } else { Ok(()) }
    }

    pub(super) const fn leave(&mut self) {
        self.depth -= 1;
    }

    fn reserve(&mut self, count: u32) -> u32 {
        let slot = self.top;
        self.top += count;
        self.slots = self.slots.max(self.top);
        slot
    }

    /// Gives a variable a slot. Slots are null before and after.
    fn declare(&mut self, variable: VariableId, at: Position) {
        let slot = self.reserve(1);
        if self.compiler.captured.contains(&variable) {
            self.emit(Op::NewCell(slot), at);
            self.places.insert(variable, Place::Cell(slot));
        } else {
            self.places.insert(variable, Place::Slot(slot));
        }
        self.local(variable);
    }

    fn local(&mut self, variable: VariableId) {
        let Some(info) = self.compiler.program.variables.get(variable) else { return };
        let Some(&place) = self.places.get(&variable) else { return };
        let start = self.address();
        self.locals.push(Local { name: info.name.clone(), place, start, end: u32::MAX });
    }

    /// Forgets the slots from here on. `fall` says whether code reaches this place.
    fn release(&mut self, mark: u32, at: Position) {
        if self.top > mark {
            self.emit(Op::Clear { from: mark, to: self.top }, at);
            let end = self.address();
            for local in self.locals.iter_mut().rev() {
                let (Place::Slot(slot) | Place::Cell(slot)) = local.place else { continue };
                if slot >= mark && local.end == u32::MAX {
                    local.end = end;
                }
            }
            self.top = mark;
        }
    }

    fn address(&self) -> u32 {
        index(self.compiler.code.ops.len())
    }

    pub(super) fn emit(&mut self, op: Op, at: Position) {
        let (taken, given) = effect(&op, self.compiler);
        self.height = (self.height + given).saturating_sub(taken);
        self.compiler.code.ops.push(op);
        self.compiler.code.positions.push(at);
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        self.labels.len() - 1
    }

    pub(super) fn place(&mut self, label: Label) {
        let address = self.address();
        if let Some(slot) = self.labels.get_mut(label) {
            *slot = Some(address);
        }
    }

    pub(super) fn jump(&mut self, op: fn(u32) -> Op, label: Label, at: Position) {
        self.patches.push((self.compiler.code.ops.len(), label));
        self.emit(op(0), at);
    }

    fn jump_op(&mut self, op: Op, label: Label, at: Position) {
        self.patches.push((self.compiler.code.ops.len(), label));
        self.emit(op, at);
    }

    fn patch(&mut self, at: Position) -> Result<(), CompileError> {
        for (op, label) in std::mem::take(&mut self.patches) {
            let address = self.labels.get(label).copied().flatten();
            let Some((op, address)) = self.compiler.code.ops.get_mut(op).zip(address) else {
                return Err(failed("F0000", "a jump has no target", at));
            };
            match op {
                Op::Jump(target)
                | Op::JumpIfFalse(target)
                | Op::JumpIfTrue(target)
                | Op::And(target)
                | Op::Or(target)
                | Op::NotNull(target)
                | Op::IfNull(target)
                | Op::IterNext { end: target, .. }
                | Op::UnlessKind { target, .. } => *target = address,
                _ => return Err(failed("F0000", "no jump", at)),
            }
        }
        for catch in &mut self.catches {
            let target = self.labels.get(catch.target as usize).copied().flatten();
            catch.target = target.ok_or_else(|| failed("F0000", "a catch has no target", at))?;
        }
        Ok(())
    }

    pub(super) fn variable(&self, variable: VariableId, at: Position) -> Result<Place, CompileError> {
        self.places.get(&variable).copied().ok_or_else(|| {
            let name = self.compiler.program.variables.get(variable).map_or("", |variable| &*variable.name);
            failed("F0000", format!("variable {name:?} has no place in function {}", self.number), at)
        })
    }

    pub(super) fn load(&mut self, variable: VariableId, at: Position) -> Result<(), CompileError> {
        let op = match self.variable(variable, at)? {
            Place::Slot(slot) => Op::Load(slot),
            Place::Cell(slot) => Op::LoadCell(slot),
            Place::Capture(capture) => Op::LoadCapture(capture),
        };
        self.emit(op, at);
        Ok(())
    }

    pub(super) fn store(&mut self, variable: VariableId, at: Position) -> Result<(), CompileError> {
        let op = match self.variable(variable, at)? {
            Place::Slot(slot) => Op::Store(slot),
            Place::Cell(slot) => Op::StoreCell(slot),
            Place::Capture(capture) => Op::StoreCapture(capture),
        };
        self.emit(op, at);
        Ok(())
    }

    fn statements(&mut self, statements: &[Statement]) -> Result<(), CompileError> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn block(&mut self, block: &Block, at: Position) -> Result<(), CompileError> {
        let mark = self.top;
        for &variable in &block.variables {
            self.declare(variable, at);
        }
        self.statements(&block.statements)?;
        self.release(mark, at);
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), CompileError> {
        let at = statement.at;
        self.enter(at)?;
        match &statement.kind {
            StatementKind::Block(block) => self.block(block, at)?,
            StatementKind::Let { pattern, value } => {
                match value {
                    Some(value) => self.expr(value)?,
                    None => self.emit(Op::Null, at),
                }
                self.pattern(pattern, at)?;
            }
            StatementKind::Assign { target, value } => {
                if target.path.is_empty() {
                    self.expr(value)?;
                    self.store(target.variable, target.at)?;
                } else {
                    let number = self.target(target)?;
                    self.expr(value)?;
                    self.emit(Op::Assign(number), target.at);
                }
            }
            StatementKind::Change { target, operator, value } => self.change(target, *operator, value, at)?,
            StatementKind::Default { target, value } => self.default(target, value)?,
            StatementKind::Delete(target) => {
                let number = self.target(target)?;
                self.emit(Op::Delete(number), target.at);
            }
            StatementKind::If { arms, otherwise } => self.if_statement(arms, otherwise.as_ref())?,
            StatementKind::While { condition, body } => {
                let (begin, end) = (self.label(), self.label());
                self.place(begin);
                self.condition(condition, end)?;
                self.contexts.push(Context::Loop { on_break: end, on_continue: begin, mark: self.top });
                self.block(body, at)?;
                self.contexts.pop();
                self.jump(Op::Jump, begin, at);
                self.place(end);
            }
            StatementKind::ForOf { pattern, list, body } => self.for_of(pattern, list, body, at)?,
            StatementKind::For { variables, first, condition, next, body } => {
                self.for_loop(variables, first.as_deref(), condition.as_ref(), next.as_deref(), body, at)?;
            }
            StatementKind::Switch { value, cases } => self.switch(value, cases, at)?,
            StatementKind::Try { body, catch, finally } => {
                self.try_block(body, catch.as_ref(), finally.as_ref(), at)?
            }
            StatementKind::Throw(value) => {
                self.expr(value)?;
                self.emit(Op::Throw, at);
            }
            StatementKind::Return(value) => self.return_value(value.as_ref(), at)?,
            StatementKind::Break => {
                let inner = |context: &Context| matches!(context, Context::Loop { .. } | Context::Switch { .. });
                let target = self.contexts.iter().rposition(inner);
                let target = target.ok_or_else(|| failed("F0213", "break or continue outside of a loop", at))?;
                self.exit(Exit::Break(target), self.contexts.len(), at);
            }
            StatementKind::Continue => {
                let target = self.contexts.iter().rposition(|context| matches!(context, Context::Loop { .. }));
                let target = target.ok_or_else(|| failed("F0213", "break or continue outside of a loop", at))?;
                self.exit(Exit::Continue(target), self.contexts.len(), at);
            }
            StatementKind::Expr(expr) => {
                self.expr(expr)?;
                self.emit(Op::Pop, at);
            }
        }
        // Code after a jump is never reached; what follows counts from here.
        self.height = 0;
        self.leave();
        Ok(())
    }

    fn if_statement(&mut self, arms: &[Arm], otherwise: Option<&Block>) -> Result<(), CompileError> {
        let end = self.label();
        for (number, Arm { condition, then, at }) in arms.iter().enumerate() {
            let other = self.label();
            self.condition(condition, other)?;
            self.block(then, *at)?;
            if number + 1 < arms.len() || otherwise.is_some() {
                self.jump(Op::Jump, end, *at);
            }
            self.place(other);
            // Code after a jump is never reached; what follows counts from here.
            self.height = 0;
        }
        if let (Some(otherwise), Some(last)) = (otherwise, arms.last()) {
            self.block(otherwise, last.at)?;
        }
        self.place(end);
        Ok(())
    }

    /// Evaluates a condition and jumps if it is false.
    fn condition(&mut self, condition: &Expr, otherwise: Label) -> Result<(), CompileError> {
        self.expr(condition)?;
        self.jump(Op::JumpIfFalse, otherwise, condition.at);
        Ok(())
    }

    fn change(&mut self, target: &Target, operator: Binary, value: &Expr, at: Position) -> Result<(), CompileError> {
        if target.path.is_empty() {
            self.load(target.variable, target.at)?;
            self.expr(value)?;
            self.emit(Op::Binary(operator), at);
            return self.store(target.variable, target.at);
        }
        let number = self.target(target)?;
        self.emit(Op::Read { target: number, access: Access::Plain }, target.at);
        self.expr(value)?;
        self.emit(Op::Binary(operator), at);
        self.emit(Op::Assign(number), target.at);
        Ok(())
    }

    fn default(&mut self, target: &Target, value: &Expr) -> Result<(), CompileError> {
        let (there, end) = (self.label(), self.label());
        if target.path.is_empty() {
            self.load(target.variable, target.at)?;
            self.jump(Op::NotNull, there, target.at);
            self.expr(value)?;
            self.store(target.variable, target.at)?;
            self.jump(Op::Jump, end, target.at);
            self.place(there);
            self.emit(Op::Pop, target.at);
            self.place(end);
            return Ok(());
        }
        let number = self.target(target)?;
        let indexes = self.height;
        self.emit(Op::Read { target: number, access: Access::Soft }, target.at);
        self.jump(Op::NotNull, there, target.at);
        self.expr(value)?;
        self.emit(Op::Assign(number), target.at);
        self.jump(Op::Jump, end, target.at);
        self.place(there);
        self.height = indexes + 1;
        self.emit(Op::Discard(indexes), target.at);
        self.place(end);
        Ok(())
    }

    fn for_of(&mut self, pattern: &Pattern, list: &Expr, body: &Block, at: Position) -> Result<(), CompileError> {
        let (begin, end) = (self.label(), self.label());
        let mark = self.top;
        self.expr(list)?;
        let slot = self.reserve(2);
        self.emit(Op::IterStart(slot), list.at);
        self.place(begin);
        self.jump_op(Op::IterNext { slot, end: 0 }, end, at);
        let inner = self.top;
        self.contexts.push(Context::Loop { on_break: end, on_continue: begin, mark: inner });
        for &variable in &body.variables {
            self.declare(variable, at);
        }
        self.height = 1;
        self.pattern(pattern, at)?;
        self.statements(&body.statements)?;
        self.release(inner, at);
        self.contexts.pop();
        self.jump(Op::Jump, begin, at);
        self.place(end);
        self.release(mark, at);
        Ok(())
    }

    fn for_loop(
        &mut self,
        variables: &[VariableId],
        first: Option<&Statement>,
        condition: Option<&Expr>,
        next: Option<&Statement>,
        body: &Block,
        at: Position,
    ) -> Result<(), CompileError> {
        let (begin, again, end) = (self.label(), self.label(), self.label());
        let mark = self.top;
        for &variable in variables {
            self.declare(variable, at);
        }
        first.into_iter().try_for_each(|first| self.statement(first))?;
        self.place(begin);
        condition.into_iter().try_for_each(|condition| self.condition(condition, end))?;
        self.contexts.push(Context::Loop { on_break: end, on_continue: again, mark: self.top });
        self.block(body, at)?;
        self.contexts.pop();
        self.place(again);
        for variable in variables {
            if let Some(Place::Cell(slot)) = self.places.get(variable) {
                self.emit(Op::CopyCell(*slot), at);
            }
        }
        next.into_iter().try_for_each(|next| self.statement(next))?;
        self.jump(Op::Jump, begin, at);
        self.place(end);
        self.release(mark, at);
        Ok(())
    }

    fn switch(&mut self, value: &Expr, cases: &[Case], at: Position) -> Result<(), CompileError> {
        let end = self.label();
        let mark = self.top;
        self.expr(value)?;
        let slot = self.reserve(1);
        self.emit(Op::Store(slot), at);
        let bodies: Vec<Label> = cases.iter().map(|_| self.label()).collect();
        let mut default = end;
        for (case, &body) in cases.iter().zip(&bodies) {
            for label in &case.labels {
                self.emit(Op::Load(slot), label.at);
                self.expr(label)?;
                self.emit(Op::Binary(Binary::Equal), label.at);
                self.jump(Op::JumpIfTrue, body, label.at);
            }
            if case.is_default {
                default = body;
            }
        }
        self.jump(Op::Jump, default, at);
        self.contexts.push(Context::Switch { on_break: end, mark: self.top });
        for (case, body) in cases.iter().zip(bodies) {
            self.place(body);
            self.block(&case.body, at)?;
            self.jump(Op::Jump, end, at);
        }
        self.contexts.pop();
        self.place(end);
        self.release(mark, at);
        Ok(())
    }

    fn try_block(
        &mut self,
        body: &Block,
        catch: Option<&HirCatch>,
        finally: Option<&Block>,
        at: Position,
    ) -> Result<(), CompileError> {
        let Some(finally) = finally else {
            return match catch {
                Some(catch) => self.catch(body, catch, at),
                None => self.block(body, at),
            };
        };
        let mark = self.top;
        let slot = self.reserve(2);
        let (label, thrown) = (self.label(), self.label());
        let start = self.address();
        self.contexts.push(Context::Finally { slot, label, exits: Vec::new(), mark: self.top });
        match catch {
            Some(catch) => self.catch(body, catch, at)?,
            None => self.block(body, at)?,
        }
        let Some(Context::Finally { exits, .. }) = self.contexts.pop() else {
            return Err(failed("F0000", "contexts do not match", at));
        };
        let end = self.address();
        self.emit(Op::Int(NORMAL), at);
        self.emit(Op::Store(slot), at);
        self.jump(Op::Jump, label, at);
        self.place(thrown);
        self.catches.push(Catch { start, end, target: index(thrown), clear: self.top });
        self.height = 1;
        self.emit(Op::Store(slot + 1), at);
        self.emit(Op::Int(THROWN), at);
        self.emit(Op::Store(slot), at);
        self.place(label);
        self.block(finally, at)?;
        let next = self.label();
        self.jump_op(Op::UnlessKind { slot, kind: THROWN.unsigned_abs(), target: 0 }, next, at);
        self.emit(Op::Load(slot + 1), at);
        self.emit(Op::Rethrow, at);
        self.place(next);
        for (number, exit) in exits.into_iter().enumerate() {
            let next = self.label();
            self.jump_op(Op::UnlessKind { slot, kind: FIRST_EXIT + index(number), target: 0 }, next, at);
            self.height = 0;
            if matches!(exit, Exit::Return | Exit::ReturnNew) {
                self.emit(Op::Load(slot + 1), at);
            }
            self.exit(exit, self.contexts.len(), at);
            self.place(next);
        }
        self.height = 0;
        self.release(mark, at);
        Ok(())
    }

    fn catch(&mut self, body: &Block, catch: &HirCatch, at: Position) -> Result<(), CompileError> {
        let (caught, end) = (self.label(), self.label());
        let start = self.address();
        self.block(body, at)?;
        let stop = self.address();
        self.jump(Op::Jump, end, at);
        self.place(caught);
        self.catches.push(Catch { start, end: stop, target: index(caught), clear: self.top });
        let mark = self.top;
        self.height = 1;
        for &variable in &catch.body.variables {
            self.declare(variable, at);
        }
        match catch.variable {
            Some(variable) => {
                if !self.places.contains_key(&variable) {
                    self.declare(variable, at);
                }
                self.store(variable, at)?;
            }
            None => self.emit(Op::Pop, at),
        }
        self.statements(&catch.body.statements)?;
        self.release(mark, at);
        self.place(end);
        Ok(())
    }

    fn return_value(&mut self, value: Option<&Expr>, at: Position) -> Result<(), CompileError> {
        let Some(value) = value else {
            self.emit(Op::Null, at);
            self.exit(Exit::Return, self.contexts.len(), at);
            return Ok(());
        };
        let exit = match &value.kind {
            ExprKind::Call { callee: Callee::Library(LibraryFunction::WorkflowContinueAsNew), arguments } => {
                self.arguments(arguments, value.at)?;
                let arguments = index(arguments.len());
                self.emit(Op::Library { function: LibraryFunction::WorkflowContinueAsNew, arguments }, value.at);
                Exit::ReturnNew
            }
            _ => {
                self.expr(value)?;
                // Literals are no promises.
                if self.is_async && !matches!(value.kind, ExprKind::Object(_) | ExprKind::List(_) | ExprKind::Str(_)) {
                    let height = self.height - 1;
                    self.emit(Op::AwaitReturn { height }, value.at);
                }
                Exit::Return
            }
        };
        self.exit(exit, self.contexts.len(), at);
        Ok(())
    }

    /// Leaves the contexts from `level` outwards.
    fn exit(&mut self, exit: Exit, level: usize, at: Position) {
        let stop = match exit {
            Exit::Break(target) | Exit::Continue(target) => target,
            Exit::Return | Exit::ReturnNew => 0,
        };
        let top = self.top;
        let outer = self.contexts.get_mut(stop..level).unwrap_or_default().iter_mut().rev();
        for context in outer {
            if let Context::Finally { slot, label, exits, mark } = context {
                let number = exits.iter().position(|known| *known == exit).unwrap_or_else(|| {
                    exits.push(exit);
                    exits.len() - 1
                });
                let (slot, label, mark) = (*slot, *label, *mark);
                if matches!(exit, Exit::Return | Exit::ReturnNew) {
                    self.emit(Op::Store(slot + 1), at);
                }
                if top > mark {
                    self.emit(Op::Clear { from: mark, to: top }, at);
                }
                self.emit(Op::Int(i32::try_from(number).unwrap_or(i32::MAX - 2) + 2), at);
                self.emit(Op::Store(slot), at);
                self.jump(Op::Jump, label, at);
                return;
            }
        }
        let (target, mark) = match (exit, self.contexts.get(stop)) {
            (Exit::Return, _) => return self.emit(Op::Return, at),
            (Exit::ReturnNew, _) => return self.emit(Op::ReturnNew, at),
            (Exit::Break(_), Some(Context::Loop { on_break, mark, .. } | Context::Switch { on_break, mark })) => {
                (*on_break, *mark)
            }
            (Exit::Continue(_), Some(Context::Loop { on_continue, mark, .. })) => (*on_continue, *mark),
            _ => return,
        };
        if top > mark {
            self.emit(Op::Clear { from: mark, to: top }, at);
        }
        self.jump(Op::Jump, target, at);
    }
}

/// The variables of a pattern.
fn variables_of(pattern: &Pattern, into: &mut Vec<VariableId>) {
    match pattern {
        Pattern::Variable(variable) => into.push(*variable),
        Pattern::List { items, rest, .. } => {
            items.iter().for_each(|(item, _)| variables_of(item, into));
            into.extend(rest);
        }
        Pattern::Object { fields, rest, .. } => {
            fields.iter().for_each(|(_, item, _)| variables_of(item, into));
            into.extend(rest);
        }
    }
}

/// Arguments of a call of the library or of a method: values on the stack, and the function if there is one.
impl Body<'_, '_> {
    /// Pushes the values among arguments; gives the function among them.
    pub(super) fn arguments(&mut self, arguments: &[Argument], at: Position) -> Result<Option<usize>, CompileError> {
        let mut function = None;
        for argument in arguments {
            match argument {
                Argument::Value(value) => self.expr(value)?,
                Argument::Function(number) if function.is_none() => function = Some(*number),
                Argument::Function(_) => return Err(failed("F0107", "functions are not values", at)),
            }
        }
        Ok(function)
    }
}
