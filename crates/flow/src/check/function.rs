//! Functions, arrows and handlers.

use std::sync::Arc;

use super::Checker;
use super::effects::Effects;
use super::scope::Binding;
use crate::diagnostic::Position;
use crate::hir::{self, FunctionKind};
use crate::syntax::token::Span;
use crate::syntax::tree::{Arrow, ArrowBody, Block, Function, Handler, HandlerKind, Params, Statement};

/// What is known about a function.
#[derive(Debug)]
pub(super) struct FunctionInfo {
    pub name: Arc<str>,
    pub kind: FunctionKind,
    pub is_async: bool,
    pub parent: Option<hir::FunctionId>,
    /// The least and the greatest number of arguments.
    pub arguments: (usize, usize),
    pub at: Position,
    /// The name of a function that can be called; otherwise empty.
    pub name_span: Span,
    /// Filled in when its body was walked.
    pub params: Vec<hir::Param>,
    pub body: hir::Block,
    pub effects: Effects,
}

/// What `break`, `continue` and `return` would leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnclosingConstruct {
    Loop,
    Switch,
    Finally,
}

/// A function whose body is being walked.
#[derive(Debug)]
pub(super) struct Context {
    pub function: hir::FunctionId,
    /// Statements around the current one, the innermost last.
    pub around: Vec<EnclosingConstruct>,
}

impl Checker<'_> {
    /// The function whose body is being walked. The file itself counts as the first one; it declares no variables.
    pub fn function(&self) -> hir::FunctionId {
        self.contexts.last().map_or(0, |context| context.function)
    }

    /// Adds a function whose body is walked later.
    pub fn add_function(
        &mut self,
        name: Arc<str>,
        kind: FunctionKind,
        is_async: bool,
        params: &Params,
        at: Position,
    ) -> hir::FunctionId {
        let least = params.items.iter().rposition(|param| param.default.is_none()).map_or(0, |place| place + 1);
        self.functions.push(FunctionInfo {
            name,
            kind,
            is_async,
            parent: self.contexts.last().map(|context| context.function),
            arguments: (least, params.items.len()),
            at,
            name_span: Span::default(),
            params: Vec::new(),
            body: hir::Block::default(),
            effects: Effects::default(),
        });
        self.functions.len() - 1
    }

    /// Walks the body of a function.
    pub fn function_body(&mut self, id: hir::FunctionId, params: &Params, statements: &[Statement]) {
        self.enter_function(id);
        let params = self.params(params);
        let outermost = self.functions[id].kind == FunctionKind::Workflow;
        self.hoist(statements);
        if outermost {
            self.hoist_functions(statements);
        }
        self.hoist_assigned(statements);
        let statements = self.statements(statements, outermost);
        self.leave_function(id, params, statements);
    }

    fn enter_function(&mut self, id: hir::FunctionId) {
        self.contexts.push(Context { function: id, around: Vec::new() });
        self.enter();
    }

    fn leave_function(&mut self, id: hir::FunctionId, params: Vec<hir::Param>, statements: Vec<hir::Statement>) {
        let variables = self.leave();
        self.contexts.pop();
        self.functions[id].params = params;
        self.functions[id].body = hir::Block { variables, statements };
    }

    /// Adds a function to the innermost scope.
    pub fn declare_function(&mut self, function: &Function) {
        let name = &function.name;
        let id = self.add_function(
            name.text.clone(),
            FunctionKind::Function,
            function.is_async,
            &function.params,
            function.span.start,
        );
        self.declared_functions.insert(function.span.from, id);
        self.functions[id].name_span = name.span;
        self.note_binding(Binding::Function(id), name.span);
        self.refuse_library_name(&name.text, name.span);
        let Some(scope) = self.scopes.last_mut() else { return };
        match scope.names.get(&name.text).copied() {
            None => {
                scope.names.insert(name.text.clone(), Binding::Function(id));
            }
            Some(Binding::Function(_)) => self.error("F0209", format!("\"{}\" is there twice", name.text), name.span),
            Some(before) => {
                let message = format!("\"{}\" is declared already (line {})", name.text, self.line_of(before));
                self.error("F0203", message, name.span);
            }
        }
    }

    /// Walks the body of a function that was declared, also if another one has its name.
    pub fn lower_function(&mut self, function: &Function) {
        if let Some(id) = self.declared_functions.get(&function.span.from).copied() {
            self.function_body(id, &function.params, &function.body.statements);
        }
    }

    /// An arrow. `plays`: it stands in for a task or a child, which is async without saying so. `decides`: its value is
    /// used as a condition.
    pub fn arrow(&mut self, arrow: &Arrow, span: Span, plays: bool, decides: bool) -> hir::FunctionId {
        let is_async = arrow.is_async || plays;
        let id = self.add_function(Arc::from("(arrow)"), FunctionKind::Arrow, is_async, &arrow.params, span.start);
        match &arrow.body {
            ArrowBody::Block(Block { statements, .. }) => self.function_body(id, &arrow.params, statements),
            ArrowBody::Expr(value) => {
                self.enter_function(id);
                let params = self.params(&arrow.params);
                let at = value.span.start;
                let value = if decides { self.condition(value) } else { self.expr(value) };
                let result = hir::Statement { kind: hir::StatementKind::Return(Some(value)), at };
                self.leave_function(id, params, vec![result]);
            }
        }
        id
    }

    /// An async arrow that calls a function with its own arguments: what `mock` makes of the name of a function.
    pub fn arrow_around(&mut self, called: hir::FunctionId, span: Span) -> hir::FunctionId {
        let (at, (least, most)) = (span.start, self.functions[called].arguments);
        let id = self.add_function(Arc::from("(arrow)"), FunctionKind::Arrow, true, &Params::default(), span.start);
        self.functions[id].arguments = (least, most);
        let mut params = Vec::new();
        let mut arguments = Vec::new();
        for _ in 0..most {
            let variable = self.add_variable(Arc::from("argument"), id, span);
            params.push(hir::Param { pattern: hir::Pattern::Variable(variable), default: None });
            let value = hir::Expr { kind: hir::ExprKind::Variable(variable), at };
            arguments.push(hir::Argument::Value(value));
        }
        let kind = hir::ExprKind::Call { callee: hir::Callee::Function(called), arguments };
        let result = hir::Statement { kind: hir::StatementKind::Return(Some(hir::Expr { kind, at })), at };
        self.functions[id].params = params;
        self.functions[id].body = hir::Block { variables: Vec::new(), statements: vec![result] };
        id
    }

    /// A handler of the workflow.
    pub fn handler(&mut self, handler: &Handler) {
        let (kind, word) = match handler.kind {
            HandlerKind::Query => (FunctionKind::Query, Some("query")),
            HandlerKind::Signal => (FunctionKind::Signal, None),
            HandlerKind::Update => (FunctionKind::Update, None),
        };
        let name = &handler.name;
        if self.handlers.iter().any(|before| before.kind == kind && before.name == name.text) {
            self.error("F0209", format!("\"{}\" is there twice", name.text), name.span);
        }
        let is_async = kind != FunctionKind::Query;
        let at = handler.span.start;
        let function = self.add_function(name.text.clone(), kind, is_async, &handler.params, at);
        self.functions[function].effects.forbidden_in = word;
        self.function_body(function, &handler.params, &handler.body.statements);
        let validate = handler.validate.as_ref().map(|(word, block)| {
            let id = self.add_function(name.text.clone(), FunctionKind::Validate, false, &handler.params, word.start);
            self.functions[id].effects.forbidden_in = Some("validator");
            self.function_body(id, &handler.params, &block.statements);
            id
        });
        self.handlers.push(hir::Handler { kind, name: name.text.clone(), function, validate });
    }
}
