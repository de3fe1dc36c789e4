//! The statements of a script with the text that identifies them.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::diagnostic::Position;
use crate::syntax::parser::ParsedFile;
use crate::syntax::token::{Span, Token, TokenKind};
use crate::syntax::tree::{
    Arm, Arrow, ArrowBody, Block, Expr, ExprKind, HandlerKind, Item, ListItem, ObjectItem, Params, Pattern, Statement,
    StatementKind, TemplatePart,
};

/// A statement.
struct Place {
    /// Function, parameters, headers of the enclosing statements and the text of the statement.
    key: String,
    span: Span,
    /// Where the enclosing statements begin, the outermost first.
    around: Vec<Position>,
    /// For each `finally` around it the text of the `try` and `catch` blocks before.
    guarded: String,
    is_switch: bool,
}

/// What corresponds to a place where code waits.
pub(crate) struct Correspondence {
    /// The position in the new version.
    pub position: Position,
    /// The statement that waits and those around it: where they begin in the old and the new version.
    pub statements: Vec<(Position, Position)>,
    /// Whether the `try` and `catch` blocks are the same to whose `finally` the place belongs.
    pub same_guarded: bool,
    /// Whether the statement that waits is a `switch`.
    pub is_switch: bool,
}

/// All statements of a script.
pub(crate) struct Outline {
    /// In the order of the source; inner statements after those around them.
    places: Vec<Place>,
    /// The place of a key. `None` if several have it.
    by_key: HashMap<String, Option<usize>>,
    words: Vec<Word>,
}

/// Arms of an `if` that are places of their own.
const ARMS_MAX: usize = 200;

/// What is around a statement.
#[derive(Clone)]
struct Chain {
    /// Function, parameters and headers.
    text: String,
    around: Vec<Position>,
    guarded: String,
}

impl Chain {
    /// The chain of what stands in a statement behind this header.
    fn below(&self, start: Position, header: &str) -> Self {
        let around = self.around.iter().copied().chain([start]).collect();
        Self { text: format!("{}{header}\n", self.text), around, guarded: self.guarded.clone() }
    }
}

/// A token as the formatter would leave it.
struct Word {
    text: String,
    span: Span,
}

impl Outline {
    pub fn of(source: &str, parsed: &ParsedFile) -> Self {
        let mut outline = Self { places: Vec::new(), by_key: HashMap::new(), words: words(source, &parsed.tokens) };
        for item in &parsed.file.items {
            match item {
                Item::Function(function) => {
                    let head = if function.is_async { "async function" } else { "function" };
                    outline.function(&format!("{head} {}", function.name.text), &function.params, &function.body);
                }
                Item::Workflow(workflow) => {
                    outline.function(&format!("workflow {}", workflow.name.text), &workflow.params, &workflow.body);
                }
                _ => {}
            }
        }
        for (number, place) in outline.places.iter().enumerate() {
            outline.by_key.entry(place.key.clone()).and_modify(|found| *found = None).or_insert(Some(number));
        }
        outline
    }

    /// What corresponds to a position in another version: the same word of the same statement, if that exists exactly once.
    pub fn corresponding(&self, position: Position, other: &Self) -> Option<Correspondence> {
        let place = self.places.get(self.innermost(position)?)?;
        let new = other.places.get((*other.by_key.get(&place.key)?)?)?;
        let word = self.words_in(place.span).partition_point(|word| word.span.start < position);
        let position = other.words_in(new.span).get(word)?.span.start;
        let around = place.around.iter().copied().zip(new.around.iter().copied());
        Some(Correspondence {
            position,
            statements: around.chain([(place.span.start, new.span.start)]).collect(),
            same_guarded: place.guarded == new.guarded,
            is_switch: place.is_switch,
        })
    }

    /// The innermost statement at a position.
    fn innermost(&self, position: Position) -> Option<usize> {
        self.places.iter().rposition(|place| place.span.start <= position && position < place.span.end)
    }

    /// The beginning of the first word at or behind a position: of `(x) =>` that of `x`, as in `x =>`.
    pub fn word_at(&self, position: Position) -> Option<Position> {
        let place = self.words.partition_point(|word| word.span.start < position);
        self.words.get(place).map(|word| word.span.start)
    }

    fn words_in(&self, span: Span) -> &[Word] {
        let from = self.words.partition_point(|word| word.span.from < span.from);
        let to = self.words.partition_point(|word| word.span.from < span.to);
        self.words.get(from..to).unwrap_or_default()
    }

    /// The text of a span without what stands in these spans.
    fn text(&self, span: Span, without: &[Span]) -> String {
        let mut text = String::new();
        for word in self.words_in(span) {
            if !without.iter().any(|inner| inner.from < word.span.from && word.span.to < inner.to) {
                text.push_str(&word.text);
                text.push(' ');
            }
        }
        text
    }

    fn function(&mut self, name: &str, params: &Params, body: &Block) {
        let text = format!("{name} {}\n", self.text(params.span, &[]));
        let chain = Chain { text, around: Vec::new(), guarded: String::new() };
        self.statements(&body.statements, &chain);
    }

    fn statements(&mut self, statements: &[Statement], chain: &Chain) {
        for statement in statements {
            self.statement(statement, chain);
        }
    }

    /// A statement behind a header that is part of its chain.
    fn inner(&mut self, statement: &Statement, chain: &Chain) {
        match &statement.kind {
            StatementKind::Block(block) => self.statements(&block.statements, chain),
            _ => self.statement(statement, chain),
        }
    }

    fn statement(&mut self, statement: &Statement, chain: &Chain) {
        match &statement.kind {
            StatementKind::Function(function) => {
                let head = if function.is_async { "async function" } else { "function" };
                let name = format!("{}{head} {}", chain.text, function.name.text);
                return self.function(&name, &function.params, &function.body);
            }
            StatementKind::Handler(handler) => {
                let kind = match handler.kind {
                    HandlerKind::Query => "query",
                    HandlerKind::Signal => "signal",
                    HandlerKind::Update => "update",
                };
                let name = format!("{}{kind} {}", chain.text, handler.name.text);
                return self.function(&name, &handler.params, &handler.body);
            }
            StatementKind::If { arms, otherwise } => return self.if_statement(arms, otherwise.as_deref(), chain),
            _ => {}
        }
        let span = statement.span;
        self.places.push(Place {
            key: format!("{}{}", chain.text, self.text(span, &[])),
            span,
            around: chain.around.clone(),
            guarded: chain.guarded.clone(),
            is_switch: matches!(statement.kind, StatementKind::Switch { .. }),
        });
        let below = |header: &str| chain.below(span.start, header);
        let mut arrows = Vec::new();
        expressions(statement, &mut |expr| find_arrows(expr, &mut arrows));
        let blocks: Vec<Span> = arrows.iter().map(|(_, block)| block.span).collect();
        // The text up to the body, or all of it.
        let header = |outline: &Self, end: u32| outline.text(Span { to: end, ..span }, &blocks);
        for (number, (_, block)) in arrows.iter().enumerate() {
            let end = body_of(statement).map_or(span.to, |body| body.from);
            let chain = below(&format!("{}=> {number}", header(self, end)));
            self.statements(&block.statements, &chain);
        }
        match &statement.kind {
            StatementKind::Block(block) => self.statements(&block.statements, &below("{")),
            StatementKind::While { body, .. } | StatementKind::ForOf { body, .. } | StatementKind::For { body, .. } => {
                let chain = below(&header(self, body.span.from));
                self.inner(body, &chain);
            }
            StatementKind::Switch { value, cases } => {
                let mut labels = String::new();
                for case in cases {
                    labels.push_str(&self.text(case.span, &[]));
                    if case.has_statements() {
                        let chain = below(&format!("{}{labels}", header(self, value.span.to)));
                        self.statements(&case.statements, &chain);
                        labels.clear();
                    }
                }
            }
            StatementKind::Try { body, catch, finally } => {
                self.statements(&body.statements, &below("try"));
                if let Some(catch) = catch {
                    let name = catch.name.as_ref().map_or("", |name| &name.text);
                    self.statements(&catch.body.statements, &below(&format!("catch {name}")));
                }
                if let Some(finally) = finally {
                    let mut chain = below("finally");
                    chain.guarded.push_str(&self.text(Span { to: finally.span.from, ..span }, &[]));
                    self.statements(&finally.statements, &chain);
                }
            }
            _ => {}
        }
    }
}

impl Outline {
    /// Each `else if` is a statement of its own in the `else` of the one before. Those behind [`ARMS_MAX`] are part of the
    /// last one, because the text of an arm holds all that follow it.
    fn if_statement(&mut self, arms: &[Arm], otherwise: Option<&Statement>, chain: &Chain) {
        let mut chain = Cow::Borrowed(chain);
        let mut start = arms.first().map_or_else(Position::default, |arm| arm.span.start);
        let mut header = String::new();
        for (number, Arm { span, condition, then }) in arms.iter().enumerate() {
            if number > 0 && number < ARMS_MAX {
                chain = Cow::Owned(chain.below(start, &format!("{header}else")));
            }
            if number < ARMS_MAX {
                start = span.start;
                let key = format!("{}{}", chain.text, self.text(*span, &[]));
                let (around, guarded) = (chain.around.clone(), chain.guarded.clone());
                self.places.push(Place { key, span: *span, around, guarded, is_switch: false });
            }
            let mut arrows = Vec::new();
            find_arrows(condition, &mut arrows);
            let blocks: Vec<Span> = arrows.iter().map(|(_, block)| block.span).collect();
            header = self.text(Span { to: then.span.from, ..*span }, &blocks);
            for (number, (_, block)) in arrows.iter().enumerate() {
                self.statements(&block.statements, &chain.below(start, &format!("{header}=> {number}")));
            }
            self.inner(then, &chain.below(start, &header));
        }
        if let Some(otherwise) = otherwise {
            self.inner(otherwise, &chain.below(start, &format!("{header}else")));
        }
    }
}

/// The body of a statement with a header.
fn body_of(statement: &Statement) -> Option<Span> {
    match &statement.kind {
        StatementKind::While { body, .. } | StatementKind::ForOf { body, .. } | StatementKind::For { body, .. } => {
            Some(body.span)
        }
        _ => None,
    }
}

/// Tokens as the formatter leaves them: strings by value, without what it adds or removes.
fn words(source: &str, tokens: &[Token]) -> Vec<Word> {
    let sign = |place: usize| match tokens.get(place).map(|token| &token.kind) {
        Some(TokenKind::Sign(sign)) => *sign,
        _ => "",
    };
    let is_word = |place: usize| tokens.get(place).is_some_and(|token| token.kind == TokenKind::Word);
    let mut words = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let text = match &token.kind {
            TokenKind::End | TokenKind::Sign(";") => continue,
            TokenKind::Sign(",") if matches!(sign(place + 1), ")" | "]" | "}") => continue,
            // `(x) =>` is `x =>`.
            TokenKind::Sign("(") if is_word(place + 1) && sign(place + 2) == ")" && sign(place + 3) == "=>" => continue,
            TokenKind::Sign(")")
                if sign(place + 1) == "=>" && is_word(place.wrapping_sub(1)) && sign(place.wrapping_sub(2)) == "(" =>
            {
                continue;
            }
            TokenKind::Text(text) => format!("{text:?}"),
            _ => source.get(token.span.range()).unwrap_or_default().to_owned(),
        };
        words.push(Word { text, span: token.span });
    }
    words
}

/// The expressions of a statement itself, without those of statements in it.
fn expressions<'t>(statement: &'t Statement, visit: &mut impl FnMut(&'t Expr)) {
    match &statement.kind {
        StatementKind::Let(declaration) => {
            for (pattern, value) in &declaration.items {
                in_pattern(pattern, visit);
                value.iter().for_each(&mut *visit);
            }
        }
        StatementKind::While { condition: expr, .. }
        | StatementKind::Switch { value: expr, .. }
        | StatementKind::Throw(expr)
        | StatementKind::Return(Some(expr))
        | StatementKind::Delete(expr)
        | StatementKind::Step { target: expr, .. }
        | StatementKind::Expr(expr) => visit(expr),
        StatementKind::ForOf { pattern, list, .. } => {
            in_pattern(pattern, visit);
            visit(list);
        }
        StatementKind::For { first, condition, next, .. } => {
            if let Some(first) = first {
                expressions(first, visit);
            }
            condition.iter().for_each(&mut *visit);
            if let Some(next) = next {
                expressions(next, visit);
            }
        }
        StatementKind::Assign { target, value, .. } => {
            visit(target);
            visit(value);
        }
        _ => {}
    }
}

fn in_pattern<'t>(pattern: &'t Pattern, visit: &mut impl FnMut(&'t Expr)) {
    match pattern {
        Pattern::Name(_) => {}
        Pattern::List { items, .. } => {
            for (item, default) in items {
                in_pattern(item, visit);
                default.iter().for_each(&mut *visit);
            }
        }
        Pattern::Object { fields, .. } => {
            for field in fields {
                field.pattern.iter().for_each(|pattern| in_pattern(pattern, visit));
                field.default.iter().for_each(&mut *visit);
            }
        }
    }
}

/// The arrows with a block in an expression, without those in such a block.
fn find_arrows<'t>(expr: &'t Expr, found: &mut Vec<(&'t Arrow, &'t Block)>) {
    let mut steps = Vec::new();
    let mut first = expr;
    while let ExprKind::Field { base, .. } | ExprKind::Index { base, .. } | ExprKind::Call { callee: base, .. } =
        &first.kind
    {
        steps.push(first);
        first = base;
    }
    find_arrows_in(first, found);
    for step in steps.into_iter().rev() {
        match &step.kind {
            ExprKind::Index { index, .. } => find_arrows(index, found),
            ExprKind::Call { arguments, .. } => arguments.iter().for_each(|argument| find_arrows(argument, found)),
            _ => {}
        }
    }
}

/// The same of an expression that does not end with an access or a call.
fn find_arrows_in<'t>(expr: &'t Expr, found: &mut Vec<(&'t Arrow, &'t Block)>) {
    match &expr.kind {
        ExprKind::Arrow(arrow) => match &arrow.body {
            ArrowBody::Block(block) => found.push((arrow, block)),
            ArrowBody::Expr(body) => find_arrows(body, found),
        },
        ExprKind::Template(parts) => {
            for part in parts {
                if let TemplatePart::Expr(part) = part {
                    find_arrows(part, found);
                }
            }
        }
        ExprKind::Paren(inner) | ExprKind::Unary { operand: inner, .. } => find_arrows(inner, found),
        ExprKind::List(items) => {
            for ListItem::Item(item) | ListItem::Spread(item) in items {
                find_arrows(item, found);
            }
        }
        ExprKind::Object(items) => {
            for item in items {
                match item {
                    ObjectItem::Field(_, value) | ObjectItem::Spread(value) => find_arrows(value, found),
                    ObjectItem::Short(_) => {}
                    ObjectItem::Computed(key, value) => {
                        find_arrows(key, found);
                        find_arrows(value, found);
                    }
                }
            }
        }
        ExprKind::New { arguments, .. } => arguments.iter().for_each(|argument| find_arrows(argument, found)),
        ExprKind::Binary { first, rest } => {
            find_arrows(first, found);
            rest.iter().for_each(|operation| find_arrows(&operation.right, found));
        }
        ExprKind::Conditional { arms, otherwise } => {
            for (condition, then) in arms {
                find_arrows(condition, found);
                find_arrows(then, found);
            }
            find_arrows(otherwise, found);
        }
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Name(_)
        | ExprKind::Field { .. }
        | ExprKind::Index { .. }
        | ExprKind::Call { .. }
        | ExprKind::Broken => {}
    }
}
