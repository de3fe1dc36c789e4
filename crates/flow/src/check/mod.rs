//! The checker: resolves names, reports every error that can be known before running, and lowers the syntax tree to
//! [`hir`].
//!
//! Each function of the tree is walked once, statement by statement, while its `hir` is built. Checks that need all
//! functions (effects of called functions, names that are never read) come at the end. An error is reported once: a
//! harmless `hir` replaces the faulty part.

mod call;
mod effects;
mod expression;
mod file;
mod function;
mod hints;
mod index;
mod literal;
mod pattern;
mod scope;
mod statement;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Severity};
use crate::hir;
use crate::names::{Meaning, NameUse};
use crate::syntax::parser::{FileKind, parse};
use crate::syntax::token::Span;
use crate::syntax::{decode, tree};

/// How many errors are reported.
const ERRORS_MAX: usize = 50;

/// What checking gives.
#[derive(Clone, Debug, Default)]
pub struct CheckOutput {
    /// The script. `None` if there are errors.
    pub program: Option<hir::Program>,
    /// Errors, at most 50; without errors, warnings. In the order of the source.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks a script.
#[must_use]
pub fn check(source: &[u8]) -> CheckOutput {
    check_file(source, FileKind::Script)
}

/// Checks a test file (section 9 of the reference).
#[must_use]
pub fn check_test(source: &[u8]) -> CheckOutput {
    check_file(source, FileKind::Test)
}

/// A file whose names are resolved. Where there are errors, a harmless `hir` replaces the faulty part.
pub(crate) struct ResolvedFile {
    pub program: hir::Program,
    /// In no order.
    pub diagnostics: Vec<Diagnostic>,
    /// Names that were resolved, in no order; some are there twice.
    pub names: Vec<NameUse>,
}

impl ResolvedFile {
    /// Whether there are errors.
    pub fn has_failed(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Sorts what was found; of two errors at one place the one reported first stays.
    pub fn finish(mut self) -> CheckOutput {
        let failed = self.has_failed();
        if failed {
            self.diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
        }
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.start);
        self.diagnostics.dedup_by_key(|diagnostic| diagnostic.start);
        self.diagnostics.truncate(ERRORS_MAX);
        CheckOutput { program: (!failed).then_some(self.program), diagnostics: self.diagnostics }
    }
}

fn check_file(source: &[u8], kind: FileKind) -> CheckOutput {
    match decode(source) {
        Ok(source) => resolve(&source, kind).finish(),
        Err(diagnostic) => CheckOutput { program: None, diagnostics: vec![diagnostic] },
    }
}

/// Resolves the names of a file, and finds every error but those of types.
pub(crate) fn resolve(source: &str, kind: FileKind) -> ResolvedFile {
    let parsed = parse(source, kind);
    let mut checker = Checker {
        source,
        kind,
        broken: parsed.file.broken.clone(),
        diagnostics: parsed.diagnostics,
        functions: Vec::new(),
        variables: Vec::new(),
        constants: Vec::new(),
        scopes: Vec::new(),
        contexts: Vec::new(),
        handlers: Vec::new(),
        signals: BTreeSet::new(),
        declared_functions: HashMap::new(),
        dropped: None,
        names: Vec::new(),
    };
    let program = checker.program(&parsed.file);
    ResolvedFile { program, diagnostics: checker.diagnostics, names: checker.names }
}

struct Checker<'a> {
    source: &'a str,
    kind: FileKind,
    /// Words of statements with syntax errors.
    broken: BTreeSet<Arc<str>>,
    diagnostics: Vec<Diagnostic>,
    functions: Vec<function::FunctionInfo>,
    variables: Vec<scope::VariableInfo>,
    constants: Vec<scope::ConstantInfo>,
    scopes: Vec<scope::Scope>,
    /// Functions whose bodies are being walked, the innermost last.
    contexts: Vec<function::Context>,
    handlers: Vec<hir::Handler>,
    /// Names of signals that have a handler.
    signals: BTreeSet<Arc<str>>,
    /// Functions by the offset where they begin; only looked up.
    declared_functions: HashMap<u32, hir::FunctionId>,
    /// The call that is a statement of its own, while it is walked.
    dropped: Option<Span>,
    names: Vec<NameUse>,
}

impl Checker<'_> {
    fn error(&mut self, code: &'static str, message: impl Into<String>, span: Span) {
        self.error_with(code, message, span, None::<String>);
    }

    fn error_with(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        span: Span,
        hint: Option<impl Into<String>>,
    ) {
        self.diagnostics.push(Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            start: span.start,
            end: span.end,
            hint: hint.map(Into::into),
        });
    }

    fn warning(&mut self, code: &'static str, message: impl Into<String>, span: Span) {
        self.error(code, message, span);
        if let Some(last) = self.diagnostics.last_mut() {
            last.severity = Severity::Warning;
        }
    }

    /// Notes what a name means.
    fn note_name(&mut self, span: Span, meaning: Meaning) {
        self.names.push(NameUse::new(span, meaning));
    }

    /// The source of an expression, for messages.
    fn source_of(&self, expr: &tree::Expr) -> &str {
        self.source.get(expr.span.range()).unwrap_or_default()
    }
}
