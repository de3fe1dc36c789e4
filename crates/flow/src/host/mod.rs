//! The test host: runs `*_test.flow` files without a server, in the same interpreter, with a clock that jumps whenever
//! everything waits.
//!
//! A test is async code; it is executed as the body of a run of its own ([`hook`]). The runs, signals and mocks of a
//! test are in a [`world`], which replaces the server. After a test, the runs it made are executed again with their
//! events grouped differently ([`verify`]): a difference is a defect of Segno and is reported as such.

pub(crate) mod hook;
mod operation;
mod prepare;
mod report;
mod run;
mod session;
mod task;
mod verify;
mod wake;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::interface::{Command, Event, EventKind, Limits, Start, Unpaced};

pub use report::{Report, TestResult};

use crate::machine::TestProgram;

use session::Session;
use world::{Script, World};

/// The type of the error of a failed assertion.
const ASSERTION: &str = "AssertionError";

/// Events of a test program after which it is given up: something in it goes on for ever.
const EVENTS_MAX: u64 = 1_000_000;

/// How reports of defects begin.
const DEFECT: &str = "defect of Segno, please report it: ";

/// Runs the tests of a file.
///
/// `load` gives the source of the script at a path of `use`, relative to the test file. `filter` is a part of the names of
/// the tests to run; empty for all.
pub fn run_tests(
    source: &[u8],
    file_name: &str,
    load: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    filter: &str,
) -> Report {
    let mut report = Report::default();
    let checked = crate::check_test(source);
    add_errors(&mut report, &checked.diagnostics, file_name, source);
    let Some(program) = checked.program else { return report };
    let mut scripts = Vec::new();
    for path in &program.uses {
        match load(path) {
            Ok(source) => scripts.extend(compile_script(&mut report, path, &source)),
            Err(why) => report.errors.push(format!("{file_name}: cannot read \"{path}\": {why}")),
        }
    }
    let programs = match prepare::programs(program, file_name) {
        Ok(programs) => programs,
        Err(diagnostics) => {
            add_errors(&mut report, &diagnostics, file_name, source);
            return report;
        }
    };
    if report.errors.is_empty() {
        for (name, code) in programs {
            if name.contains(filter) {
                report.tests.push(run_test(name, &code, &scripts));
            }
        }
    }
    report
}

fn add_errors(report: &mut Report, diagnostics: &[Diagnostic], file_name: &str, source: &[u8]) {
    let source = String::from_utf8_lossy(source);
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    report.errors.extend(errors.map(|diagnostic| crate::render(diagnostic, file_name, &source)));
}

fn compile_script(report: &mut Report, path: &str, source: &[u8]) -> Option<(Arc<Code>, String)> {
    let checked = crate::check(source);
    let file_name = path.rsplit('/').next().unwrap_or(path);
    add_errors(report, &checked.diagnostics, path, source);
    match crate::compile(&checked.program?, file_name) {
        Ok(code) => Some((Arc::new(code), crate::version(source))),
        Err(diagnostics) => {
            add_errors(report, &diagnostics, path, source);
            None
        }
    }
}

fn run_test(name: String, code: &Code, scripts: &[(Arc<Code>, String)]) -> TestResult {
    let scripts = scripts.iter().map(|(code, version)| Script { code: Arc::clone(code), version: version.clone() });
    let world = Rc::new(RefCell::new(World::new(scripts.collect(), &name)));
    let mut failure = execute(code, &world, &name).err();
    let mut is_defect = failure.as_ref().is_some_and(|failure| failure.starts_with(DEFECT));
    let world = world.borrow();
    for run in &world.runs {
        let script = run.script.and_then(|script| world.scripts.get(script));
        if is_defect {
            break;
        }
        if let (Some(script), Some(state)) = (script, &run.state)
            && let Err(difference) = verify::check(&script.code, &run.turns, state, &run.start.run_id)
        {
            is_defect = true;
            failure = Some(format!("{DEFECT}{difference}"));
        }
    }
    TestResult { name, failure, is_defect }
}

/// Executes a test. The error says why it failed.
fn execute(code: &Code, world: &Rc<RefCell<World>>, name: &str) -> Result<(), String> {
    let (limits, mut pace) = (Limits::default(), Unpaced);
    let mut session = Session { world: Rc::clone(world) };
    let mut program = TestProgram::new(code, &limits, &mut pace, &mut session);
    let started_at = world.borrow().now;
    let start = Start { run_id: format!("test {name}"), name: name.to_owned(), started_at, ..Start::default() };
    let mut event = EventKind::Started(Box::new(start));
    for _ in 0..EVENTS_MAX {
        let time = world.borrow().now;
        let commands = program.take(&Event { time, kind: event }).map_err(|error| format!("{DEFECT}{error:?}"))?;
        let mut world = world.borrow_mut();
        for command in commands {
            match command {
                Command::StartTimer { id, duration } => world.start_test_timer(id, duration),
                Command::CancelTimer { id } => world.cancel_test_timer(&id),
                Command::EndUpdate { id, end } => world.mock_ended(&id, end),
                Command::Complete { .. } => return world.problem.take().map_or(Ok(()), Err),
                Command::Fail { failure } => {
                    return Err(world.problem.take().unwrap_or_else(|| report::of_failure(&failure)));
                }
                other => return Err(format!("a test cannot do this: {other:?}")),
            }
        }
        match world.next() {
            Some(next) => event = next,
            None => return Err(world.problem.take().unwrap_or_else(|| waits(&program.stack()))),
        }
    }
    Err("the test does not end".to_owned())
}

/// Nothing is left to happen, and the test still waits.
fn waits(stack: &str) -> String {
    let position = report::position(stack).map_or_else(String::new, |position| format!("{position}: "));
    format!("{position}the test waits for something that never happens")
}
