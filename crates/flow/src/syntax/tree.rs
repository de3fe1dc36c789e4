//! The syntax tree, before names are resolved. Parentheses are kept for the formatter.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::token::Span;

/// A name or a key, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub text: Arc<str>,
    pub span: Span,
    /// Whether it is written as a string.
    pub quoted: bool,
}

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub items: Vec<Item>,
    /// Words of statements that could not be parsed. They may declare or use anything, so nothing is reported about them.
    pub broken: BTreeSet<Arc<str>>,
    /// Whether an item of the file itself could not be parsed.
    pub broken_item: bool,
}

/// A part of a file.
#[derive(Debug)]
pub(crate) enum Item {
    /// `use "…"`, and all of it.
    Use(Name, Span),
    Schedule(Schedule),
    Constant(Constant),
    Function(Function),
    Workflow(Workflow),
    Test(Test),
}

impl Item {
    pub fn span(&self) -> Span {
        match self {
            Self::Use(_, span) => *span,
            Self::Schedule(schedule) => schedule.span,
            Self::Constant(constant) => constant.span,
            Self::Function(function) => function.span,
            Self::Workflow(workflow) => workflow.span,
            Self::Test(test) => test.span,
        }
    }
}

/// `schedule("…", {…})`.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub cron: Name,
    pub options: Option<Expr>,
    pub span: Span,
}

/// `const NAME = …` of the file.
#[derive(Debug)]
pub(crate) struct Constant {
    pub name: Name,
    pub value: Expr,
    pub span: Span,
}

/// `workflow name(params) {…}`.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub name: Name,
    pub params: Params,
    pub body: Block,
    pub span: Span,
}

/// `test "…" {…}`.
#[derive(Debug)]
pub(crate) struct Test {
    pub name: Name,
    pub body: Block,
    pub span: Span,
}

/// `function f(params) {…}`.
#[derive(Debug)]
pub(crate) struct Function {
    pub is_async: bool,
    pub name: Name,
    pub params: Params,
    pub body: Block,
    pub span: Span,
}

/// The kinds of handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerKind {
    Query,
    Signal,
    Update,
}

/// `query name(params) {…}` and its kin.
#[derive(Debug)]
pub(crate) struct Handler {
    pub kind: HandlerKind,
    pub name: Name,
    pub params: Params,
    /// With the span of the word `validate`.
    pub validate: Option<(Span, Block)>,
    pub body: Block,
    pub span: Span,
}

/// Parameters in their brackets.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub items: Vec<Param>,
    pub span: Span,
}

/// A parameter.
#[derive(Debug)]
pub(crate) struct Param {
    pub pattern: Pattern,
    pub default: Option<Expr>,
}

/// What takes a value apart.
#[derive(Debug)]
pub(crate) enum Pattern {
    Name(Name),
    List { items: Vec<(Pattern, Option<Expr>)>, rest: Option<Name>, span: Span },
    Object { fields: Vec<PatternField>, rest: Option<Name>, span: Span },
}

impl Pattern {
    pub fn span(&self) -> Span {
        match self {
            Self::Name(name) => name.span,
            Self::List { span, .. } | Self::Object { span, .. } => *span,
        }
    }
}

/// `key`, `key = 1`, `key: pattern = 1`.
#[derive(Debug)]
pub(crate) struct PatternField {
    pub key: Name,
    /// `None`: a variable of the key's name.
    pub pattern: Option<Pattern>,
    pub default: Option<Expr>,
}

/// Statements in braces.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub statements: Vec<Statement>,
    /// With the braces.
    pub span: Span,
}

/// A statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub kind: StatementKind,
    pub span: Span,
}

/// What a statement is.
#[derive(Debug)]
pub(crate) enum StatementKind {
    Block(Block),
    Let(Let),
    /// `if` and any number of `else if`, in one node however many there are.
    If {
        /// At least one.
        arms: Vec<Arm>,
        otherwise: Option<Box<Statement>>,
    },
    While {
        condition: Expr,
        body: Box<Statement>,
    },
    ForOf {
        constant: bool,
        pattern: Pattern,
        list: Expr,
        body: Box<Statement>,
    },
    For {
        first: Option<Box<Statement>>,
        condition: Option<Expr>,
        next: Option<Box<Statement>>,
        body: Box<Statement>,
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
    Return(Option<Expr>),
    Break,
    Continue,
    /// The target is a name, or a path that begins with one.
    Delete(Expr),
    /// Likewise.
    Assign {
        target: Expr,
        operator: Assign,
        value: Expr,
    },
    /// `x++` and `x--`; likewise.
    Step {
        target: Expr,
        up: bool,
    },
    Expr(Expr),
    Empty,
    Function(Box<Function>),
    Handler(Box<Handler>),
    /// What could not be parsed.
    Broken,
}

/// `if (condition) then`.
#[derive(Debug)]
pub(crate) struct Arm {
    /// From its `if` to the end of the whole statement.
    pub span: Span,
    pub condition: Expr,
    pub then: Statement,
}

/// `let` and `const`.
#[derive(Debug)]
pub(crate) struct Let {
    pub constant: bool,
    pub items: Vec<(Pattern, Option<Expr>)>,
}

/// Assignment operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assign {
    Plain,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Default,
}

impl Assign {
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Plain, "="),
        (Self::Add, "+="),
        (Self::Subtract, "-="),
        (Self::Multiply, "*="),
        (Self::Divide, "/="),
        (Self::Remainder, "%="),
        (Self::Default, "??="),
    ];

    pub fn text(self) -> &'static str {
        Self::ALL.iter().find(|(operator, _)| *operator == self).map_or("=", |(_, text)| text)
    }
}

/// A label of a switch with the statements up to the next one.
#[derive(Debug)]
pub(crate) struct Case {
    /// `None`: `default`.
    pub label: Option<Expr>,
    pub statements: Vec<Statement>,
    pub span: Span,
}

impl Case {
    /// Whether it has statements. A `;` is none: the label is stacked on the next one.
    pub fn has_statements(&self) -> bool {
        self.statements.iter().any(|statement| !matches!(statement.kind, StatementKind::Empty))
    }
}

/// `catch (e) {…}`.
#[derive(Debug)]
pub(crate) struct Catch {
    pub name: Option<Name>,
    pub body: Block,
}

/// An expression.
#[derive(Debug)]
pub(crate) struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// How deep the tree below is. What stands in a row counts once.
    pub depth: u16,
}

/// What an expression is.
#[derive(Debug)]
pub(crate) enum ExprKind {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
    Template(Vec<TemplatePart>),
    Name(Arc<str>),
    Paren(Box<Expr>),
    List(Vec<ListItem>),
    Object(Vec<ObjectItem>),
    /// `new Name(…)`.
    New {
        name: Name,
        arguments: Vec<Expr>,
    },
    Field {
        base: Box<Expr>,
        key: Name,
        optional: bool,
    },
    Index {
        base: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
        bracket: Span,
    },
    Call {
        callee: Box<Expr>,
        arguments: Vec<Expr>,
    },
    Unary {
        operator: Unary,
        operand: Box<Expr>,
    },
    /// Operators that group to the left: `((first op right) op right) …`, in one node however many there are.
    Binary {
        first: Box<Expr>,
        rest: Vec<Operation>,
    },
    /// `a ? b : c ? d : e`, in one node however many there are: conditions with their values, and the value at the end.
    Conditional {
        /// At least one.
        arms: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Arrow(Box<Arrow>),
    /// What could not be parsed.
    Broken,
}

/// Accesses and calls in a row are as many as the source has room for. Without this, each would be dropped inside of the
/// next one, and the stack would not be enough.
impl Drop for Expr {
    fn drop(&mut self) {
        let mut base = take_base(self);
        while let Some(mut expr) = base {
            base = take_base(&mut expr);
        }
    }
}

/// Takes what is accessed or called out of an expression that is dropped.
fn take_base(expr: &mut Expr) -> Option<Expr> {
    match &mut expr.kind {
        ExprKind::Field { base, .. } | ExprKind::Index { base, .. } | ExprKind::Call { callee: base, .. } => {
            let nothing = Expr { kind: ExprKind::Null, span: base.span, depth: 0 };
            Some(std::mem::replace(&mut **base, nothing))
        }
        _ => None,
    }
}

impl Expr {
    /// Without parentheses around it.
    pub fn bare(&self) -> &Self {
        let mut expr = self;
        while let ExprKind::Paren(inner) = &expr.kind {
            expr = inner;
        }
        expr
    }
}

/// `x => x`, `async (a, b) => {…}`.
#[derive(Debug)]
pub(crate) struct Arrow {
    pub is_async: bool,
    pub params: Params,
    pub body: ArrowBody,
}

/// What follows `=>`.
#[derive(Debug)]
pub(crate) enum ArrowBody {
    Expr(Expr),
    Block(Block),
}

/// Part of a template.
#[derive(Debug)]
pub(crate) enum TemplatePart {
    Text(Arc<str>),
    Expr(Expr),
}

/// An element of a list.
#[derive(Debug)]
pub(crate) enum ListItem {
    Item(Expr),
    Spread(Expr),
}

/// A part of an object.
#[derive(Debug)]
pub(crate) enum ObjectItem {
    Field(Name, Expr),
    /// `{ name }`.
    Short(Name),
    Computed(Expr, Expr),
    Spread(Expr),
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Negate,
    Typeof,
    Await,
}

/// An operator with two operands and its right one.
#[derive(Debug)]
pub(crate) struct Operation {
    pub operator: Binary,
    pub sign: Span,
    pub right: Expr,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Default,
    Or,
    And,
    Operator(crate::hir::Binary),
}
