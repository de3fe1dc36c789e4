//! Patterns and parameters.

use super::Checker;
use super::scope::{Binding, Origin};
use crate::hir;
use crate::syntax::tree::{Name, Params, Pattern};

impl Checker<'_> {
    /// Declares parameters in the innermost scope and lowers them.
    pub fn params(&mut self, params: &Params) -> Vec<hir::Param> {
        for param in &params.items {
            self.declare_pattern(&param.pattern, Origin::Parameter);
        }
        // A default may use parameters before its own.
        for param in &params.items {
            self.set_ready(&param.pattern, false);
        }
        let mut lowered = Vec::new();
        for param in &params.items {
            let default = param.default.as_ref().map(|default| self.expr(default));
            lowered.push(hir::Param { pattern: self.pattern(&param.pattern), default });
        }
        lowered
    }

    fn set_ready(&mut self, pattern: &Pattern, ready: bool) {
        match pattern {
            Pattern::Name(name) => {
                if let Some(id) = self.declared(name) {
                    self.variables[id].ready = ready;
                }
            }
            Pattern::List { items, rest, .. } => {
                for (item, _) in items {
                    self.set_ready(item, ready);
                }
                if let Some(id) = rest.as_ref().and_then(|rest| self.declared(rest)) {
                    self.variables[id].ready = ready;
                }
            }
            Pattern::Object { fields, rest, .. } => {
                for field in fields {
                    match &field.pattern {
                        Some(inner) => self.set_ready(inner, ready),
                        None => {
                            if let Some(id) = self.declared(&field.key) {
                                self.variables[id].ready = ready;
                            }
                        }
                    }
                }
                if let Some(id) = rest.as_ref().and_then(|rest| self.declared(rest)) {
                    self.variables[id].ready = ready;
                }
            }
        }
    }

    /// The variable of this name in the innermost scope.
    fn declared(&self, name: &Name) -> Option<hir::VariableId> {
        match self.scopes.last()?.names.get(&name.text) {
            Some(Binding::Variable(id)) => Some(*id),
            _ => None,
        }
    }

    /// A variable that the pattern fills. From here on it may be used.
    fn fill(&mut self, name: &Name) -> hir::VariableId {
        // It is missing only after an error, when the result will not be used.
        let Some(id) = self.declared(name) else { return 0 };
        self.variables[id].ready = true;
        id
    }

    /// Lowers a pattern whose names are declared in the innermost scope.
    pub fn pattern(&mut self, pattern: &Pattern) -> hir::Pattern {
        match pattern {
            Pattern::Name(name) => hir::Pattern::Variable(self.fill(name)),
            Pattern::List { items, rest, span } => {
                let mut lowered = Vec::new();
                for (item, default) in items {
                    let default = default.as_ref().map(|default| self.expr(default));
                    lowered.push((self.pattern(item), default));
                }
                let rest = rest.as_ref().map(|rest| self.fill(rest));
                hir::Pattern::List { items: lowered, rest, at: span.start }
            }
            Pattern::Object { fields, rest, span } => {
                let mut lowered = Vec::new();
                for field in fields {
                    let default = field.default.as_ref().map(|default| self.expr(default));
                    let inner = match &field.pattern {
                        Some(inner) => self.pattern(inner),
                        None => hir::Pattern::Variable(self.fill(&field.key)),
                    };
                    lowered.push((field.key.text.clone(), inner, default));
                }
                let rest = rest.as_ref().map(|rest| self.fill(rest));
                hir::Pattern::Object { fields: lowered, rest, at: span.start }
            }
        }
    }
}
