//! Scopes, variables, and what a name means.

use std::collections::HashMap;
use std::sync::Arc;

use super::Checker;
use crate::hir;
use crate::names::{Declaration, DeclarationKind, Meaning};
use crate::syntax::parser::FileKind;
use crate::syntax::token::Span;
use crate::syntax::tree::{self, ExprKind, Name, Pattern, Statement, StatementKind};

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    Variable(hir::VariableId),
    Constant(hir::ConstantId),
    Function(hir::FunctionId),
}

/// Names declared in one block, or in the file.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Only looked up, never walked.
    pub names: HashMap<Arc<str>, Binding>,
    /// Variables of the block, in order. Parameters are not among them.
    pub variables: Vec<hir::VariableId>,
}

/// How a variable came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Let,
    Const,
    /// By assignment.
    Assigned,
    Parameter,
    /// `for (let x of …)`.
    Element,
    /// `for (const x of …)`.
    ConstElement,
    Caught,
}

/// What is known about a variable.
#[derive(Clone, Debug)]
pub(super) struct VariableInfo {
    pub name: Arc<str>,
    pub span: Span,
    pub owner: hir::FunctionId,
    pub captured: bool,
    pub origin: Origin,
    /// Whether the walk has passed its declaration.
    pub ready: bool,
    pub read: bool,
    pub assigned: bool,
    /// Whether a warning that it is not read would be wrong or useless.
    pub quiet: bool,
}

/// What is known about a constant of the file.
#[derive(Clone, Debug)]
pub(super) struct ConstantInfo {
    pub name: Arc<str>,
    pub span: Span,
    pub ready: bool,
    pub read: bool,
    pub value: hir::Expr,
}

impl Checker<'_> {
    pub fn lookup(&self, name: &str) -> Option<Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.names.get(name)).copied()
    }

    /// What a name means at this place.
    pub fn resolve(&mut self, name: &str, span: Span) -> Option<Binding> {
        let binding = self.lookup(name)?;
        self.note_binding(binding, span);
        Some(binding)
    }

    /// Notes that a name stands for a variable, constant or function.
    pub fn note_binding(&mut self, binding: Binding, span: Span) {
        let declaration = match binding {
            Binding::Variable(id) => {
                let variable = &self.variables[id];
                Declaration::new(variable.name.clone(), DeclarationKind::Variable, variable.span)
            }
            Binding::Constant(id) => {
                let constant = &self.constants[id];
                Declaration::new(constant.name.clone(), DeclarationKind::Constant, constant.span)
            }
            Binding::Function(id) => {
                let function = &self.functions[id];
                Declaration::new(function.name.clone(), DeclarationKind::Function, function.name_span)
            }
        };
        self.note_name(span, Meaning::Declared(declaration));
    }

    /// Whether a name belongs to the library.
    pub fn is_library(&self, name: &str) -> bool {
        super::index::is_first_word(name, self.kind == FileKind::Test)
    }

    /// Enters a block.
    pub fn enter(&mut self) {
        self.scopes.push(Scope::default());
    }

    /// Leaves it again and gives its variables.
    pub fn leave(&mut self) -> Vec<hir::VariableId> {
        self.scopes.pop().unwrap_or_default().variables
    }

    /// Reports F0204 if the name belongs to the library.
    pub fn refuse_library_name(&mut self, name: &str, span: Span) {
        if self.is_library(name) {
            self.error("F0204", format!("\"{name}\" belongs to the library"), span);
        }
    }

    /// The line of a declaration.
    pub fn line_of(&self, binding: Binding) -> u32 {
        match binding {
            Binding::Variable(id) => self.variables[id].span.start.line,
            Binding::Constant(id) => self.constants[id].span.start.line,
            Binding::Function(id) => self.functions[id].at.line,
        }
    }

    /// Declares a variable in the innermost scope, unless the scope has its name already.
    pub fn declare(&mut self, name: &Name, origin: Origin, quiet: bool) {
        self.refuse_library_name(&name.text, name.span);
        if let Some(scope) = self.scopes.last()
            && let Some(before) = scope.names.get(&name.text).copied()
        {
            let of_parameter = |id: hir::VariableId| self.variables[id].origin == Origin::Parameter;
            if origin == Origin::Parameter && matches!(before, Binding::Variable(id) if of_parameter(id)) {
                self.error("F0209", format!("\"{}\" is there twice", name.text), name.span);
            } else {
                let message = format!("\"{}\" is declared already (line {})", name.text, self.line_of(before));
                self.error("F0203", message, name.span);
            }
            return;
        }
        let id = self.variables.len();
        self.variables.push(VariableInfo {
            name: name.text.clone(),
            span: name.span,
            owner: self.function(),
            captured: false,
            origin,
            ready: !matches!(origin, Origin::Let | Origin::Const),
            read: false,
            assigned: false,
            quiet: quiet || name.text.starts_with('_'),
        });
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.text.clone(), Binding::Variable(id));
            if origin != Origin::Parameter {
                scope.variables.push(id);
            }
        }
        self.note_binding(Binding::Variable(id), name.span);
    }

    /// Adds a parameter that has no name in the source.
    pub fn add_variable(&mut self, name: Arc<str>, owner: hir::FunctionId, span: Span) -> hir::VariableId {
        self.variables.push(VariableInfo {
            name,
            span,
            owner,
            captured: false,
            origin: Origin::Parameter,
            ready: true,
            read: true,
            assigned: false,
            quiet: true,
        });
        self.variables.len() - 1
    }

    /// Declares all names of a pattern.
    pub fn declare_pattern(&mut self, pattern: &Pattern, origin: Origin) {
        match pattern {
            Pattern::Name(name) => self.declare(name, origin, false),
            Pattern::List { items, rest, .. } => {
                for (item, _) in items {
                    self.declare_pattern(item, origin);
                }
                if let Some(rest) = rest {
                    self.declare(rest, origin, false);
                }
            }
            Pattern::Object { fields, rest, .. } => {
                for field in fields {
                    match &field.pattern {
                        Some(inner) => self.declare_pattern(inner, origin),
                        // Beside a rest, a field is often named only to leave it out.
                        None => self.declare(&field.key, origin, rest.is_some()),
                    }
                }
                if let Some(rest) = rest {
                    self.declare(rest, origin, false);
                }
            }
        }
    }

    /// Declares what `let` and `const` of these statements declare, so that inner functions see it everywhere.
    pub fn hoist(&mut self, statements: &[Statement]) {
        for statement in statements {
            if let StatementKind::Let(declaration) = &statement.kind {
                self.hoist_let(declaration);
            }
        }
    }

    pub fn hoist_let(&mut self, declaration: &tree::Let) {
        let origin = if declaration.constant { Origin::Const } else { Origin::Let };
        for (pattern, _) in &declaration.items {
            self.declare_pattern(pattern, origin);
        }
    }

    /// Declares the variables that assignments in the body of a function declare: those of names that are not visible
    /// there. Its parameters and the `let`s of its outermost block have been declared.
    pub fn hoist_assigned(&mut self, statements: &[Statement]) {
        let mut hidden = Vec::new();
        for statement in statements {
            self.find_assigned(statement, &mut hidden);
        }
    }

    fn find_assigned_in(&mut self, statements: &[Statement], hidden: &mut Vec<Arc<str>>) {
        let before = hidden.len();
        for statement in statements {
            if let StatementKind::Let(declaration) = &statement.kind {
                hide_let(declaration, hidden);
            }
        }
        for statement in statements {
            self.find_assigned(statement, hidden);
        }
        hidden.truncate(before);
    }

    /// `hidden` are names of inner blocks around the statement.
    fn find_assigned(&mut self, statement: &Statement, hidden: &mut Vec<Arc<str>>) {
        let before = hidden.len();
        match &statement.kind {
            StatementKind::Assign { target, operator: tree::Assign::Plain, .. } => {
                if let ExprKind::Name(name) = &target.kind
                    && !hidden.contains(name)
                    && self.lookup(name).is_none()
                    && !self.is_library(name)
                {
                    let name = Name { text: name.clone(), span: target.span, quoted: false };
                    self.declare(&name, Origin::Assigned, false);
                }
            }
            StatementKind::Block(block) => self.find_assigned_in(&block.statements, hidden),
            StatementKind::If { arms, otherwise } => {
                arms.iter().for_each(|arm| self.find_assigned(&arm.then, hidden));
                if let Some(otherwise) = otherwise {
                    self.find_assigned(otherwise, hidden);
                }
            }
            StatementKind::While { body, .. } => self.find_assigned(body, hidden),
            StatementKind::ForOf { pattern, body, .. } => {
                hide_pattern(pattern, hidden);
                self.find_assigned(body, hidden);
            }
            StatementKind::For { first, next, body, .. } => {
                if let Some(first) = first {
                    if let StatementKind::Let(declaration) = &first.kind {
                        hide_let(declaration, hidden);
                    }
                    self.find_assigned(first, hidden);
                }
                if let Some(next) = next {
                    self.find_assigned(next, hidden);
                }
                self.find_assigned(body, hidden);
            }
            StatementKind::Switch { cases, .. } => {
                for case in cases {
                    self.find_assigned_in(&case.statements, hidden);
                }
            }
            StatementKind::Try { body, catch, finally } => {
                self.find_assigned_in(&body.statements, hidden);
                if let Some(catch) = catch {
                    hidden.extend(catch.name.iter().map(|name| name.text.clone()));
                    self.find_assigned_in(&catch.body.statements, hidden);
                    hidden.truncate(before);
                }
                if let Some(finally) = finally {
                    self.find_assigned_in(&finally.statements, hidden);
                }
            }
            _ => {}
        }
        hidden.truncate(before);
    }

    /// A variable is used at this place: notes captures, and reports a use before its declaration (F0205).
    pub fn touch(&mut self, id: hir::VariableId, span: Span) {
        let owner = self.variables[id].owner;
        if owner != self.function() {
            self.variables[id].captured = true;
        }
        if !self.variables[id].ready && self.runs_within(owner) {
            let variable = &self.variables[id];
            let message =
                format!("\"{}\" is used before its declaration (line {})", variable.name, variable.span.start.line);
            self.error("F0205", message, span);
        }
    }

    /// Whether the code being walked is that of this function or of an arrow in it.
    fn runs_within(&self, owner: hir::FunctionId) -> bool {
        for context in self.contexts.iter().rev() {
            if context.function == owner {
                return true;
            }
            if self.functions[context.function].kind != hir::FunctionKind::Arrow {
                return false;
            }
        }
        false
    }
}

fn hide_let(declaration: &tree::Let, hidden: &mut Vec<Arc<str>>) {
    for (pattern, _) in &declaration.items {
        hide_pattern(pattern, hidden);
    }
}

fn hide_pattern(pattern: &Pattern, hidden: &mut Vec<Arc<str>>) {
    match pattern {
        Pattern::Name(name) => hidden.push(name.text.clone()),
        Pattern::List { items, rest, .. } => {
            for (item, _) in items {
                hide_pattern(item, hidden);
            }
            hidden.extend(rest.iter().map(|name| name.text.clone()));
        }
        Pattern::Object { fields, rest, .. } => {
            for field in fields {
                match &field.pattern {
                    Some(inner) => hide_pattern(inner, hidden),
                    None => hidden.push(field.key.text.clone()),
                }
            }
            hidden.extend(rest.iter().map(|name| name.text.clone()));
        }
    }
}
