//! Expressions.

use std::collections::HashSet;
use std::sync::Arc;

use super::Checker;
use super::scope::Binding;
use crate::hir::{self, Access, ExprKind as Out, FunctionKind};
use crate::syntax::token::Span;
use crate::syntax::tree::{Binary, Expr, ExprKind, ListItem, ObjectItem, Operation, TemplatePart, Unary};
use crate::value::Value;

impl Checker<'_> {
    /// Lowers an expression.
    pub fn expr(&mut self, expr: &Expr) -> hir::Expr {
        let at = expr.span.start;
        let kind = match &expr.kind {
            ExprKind::Null | ExprKind::Broken => Out::Null,
            ExprKind::Bool(value) => Out::Bool(*value),
            ExprKind::Int(value) => Out::Int(*value),
            ExprKind::Float(value) => float(*value),
            ExprKind::Str(text) => Out::Str(text.clone()),
            ExprKind::Template(parts) => self.template(parts),
            ExprKind::Name(name) => self.name(name, expr.span),
            ExprKind::Paren(inner) => return self.expr(inner),
            ExprKind::List(items) => Out::List(items.iter().map(|item| self.list_item(item)).collect()),
            ExprKind::Object(items) => self.object(items),
            ExprKind::New { name, arguments } => return self.new_error(name, arguments, expr),
            ExprKind::Field { .. } | ExprKind::Index { .. } | ExprKind::Call { .. } => {
                return self.chain(expr, Access::Plain);
            }
            ExprKind::Unary { operator, operand } => self.unary(*operator, operand, expr.span),
            ExprKind::Binary { first, rest } => return self.binary(first, rest, false),
            ExprKind::Conditional { arms, otherwise } => Out::Conditional {
                arms: arms.iter().map(|(condition, then)| self.conditional_arm(condition, then)).collect(),
                otherwise: Box::new(self.expr(otherwise)),
            },
            ExprKind::Arrow(_) => {
                let hint = "declare it by its name: function f(x) { … }, and write f(x) where it is needed";
                self.error_with("F0107", "functions are not values", expr.span, Some(hint));
                Out::Null
            }
        };
        hir::Expr { kind, at }
    }

    /// The name of a function where a value is needed.
    pub fn function_as_value(&mut self, name: &str, span: Span) {
        let hint = match name {
            "String" | "Number" | "Error" => format!("write an arrow where the library takes one: x => {name}(x)"),
            _ => format!("call it: {name}(…); only functions of the library such as map take a function"),
        };
        self.error_with("F0107", "functions are not values", span, Some(hint));
    }

    fn conditional_arm(&mut self, condition: &Expr, then: &Expr) -> hir::ConditionalArm {
        let at = condition.span.start;
        hir::ConditionalArm { condition: self.condition(condition), then: self.expr(then), at }
    }

    fn template(&mut self, parts: &[TemplatePart]) -> Out {
        if let [TemplatePart::Text(text)] = parts {
            return Out::Str(text.clone());
        }
        let lowered = parts.iter().filter_map(|part| match part {
            TemplatePart::Text(text) if text.is_empty() => None,
            TemplatePart::Text(text) => Some(hir::TemplatePart::Text(text.clone())),
            TemplatePart::Expr(expr) => Some(hir::TemplatePart::Expr(self.expr(expr))),
        });
        Out::Template(lowered.collect())
    }

    /// A name that is read.
    fn name(&mut self, name: &Arc<str>, span: Span) -> Out {
        match self.resolve(name, span) {
            Some(Binding::Variable(id)) => {
                self.touch(id, span);
                self.variables[id].read = true;
                Out::Variable(id)
            }
            Some(Binding::Constant(id)) => {
                let constant = &mut self.constants[id];
                constant.read = true;
                if !constant.ready {
                    let line = constant.span.start.line;
                    self.error("F0205", format!("\"{name}\" is used before its declaration (line {line})"), span);
                }
                Out::Constant(id)
            }
            Some(Binding::Function(_)) => {
                self.function_as_value(name, span);
                Out::Null
            }
            None if self.is_library(name) => {
                self.function_as_value(name, span);
                Out::Null
            }
            None => {
                self.unknown_name(name, span);
                Out::Null
            }
        }
    }

    fn list_item(&mut self, item: &ListItem) -> hir::ListItem {
        match item {
            ListItem::Item(item) => hir::ListItem::Item(self.expr(item)),
            ListItem::Spread(item) => hir::ListItem::Spread(self.expr(item)),
        }
    }

    fn object(&mut self, items: &[ObjectItem]) -> Out {
        let mut keys = HashSet::new();
        let mut lowered = Vec::new();
        for item in items {
            if let ObjectItem::Field(key, _) | ObjectItem::Short(key) = item
                && !keys.insert(key.text.clone())
            {
                self.error("F0209", format!("\"{}\" is there twice", key.text), key.span);
            }
            lowered.push(match item {
                ObjectItem::Field(key, value) => hir::ObjectItem::Field(key.text.clone(), self.expr(value)),
                ObjectItem::Short(key) => {
                    let kind = self.name(&key.text, key.span);
                    hir::ObjectItem::Field(key.text.clone(), hir::Expr { kind, at: key.span.start })
                }
                ObjectItem::Computed(key, value) => {
                    let key = self.expr(key);
                    hir::ObjectItem::Computed(key, self.expr(value))
                }
                ObjectItem::Spread(value) => hir::ObjectItem::Spread(self.expr(value)),
            });
        }
        Out::Object(lowered)
    }

    fn unary(&mut self, operator: Unary, operand: &Expr, span: Span) -> Out {
        match operator {
            Unary::Not => Out::Not(Box::new(self.condition(operand))),
            Unary::Negate => Out::Negate(Box::new(self.expr(operand))),
            Unary::Typeof => Out::Typeof(Box::new(self.expr(operand))),
            Unary::Await => {
                let is_async = self.contexts.last().is_some_and(|context| self.functions[context.function].is_async);
                if !is_async {
                    let hint = self.contexts.last().and_then(|context| match self.functions[context.function].kind {
                        FunctionKind::Function => Some("write async function"),
                        FunctionKind::Arrow => Some("write async before the arrow"),
                        _ => None,
                    });
                    self.error_with("F0106", "await outside of async code", span, hint);
                }
                Out::Await(Box::new(self.expr(operand)))
            }
        }
    }

    /// Operators one after the other. `soft`: all of it is left of a `??`.
    fn binary(&mut self, first: &Expr, rest: &[Operation], soft: bool) -> hir::Expr {
        let mut at = first.span.start;
        let mut lowered = Vec::with_capacity(rest.len());
        let first = match rest.first().map(|operation| operation.operator) {
            Some(Binary::Default) => self.soft(first),
            Some(Binary::And | Binary::Or) => self.condition(first),
            _ => self.expr(first),
        };
        for (place, operation) in rest.iter().enumerate() {
            let Operation { operator, sign, right } = operation;
            let following = rest.get(place + 1).map(|operation| operation.operator);
            if *operator == Binary::Or {
                self.refuse_literal(right, Some("use ?? for defaults"));
            }
            if matches!(operator, Binary::And | Binary::Or) && matches!(following, Some(Binary::And | Binary::Or)) {
                // What this gives is the condition of the operator that follows.
                self.refuse_literal(right, None);
            }
            let is_soft = *operator == Binary::Default
                && match following {
                    Some(following) => following == Binary::Default,
                    None => soft,
                };
            let operator = match operator {
                Binary::Default => hir::Operator::Default,
                Binary::And => hir::Operator::And,
                Binary::Or => hir::Operator::Or,
                Binary::Operator(operator) => hir::Operator::Binary(*operator),
            };
            let right = if is_soft { self.soft(right) } else { self.expr(right) };
            at = sign.start;
            lowered.push(hir::Operation { operator, right, at });
        }
        hir::Expr { kind: Out::Binary { first: Box::new(first), rest: lowered }, at }
    }

    /// An operand left of `??`: the last step of an access may be missing. In `a.x ?? b.y ?? c` that holds for both.
    fn soft(&mut self, expr: &Expr) -> hir::Expr {
        let bare = expr.bare();
        match &bare.kind {
            ExprKind::Field { .. } | ExprKind::Index { .. } => self.chain(bare, Access::Soft),
            ExprKind::Binary { first, rest } => self.binary(first, rest, true),
            _ => self.expr(bare),
        }
    }

    /// An expression that is used as a condition. Literals that can never be one are reported.
    pub fn condition(&mut self, expr: &Expr) -> hir::Expr {
        self.refuse_literal(expr, None);
        self.expr(expr)
    }

    fn refuse_literal(&mut self, expr: &Expr, hint: Option<&str>) {
        match &expr.bare().kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_) | ExprKind::Template(_) | ExprKind::List(_) => {
                self.error_with("F0218", "this can never be a condition", expr.bare().span, hint);
            }
            // The left side is looked at as a condition anyway.
            ExprKind::Binary { rest, .. } if hint.is_none() => {
                if let Some(Operation { operator: Binary::And | Binary::Or, right, .. }) = rest.last() {
                    self.refuse_literal(right, None);
                }
            }
            ExprKind::Conditional { arms, otherwise } if hint.is_none() => {
                arms.iter().for_each(|(_, then)| self.refuse_literal(then, None));
                self.refuse_literal(otherwise, None);
            }
            _ => {}
        }
    }

    /// Accesses and calls one after the other. `last`: what the last step is.
    pub fn chain(&mut self, expr: &Expr, last: Access) -> hir::Expr {
        let (lowered, optional) = self.link(expr, last);
        if optional {
            let at = lowered.at;
            return hir::Expr { kind: Out::Chain(Box::new(lowered)), at };
        }
        lowered
    }

    /// A chain, and whether there is a `?.` in it. Its steps are lowered one after the other, not inside of each other: there
    /// may be as many as the source has room for.
    fn link(&mut self, expr: &Expr, last: Access) -> (hir::Expr, bool) {
        let reported = self.diagnostics.len();
        let mut steps = Vec::new();
        let mut first = expr;
        while let Some(base) = self.base_of(first) {
            steps.push(first);
            first = base;
        }
        let mut lowered = match &first.kind {
            ExprKind::Field { base, key, .. } => {
                let kind = self.library_field(base, key, first.span).unwrap_or(Out::Null);
                (hir::Expr { kind, at: first.span.start }, false)
            }
            ExprKind::Call { callee, arguments } => (self.call(first, callee, arguments, false), false),
            _ => (self.expr(first), false),
        };
        while let Some(step) = steps.pop() {
            let last = if steps.is_empty() { last } else { Access::Plain };
            lowered = self.step(step, lowered, last, reported);
        }
        lowered
    }

    /// What a step of a chain is made on. `None` if it is no step but begins the chain.
    fn base_of<'t>(&self, expr: &'t Expr) -> Option<&'t Expr> {
        match &expr.kind {
            ExprKind::Field { base, key, .. } => self.library_path(base, key).is_none().then_some(base),
            ExprKind::Index { base, .. } => Some(base),
            ExprKind::Call { callee, .. } => self.receiver_of(callee),
            _ => None,
        }
    }

    /// A step of a chain. `reported`: the errors before the chain, so that nothing that follows from another is reported.
    fn step(
        &mut self,
        expr: &Expr,
        (base, before): (hir::Expr, bool),
        last: Access,
        reported: usize,
    ) -> (hir::Expr, bool) {
        match &expr.kind {
            ExprKind::Field { key, optional, .. } => {
                let access = if *optional { Access::Optional } else { last };
                let kind = Out::Field { base: Box::new(base), key: key.text.clone(), access };
                (hir::Expr { kind, at: key.span.start }, before || *optional)
            }
            ExprKind::Index { index, optional, bracket, .. } => {
                let access = if *optional { Access::Optional } else { last };
                let index = Box::new(self.expr(index));
                let kind = Out::Index { base: Box::new(base), index, access };
                (hir::Expr { kind, at: bracket.start }, before || *optional)
            }
            ExprKind::Call { callee, arguments } => self.called_step(expr, callee, arguments, (base, before), reported),
            _ => (base, before),
        }
    }

    /// A constant expression: literals, operators and earlier constants.
    pub fn constant_expr(&mut self, expr: &Expr) -> hir::Expr {
        if let Some(wrong) = not_constant(expr) {
            let found = self.source_of(wrong).split(['(', '\n']).next().unwrap_or_default().to_owned();
            self.error("F0101", format!("expected a constant, found \"{found}\""), wrong.span);
            return hir::Expr { kind: Out::Null, at: expr.span.start };
        }
        self.expr(expr)
    }
}

/// The first part of an expression that no constant may have.
fn not_constant(expr: &Expr) -> Option<&Expr> {
    let mut indexes = Vec::new();
    let mut first = expr;
    loop {
        first = match &first.kind {
            ExprKind::Field { base, .. } => base,
            ExprKind::Index { base, index, .. } => {
                indexes.push(&**index);
                base
            }
            _ => break,
        };
    }
    not_constant_in(first).or_else(|| indexes.into_iter().rev().find_map(not_constant))
}

/// The same of an expression that does not end with an access.
fn not_constant_in(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Call { .. } | ExprKind::New { .. } => Some(expr),
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Name(_)
        | ExprKind::Arrow(_)
        | ExprKind::Field { .. }
        | ExprKind::Index { .. }
        | ExprKind::Broken => None,
        ExprKind::Template(parts) => parts.iter().find_map(|part| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Expr(expr) => not_constant(expr),
        }),
        ExprKind::Paren(inner) => not_constant(inner),
        ExprKind::Unary { operator: Unary::Await, .. } => None,
        ExprKind::Unary { operand, .. } => not_constant(operand),
        ExprKind::List(items) => {
            items.iter().find_map(|(ListItem::Item(item) | ListItem::Spread(item))| not_constant(item))
        }
        ExprKind::Object(items) => items.iter().find_map(|item| match item {
            ObjectItem::Field(_, value) | ObjectItem::Spread(value) => not_constant(value),
            ObjectItem::Short(_) => None,
            ObjectItem::Computed(key, value) => not_constant(key).or_else(|| not_constant(value)),
        }),
        ExprKind::Binary { first, rest } => {
            not_constant(first).or_else(|| rest.iter().find_map(|operation| not_constant(&operation.right)))
        }
        ExprKind::Conditional { arms, otherwise } => {
            let arms = arms.iter().flat_map(|(condition, then)| [condition, then]);
            arms.chain([&**otherwise]).find_map(not_constant)
        }
    }
}

/// A whole number that a double holds exactly is an integer.
fn float(number: f64) -> Out {
    match Value::float(number) {
        Some(Value::Int(whole)) => Out::Int(whole),
        _ => Out::Float(number),
    }
}
