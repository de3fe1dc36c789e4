//! The captures of each function: variables of other functions that it uses. A function also captures the variables
//! that the functions need which it calls or passes on, because the closure of a callee is made from the frame of its
//! caller.

use std::collections::BTreeSet;

use crate::hir::{
    Argument, Block, Callee, Expr, ExprKind, ListItem, ObjectItem, Param, Pattern, Program, Statement, StatementKind,
    Step, Target, TemplatePart, VariableId,
};

use super::{CompileError, DEPTH_MAX, too_deep};

/// What one function uses.
#[derive(Default)]
struct VariableUses {
    own: BTreeSet<VariableId>,
    used: BTreeSet<VariableId>,
    functions: BTreeSet<usize>,
    depth: u32,
}

/// The captures of each function, in the order of variables.
pub(super) fn analyze(program: &Program) -> Result<Vec<Vec<VariableId>>, CompileError> {
    let mut all = Vec::with_capacity(program.functions.len());
    for function in &program.functions {
        let mut uses = VariableUses::default();
        for param in &function.params {
            uses.param(param)?;
        }
        uses.block(&function.body)?;
        all.push(uses);
    }
    let mut captures: Vec<BTreeSet<VariableId>> =
        all.iter().map(|uses| uses.used.difference(&uses.own).copied().collect()).collect();
    loop {
        let mut changed = false;
        for (number, uses) in all.iter().enumerate() {
            let mut more: Vec<VariableId> = Vec::new();
            for &callee in &uses.functions {
                let needed = captures.get(callee).into_iter().flatten();
                more.extend(needed.copied().filter(|variable| {
                    !uses.own.contains(variable) && !captures.get(number).is_some_and(|set| set.contains(variable))
                }));
            }
            if let Some(set) = captures.get_mut(number)
                && !more.is_empty()
            {
                changed = true;
                set.extend(more);
            }
        }
        if !changed {
            return Ok(captures.into_iter().map(|set| set.into_iter().collect()).collect());
        }
    }
}

impl VariableUses {
    fn param(&mut self, param: &Param) -> Result<(), CompileError> {
        self.pattern(&param.pattern)?;
        param.default.iter().try_for_each(|default| self.expr(default))
    }

    fn pattern(&mut self, pattern: &Pattern) -> Result<(), CompileError> {
        match pattern {
            Pattern::Variable(variable) => {
                self.own.insert(*variable);
            }
            Pattern::List { items, rest, at } => {
                self.enter(*at)?;
                for (item, default) in items {
                    self.pattern(item)?;
                    default.iter().try_for_each(|default| self.expr(default))?;
                }
                self.own.extend(rest);
                self.depth -= 1;
            }
            Pattern::Object { fields, rest, at } => {
                self.enter(*at)?;
                for (_, item, default) in fields {
                    self.pattern(item)?;
                    default.iter().try_for_each(|default| self.expr(default))?;
                }
                self.own.extend(rest);
                self.depth -= 1;
            }
        }
        Ok(())
    }

    fn enter(&mut self, at: crate::diagnostic::Position) -> Result<(), CompileError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(too_deep(at)) } else { Ok(()) }
    }

    fn block(&mut self, block: &Block) -> Result<(), CompileError> {
        self.own.extend(&block.variables);
        block.statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), CompileError> {
        self.enter(statement.at)?;
        match &statement.kind {
            StatementKind::Block(block) => self.block(block)?,
            StatementKind::Let { pattern, value } => {
                self.pattern(pattern)?;
                value.iter().try_for_each(|value| self.expr(value))?;
            }
            StatementKind::Assign { target, value }
            | StatementKind::Change { target, value, .. }
            | StatementKind::Default { target, value } => {
                self.target(target)?;
                self.expr(value)?;
            }
            StatementKind::Delete(target) => self.target(target)?,
            StatementKind::If { arms, otherwise } => {
                for arm in arms {
                    self.expr(&arm.condition)?;
                    self.block(&arm.then)?;
                }
                otherwise.iter().try_for_each(|block| self.block(block))?;
            }
            StatementKind::While { condition, body } => {
                self.expr(condition)?;
                self.block(body)?;
            }
            StatementKind::ForOf { pattern, list, body } => {
                self.expr(list)?;
                self.block(body)?;
                self.pattern(pattern)?;
            }
            StatementKind::For { variables, first, condition, next, body } => {
                self.own.extend(variables);
                first.iter().try_for_each(|statement| self.statement(statement))?;
                condition.iter().try_for_each(|condition| self.expr(condition))?;
                next.iter().try_for_each(|statement| self.statement(statement))?;
                self.block(body)?;
            }
            StatementKind::Switch { value, cases } => {
                self.expr(value)?;
                for case in cases {
                    case.labels.iter().try_for_each(|label| self.expr(label))?;
                    self.block(&case.body)?;
                }
            }
            StatementKind::Try { body, catch, finally } => {
                self.block(body)?;
                if let Some(catch) = catch {
                    self.own.extend(catch.variable);
                    self.block(&catch.body)?;
                }
                finally.iter().try_for_each(|block| self.block(block))?;
            }
            StatementKind::Throw(value) | StatementKind::Expr(value) => self.expr(value)?,
            StatementKind::Return(value) => value.iter().try_for_each(|value| self.expr(value))?,
            StatementKind::Break | StatementKind::Continue => {}
        }
        self.depth -= 1;
        Ok(())
    }

    fn target(&mut self, target: &Target) -> Result<(), CompileError> {
        self.used.insert(target.variable);
        for step in &target.path {
            if let Step::Index(index) = step {
                self.expr(index)?;
            }
        }
        Ok(())
    }

    fn expr(&mut self, expr: &Expr) -> Result<(), CompileError> {
        self.enter(expr.at)?;
        let mut step = expr;
        while let Some(base) = step.base() {
            match &step.kind {
                ExprKind::Index { index, .. } => self.expr(index)?,
                ExprKind::Call { arguments, .. } => self.arguments(arguments)?,
                _ => {}
            }
            step = base;
        }
        self.first(step)?;
        self.depth -= 1;
        Ok(())
    }

    fn arguments(&mut self, arguments: &[Argument]) -> Result<(), CompileError> {
        for argument in arguments {
            match argument {
                Argument::Value(value) => self.expr(value)?,
                Argument::Function(function) => {
                    self.functions.insert(*function);
                }
            }
        }
        Ok(())
    }

    /// What begins a row of accesses and calls.
    fn first(&mut self, expr: &Expr) -> Result<(), CompileError> {
        match &expr.kind {
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Constant(_) => {}
            ExprKind::Template(parts) => {
                for part in parts {
                    if let TemplatePart::Expr(expr) = part {
                        self.expr(expr)?;
                    }
                }
            }
            ExprKind::List(items) => {
                for ListItem::Item(item) | ListItem::Spread(item) in items {
                    self.expr(item)?;
                }
            }
            ExprKind::Object(items) => {
                for item in items {
                    match item {
                        ObjectItem::Field(_, value) | ObjectItem::Spread(value) => self.expr(value)?,
                        ObjectItem::Computed(key, value) => {
                            self.expr(key)?;
                            self.expr(value)?;
                        }
                    }
                }
            }
            ExprKind::Variable(variable) => {
                self.used.insert(*variable);
            }
            ExprKind::Field { .. } | ExprKind::Index { .. } => {}
            ExprKind::Chain(inner)
            | ExprKind::Await(inner)
            | ExprKind::Not(inner)
            | ExprKind::Negate(inner)
            | ExprKind::Typeof(inner) => self.expr(inner)?,
            ExprKind::Binary { first, rest } => {
                self.expr(first)?;
                rest.iter().try_for_each(|operation| self.expr(&operation.right))?;
            }
            ExprKind::Conditional { arms, otherwise } => {
                for arm in arms {
                    self.expr(&arm.condition)?;
                    self.expr(&arm.then)?;
                }
                self.expr(otherwise)?;
            }
            ExprKind::Call { callee, arguments } => {
                match callee {
                    Callee::Function(function) => {
                        self.functions.insert(*function);
                    }
                    Callee::Library(_) | Callee::Method { .. } => {}
                    Callee::Changing { target, .. } => self.target(target)?,
                }
                self.arguments(arguments)?;
            }
        }
        Ok(())
    }
}
