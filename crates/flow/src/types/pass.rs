//! A walk over a program that computes types. It is done twice.
//!
//! The first walk knows nothing about variables that loops, other functions or inner changes may change. It gathers, for each
//! variable, what is ever assigned to it, and for each function what it returns. The second walk uses that where the first
//! knew nothing, and it is the one that reports errors. Each construct is walked once in each of them.

use crate::diagnostic::Position;
use crate::hir::{FunctionId, FunctionKind, Program, VariableId};

use super::environment::{Branch, Environment};
use super::kind::Kinds;
use super::value_type::Type;

/// An error that a walk found.
pub(super) struct Finding {
    pub code: &'static str,
    pub message: String,
    pub at: Position,
    pub hint: Option<String>,
}

/// What is known about a variable, wherever it is read.
#[derive(Clone)]
pub(super) struct VariableFacts {
    /// Everything that is assigned to it.
    pub holds: Type,
    /// Whether it is assigned as a whole after its declaration, or declared by that.
    pub is_assigned: bool,
    /// Whether a declaration gives it its first value. Others are null until then.
    pub is_declared: bool,
    /// Whether something inside of it is changed.
    pub is_changed_inside: bool,
}

/// What a walk gathers about a whole program.
pub(super) struct Facts {
    pub variables: Vec<VariableFacts>,
    /// What functions return; a promise for async ones.
    pub functions: Vec<Type>,
}

/// A walk.
pub(super) struct Pass<'p> {
    pub program: &'p Program,
    /// What the walk before gathered.
    known: Option<&'p Facts>,
    pub gathered: Facts,
    /// Variables, and behind them constants.
    pub types: Environment,
    /// The function that is walked and the arrows in it, the innermost last.
    frames: Vec<FunctionId>,
    /// Whether this code is never reached.
    pub is_dead: bool,
    /// How many `try` with a `catch` are around this code. What fails in them is caught, perhaps on purpose.
    pub catches: usize,
    /// What the innermost function returns so far.
    pub returns: Type,
    /// Loops and switches around this code, and whether a `break` leaves them.
    pub breaks: Vec<bool>,
    pub findings: Vec<Finding>,
    /// Types of names, fields and calls by the place of their token.
    pub places: Vec<(Position, Type)>,
}

impl<'p> Pass<'p> {
    pub fn new(program: &'p Program, known: Option<&'p Facts>) -> Self {
        let nothing =
            VariableFacts { holds: Type::NEVER, is_assigned: false, is_declared: false, is_changed_inside: false };
        Self {
            program,
            known,
            gathered: Facts {
                variables: vec![nothing; program.variables.len()],
                functions: vec![Type::UNKNOWN; program.functions.len()],
            },
            types: Environment::new(program.variables.len() + program.constants.len()),
            frames: Vec::new(),
            is_dead: false,
            catches: 0,
            returns: Type::NEVER,
            breaks: Vec::new(),
            findings: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Walks the whole program.
    pub fn run(&mut self) {
        for (number, constant) in self.program.constants.iter().enumerate() {
            let value = self.expr(&constant.value);
            self.types.set(self.constant_place(number), value);
        }
        if let Some(options) = self.program.schedule.as_ref().and_then(|schedule| schedule.options.as_ref()) {
            self.expr(options);
        }
        for number in 0..self.program.functions.len() {
            if self.program.functions[number].kind != FunctionKind::Arrow {
                let (branch, returned) = self.body(number, &[]);
                drop(branch);
                if let Some(result) = self.gathered.functions.get_mut(number) {
                    *result = returned;
                }
            }
        }
    }

    /// Walks the body of a function that gets these arguments; others are not known. Gives what calling it gives.
    pub fn body(&mut self, number: FunctionId, arguments: &[Type]) -> (Branch, Type) {
        let Some(function) = self.program.functions.get(number) else {
            return (self.types.undo(self.types.begin(), false), Type::UNKNOWN);
        };
        let begin = self.types.begin();
        let was_dead = self.is_dead;
        let returns = std::mem::replace(&mut self.returns, Type::NEVER);
        let breaks = std::mem::take(&mut self.breaks);
        self.frames.push(number);
        for (place, param) in function.params.iter().enumerate() {
            let argument = arguments.get(place).cloned().unwrap_or(Type::UNKNOWN);
            self.bind_or(&param.pattern, argument, param.default.as_ref());
        }
        self.block(&function.body);
        self.frames.pop();
        self.breaks = breaks;
        let mut returned = std::mem::replace(&mut self.returns, returns);
        if !self.is_dead {
            returned = returned.or_null();
        }
        let branch = self.types.undo(begin, self.is_dead);
        self.is_dead = was_dead;
        if function.is_async {
            returned = Type::promise(super::access::awaited(&returned));
        }
        (branch, returned)
    }

    /// What calling a function of the script gives.
    pub fn result_of(&self, number: FunctionId) -> Type {
        let known = self.known.and_then(|known| known.functions.get(number)).cloned();
        known.unwrap_or_else(|| match self.program.functions.get(number) {
            Some(function) if function.is_async => Type::promise(Type::UNKNOWN),
            _ => Type::UNKNOWN,
        })
    }

    /// Walks code that may be skipped. Its changes are undone; see [`Pass::join`].
    pub fn branch(&mut self, walk: impl FnOnce(&mut Self)) -> Branch {
        let was_dead = self.is_dead;
        let begin = self.types.begin();
        walk(self);
        let branch = self.types.undo(begin, self.is_dead);
        self.is_dead = was_dead;
        branch
    }

    /// Goes on after one of these branches.
    pub fn join(&mut self, branches: &[Branch]) {
        if branches.iter().all(|branch| branch.is_dead) {
            self.is_dead = true;
        } else {
            self.types.join(branches);
        }
    }

    /// The place of a constant among the types.
    pub fn constant_place(&self, constant: usize) -> usize {
        self.program.variables.len() + constant
    }

    fn facts(&self, variable: VariableId) -> Option<&VariableFacts> {
        self.known.and_then(|known| known.variables.get(variable))
    }

    /// Whether what is known about a variable here still holds after other code has run.
    pub fn is_followed(&self, variable: VariableId) -> bool {
        let Some(info) = self.program.variables.get(variable) else { return false };
        let is_assigned = self.facts(variable).is_none_or(|facts| facts.is_assigned);
        self.frames.contains(&info.owner) && !(info.captured && is_assigned)
    }

    /// The type of a variable that is read here.
    pub fn variable(&self, variable: VariableId) -> Type {
        if self.is_followed(variable) { self.types.get(variable) } else { self.anywhere(variable) }
    }

    /// All that a variable may hold, at any place of the program.
    pub fn anywhere(&self, variable: VariableId) -> Type {
        let Some(facts) = self.facts(variable) else { return Type::UNKNOWN };
        let holds = if facts.is_changed_inside { facts.holds.without_parts() } else { facts.holds.clone() };
        let is_own = self.program.variables.get(variable).is_some_and(|info| self.frames.contains(&info.owner));
        // Code of the same function cannot use a declared variable before its declaration.
        if facts.is_declared && is_own { holds } else { holds.or_null() }
    }

    /// A variable gets a value as a whole.
    pub fn assign(&mut self, variable: VariableId, value: Type, is_declaration: bool) {
        if let Some(facts) = self.gathered.variables.get_mut(variable) {
            facts.holds = facts.holds.join(&value);
            facts.is_declared |= is_declaration;
            facts.is_assigned |= !is_declaration;
        }
        let keeps_parts = self.facts(variable).is_some_and(|facts| !facts.is_changed_inside);
        self.types.set(variable, if keeps_parts { value } else { value.without_parts() });
    }

    /// Something inside of a variable is changed.
    pub fn change_inside(&mut self, variable: VariableId) {
        if let Some(facts) = self.gathered.variables.get_mut(variable) {
            facts.is_changed_inside = true;
        }
    }

    /// Before a loop: a variable may already hold what a later round assigns.
    pub fn widen(&mut self, variable: VariableId) {
        let value = self.types.get(variable).join(&self.anywhere(variable));
        self.types.set(variable, value);
    }

    /// Whether a value that must be of some kinds is of none of them.
    pub fn is_wrong(&self, value: &Type, wanted: Kinds) -> bool {
        !value.is_never() && !value.kinds().has(wanted)
    }

    /// Reports an error. Nothing follows from what is wrong.
    pub fn error(&mut self, code: &'static str, message: impl Into<String>, at: Position, hint: Option<&str>) -> Type {
        if !self.is_dead && self.catches == 0 && self.known.is_some() {
            self.findings.push(Finding { code, message: message.into(), at, hint: hint.map(str::to_owned) });
        }
        Type::UNKNOWN
    }

    /// Notes the type of what stands here.
    pub fn note(&mut self, at: Position, value: &Type) {
        if self.known.is_some() {
            self.places.push((at, value.clone()));
        }
    }
}
