//! Statements.

use super::Checker;
use super::effects::Level;
use super::function::EnclosingConstruct;
use super::scope::{Binding, Origin};
use crate::hir::{self, FunctionKind, StatementKind as Out};
use crate::syntax::token::Span;
use crate::syntax::tree::{Assign, Case, Expr, ExprKind, Pattern, Statement, StatementKind, Unary};

impl Checker<'_> {
    /// The statements of a block whose names have been declared. `outermost`: it is that of the workflow.
    pub fn statements(&mut self, statements: &[Statement], outermost: bool) -> Vec<hir::Statement> {
        let mut lowered = Vec::new();
        let mut ended = false;
        for statement in statements {
            let declares = matches!(statement.kind, StatementKind::Function(_) | StatementKind::Handler(_));
            if ended && !declares && !matches!(statement.kind, StatementKind::Empty | StatementKind::Broken) {
                self.error("F0215", "this is never reached", statement.span);
                ended = false;
            }
            self.statement(statement, outermost, &mut lowered);
            ended |= never_ends(statement);
        }
        lowered
    }

    /// A block of its own.
    fn block(&mut self, statements: &[Statement]) -> hir::Block {
        self.enter();
        self.hoist(statements);
        let statements = self.statements(statements, false);
        hir::Block { variables: self.leave(), statements }
    }

    /// A body: a block or a single statement.
    fn body(&mut self, body: &Statement) -> hir::Block {
        match &body.kind {
            StatementKind::Block(block) => self.block(&block.statements),
            _ => self.block(std::slice::from_ref(body)),
        }
    }

    fn around<T>(&mut self, around: EnclosingConstruct, walk: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(context) = self.contexts.last_mut() {
            context.around.push(around);
        }
        let result = walk(self);
        if let Some(context) = self.contexts.last_mut() {
            context.around.pop();
        }
        result
    }

    fn statement(&mut self, statement: &Statement, outermost: bool, out: &mut Vec<hir::Statement>) {
        let at = statement.span.start;
        let kind = match &statement.kind {
            StatementKind::Block(block) => Out::Block(self.block(&block.statements)),
            StatementKind::Let(declaration) => {
                for (pattern, value) in &declaration.items {
                    if let (Pattern::Name(name), Some(value)) = (pattern, value)
                        && matches!(value.bare().kind, ExprKind::Arrow(_))
                    {
                        // The error about the arrow says enough: calls of the name are no further errors.
                        self.broken.insert(name.text.clone());
                    }
                    let value = value.as_ref().map(|value| self.expr(value));
                    let pattern = self.pattern(pattern);
                    out.push(hir::Statement { kind: Out::Let { pattern, value }, at });
                }
                return;
            }
            StatementKind::If { arms, otherwise } => {
                let arms = arms.iter().map(|arm| {
                    let condition = self.condition(&arm.condition);
                    hir::Arm { condition, then: self.body(&arm.then), at: arm.span.start }
                });
                let arms = arms.collect();
                let otherwise = otherwise.as_ref().map(|otherwise| self.body(otherwise));
                Out::If { arms, otherwise }
            }
            StatementKind::While { condition, body } => {
                let condition = self.condition(condition);
                let body = self.around(EnclosingConstruct::Loop, |checker| checker.body(body));
                Out::While { condition, body }
            }
            StatementKind::ForOf { constant, pattern, list, body } => {
                let list = self.expr(list);
                self.enter();
                let origin = if *constant { Origin::ConstElement } else { Origin::Element };
                self.declare_pattern(pattern, origin);
                let pattern = self.pattern(pattern);
                let mut body = self.around(EnclosingConstruct::Loop, |checker| checker.body(body));
                let mut variables = self.leave();
                variables.append(&mut body.variables);
                Out::ForOf { pattern, list, body: hir::Block { variables, statements: body.statements } }
            }
            StatementKind::For { first, condition, next, body } => {
                self.enter();
                if let Some(StatementKind::Let(declaration)) = first.as_ref().map(|first| &first.kind) {
                    self.hoist_let(declaration);
                }
                let first = first.as_ref().map(|first| self.for_part(first));
                let condition = condition.as_ref().map(|condition| self.condition(condition));
                let next = next.as_ref().map(|next| self.for_part(next));
                let body = self.around(EnclosingConstruct::Loop, |checker| checker.body(body));
                Out::For { variables: self.leave(), first, condition, next, body }
            }
            StatementKind::Switch { value, cases } => {
                let value = self.expr(value);
                let cases = self.around(EnclosingConstruct::Switch, |checker| checker.cases(cases));
                Out::Switch { value, cases }
            }
            StatementKind::Try { body, catch, finally } => {
                let body = self.block(&body.statements);
                let catch = catch.as_ref().map(|catch| {
                    self.enter();
                    let variable = catch.name.as_ref().and_then(|name| {
                        self.declare(name, Origin::Caught, true);
                        match self.lookup(&name.text) {
                            Some(Binding::Variable(id)) => Some(id),
                            _ => None,
                        }
                    });
                    self.hoist(&catch.body.statements);
                    let statements = self.statements(&catch.body.statements, false);
                    hir::Catch { variable, body: hir::Block { variables: self.leave(), statements } }
                });
                let finally = finally.as_ref().map(|finally| {
                    self.around(EnclosingConstruct::Finally, |checker| checker.block(&finally.statements))
                });
                Out::Try { body, catch, finally }
            }
            StatementKind::Throw(value) => Out::Throw(self.expr(value)),
            StatementKind::Return(value) => {
                if self.contexts.last().is_some_and(|context| context.around.contains(&EnclosingConstruct::Finally)) {
                    self.leaves_finally(statement.span);
                }
                Out::Return(value.as_ref().map(|value| self.returned(value)))
            }
            StatementKind::Break => {
                self.check_jump(statement.span, |around| around != EnclosingConstruct::Finally);
                Out::Break
            }
            StatementKind::Continue => {
                self.check_jump(statement.span, |around| around == EnclosingConstruct::Loop);
                Out::Continue
            }
            StatementKind::Delete(target) => match self.target(target, Change::Inside) {
                Some(target) => Out::Delete(target),
                None => return,
            },
            StatementKind::Assign { target, operator, value } => {
                // A name that this assignment declares cannot be meant on its right side, but it is visible there: null.
                let change = if matches!(target.kind, ExprKind::Name(_)) { Change::Whole } else { Change::Inside };
                let lowered = self.target(target, change);
                let value = self.expr(value);
                let Some(target) = lowered else { return };
                match operator {
                    Assign::Plain => Out::Assign { target, value },
                    Assign::Default => Out::Default { target, value },
                    Assign::Add => Out::Change { target, operator: hir::Binary::Add, value },
                    Assign::Subtract => Out::Change { target, operator: hir::Binary::Subtract, value },
                    Assign::Multiply => Out::Change { target, operator: hir::Binary::Multiply, value },
                    Assign::Divide => Out::Change { target, operator: hir::Binary::Divide, value },
                    Assign::Remainder => Out::Change { target, operator: hir::Binary::Remainder, value },
                }
            }
            StatementKind::Step { target, up } => {
                let change = if matches!(target.kind, ExprKind::Name(_)) { Change::Whole } else { Change::Inside };
                let value = hir::Expr { kind: hir::ExprKind::Int(1), at };
                let Some(target) = self.target(target, change) else { return };
                let operator = if *up { hir::Binary::Add } else { hir::Binary::Subtract };
                Out::Change { target, operator, value }
            }
            StatementKind::Expr(expr) => match self.expression_statement(expr) {
                Some(expr) => Out::Expr(expr),
                None => return,
            },
            StatementKind::Function(function) => {
                if outermost {
                    self.lower_function(function);
                } else {
                    self.misplaced("function", function.span);
                }
                return;
            }
            StatementKind::Handler(handler) => {
                if outermost {
                    self.handler(handler);
                } else {
                    self.misplaced("handler", handler.span);
                }
                return;
            }
            StatementKind::Empty | StatementKind::Broken => return,
        };
        out.push(hir::Statement { kind, at });
    }

    fn misplaced(&mut self, what: &str, span: Span) {
        self.error("F0108", format!("{what} belongs into the outermost block of the workflow"), span);
    }

    fn leaves_finally(&mut self, span: Span) {
        self.error("F0214", "return, break and continue may not leave finally", span);
    }

    /// Reports a `break` or `continue` that finds nothing to leave.
    fn check_jump(&mut self, span: Span, finds: impl Fn(EnclosingConstruct) -> bool) {
        let around = self.contexts.last().map(|context| context.around.as_slice()).unwrap_or_default();
        let found =
            around.iter().rev().find(|around| finds(**around) || **around == EnclosingConstruct::Finally).copied();
        match found {
            Some(EnclosingConstruct::Finally) => self.leaves_finally(span),
            Some(_) => {}
            None => self.error("F0213", "break or continue outside of a loop", span),
        }
    }

    /// The first or last part of a `for` header. Several declarations become a block without variables of its own.
    fn for_part(&mut self, part: &Statement) -> Box<hir::Statement> {
        let mut lowered = Vec::new();
        self.statement(part, false, &mut lowered);
        let at = part.span.start;
        Box::new(match lowered.pop() {
            Some(only) if lowered.is_empty() => only,
            last => {
                lowered.extend(last);
                let block = hir::Block { variables: Vec::new(), statements: lowered };
                hir::Statement { kind: Out::Block(block), at }
            }
        })
    }

    fn cases(&mut self, cases: &[Case]) -> Vec<hir::Case> {
        let mut lowered = Vec::new();
        let mut labels = Vec::new();
        let mut is_default = false;
        let mut has_default = false;
        for (place, case) in cases.iter().enumerate() {
            match &case.label {
                Some(label) => labels.push(self.expr(label)),
                None if has_default => self.error("F0209", "\"default\" is there twice", case.span),
                None => {
                    is_default = true;
                    has_default = true;
                }
            }
            if case.has_statements() || place + 1 == cases.len() {
                let body = self.block(&case.statements);
                lowered.push(hir::Case { labels: std::mem::take(&mut labels), is_default, body });
                is_default = false;
            }
        }
        lowered
    }

    /// The operand of `return`, the only place for `Workflow.continueAsNew`.
    fn returned(&mut self, value: &Expr) -> hir::Expr {
        let continues = self.is_continue_as_new(value.bare());
        let in_workflow = self.functions[self.function()].kind == FunctionKind::Workflow;
        if continues && in_workflow { self.call_allowed(value.bare()) } else { self.expr(value) }
    }

    /// An expression as a statement: a call or an await.
    fn expression_statement(&mut self, expr: &Expr) -> Option<hir::Expr> {
        let bare = expr.bare();
        match &bare.kind {
            ExprKind::Call { .. } => {
                self.check_dropped(bare, expr.span);
                Some(self.call_statement(bare))
            }
            ExprKind::Unary { operator: Unary::Await, .. } => Some(self.expr(bare)),
            ExprKind::New { name, .. } if &*name.text == "Error" => {
                self.error_with("F0216", "the result of Error is dropped", expr.span, Some("write throw"));
                None
            }
            ExprKind::New { .. } | ExprKind::Arrow(_) | ExprKind::Broken => Some(self.expr(bare)),
            _ => {
                self.error("F0109", "this statement does nothing", expr.span);
                None
            }
        }
    }

    /// A target of a change: a variable and a path.
    pub fn target(&mut self, target: &Expr, change: Change) -> Option<hir::Target> {
        let mut path = Vec::new();
        let mut base = target;
        loop {
            base = match &base.kind {
                ExprKind::Field { base, key, .. } => {
                    path.push(hir::Step::Field(key.text.clone()));
                    base
                }
                ExprKind::Index { base, index, .. } => {
                    path.push(hir::Step::Index(self.expr(index)));
                    base
                }
                _ => break,
            };
        }
        // Indexes are evaluated from left to right; the order of the reports does not matter, they are sorted.
        path.reverse();
        let ExprKind::Name(name) = &base.kind else { return None };
        let at = target.span;
        match self.resolve(name, base.span) {
            Some(Binding::Variable(id)) => {
                self.touch(id, base.span);
                self.check_change(id, change, at);
                let owner = self.variables[id].owner;
                self.variables[id].assigned = true;
                self.note_effect(Level::Effect, at, Some(owner));
                Some(hir::Target { variable: id, path, at: at.start })
            }
            Some(Binding::Constant(_)) => {
                self.error("F0202", format!("\"{name}\" is constant"), base.span);
                None
            }
            Some(Binding::Function(_)) => {
                self.error("F0110", "this cannot be assigned to", base.span);
                None
            }
            None if self.is_library(name) => {
                self.error("F0204", format!("\"{name}\" belongs to the library"), base.span);
                None
            }
            None => {
                self.unknown_name(name, base.span);
                None
            }
        }
    }

    /// Reports a change of a constant (F0202) or inside of a copy (F0210).
    fn check_change(&mut self, id: hir::VariableId, change: Change, span: Span) {
        let variable = &self.variables[id];
        let name = variable.name.clone();
        match (variable.origin, change) {
            (Origin::Const, _) | (Origin::ConstElement, Change::Whole) => {
                let hint = match (variable.origin, change) {
                    (Origin::ConstElement, _) => format!("write for (let {name} of …)"),
                    (_, Change::Whole) => format!("write let {name}"),
                    (_, Change::Inside) => format!("write let {name}: a const cannot be changed inside either"),
                };
                self.error_with("F0202", format!("\"{name}\" is constant"), span, Some(hint));
            }
            (Origin::Parameter | Origin::Element | Origin::ConstElement, Change::Inside) => {
                let message = format!("this changes a copy; write let mine = {name} first, and return it");
                self.error("F0210", message, span);
            }
            _ => {}
        }
    }
}

/// What part of a variable's value is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Whole,
    Inside,
}

/// Whether nothing after a statement is reached (F0215): `return` and its kin, a block with one of them, and a `while (true)`
/// without `break`.
fn never_ends(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(_) | StatementKind::Throw(_) | StatementKind::Break | StatementKind::Continue => true,
        StatementKind::Block(block) => block.statements.iter().any(never_ends),
        StatementKind::While { condition, body } => {
            matches!(condition.bare().kind, ExprKind::Bool(true)) && !has_break(body)
        }
        StatementKind::For { condition: None, body, .. } => !has_break(body),
        _ => false,
    }
}

/// Whether a statement has a `break` that leaves the loop around it.
fn has_break(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Break | StatementKind::Broken => true,
        StatementKind::Block(block) => block.statements.iter().any(has_break),
        StatementKind::If { arms, otherwise } => {
            arms.iter().any(|arm| has_break(&arm.then))
                || otherwise.as_ref().is_some_and(|otherwise| has_break(otherwise))
        }
        StatementKind::Try { body, catch, finally } => {
            let catch = catch.iter().flat_map(|catch| &catch.body.statements);
            let finally = finally.iter().flat_map(|finally| &finally.statements);
            body.statements.iter().chain(catch).chain(finally).any(has_break)
        }
        _ => false,
    }
}
