//! Expressions.

use crate::diagnostic::Position;
use crate::hir::{
    Access, Argument, Callee, ConditionalArm, Expr, ExprKind, ListItem, ObjectItem, Operation, Operator, Step, Target,
    TemplatePart,
};

use super::code::{ClosureInfo, Literal, Op, Place, StepInfo, TargetInfo};
use super::function::Body;
use super::{CompileError, failed, index};

impl Body<'_, '_> {
    /// Pushes the value of an expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<(), CompileError> {
        self.enter(expr.at)?;
        let mut steps = Vec::new();
        let mut first = expr;
        while let Some(base) = first.base() {
            steps.push(first);
            first = base;
        }
        self.first(first)?;
        while let Some(step) = steps.pop() {
            self.step(step)?;
        }
        self.leave();
        Ok(())
    }

    /// An access or a call of a function of a value. What it is made on is on the stack.
    fn step(&mut self, step: &Expr) -> Result<(), CompileError> {
        let at = step.at;
        match &step.kind {
            ExprKind::Field { key, access, .. } => {
                self.optional(*access, at)?;
                let key = self.compiler.string(key);
                self.emit(Op::Field { key, access: *access }, at);
            }
            ExprKind::Index { index, access, .. } => {
                self.optional(*access, at)?;
                // Inside of the brackets another expression begins.
                let chain = self.chain.take();
                self.expr(index)?;
                self.chain = chain;
                self.emit(Op::Index { access: *access }, at);
            }
            ExprKind::Call { callee: Callee::Method { method, access, .. }, arguments } => {
                self.optional(*access, at)?;
                let chain = self.chain.take();
                let closure = self.arguments(arguments, at)?;
                self.chain = chain;
                let method = *method;
                match closure {
                    None => self.emit(Op::Method { method, arguments: index(arguments.len()) }, at),
                    Some(closure) => {
                        let closure = self.closure(closure, at)?;
                        self.emit(Op::MethodWith { method, arguments: index(arguments.len() - 1), closure }, at);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An expression that is no [`Body::step`].
    fn first(&mut self, expr: &Expr) -> Result<(), CompileError> {
        let at = expr.at;
        match &expr.kind {
            ExprKind::Null => self.emit(Op::Null, at),
            ExprKind::Bool(true) => self.emit(Op::True, at),
            ExprKind::Bool(false) => self.emit(Op::False, at),
            ExprKind::Int(number) => {
                let op = match i32::try_from(*number) {
                    Ok(small) => Op::Int(small),
                    Err(_) => Op::Literal(self.compiler.literal(Literal::Int(*number))),
                };
                self.emit(op, at);
            }
            ExprKind::Float(number) => {
                let literal = self.compiler.literal(Literal::Float(*number));
                self.emit(Op::Literal(literal), at);
            }
            ExprKind::Str(text) => {
                let literal = self.compiler.text(text);
                self.emit(Op::Literal(literal), at);
            }
            ExprKind::Template(parts) => self.template(parts, at)?,
            ExprKind::List(items) => self.list(items, at)?,
            ExprKind::Object(items) => self.object(items, at)?,
            ExprKind::Variable(variable) => self.load(*variable, at)?,
            ExprKind::Constant(constant) => self.emit(Op::Constant(index(*constant)), at),
            ExprKind::Field { .. } | ExprKind::Index { .. } => {}
            ExprKind::Chain(inner) => {
                let end = self.label();
                let outer = self.chain.replace(end);
                self.expr(inner)?;
                self.chain = outer;
                self.place(end);
            }
            ExprKind::Call { callee, arguments } => self.call(callee, arguments, at)?,
            ExprKind::Await(inner) => {
                let chain = self.chain.take();
                self.expr(inner)?;
                self.chain = chain;
                let height = self.height - 1;
                self.emit(Op::Await { height }, at);
            }
            ExprKind::Not(inner) => {
                self.expr(inner)?;
                self.emit(Op::Not, at);
            }
            ExprKind::Negate(inner) => {
                self.expr(inner)?;
                self.emit(Op::Negate, at);
            }
            ExprKind::Typeof(inner) => {
                self.expr(inner)?;
                self.emit(Op::Typeof, at);
            }
            ExprKind::Binary { first, rest } => self.binary(first, rest)?,
            ExprKind::Conditional { arms, otherwise } => {
                let end = self.label();
                for ConditionalArm { condition, then, at } in arms {
                    let other = self.label();
                    self.expr(condition)?;
                    self.jump(Op::JumpIfFalse, other, condition.at);
                    let height = self.height;
                    self.expr(then)?;
                    self.jump(Op::Jump, end, *at);
                    self.place(other);
                    self.height = height;
                }
                self.expr(otherwise)?;
                self.place(end);
            }
        }
        Ok(())
    }

    fn binary(&mut self, first: &Expr, rest: &[Operation]) -> Result<(), CompileError> {
        self.expr(first)?;
        let mut left_at = first.at;
        for Operation { operator, right, at } in rest {
            match operator {
                Operator::Binary(operator) => {
                    self.expr(right)?;
                    self.emit(Op::Binary(*operator), *at);
                }
                // A left side that is not a condition is reported where it stands.
                Operator::And => self.either(Op::And, right, left_at)?,
                Operator::Or => self.either(Op::Or, right, left_at)?,
                Operator::Default => self.either(Op::NotNull, right, *at)?,
            }
            left_at = *at;
        }
        Ok(())
    }

    /// The right side of an operator that may skip it. The left side is on the stack.
    fn either(&mut self, op: fn(u32) -> Op, right: &Expr, at: Position) -> Result<(), CompileError> {
        let end = self.label();
        self.jump(op, end, at);
        self.expr(right)?;
        self.place(end);
        Ok(())
    }

    /// `?.` on a null base ends the chain with null.
    fn optional(&mut self, access: Access, at: Position) -> Result<(), CompileError> {
        if access == Access::Optional {
            let end = self.chain.ok_or_else(|| failed("F0000", "an optional access stands in no chain", at))?;
            self.jump(Op::IfNull, end, at);
        }
        Ok(())
    }

    fn template(&mut self, parts: &[TemplatePart], at: Position) -> Result<(), CompileError> {
        for part in parts {
            match part {
                TemplatePart::Text(text) => {
                    let literal = self.compiler.text(text);
                    self.emit(Op::Literal(literal), at);
                }
                TemplatePart::Expr(expr) => self.expr(expr)?,
            }
        }
        self.emit(Op::Concat(index(parts.len())), at);
        Ok(())
    }

    fn list(&mut self, items: &[ListItem], at: Position) -> Result<(), CompileError> {
        let plain = items.iter().take_while(|item| matches!(item, ListItem::Item(_))).count();
        let (plain, others) = items.split_at(plain);
        for item in plain {
            if let ListItem::Item(item) = item {
                self.expr(item)?;
            }
        }
        self.emit(Op::MakeList(index(plain.len())), at);
        for item in others {
            match item {
                ListItem::Item(item) => {
                    self.expr(item)?;
                    self.emit(Op::ListPush, item.at);
                }
                ListItem::Spread(item) => {
                    self.expr(item)?;
                    self.emit(Op::ListSpread, item.at);
                }
            }
        }
        Ok(())
    }

    fn object(&mut self, items: &[ObjectItem], at: Position) -> Result<(), CompileError> {
        self.emit(Op::ObjectNew, at);
        for item in items {
            match item {
                ObjectItem::Field(key, value) => {
                    self.expr(value)?;
                    let key = self.compiler.string(key);
                    self.emit(Op::ObjectField(key), value.at);
                }
                ObjectItem::Computed(key, value) => {
                    self.expr(key)?;
                    self.expr(value)?;
                    self.emit(Op::ObjectComputed, key.at);
                }
                ObjectItem::Spread(value) => {
                    self.expr(value)?;
                    self.emit(Op::ObjectSpread, value.at);
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, callee: &Callee, arguments: &[Argument], at: Position) -> Result<(), CompileError> {
        match callee {
            Callee::Function(number) => {
                let chain = self.chain.take();
                self.arguments(arguments, at)?;
                self.chain = chain;
                let program = self.compiler.program;
                let function = program.functions.get(*number);
                let function = function.ok_or_else(|| failed("F0207", "unknown function", at))?;
                for _ in arguments.len()..function.params.len() {
                    self.emit(Op::Null, at);
                }
                if arguments.len() > function.params.len() {
                    return Err(failed("F0206", "too many arguments", at));
                }
                let closure = self.closure(*number, at)?;
                self.emit(if function.is_async { Op::CallAsync(closure) } else { Op::Call(closure) }, at);
            }
            Callee::Library(function) => {
                let chain = self.chain.take();
                let closure = self.arguments(arguments, at)?;
                self.chain = chain;
                let function = *function;
                match closure {
                    None => self.emit(Op::Library { function, arguments: index(arguments.len()) }, at),
                    Some(closure) => {
                        let closure = self.closure(closure, at)?;
                        self.emit(Op::LibraryWith { function, arguments: index(arguments.len() - 1), closure }, at);
                    }
                }
            }
            Callee::Method { .. } => {}
            Callee::Changing { target, method } => {
                let target = self.target(target)?;
                let chain = self.chain.take();
                self.arguments(arguments, at)?;
                self.chain = chain;
                self.emit(Op::Change { target, method: *method, arguments: index(arguments.len()) }, at);
            }
        }
        Ok(())
    }

    /// A function with the places of what it captures, seen from here.
    fn closure(&mut self, function: usize, at: Position) -> Result<u32, CompileError> {
        let captures = self.compiler.captures.get(function).cloned().unwrap_or_default();
        let mut sources = Vec::with_capacity(captures.len());
        for variable in captures {
            match self.variable(variable, at)? {
                Place::Slot(_) => return Err(failed("F0000", "a captured variable is in no cell", at)),
                place => sources.push(place),
            }
        }
        Ok(self.compiler.closure(ClosureInfo { function: index(function), sources }))
    }

    /// Pushes the indexes of a path; gives the number of its target.
    pub(super) fn target(&mut self, target: &Target) -> Result<u32, CompileError> {
        let place = self.variable(target.variable, target.at)?;
        let mut steps = Vec::with_capacity(target.path.len());
        let chain = self.chain.take();
        for step in &target.path {
            match step {
                Step::Field(key) => steps.push(StepInfo::Field(self.compiler.string(key))),
                Step::Index(index) => {
                    self.expr(index)?;
                    steps.push(StepInfo::Index);
                }
            }
        }
        self.chain = chain;
        Ok(self.compiler.target(TargetInfo { place, steps }))
    }
}
