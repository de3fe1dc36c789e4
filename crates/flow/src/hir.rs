//! A checked script: names are resolved, every construct is legal. The checker makes it, the compiler reads it.

use std::sync::Arc;

use crate::diagnostic::Position;
use crate::library::{Function as LibraryFunction, Method};

/// The number of a function in [`Program::functions`].
pub type FunctionId = usize;
/// The number of a variable in [`Program::variables`].
pub type VariableId = usize;
/// The number of a constant in [`Program::constants`].
pub type ConstantId = usize;

/// A whole file: a script or a test file.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The name of the workflow. Empty for a test file.
    pub name: Arc<str>,
    /// `schedule(…)` of the file.
    pub schedule: Option<Schedule>,
    /// Constants of the file, in order; each uses earlier ones only.
    pub constants: Vec<Constant>,
    /// All functions: of the file, of the workflow, handlers, validators, arrows, tests.
    pub functions: Vec<Function>,
    /// All variables of all functions.
    pub variables: Vec<Variable>,
    /// The body of the workflow. `None` for a test file.
    pub workflow: Option<FunctionId>,
    /// Handlers in order of declaration.
    pub handlers: Vec<Handler>,
    /// Paths of `use`, for a test file.
    pub uses: Vec<Arc<str>>,
    /// Tests of a test file, with their names.
    pub tests: Vec<(Arc<str>, FunctionId)>,
}

/// `schedule(…)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Temporal's cron text.
    pub cron: Arc<str>,
    /// The options, constants only: `zone`, `input`, `queue`.
    pub options: Option<Expr>,
}

/// `const NAME = …` of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its name.
    pub name: Arc<str>,
    /// Literals, operators and earlier constants.
    pub value: Expr,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: Arc<str>,
    /// The function that declares it.
    pub owner: FunctionId,
    /// Whether another function uses it (an arrow, an inner function, a handler).
    pub captured: bool,
    /// Where it is declared: its name there.
    pub at: Position,
}

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the language")]
pub enum FunctionKind {
    Workflow,
    Function,
    Arrow,
    Query,
    Signal,
    Update,
    Validate,
    Test,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name as stacks show it; `(arrow)` for arrows, that of the handler for a validator.
    pub name: Arc<str>,
    /// What it is.
    pub kind: FunctionKind,
    /// Whether it may await; calling it gives a promise.
    pub is_async: bool,
    /// The function in whose body it stands. Its variables may be used in here.
    pub parent: Option<FunctionId>,
    /// Parameters, in order. A validator has those of its update.
    pub params: Vec<Param>,
    /// The body. Variables that assignment declares belong to this block. For an arrow of an expression: one `return`.
    pub body: Block,
    /// Where it begins.
    pub at: Position,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// What it fills.
    pub pattern: Pattern,
    /// For a missing argument and for null.
    pub default: Option<Expr>,
}

/// A handler of the workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// [`FunctionKind::Query`], [`FunctionKind::Signal`] or [`FunctionKind::Update`].
    pub kind: FunctionKind,
    /// Its name from outside.
    pub name: Arc<str>,
    /// Its body.
    pub function: FunctionId,
    /// `validate` of an update.
    pub validate: Option<FunctionId>,
}

/// Where a value goes that is taken apart.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// All of it into a variable.
    Variable(VariableId),
    /// `[a, b = 1, ...rest]`.
    List {
        /// Elements by place, with their defaults.
        items: Vec<(Pattern, Option<Expr>)>,
        /// What is left.
        rest: Option<VariableId>,
        /// Where it begins.
        at: Position,
    },
    /// `{ a, b: c = 1, ...rest }`.
    Object {
        /// Fields by key, with their defaults.
        fields: Vec<(Arc<str>, Pattern, Option<Expr>)>,
        /// What is left.
        rest: Option<VariableId>,
        /// Where it begins.
        at: Position,
    },
}

/// Statements with the variables they declare. When a block ends, its variables are gone; each round of a loop has its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Variables that live in this block. They are null when it begins. (Parameters are not among them.)
    pub variables: Vec<VariableId>,
    /// The statements.
    pub statements: Vec<Statement>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// Where it begins.
    pub at: Position,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the words of the language")]
pub enum StatementKind {
    Block(Block),
    /// `let` and `const`; without a value null.
    Let {
        pattern: Pattern,
        value: Option<Expr>,
    },
    /// `x.y = e`.
    Assign {
        target: Target,
        value: Expr,
    },
    /// `x += e`, also `x++` and `x--` (with the value 1).
    Change {
        target: Target,
        operator: Binary,
        value: Expr,
    },
    /// `x ??= e`.
    Default {
        target: Target,
        value: Expr,
    },
    Delete(Target),
    /// `if` and any number of `else if`.
    If {
        arms: Vec<Arm>,
        otherwise: Option<Block>,
    },
    While {
        condition: Expr,
        body: Block,
    },
    /// The pattern's variables are among those of the block.
    ForOf {
        pattern: Pattern,
        list: Expr,
        body: Block,
    },
    /// `variables` are declared by `first`; each round has its own copy of them.
    For {
        variables: Vec<VariableId>,
        first: Option<Box<Statement>>,
        condition: Option<Expr>,
        next: Option<Box<Statement>>,
        body: Block,
    },
    Switch {
        value: Expr,
        cases: Vec<Case>,
    },
    Try {
        body: Block,
        catch: Option<Catch>,
        finally: Option<Block>,
    },
    Throw(Expr),
    /// In async code a returned promise is awaited (by the compiler).
    Return(Option<Expr>),
    /// Leaves the innermost loop or switch.
    Break,
    Continue,
    Expr(Expr),
}

/// A condition of an `if` and what follows if it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The condition.
    pub condition: Expr,
    /// What follows.
    pub then: Block,
    /// Where its `if` begins.
    pub at: Position,
}

/// Cases with the same statements (stacked labels).
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The labels.
    pub labels: Vec<Expr>,
    /// Whether `default` is among them.
    pub is_default: bool,
    /// The statements. All cases of a switch share one scope in JavaScript; here each has its own.
    pub body: Block,
}

/// `catch`.
#[derive(Clone, Debug, PartialEq)]
pub struct Catch {
    /// Holds the error; also among the variables of the block.
    pub variable: Option<VariableId>,
    /// What follows.
    pub body: Block,
}

/// A variable and a path into its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The variable.
    pub variable: VariableId,
    /// The path; may be empty.
    pub path: Vec<Step>,
    /// Where it begins.
    pub at: Position,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `.name`.
    Field(Arc<str>),
    /// `[e]`.
    Index(Expr),
}

/// An expression.
#[derive(Debug, PartialEq)]
pub struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// Where errors of it are reported: for a call and an access the beginning of the name of the function or field, for
    /// an operator the beginning of the operator, otherwise its first token.
    pub at: Position,
}

impl Expr {
    /// What an access or a call of a function of a value is made on. There may be as many of them in a row as the source has
    /// room for, so code that walks over them does not use recursion.
    pub fn base(&self) -> Option<&Self> {
        match &self.kind {
            ExprKind::Field { base, .. }
            | ExprKind::Index { base, .. }
            | ExprKind::Call { callee: Callee::Method { receiver: base, .. }, .. } => Some(base),
            _ => None,
        }
    }

    fn base_mut(&mut self) -> Option<&mut Self> {
        match &mut self.kind {
            ExprKind::Field { base, .. }
            | ExprKind::Index { base, .. }
            | ExprKind::Call { callee: Callee::Method { receiver: base, .. }, .. } => Some(base),
            _ => None,
        }
    }

    const fn null(at: Position) -> Self {
        Self { kind: ExprKind::Null, at }
    }

    /// Without what it is made on.
    fn clone_alone(&self) -> Self {
        let base = Box::new(Self::null(self.at));
        let kind = match &self.kind {
            ExprKind::Field { key, access, .. } => ExprKind::Field { base, key: key.clone(), access: *access },
            ExprKind::Index { index, access, .. } => ExprKind::Index { base, index: index.clone(), access: *access },
            ExprKind::Call { callee: Callee::Method { method, access, .. }, arguments } => ExprKind::Call {
                callee: Callee::Method { receiver: base, method: *method, access: *access },
                arguments: arguments.clone(),
            },
            kind => kind.clone(),
        };
        Self { kind, at: self.at }
    }
}

impl Clone for Expr {
    fn clone(&self) -> Self {
        let mut steps = vec![self];
        while let Some(base) = steps.last().and_then(|step| step.base()) {
            steps.push(base);
        }
        let mut whole = Self::null(self.at);
        for step in steps.into_iter().rev() {
            let mut next = step.clone_alone();
            if let Some(base) = next.base_mut() {
                *base = whole;
            }
            whole = next;
        }
        whole
    }
}

impl Drop for Expr {
    fn drop(&mut self) {
        let take = |expr: &mut Self| {
            let at = expr.at;
            expr.base_mut().map(|base| std::mem::replace(base, Self::null(at)))
        };
        let mut base = take(self);
        while let Some(mut expr) = base {
            base = take(&mut expr);
        }
    }
}

/// What an expression computes.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the words of the language")]
pub enum ExprKind {
    Null,
    Bool(bool),
    Int(i64),
    /// Finite.
    Float(f64),
    Str(Arc<str>),
    Template(Vec<TemplatePart>),
    List(Vec<ListItem>),
    Object(Vec<ObjectItem>),
    Variable(VariableId),
    Constant(ConstantId),
    Field {
        base: Box<Expr>,
        key: Arc<str>,
        access: Access,
    },
    Index {
        base: Box<Expr>,
        index: Box<Expr>,
        access: Access,
    },
    /// Where an [`Access::Optional`] inside goes on when its base is null: this whole expression is null then.
    Chain(Box<Expr>),
    Call {
        callee: Callee,
        arguments: Vec<Argument>,
    },
    Await(Box<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Typeof(Box<Expr>),
    /// Operators that group to the left: `((first op right) op right) …`. The last access left of a `??` is
    /// [`Access::Soft`].
    Binary {
        first: Box<Expr>,
        rest: Vec<Operation>,
    },
    /// `a ? b : c ? d : e`.
    Conditional {
        arms: Vec<ConditionalArm>,
        otherwise: Box<Expr>,
    },
}

/// `condition ? then :`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalArm {
    /// The condition.
    pub condition: Expr,
    /// The value if it holds.
    pub then: Expr,
    /// Where the condition begins.
    pub at: Position,
}

/// An operator with two operands and its right one.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The operator.
    pub operator: Operator,
    /// Its right operand.
    pub right: Expr,
    /// Where the operator begins.
    pub at: Position,
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// One that computes its value from both.
    Binary(Binary),
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `??`.
    Default,
}

/// What a missing field, an index outside or a null base means (section 2.12 of the reference).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Errors.
    Plain,
    /// `?.`: null; a null base ends the chain.
    Optional,
    /// Last step left of `??`: missing is null, a null base is an error.
    Soft,
}

/// Part of a template.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TemplatePart {
    Text(Arc<str>),
    Expr(Expr),
}

/// An element of a list.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ListItem {
    Item(Expr),
    Spread(Expr),
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ObjectItem {
    Field(Arc<str>, Expr),
    /// `[key]: value`.
    Computed(Expr, Expr),
    Spread(Expr),
}

/// Who is called.
#[derive(Clone, Debug, PartialEq)]
pub enum Callee {
    /// A function of the script. The number of arguments is right; missing ones have defaults.
    Function(FunctionId),
    /// A function of the library.
    Library(LibraryFunction),
    /// A function of a value.
    Method {
        /// The value.
        receiver: Box<Expr>,
        /// The function.
        method: Method,
        /// `Optional` for `x?.f()`.
        access: Access,
    },
    /// A function that changes its receiver: `push`, `pop`, `shift`, `unshift`.
    Changing {
        /// What is changed.
        target: Target,
        /// The function.
        method: Method,
    },
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A value.
    Value(Expr),
    /// An arrow written there, or the name of a function.
    Function(FunctionId),
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}
