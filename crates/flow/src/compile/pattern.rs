//! Destructuring: assigns the parts of the value on top of the operand stack, and drops it.

use crate::diagnostic::Position;
use crate::hir::{Access, Expr, Pattern};

use super::code::Op;
use super::function::Body;
use super::{CompileError, index};

impl Body<'_, '_> {
    /// Fills the variables of a pattern from the top of the stack.
    pub(super) fn pattern(&mut self, pattern: &Pattern, at: Position) -> Result<(), CompileError> {
        match pattern {
            Pattern::Variable(variable) => self.store(*variable, at),
            Pattern::List { items, rest, at } => {
                self.enter(*at)?;
                for (place, (item, default)) in items.iter().enumerate() {
                    self.emit(Op::Element { index: index(place), access: access(default.as_ref()) }, *at);
                    self.with_default(item, default.as_ref())?;
                }
                match rest {
                    Some(variable) => {
                        self.emit(Op::RestList(index(items.len())), *at);
                        self.store(*variable, *at)?;
                    }
                    None if items.is_empty() => {
                        // Also an empty pattern wants a list.
                        self.emit(Op::RestList(0), *at);
                        self.emit(Op::Pop, *at);
                    }
                    None => self.emit(Op::Pop, *at),
                }
                self.leave();
                Ok(())
            }
            Pattern::Object { fields, rest, at } => {
                self.enter(*at)?;
                let mut keys = Vec::with_capacity(fields.len());
                for (key, item, default) in fields {
                    let key = self.compiler.string(key);
                    keys.push(key);
                    self.emit(Op::Part { key, access: access(default.as_ref()) }, *at);
                    self.with_default(item, default.as_ref())?;
                }
                if rest.is_some() || fields.is_empty() {
                    self.compiler.code.keys.push(keys);
                    self.emit(Op::RestObject(index(self.compiler.code.keys.len() - 1)), *at);
                }
                match rest {
                    Some(variable) => self.store(*variable, *at)?,
                    None => self.emit(Op::Pop, *at),
                }
                self.leave();
                Ok(())
            }
        }
    }

    /// The same, with a default for null.
    pub(super) fn with_default(&mut self, pattern: &Pattern, default: Option<&Expr>) -> Result<(), CompileError> {
        let at = match (pattern, default) {
            (_, Some(default)) => default.at,
            (Pattern::List { at, .. } | Pattern::Object { at, .. }, None) => *at,
            (Pattern::Variable(_), None) => Position::default(),
        };
        if let Some(default) = default {
            let end = self.label();
            self.jump(Op::NotNull, end, at);
            self.expr(default)?;
            self.place(end);
        }
        self.pattern(pattern, at)
    }
}

fn access(default: Option<&Expr>) -> Access {
    if default.is_some() { Access::Soft } else { Access::Plain }
}
