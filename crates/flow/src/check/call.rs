//! Calls: of functions of the script, of the library and of values.

use super::Checker;
use super::effects::Level;
use super::hints::is_foreign_namespace;
use super::index;
use super::scope::Binding;
use super::statement::Change;
use crate::hir::{self, Access, ExprKind as Out, FunctionKind};
use crate::library::{ANY, CallbackPosition, Effect, Function, Method, Signature, Takes};
use crate::names::Meaning;
use crate::syntax::parser::FileKind;
use crate::syntax::token::Span;
use crate::syntax::tree::{Expr, ExprKind, Name};

/// Who is called, as far as the names say.
enum CallTarget<'t> {
    Script(hir::FunctionId),
    Library(Function),
    /// A function that changes what a variable holds.
    Changing {
        receiver: &'t Expr,
        method: Method,
        key: &'t Name,
    },
    /// Nothing that can be called; it has been reported.
    Unknown,
}

impl Checker<'_> {
    /// Whether this file may call a function of the library. In tests there is no run: of `Task` only what waits.
    pub fn offers(&self, function: Function) -> bool {
        match self.kind {
            FileKind::Script | FileKind::Any => !function.signature().test_only,
            FileKind::Test => {
                let starts = [Function::TaskRun, Function::TaskDefaults, Function::WaitForSignal, Function::NexusCall];
                !starts.contains(&function) && !function.signature().name.starts_with("Workflow.")
            }
        }
    }

    fn library_function(&self, name: &str) -> Option<Function> {
        index::function(name).filter(|function| self.offers(*function))
    }

    /// `Namespace.name`, if the base is a namespace of the library.
    pub fn library_path(&self, base: &Expr, key: &Name) -> Option<String> {
        let ExprKind::Name(namespace) = &base.bare().kind else { return None };
        (self.is_library(namespace) && self.lookup(namespace).is_none()).then(|| format!("{namespace}.{}", key.text))
    }

    /// A function of the library that is not called.
    pub fn library_field(&mut self, base: &Expr, key: &Name, span: Span) -> Option<Out> {
        let path = self.library_path(base, key)?;
        if self.library_function(&path).is_some() {
            self.function_as_value(&path, span);
        } else {
            self.unknown_name(&path, span);
        }
        Some(Out::Null)
    }

    pub fn is_continue_as_new(&self, expr: &Expr) -> bool {
        let ExprKind::Call { callee, .. } = &expr.kind else { return false };
        let ExprKind::Field { base, key, optional: false } = &callee.kind else { return false };
        self.library_path(base, key).as_deref() == Some("Workflow.continueAsNew")
    }

    /// A call of `Workflow.continueAsNew` where it may stand.
    pub fn call_allowed(&mut self, expr: &Expr) -> hir::Expr {
        let ExprKind::Call { callee, arguments } = &expr.kind else { return self.expr(expr) };
        self.call(expr, callee, arguments, true)
    }

    /// A call as a statement: its value is not read.
    pub fn call_statement(&mut self, expr: &Expr) -> hir::Expr {
        self.dropped = Some(expr.span);
        let lowered = self.chain(expr, Access::Plain);
        self.dropped = None;
        lowered
    }

    /// What a call is made on, if it is a step of a chain: neither a function of the script or of the library nor one that
    /// changes a variable.
    pub fn receiver_of<'t>(&self, callee: &'t Expr) -> Option<&'t Expr> {
        match &callee.bare().kind {
            ExprKind::Name(_) => None,
            ExprKind::Field { base, key, optional } => {
                let changes = index::method(&key.text).is_some_and(Method::changes_receiver);
                let begins = self.library_path(base, key).is_some()
                    || self.is_foreign(base)
                    || changes && !optional && is_path(base);
                if begins { None } else { Some(base) }
            }
            _ => matches!(callee.kind, ExprKind::Call { .. } | ExprKind::Index { .. }).then_some(callee),
        }
    }

    /// A namespace of another language.
    fn is_foreign(&self, base: &Expr) -> bool {
        matches!(&base.kind, ExprKind::Name(name) if self.lookup(name).is_none() && is_foreign_namespace(name))
    }

    /// A call that is a step of a chain; see [`Checker::step`].
    pub fn called_step(
        &mut self,
        expr: &Expr,
        callee: &Expr,
        arguments: &[Expr],
        (receiver, before): (hir::Expr, bool),
        reported: usize,
    ) -> (hir::Expr, bool) {
        let is_fine = self.diagnostics.len() == reported;
        let nothing = hir::Expr { kind: Out::Null, at: expr.span.start };
        let ExprKind::Field { key, optional, .. } = &callee.bare().kind else {
            if is_fine {
                self.error("F0107", "functions are not values", callee.span);
            }
            self.quiet_arguments(arguments);
            return (nothing, false);
        };
        let Some(method) = index::method(&key.text) else {
            if is_fine {
                self.unknown_method(&key.text, key.span);
            }
            self.quiet_arguments(arguments);
            return (nothing, false);
        };
        self.note_name(key.span, Meaning::Method(method));
        let signature = method.signature();
        if method.changes_receiver() && is_fine {
            self.error("F0211", "this changes a value that is not kept", expr.span);
        }
        self.check_count(signature.name, signature.least, signature.most, arguments.len(), key.span);
        let arguments = self.arguments(signature, arguments);
        let at = key.span.start;
        if method.changes_receiver() {
            return (hir::Expr { kind: Out::Null, at }, false);
        }
        let access = if *optional { Access::Optional } else { Access::Plain };
        let callee = hir::Callee::Method { receiver: Box::new(receiver), method, access };
        (hir::Expr { kind: Out::Call { callee, arguments }, at }, before || *optional)
    }

    /// A call that begins a chain. `allowed`: it is the operand of `return` in the workflow.
    pub fn call(&mut self, expr: &Expr, callee: &Expr, arguments: &[Expr], allowed: bool) -> hir::Expr {
        match self.called(callee) {
            CallTarget::Script(id) => {
                self.note_call(id, expr.span);
                let info = &self.functions[id];
                let (name, (least, most)) = (info.name.clone(), info.arguments);
                self.check_count(&name, least, most, arguments.len(), callee.span);
                let arguments = arguments.iter().map(|argument| hir::Argument::Value(self.expr(argument))).collect();
                let kind = Out::Call { callee: hir::Callee::Function(id), arguments };
                hir::Expr { kind, at: callee.span.start }
            }
            CallTarget::Library(function) => {
                self.note_name(callee.bare().span, Meaning::Library(function));
                if function == Function::WorkflowContinueAsNew && !allowed {
                    self.error("F0217", "continueAsNew must be returned by the workflow", expr.span);
                }
                let arguments = self.library_arguments(function, arguments, callee.span, expr.span);
                let kind = Out::Call { callee: hir::Callee::Library(function), arguments };
                hir::Expr { kind, at: callee.span.start }
            }
            CallTarget::Changing { receiver, method, key } => {
                self.changing_call(expr, receiver, method, key, arguments)
            }
            CallTarget::Unknown => {
                self.quiet_arguments(arguments);
                hir::Expr { kind: Out::Null, at: expr.span.start }
            }
        }
    }

    /// Arguments of a call that has been refused: arrows may stand among them.
    fn quiet_arguments(&mut self, arguments: &[Expr]) {
        for argument in arguments {
            match &argument.bare().kind {
                ExprKind::Arrow(arrow) => {
                    self.arrow(arrow, argument.span, false, false);
                }
                ExprKind::Name(name) if matches!(self.lookup(name), Some(Binding::Function(_))) => {}
                _ => {
                    self.expr(argument);
                }
            }
        }
    }

    /// Finds out who is called and reports it if nothing is.
    fn called<'t>(&mut self, callee: &'t Expr) -> CallTarget<'t> {
        match &callee.bare().kind {
            ExprKind::Name(name) => match self.resolve(name, callee.bare().span) {
                Some(Binding::Function(id)) => CallTarget::Script(id),
                Some(_) => {
                    self.unknown_function(name, callee.span);
                    CallTarget::Unknown
                }
                None => match self.library_function(name) {
                    Some(function) => CallTarget::Library(function),
                    None => {
                        self.unknown_function(name, callee.span);
                        CallTarget::Unknown
                    }
                },
            },
            ExprKind::Field { base, key, .. } => self.called_field(base, key, callee.span),
            _ => {
                let before = self.diagnostics.len();
                self.expr(callee);
                if self.diagnostics.len() == before {
                    self.error("F0107", "functions are not values", callee.span);
                }
                CallTarget::Unknown
            }
        }
    }

    fn called_field<'t>(&mut self, base: &'t Expr, key: &'t Name, span: Span) -> CallTarget<'t> {
        if let Some(path) = self.library_path(base, key) {
            return match self.library_function(&path) {
                Some(function) => CallTarget::Library(function),
                None => {
                    self.unknown_function(&path, span);
                    CallTarget::Unknown
                }
            };
        }
        match (&base.kind, index::method(&key.text)) {
            (ExprKind::Name(name), _) if self.is_foreign(base) => {
                self.unknown_function(&format!("{name}.{}", key.text), span);
                CallTarget::Unknown
            }
            (_, Some(method)) => CallTarget::Changing { receiver: base, method, key },
            (_, None) => {
                self.unknown_method(&key.text, key.span);
                CallTarget::Unknown
            }
        }
    }

    fn changing_call(
        &mut self,
        expr: &Expr,
        receiver: &Expr,
        method: Method,
        key: &Name,
        arguments: &[Expr],
    ) -> hir::Expr {
        self.note_name(key.span, Meaning::Method(method));
        let signature = method.signature();
        let target = self.target(receiver, Change::Inside);
        // `xs.push(1)` alone does not read `xs`.
        if let Some(target) = &target
            && self.dropped != Some(expr.span)
        {
            self.variables[target.variable].read = true;
        }
        self.check_count(signature.name, signature.least, signature.most, arguments.len(), key.span);
        let arguments = self.arguments(signature, arguments);
        let kind = match target {
            Some(target) => Out::Call { callee: hir::Callee::Changing { target, method }, arguments },
            None => Out::Null,
        };
        hir::Expr { kind, at: key.span.start }
    }

    fn library_arguments(
        &mut self,
        function: Function,
        arguments: &[Expr],
        name: Span,
        call: Span,
    ) -> Vec<hir::Argument> {
        let signature = function.signature();
        match signature.effect {
            Effect::Pure => {}
            Effect::Time => self.note_effect(Level::Time, call, None),
            Effect::Effect => self.note_effect(Level::Effect, call, None),
        }
        self.check_count(signature.name, signature.least, signature.most, arguments.len(), name);
        self.check_literals(function, arguments);
        self.arguments(signature, arguments)
    }

    /// Arguments of a function of the library or of a value.
    fn arguments(&mut self, signature: &'static Signature, arguments: &[Expr]) -> Vec<hir::Argument> {
        let mut lowered = Vec::new();
        for (place, argument) in arguments.iter().enumerate() {
            let takes = match signature.takes {
                CallbackPosition::Function(at)
                | CallbackPosition::AsyncFunction(at)
                | CallbackPosition::OptionalFunction(at)
                | CallbackPosition::Condition(at) => at == place,
                CallbackPosition::Values => false,
            };
            lowered.push(if takes {
                self.function_argument(signature, argument)
            } else {
                hir::Argument::Value(self.expr(argument))
            });
        }
        lowered
    }

    /// An argument that must be a function: an arrow, or the name of a function.
    fn function_argument(&mut self, signature: &'static Signature, argument: &Expr) -> hir::Argument {
        let span = argument.span;
        let plays = matches!(signature.name, "mock" | "mockNexus" | "mockWorkflow");
        let id = match &argument.bare().kind {
            ExprKind::Arrow(arrow) => {
                let decides = signature
                    .params
                    .iter()
                    .any(|parameter| matches!(parameter.takes, Takes::Predicate | Takes::ConditionFunction));
                self.arrow(arrow, argument.bare().span, plays, decides)
            }
            ExprKind::Name(name) if matches!(self.lookup(name), Some(Binding::Function(_))) => {
                let Some(Binding::Function(id)) = self.resolve(name, argument.bare().span) else {
                    return null_argument(span);
                };
                self.note_call(id, span);
                if plays && !self.functions[id].is_async { self.arrow_around(id, span) } else { id }
            }
            ExprKind::Broken => return null_argument(span),
            _ => {
                let before = self.diagnostics.len();
                self.expr(argument);
                if self.diagnostics.len() == before {
                    let found = self.source_of(argument).split('\n').next().unwrap_or_default().to_owned();
                    self.error("F0101", format!("expected a function, found \"{found}\""), span);
                }
                return null_argument(span);
            }
        };
        if self.functions[id].is_async {
            // It becomes an async call for each element.
            self.note_effect(Level::Effect, span, None);
        }
        self.check_function_argument(signature, id, span);
        hir::Argument::Function(id)
    }

    fn check_function_argument(&mut self, signature: &'static Signature, id: hir::FunctionId, span: Span) {
        let info = &self.functions[id];
        let (is_async, least) = (info.is_async, info.arguments.0);
        if matches!(signature.takes, CallbackPosition::Condition(_)) {
            if info.kind == FunctionKind::Arrow {
                self.functions[id].effects.forbidden_in = Some("condition");
            } else {
                self.condition_calls(id, span);
            }
            if is_async || least > 0 {
                self.error("F0212", "no effects allowed in a condition", span);
            }
            return;
        }
        if is_async && !matches!(signature.takes, CallbackPosition::AsyncFunction(_)) {
            let hint = format!("{} takes no async function", signature.name);
            self.error_with("F0107", "functions are not values", span, Some(hint));
        }
        let given = match signature.name {
            "reduce" => 3,
            "mock" | "mockNexus" | "mockWorkflow" => ANY,
            _ => 2,
        };
        if least > given {
            let message = format!("the function given to {} takes {given} arguments, not {least}", signature.name);
            self.error("F0206", message, span);
        }
    }

    /// The name of a function as a condition: what it does counts as done by a condition of its own.
    fn condition_calls(&mut self, id: hir::FunctionId, span: Span) {
        let params = crate::syntax::tree::Params::default();
        let condition = self.add_function("(arrow)".into(), FunctionKind::Arrow, false, &params, span.start);
        self.functions[condition].effects.forbidden_in = Some("condition");
        self.functions[condition].effects.add_call(id, span);
    }

    fn check_count(&mut self, name: &str, least: usize, most: usize, given: usize, span: Span) {
        if given >= least && given <= most {
            return;
        }
        let takes = match (least, most) {
            (least, ANY) => format!("at least {least}"),
            (least, most) if least == most => format!("{least}"),
            (least, most) => format!("{least} to {most}"),
        };
        self.error("F0206", format!("{name} takes {takes} arguments, not {given}"), span);
    }

    /// Reports the result of a function without effects that is not used (F0216), and a wait that is not awaited
    /// (F0902).
    pub fn check_dropped(&mut self, call: &Expr, span: Span) {
        let ExprKind::Call { callee, .. } = &call.kind else { return };
        let signature = match &callee.bare().kind {
            ExprKind::Name(name) if self.lookup(name).is_none() => self.library_function(name).map(Function::signature),
            ExprKind::Field { base, key, .. } => match self.library_path(base, key) {
                Some(path) => self.library_function(&path).map(Function::signature),
                None => self.known_method(base, key),
            },
            _ => None,
        };
        let Some(signature) = signature else { return };
        if signature.effect != Effect::Effect {
            self.error("F0216", format!("the result of {} is dropped", signature.name), span);
        } else if matches!(signature.name, "Task.delay" | "Task.delayUntil" | "wait_for_signal" | "wait_until") {
            self.warning("F0902", "this wait has no effect without await", span);
        }
    }

    /// The function of a value, unless the value itself is not known.
    fn known_method(&self, base: &Expr, key: &Name) -> Option<&'static Signature> {
        let mut first = base.bare();
        while let ExprKind::Field { base, .. } | ExprKind::Index { base, .. } = &first.kind {
            first = base;
        }
        if let ExprKind::Name(name) = &first.kind
            && self.lookup(name).is_none()
        {
            return None;
        }
        index::method(&key.text).map(Method::signature)
    }

    /// `new Error(…)`.
    pub fn new_error(&mut self, name: &Name, arguments: &[Expr], expr: &Expr) -> hir::Expr {
        let at = expr.span.start;
        if &*name.text == "Error" {
            self.note_name(name.span, Meaning::Library(Function::Error));
            let arguments = self.library_arguments(Function::Error, arguments, name.span, expr.span);
            return hir::Expr { kind: Out::Call { callee: hir::Callee::Library(Function::Error), arguments }, at };
        }
        if self.lookup(&name.text).is_some() || self.is_library(&name.text) {
            self.error("F0101", format!("expected \"Error\", found \"{}\"", name.text), name.span);
        } else {
            self.unknown_function(&name.text, name.span);
        }
        self.quiet_arguments(arguments);
        hir::Expr { kind: Out::Null, at }
    }
}

fn null_argument(span: Span) -> hir::Argument {
    hir::Argument::Value(hir::Expr { kind: Out::Null, at: span.start })
}

/// Whether an expression is a name and a path without `?.`.
fn is_path(expr: &Expr) -> bool {
    let mut first = expr;
    while let ExprKind::Field { base, optional: false, .. } | ExprKind::Index { base, optional: false, .. } =
        &first.kind
    {
        first = base;
    }
    matches!(first.kind, ExprKind::Name(_))
}
