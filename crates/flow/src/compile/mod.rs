//! The compiler: a checked script ([`crate::hir`]) becomes instructions ([`Code`]).

mod captures;
pub(crate) mod code;
mod effect;
mod expression;
mod format;
mod function;
mod op_format;
mod pattern;
pub(crate) mod tree;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Position, Severity};
use crate::hir::{Block, Expr, Function, FunctionKind, Program, Statement, StatementKind, VariableId};
use crate::value::{Kind, Value};

pub use code::{CODE_FORMAT, Code, Schedule};
use code::{ClosureInfo, HandlerInfo, Literal, Place, TargetInfo};
pub use tree::CODE_BYTES_MAX;
use tree::{TreeError, Trees};

/// How deep the compiler follows nested constructs. The parser's limit is far below; chains of operators count too.
const DEPTH_MAX: u32 = 1_000;

/// Steps that all constants of a file may take together.
const CONSTANT_STEPS_MAX: u64 = 2_000_000;

/// Why a file cannot be compiled.
type CompileError = Box<Diagnostic>;

fn failed(code: &'static str, message: impl Into<String>, at: Position) -> CompileError {
    let end = Position { line: at.line, column: at.column + 1 };
    Box::new(Diagnostic { code, severity: Severity::Error, message: message.into(), start: at, end, hint: None })
}

fn too_deep(at: Position) -> CompileError {
    failed("F0008", "nested too deeply", at)
}

fn constant_too_large(why: &str, at: Position) -> CompileError {
    let mut failed = failed("F0009", format!("the constant is too large: {why}"), at);
    failed.hint = Some(format!("one constant has at most {} bytes as JSON", crate::pure::VALUE_BYTES_MAX));
    failed
}

fn too_large(at: Position) -> CompileError {
    failed("F0010", format!("the script with its constants is over {CODE_BYTES_MAX} bytes"), at)
}

/// Compiles a checked script. `file_name` is what stacks show.
///
/// # Errors
/// Constructs that are nested too deeply, constants that are too large, and a `schedule` whose options cannot be computed.
pub fn compile(program: &Program, file_name: &str) -> Result<Code, Vec<Diagnostic>> {
    Compiler::new(program, file_name).and_then(Compiler::compile).map_err(|failed| vec![*failed])
}

/// The variables that each function captures, in the order in which its code numbers them.
pub(crate) fn captures(program: &Program) -> Option<Vec<Vec<VariableId>>> {
    captures::analyze(program).ok()
}

/// Everything that functions share while they are compiled.
struct Compiler<'p> {
    program: &'p Program,
    captures: Vec<Vec<VariableId>>,
    /// Variables that some function captures.
    captured: BTreeSet<VariableId>,
    code: Code,
    strings: HashMap<Arc<str>, u32>,
    texts: HashMap<Arc<str>, u32>,
    /// Places of the variables of the workflow's frame, for handlers.
    workflow_places: BTreeMap<VariableId, Place>,
    /// Values of constants so far.
    values: Vec<Option<Value>>,
    /// Steps that constants may still take.
    steps: u64,
}

impl<'p> Compiler<'p> {
    fn new(program: &'p Program, file_name: &str) -> Result<Self, CompileError> {
        let captures = captures::analyze(program)?;
        let captured = captures.iter().flatten().copied().collect();
        let code = Code {
            name: program.name.clone(),
            file: file_name.into(),
            ops: Vec::new(),
            positions: Vec::new(),
            functions: Vec::new(),
            strings: Vec::new(),
            literals: Vec::new(),
            constants: Vec::new(),
            closures: Vec::new(),
            targets: Vec::new(),
            keys: Vec::new(),
            handlers: Vec::new(),
            workflow: program.workflow.map(index),
            root: Vec::new(),
            schedule: None,
            uses: program.uses.clone(),
            needs_attribute_types: false,
            tests: program.tests.iter().map(|(name, function)| (name.clone(), index(*function))).collect(),
        };
        let workflow_places = BTreeMap::new();
        let (strings, texts) = (HashMap::new(), HashMap::new());
        let (values, steps) = (Vec::new(), CONSTANT_STEPS_MAX);
        Ok(Self { program, captures, captured, code, strings, texts, workflow_places, values, steps })
    }

    fn compile(mut self) -> Result<Code, CompileError> {
        let program = self.program;
        self.root()?;
        for (number, function) in program.functions.iter().enumerate() {
            let captures = self.captures.get(number).cloned().unwrap_or_default();
            let info = function::compile(&mut self, number, function, captures)?;
            self.code.functions.push(info);
        }
        self.handlers()?;
        self.constants()?;
        self.code.complete();
        Ok(self.code)
    }

    /// Decides which cells of the workflow's frame handlers use. Done first, because the slots are needed when the
    /// workflow is compiled.
    fn root(&mut self) -> Result<(), CompileError> {
        let mut used = BTreeSet::new();
        for handler in &self.program.handlers {
            for function in [Some(handler.function), handler.validate].into_iter().flatten() {
                used.extend(self.captures.get(function).into_iter().flatten().copied());
            }
        }
        if let Some(workflow) = self.program.workflow {
            let at = self.program.functions.get(workflow).map_or_else(Position::default, |function| function.at);
            if self.captures.get(workflow).is_some_and(|captures| !captures.is_empty()) {
                return Err(failed("F0000", "the workflow captures variables", at));
            }
        }
        // Filled with slots when the workflow is compiled.
        self.workflow_places = used.into_iter().map(|variable| (variable, Place::Slot(u32::MAX))).collect();
        Ok(())
    }

    fn handlers(&mut self) -> Result<(), CompileError> {
        for handler in &self.program.handlers {
            let closure = self.handler_closure(handler.function)?;
            let validate = handler.validate.map(|function| self.handler_closure(function)).transpose()?;
            self.code.handlers.push(HandlerInfo { kind: handler.kind, name: handler.name.clone(), closure, validate });
        }
        Ok(())
    }

    fn handler_closure(&mut self, function: usize) -> Result<u32, CompileError> {
        let mut sources = Vec::new();
        for variable in self.captures.get(function).into_iter().flatten() {
            match self.workflow_places.get(variable) {
                Some(Place::Cell(slot)) => sources.push(Place::Cell(*slot)),
                _ => {
                    let at =
                        self.program.functions.get(function).map_or_else(Position::default, |function| function.at);
                    return Err(failed("F0000", "a handler uses a variable that the workflow does not keep", at));
                }
            }
        }
        Ok(self.closure(ClosureInfo { function: index(function), sources }))
    }

    /// Computes constants and the options of `schedule` by running them as functions without parameters.
    fn constants(&mut self) -> Result<(), CompileError> {
        let program = self.program;
        let mut trees = Trees::default();
        if trees.allocate(self.code.size()).is_err() {
            return Err(too_large(Position { line: 1, column: 1 }));
        }
        for constant in &program.constants {
            let at = constant.value.at;
            match self.evaluate(&constant.value)? {
                Ok(value) => {
                    let tree = trees.tree(&value);
                    self.values.push(Some(value));
                    self.code.constants.push(match tree {
                        Ok(tree) => Ok(tree),
                        Err(TreeError::NoConstant) => Err((Kind::Type, "no constant".to_owned())),
                        Err(TreeError::TooLarge) => return Err(too_large(at)),
                    });
                }
                Err(raised) if raised.kind == Kind::Limit => return Err(constant_too_large(&raised.message, at)),
                Err(raised) => {
                    self.values.push(None);
                    self.code.constants.push(Err((raised.kind, raised.message)));
                }
            }
        }
        if let Some(schedule) = &program.schedule {
            let mut compiled =
                Schedule { cron: schedule.cron.clone(), zone: String::new(), input: None, queue: String::new() };
            if let Some(options) = &schedule.options {
                let value = self.evaluate(options)?.map_err(|raised| failed("F0208", raised.message, options.at))?;
                let table = crate::library::SCHEDULE;
                let options_of = crate::pure::options::check("schedule", &value, table)
                    .map_err(|raised| failed("F0208", raised.message, options.at))?;
                for (name, value) in options_of {
                    match (name, &value) {
                        ("zone", Value::Str(text)) => compiled.zone = text.to_string(),
                        ("queue", Value::Str(text)) => compiled.queue = text.to_string(),
                        ("input", value) => {
                            let mut cost = crate::pure::Cost::default();
                            let json = crate::pure::json::write(value, &mut cost)
                                .map_err(|raised| failed("F0208", raised.message, options.at))?;
                            compiled.input = Some(json);
                        }
                        _ => {}
                    }
                }
            }
            self.code.schedule = Some(compiled);
        }
        Ok(())
    }

    fn evaluate(&mut self, expr: &Expr) -> Result<Result<Value, crate::value::LanguageError>, CompileError> {
        let (ops, functions) = (self.code.ops.len(), self.code.functions.len());
        let statement = Statement { kind: StatementKind::Return(Some(expr.clone())), at: expr.at };
        let function = Function {
            name: "(constant)".into(),
            kind: FunctionKind::Query,
            is_async: false,
            parent: None,
            params: Vec::new(),
            body: Block { variables: Vec::new(), statements: vec![statement] },
            at: expr.at,
        };
        let info = function::compile(self, functions, &function, Vec::new())?;
        self.code.functions.push(info);
        let value = crate::machine::evaluate(&self.code, index(functions), &mut self.values, &mut self.steps);
        self.code.functions.truncate(functions);
        self.code.ops.truncate(ops);
        self.code.positions.truncate(ops);
        Ok(value)
    }

    fn string(&mut self, text: &Arc<str>) -> u32 {
        if let Some(&number) = self.strings.get(text) {
            return number;
        }
        let number = index(self.code.strings.len());
        self.code.strings.push(text.clone());
        self.strings.insert(text.clone(), number);
        number
    }

    fn text(&mut self, text: &Arc<str>) -> u32 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.literal(Literal::Str(text.clone()));
        self.texts.insert(text.clone(), number);
        number
    }

    fn literal(&mut self, literal: Literal) -> u32 {
        self.code.literals.push(literal);
        index(self.code.literals.len() - 1)
    }

    fn closure(&mut self, closure: ClosureInfo) -> u32 {
        self.code.closures.push(closure);
        index(self.code.closures.len() - 1)
    }

    fn target(&mut self, target: TargetInfo) -> u32 {
        self.code.targets.push(target);
        index(self.code.targets.len() - 1)
    }
}

/// Numbers in code have 32 bits; source of 256 KiB cannot reach them.
fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
