//! Files: constants, functions, the workflow, tests, and checks that need the whole file.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Checker;
use super::scope::{Binding, ConstantInfo, Origin};
use crate::hir::{self, FunctionKind};
use crate::library;
use crate::syntax::parser::FileKind;
use crate::syntax::token::Span;
use crate::syntax::tree::{Constant, File, Item, Params, Schedule, Statement, StatementKind, Workflow};

impl Checker<'_> {
    /// Checks a file and lowers it. What it gives is of use only if there was no error.
    pub fn program(&mut self, file: &File) -> hir::Program {
        self.enter();
        self.declare_items(file);
        let mut schedule = None;
        let mut uses = Vec::new();
        let mut constants = 0;
        for item in &file.items {
            match item {
                Item::Constant(constant) => {
                    let value = self.constant_expr(&constant.value);
                    self.constants[constants].value = value;
                    self.constants[constants].ready = true;
                    constants += 1;
                }
                Item::Schedule(item) if schedule.is_some() => {
                    self.error("F0209", "\"schedule\" is there twice", item.span);
                }
                Item::Schedule(item) => schedule = Some(self.schedule(item)),
                Item::Use(path, _) => uses.push(path.text.clone()),
                _ => {}
            }
        }
        for item in &file.items {
            if let Item::Function(function) = item {
                self.lower_function(function);
            }
        }
        let (name, workflow) = self.workflow(file);
        let tests = self.tests(file);
        self.leave();
        self.report_effects();
        self.report_unused();
        hir::Program {
            name,
            schedule,
            constants: std::mem::take(&mut self.constants)
                .into_iter()
                .map(|constant| hir::Constant { name: constant.name, value: constant.value })
                .collect(),
            functions: std::mem::take(&mut self.functions)
                .into_iter()
                .map(|function| hir::Function {
                    name: function.name,
                    kind: function.kind,
                    is_async: function.is_async,
                    parent: function.parent,
                    params: function.params,
                    body: function.body,
                    at: function.at,
                })
                .collect(),
            variables: std::mem::take(&mut self.variables)
                .into_iter()
                .map(|variable| hir::Variable {
                    name: variable.name,
                    owner: variable.owner,
                    captured: variable.captured,
                    at: variable.span.start,
                })
                .collect(),
            workflow,
            handlers: std::mem::take(&mut self.handlers),
            uses,
            tests,
        }
    }

    fn declare_items(&mut self, file: &File) {
        for item in &file.items {
            match item {
                Item::Constant(constant) => self.declare_constant(constant),
                Item::Function(function) => self.declare_function(function),
                Item::Workflow(workflow) => self.collect_signals(&workflow.body.statements),
                _ => {}
            }
        }
    }

    fn collect_signals(&mut self, statements: &[Statement]) {
        for statement in statements {
            if let StatementKind::Handler(handler) = &statement.kind
                && handler.kind == crate::syntax::tree::HandlerKind::Signal
            {
                self.signals.insert(handler.name.text.clone());
            }
        }
    }

    fn declare_constant(&mut self, constant: &Constant) {
        let name = &constant.name;
        self.refuse_library_name(&name.text, name.span);
        let id = self.constants.len();
        let value = hir::Expr { kind: hir::ExprKind::Null, at: constant.value.span.start };
        self.constants.push(ConstantInfo {
            name: name.text.clone(),
            span: name.span,
            ready: false,
            read: false,
            value,
        });
        self.note_binding(Binding::Constant(id), name.span);
        let Some(scope) = self.scopes.last_mut() else { return };
        match scope.names.get(&name.text).copied() {
            None => {
                scope.names.insert(name.text.clone(), Binding::Constant(id));
            }
            Some(before) => {
                let message = format!("\"{}\" is declared already (line {})", name.text, self.line_of(before));
                self.error("F0203", message, name.span);
            }
        }
    }

    fn schedule(&mut self, schedule: &Schedule) -> hir::Schedule {
        self.check_cron(&schedule.cron.text, schedule.cron.span);
        let options = schedule.options.as_ref().map(|options| {
            self.check_options(options, library::SCHEDULE);
            self.constant_expr(options)
        });
        hir::Schedule { cron: schedule.cron.text.clone(), options }
    }

    fn workflow(&mut self, file: &File) -> (Arc<str>, Option<hir::FunctionId>) {
        let mut workflows = file.items.iter().filter_map(|item| match item {
            Item::Workflow(workflow) => Some(workflow),
            _ => None,
        });
        let Some(workflow) = workflows.next() else {
            if self.kind == FileKind::Script && !file.broken_item && self.diagnostics.is_empty() {
                let start = crate::diagnostic::Position { line: 1, column: 1 };
                let end = crate::diagnostic::Position { line: 1, column: 2 };
                self.error("F0103", "there is no workflow in this file", Span { start, end, from: 0, to: 0 });
            }
            return (Arc::from(""), None);
        };
        for other in workflows {
            self.error("F0104", "one workflow per file", other.span);
        }
        (workflow.name.text.clone(), Some(self.workflow_body(workflow)))
    }

    fn workflow_body(&mut self, workflow: &Workflow) -> hir::FunctionId {
        let name = workflow.name.text.clone();
        let id = self.add_function(name, FunctionKind::Workflow, true, &workflow.params, workflow.span.start);
        self.function_body(id, &workflow.params, &workflow.body.statements);
        id
    }

    /// Declares the functions in the outermost block of the workflow.
    pub fn hoist_functions(&mut self, statements: &[Statement]) {
        for statement in statements {
            if let StatementKind::Function(function) = &statement.kind {
                self.declare_function(function);
            }
        }
    }

    fn tests(&mut self, file: &File) -> Vec<(Arc<str>, hir::FunctionId)> {
        let mut tests: Vec<(Arc<str>, hir::FunctionId)> = Vec::new();
        for item in &file.items {
            let Item::Test(test) = item else { continue };
            let name = &test.name;
            if tests.iter().any(|(before, _)| *before == name.text) {
                self.error("F0209", format!("\"{}\" is there twice", name.text), name.span);
            }
            let params = Params::default();
            let id = self.add_function(name.text.clone(), FunctionKind::Test, true, &params, test.span.start);
            self.function_body(id, &params, &test.body.statements);
            tests.push((name.text.clone(), id));
        }
        tests
    }

    /// Warnings about what is not read.
    fn report_unused(&mut self) {
        // The parameters of an update are also those of its validator: two variables at one place.
        let mut used = HashSet::new();
        // A parameter of an arrow cannot be left out if a later one is used.
        let mut last_used = HashMap::new();
        for variable in &self.variables {
            if variable.origin == Origin::Parameter && (variable.read || variable.assigned) {
                used.insert(variable.span.from);
                let last = last_used.entry(variable.owner).or_insert(0);
                *last = variable.span.from.max(*last);
            }
        }
        let mut found = Vec::new();
        for constant in &self.constants {
            if !constant.read {
                found.push(("F0901", format!("\"{}\" is never read", constant.name), constant.span));
            }
        }
        for variable in &self.variables {
            let (name, span) = (&variable.name, variable.span);
            let is_arrow = self.functions[variable.owner].kind == FunctionKind::Arrow;
            let is_needed = is_arrow && last_used.get(&variable.owner).is_some_and(|last| *last > span.from);
            match variable.origin {
                _ if variable.quiet => {}
                Origin::Let | Origin::Const | Origin::Assigned if !variable.read => {
                    found.push(("F0901", format!("\"{name}\" is never read"), span));
                }
                Origin::Parameter if !is_needed && !used.contains(&span.from) => {
                    found.push(("F0903", format!("parameter \"{name}\" is never used"), span));
                }
                _ => {}
            }
        }
        for (code, message, span) in found {
            self.warning(code, message, span);
        }
    }
}
