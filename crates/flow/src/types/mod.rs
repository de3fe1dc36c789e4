//! Types of scripts: what is known about values before running, and errors about values that can never work.
//!
//! Nothing is declared. Types follow from literals, operators, the library, fields of literals, and tests such as
//! `x == null` and `typeof x == "string"`. An error is reported only where *every* value that can reach the place fails there;
//! what comes from outside is unknown, and unknown is never an error. `docs/internals/decisions/050-types-of-scripts.md` says
//! why, and what is left out.
//!
//! The files: `kind` and `value_type` are types themselves, `environment` those of variables, `pass` walks a program, with
//! `statement`, `expression`, `operator`, `access`, `call` and `narrow`; `tokens` finds places in the source.
//!
//! Time and memory are proportional to the source: types have a limited size, and each construct is walked twice (`pass`).

mod access;
mod call;
mod environment;
mod expression;
mod kind;
mod narrow;
mod operator;
mod pass;
mod report;
mod statement;
mod tokens;
mod value_type;

use crate::check::{CheckOutput, resolve};
use crate::diagnostic::{Diagnostic, Position, Severity};
use crate::hir::Program;
use crate::names::Names;
use crate::syntax::decode;
use crate::syntax::parser::FileKind;

use pass::{Finding, Pass};
use tokens::Tokens;

pub use kind::Kinds;
pub use value_type::{Fields, Type};

/// What checking with types gives.
#[derive(Clone, Debug, Default)]
pub struct TypedCheck {
    /// The script. `None` if there are errors, also if they are errors about types alone.
    pub program: Option<Program>,
    /// As of [`crate::check`], with errors about types if there are no others.
    pub diagnostics: Vec<Diagnostic>,
    /// Types by place. Where the source has errors, of the parts that are in order.
    pub types: Types,
    /// What names mean, likewise.
    pub names: Names,
}

/// The types in a source, by place.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// In the order of the source, each place once.
    places: Vec<TypedPlace>,
}

/// A name, field, call or operator with its type.
#[derive(Clone, Debug)]
struct TypedPlace {
    start: Position,
    /// After its last character.
    end: Position,
    value: Type,
}

impl Types {
    /// The type of what stands at this place: of a variable, a constant, a field, the result of a call or an operator.
    #[must_use]
    pub fn at(&self, place: Position) -> Option<&Type> {
        let after = self.places.partition_point(|known| known.start <= place);
        let known = self.places.get(after.checked_sub(1)?)?;
        (place < known.end).then_some(&known.value)
    }
}

/// Checks a script and its types.
#[must_use]
pub fn check(source: &[u8]) -> TypedCheck {
    check_file(source, FileKind::Script)
}

/// Checks a test file and its types.
#[must_use]
pub fn check_test(source: &[u8]) -> TypedCheck {
    check_file(source, FileKind::Test)
}

fn check_file(source: &[u8], kind: FileKind) -> TypedCheck {
    let source = match decode(source) {
        Ok(source) => source,
        Err(diagnostic) => return TypedCheck { diagnostics: vec![diagnostic], ..TypedCheck::default() },
    };
    let mut resolved = resolve(&source, kind);
    let tokens = Tokens::new(&source);
    let (findings, places) = infer(&resolved.program);
    // After other errors, what stands in the place of faulty parts has no type of its own.
    if !resolved.has_failed() {
        resolved.diagnostics.extend(findings.into_iter().map(|finding| tokens.diagnostic(finding)));
    }
    let types = Types { places: tokens.typed(places) };
    let names = Names::new(std::mem::take(&mut resolved.names));
    let CheckOutput { program, diagnostics } = resolved.finish();
    TypedCheck { program, diagnostics, types, names }
}

/// Walks a program twice; see [`pass`].
fn infer(program: &Program) -> (Vec<Finding>, Vec<(Position, Type)>) {
    let mut first = Pass::new(program, None);
    first.run();
    let facts = first.gathered;
    let mut second = Pass::new(program, Some(&facts));
    second.run();
    (second.findings, second.places)
}

impl Tokens<'_> {
    fn diagnostic(&self, finding: Finding) -> Diagnostic {
        let Finding { code, message, at, hint } = finding;
        Diagnostic { code, severity: Severity::Error, message, start: at, end: self.end(at), hint }
    }

    fn typed(&self, mut places: Vec<(Position, Type)>) -> Vec<TypedPlace> {
        // Of several at one place the one noted first is the innermost.
        places.sort_by_key(|(at, _)| *at);
        places.dedup_by_key(|(at, _)| *at);
        let typed = |(start, value)| TypedPlace { start, end: self.end(start), value };
        places.into_iter().map(typed).collect()
    }
}
