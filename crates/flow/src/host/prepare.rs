//! Makes test programs of a test file.
//!
//! `assertFails(promise, type?)` waits, which a function of the host cannot. It becomes a call of an async function that
//! is added to the program: `return assertFails(await Task.race([promise]), type, null)`, where the call with three
//! arguments is the host's.

use std::sync::Arc;

use crate::Code;
use crate::compile::code::{ClosureInfo, Op};
use crate::diagnostic::{Diagnostic, Position};
use crate::hir::{
    Argument, Block, Callee, Expr, ExprKind, Function, FunctionKind, ListItem, Param, Pattern, Program, Statement,
    StatementKind, Variable,
};
use crate::library::Function as LibraryFunction;

/// The name of the function that is added.
pub(super) const ASSERT_FAILS: &str = "assertFails";

/// Compiles a test file: a program for each test.
pub(super) fn programs(mut program: Program, file_name: &str) -> Result<Vec<(String, Code)>, Vec<Diagnostic>> {
    let with_type = [false, true].map(|has_type| add_assert_fails(&mut program, has_type));
    let mut code = crate::compile(&program, file_name)?;
    let closures = with_type.map(|function| {
        let function = u32::try_from(function).unwrap_or(u32::MAX);
        code.closures.push(ClosureInfo { function, sources: Vec::new() });
        u32::try_from(code.closures.len() - 1).unwrap_or(u32::MAX)
    });
    for op in &mut code.ops {
        match *op {
            Op::Library { function: LibraryFunction::AssertFails, arguments: 1 } => *op = Op::CallAsync(closures[0]),
            Op::Library { function: LibraryFunction::AssertFails, arguments: 2 } => *op = Op::CallAsync(closures[1]),
            _ => {}
        }
    }
    let tests = code.tests.clone();
    Ok(tests
        .into_iter()
        .map(|(name, function)| {
            let mut code = code.clone();
            code.name = Arc::clone(&name);
            code.workflow = Some(function);
            (name.to_string(), code)
        })
        .collect())
}

fn add_assert_fails(program: &mut Program, has_type: bool) -> usize {
    let at = Position::default();
    let owner = program.functions.len();
    let mut variable = |name: &str| {
        program.variables.push(Variable { name: name.into(), owner, captured: false, at });
        program.variables.len() - 1
    };
    let promise = variable("promise");
    let kind = has_type.then(|| variable("type"));
    let expr = |kind| Expr { kind, at };
    let call = |function, arguments| ExprKind::Call { callee: Callee::Library(function), arguments };
    let items = vec![ListItem::Item(expr(ExprKind::Variable(promise)))];
    let race = call(LibraryFunction::TaskRace, vec![Argument::Value(expr(ExprKind::List(items)))]);
    let outcome = expr(ExprKind::Await(Box::new(expr(race))));
    let wanted = expr(kind.map_or(ExprKind::Null, ExprKind::Variable));
    let arguments = vec![Argument::Value(outcome), Argument::Value(wanted), Argument::Value(expr(ExprKind::Null))];
    let result = expr(call(LibraryFunction::AssertFails, arguments));
    let params = [Some(promise), kind].into_iter().flatten();
    program.functions.push(Function {
        name: ASSERT_FAILS.into(),
        kind: FunctionKind::Function,
        is_async: true,
        parent: None,
        params: params.map(|variable| Param { pattern: Pattern::Variable(variable), default: None }).collect(),
        body: Block {
            variables: Vec::new(),
            statements: vec![Statement { kind: StatementKind::Return(Some(result)), at }],
        },
        at,
    });
    owner
}
