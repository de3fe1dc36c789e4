//! Statements and blocks.

use super::Formatter;
use super::doc::Doc;
use crate::syntax::token::Span;
use crate::syntax::tree::{Arm, Block, Case, Expr, Statement, StatementKind};

/// More arms of an `if` than fit on a line: the shortest one is `if (x) {} else`.
const ARMS_ON_A_LINE: usize = super::doc::WIDTH / 14 + 1;

impl Formatter<'_> {
    /// A block. The caller puts it into a group.
    pub fn block(&mut self, block: &Block) -> Doc {
        self.block_after(block, None)
    }

    /// A block with something in front of its statements: `validate {…}` of an update.
    pub fn block_after(&mut self, block: &Block, first: Option<(Span, &Block)>) -> Doc {
        let Span { from, to, .. } = block.span;
        let close = to.saturating_sub(1);
        let one_line = block.span.start.line == block.span.end.line;
        let begins = first.map(|(span, _)| span.from).or(block.statements.first().map(|first| first.span.from));
        let opening = self.trailing(from + 1, begins.unwrap_or(close));
        let mut parts = Vec::new();
        let mut last = None;
        if let Some((word, validate)) = first {
            self.own_lines(word.from, &mut last, &mut parts);
            parts.push(self.separator(last, word.from));
            let inner = self.block(validate);
            parts.push(Doc::concat(vec![Doc::text("validate "), inner]).group());
            let limit = block.statements.first().map_or(close, |next| next.span.from);
            parts.push(self.trailing(validate.span.to, limit));
            last = self.printed(validate.span.to);
        }
        self.statements(&block.statements, close, &mut last, &mut parts);
        if parts.is_empty() {
            return if opening.breaks() {
                Doc::concat(vec![Doc::text("{"), opening, Doc::hard(), Doc::text("}")])
            } else {
                Doc::text("{}")
            };
        }
        // A statement and the line break before it.
        if one_line
            && parts.len() == 3
            && first.is_none()
            && !parts[1].breaks()
            && !parts[2].breaks()
            && !opening.breaks()
        {
            let statement = Doc::concat(vec![Doc::line(), parts.swap_remove(1)]).indent();
            return Doc::concat(vec![Doc::text("{"), statement, Doc::line(), Doc::text("}")]);
        }
        Doc::concat(vec![Doc::text("{"), opening, Doc::concat(parts).indent(), Doc::hard(), Doc::text("}")])
    }

    /// Statements with the line breaks in front of them, and comments up to the offset where their block is closed. Each
    /// statement adds three parts: line break, statement, comments at the end of its line.
    pub fn statements(&mut self, statements: &[Statement], close: u32, last: &mut Option<u32>, parts: &mut Vec<Doc>) {
        let mut shown =
            statements.iter().filter(|statement| !matches!(statement.kind, StatementKind::Empty)).peekable();
        let mut is_first = true;
        while let Some(statement) = shown.next() {
            let Span { from, to, .. } = statement.span;
            self.own_lines(from, last, parts);
            parts.push(self.separator(*last, from));
            // Without `;` it would go on with the statement before. (It does nothing, so it is not written.)
            let joins = !is_first && self.source_of(statement.span).starts_with('-');
            let doc = self.statement(statement);
            parts.push(if joins { Doc::concat(vec![Doc::text(";"), doc]) } else { doc });
            is_first = false;
            let limit = shown.peek().map_or(close, |next| next.span.from);
            let leftover = self.leftover(to);
            let trailing = self.trailing(to, limit);
            parts.push(Doc::concat(vec![leftover, trailing]));
            *last = self.printed(to);
        }
        self.own_lines(close, last, parts);
    }

    pub fn statement(&mut self, statement: &Statement) -> Doc {
        let word = |word: &str, rest: Doc| Doc::concat(vec![Doc::text(word), rest]);
        match &statement.kind {
            StatementKind::Block(block) => self.block(block).group(),
            StatementKind::Let(_) | StatementKind::Assign { .. } | StatementKind::Step { .. } => self.short(statement),
            StatementKind::If { arms, otherwise } => self.if_statement(arms, otherwise.as_deref()),
            StatementKind::While { condition, body } => {
                let condition = self.condition(condition);
                Doc::concat(vec![Doc::text("while "), condition, self.body(body)]).group()
            }
            StatementKind::ForOf { constant, pattern, list, body } => {
                let head = if *constant { "for (const " } else { "for (let " };
                let pattern = self.pattern(pattern);
                let list = self.expr(list);
                let header = Doc::concat(vec![Doc::text(head), pattern, Doc::text(" of "), list, Doc::text(")")]);
                Doc::concat(vec![header.group(), self.body(body)]).group()
            }
            StatementKind::For { first, condition, next, body } => {
                let mut parts = vec![Doc::soft()];
                parts.extend(first.as_ref().map(|first| self.short(first)));
                parts.push(Doc::text(";"));
                if let Some(condition) = condition {
                    parts.push(Doc::line());
                    parts.push(self.expr(condition));
                }
                parts.push(Doc::text(";"));
                if let Some(next) = next {
                    parts.push(Doc::line());
                    parts.push(self.short(next));
                }
                let header = vec![Doc::text("for ("), Doc::concat(parts).indent(), Doc::soft(), Doc::text(")")];
                Doc::concat(vec![Doc::concat(header).group(), self.body(body)]).group()
            }
            StatementKind::Switch { value, cases } => self.switch(statement, value, cases),
            StatementKind::Try { body, catch, finally } => {
                let mut parts = vec![Doc::text("try "), self.block(body)];
                if let Some(catch) = catch {
                    parts.push(Doc::text(" catch "));
                    if let Some(name) = &catch.name {
                        parts.push(Doc::text(format!("({}) ", name.text)));
                    }
                    parts.push(self.block(&catch.body));
                }
                if let Some(finally) = finally {
                    parts.push(Doc::text(" finally "));
                    parts.push(self.block(finally));
                }
                Doc::concat(parts).group()
            }
            StatementKind::Throw(value) => word("throw ", self.expr(value)),
            StatementKind::Return(Some(value)) => word("return ", self.expr(value)),
            StatementKind::Return(None) => Doc::text("return"),
            StatementKind::Break => Doc::text("break"),
            StatementKind::Continue => Doc::text("continue"),
            StatementKind::Delete(target) => word("delete ", self.expr(target)),
            StatementKind::Expr(expr) => self.expr(expr),
            StatementKind::Function(function) => self.function(function),
            StatementKind::Handler(handler) => self.handler(handler),
            StatementKind::Empty | StatementKind::Broken => Doc::none(),
        }
    }

    /// Each `else if` is a group in that of the arm before. Only the last arms can be on one line together, so those before
    /// are broken in any case and need no groups.
    fn if_statement(&mut self, arms: &[Arm], otherwise: Option<&Statement>) -> Doc {
        let mut heads = Vec::new();
        for (place, Arm { span, condition, then }) in arms.iter().enumerate() {
            let mut parts = Vec::new();
            if place > 0 {
                parts.push(Doc::text(" "));
                parts.push(self.leading(span.from));
            }
            parts.push(Doc::text("if "));
            parts.push(self.condition(condition));
            parts.push(self.body(then));
            if place + 1 < arms.len() || otherwise.is_some() {
                if matches!(then.kind, StatementKind::Block(_) | StatementKind::Empty) {
                    parts.push(Doc::text(" else"));
                } else {
                    parts.push(self.leftover(then.span.to));
                    parts.push(Doc::hard());
                    parts.push(Doc::text("else"));
                }
            }
            heads.push(parts);
        }
        let mut whole = otherwise.map_or_else(Doc::none, |otherwise| self.body(otherwise));
        for mut parts in heads.split_off(heads.len().saturating_sub(ARMS_ON_A_LINE)).into_iter().rev() {
            parts.push(whole);
            whole = Doc::concat(parts).group();
        }
        if heads.is_empty() {
            return whole;
        }
        let mut parts: Vec<Doc> = heads.into_iter().flatten().collect();
        parts.push(whole);
        Doc::concat(parts).group().broken()
    }

    /// A statement that may stand in the header of a `for`.
    fn short(&mut self, statement: &Statement) -> Doc {
        match &statement.kind {
            StatementKind::Let(declaration) => {
                let mut parts = vec![Doc::text(if declaration.constant { "const " } else { "let " })];
                let mut rest = Vec::new();
                for (place, (pattern, value)) in declaration.items.iter().enumerate() {
                    let item = self.pattern_with(pattern, value.as_ref());
                    if place == 0 {
                        parts.push(item);
                    } else {
                        rest.extend([Doc::text(","), Doc::line(), item]);
                    }
                }
                parts.push(Doc::concat(rest).indent());
                Doc::concat(parts).group()
            }
            StatementKind::Assign { target, operator, value } => {
                let target = self.expr(target);
                let sign = Doc::text(format!(" {} ", operator.text()));
                Doc::concat(vec![target, sign, self.expr(value)])
            }
            StatementKind::Step { target, up } => {
                let target = self.expr(target);
                Doc::concat(vec![target, Doc::text(if *up { "++" } else { "--" })])
            }
            StatementKind::Expr(expr) => self.expr(expr),
            _ => Doc::none(),
        }
    }

    fn condition(&mut self, condition: &Expr) -> Doc {
        let inner = self.expr(condition);
        let inner = Doc::concat(vec![Doc::soft(), inner]).indent();
        Doc::concat(vec![Doc::text("("), inner, Doc::soft(), Doc::text(")")]).group()
    }

    /// The body of a statement, with the space in front of it.
    fn body(&mut self, body: &Statement) -> Doc {
        match &body.kind {
            StatementKind::Block(block) => {
                let leading = self.leading(block.span.from);
                Doc::concat(vec![Doc::text(" "), leading, self.block(block)])
            }
            StatementKind::Empty => Doc::text(" {}"),
            _ => {
                let leading = self.leading(body.span.from);
                let statement = self.statement(body);
                Doc::concat(vec![Doc::line(), leading, statement]).indent().group()
            }
        }
    }

    fn switch(&mut self, statement: &Statement, value: &Expr, cases: &[Case]) -> Doc {
        let value = self.condition(value);
        let close = statement.span.to.saturating_sub(1);
        let mut parts = Vec::new();
        let mut last = None;
        for (place, case) in cases.iter().enumerate() {
            let Span { from, to, .. } = case.span;
            self.own_lines(from, &mut last, &mut parts);
            parts.push(self.separator(last, from));
            let label = match &case.label {
                Some(label) => Doc::concat(vec![Doc::text("case "), self.expr(label), Doc::text(":")]),
                None => Doc::text("default:"),
            };
            let end = cases.get(place + 1).map_or(close, |next| next.span.from);
            last = Some(to);
            parts.push(self.case(case, label, end, &mut last));
            last = last.and_then(|last| self.printed(last));
        }
        self.own_lines(close, &mut last, &mut parts);
        let head = Doc::concat(vec![Doc::text("switch "), value, Doc::text(" {")]);
        if parts.is_empty() {
            return Doc::concat(vec![head, Doc::text("}")]);
        }
        Doc::concat(vec![head, Doc::concat(parts).indent(), Doc::hard(), Doc::text("}")])
    }

    /// A label and its statements. A single one stays on the line of the label if it was there and fits.
    fn case(&mut self, case: &Case, label: Doc, end: u32, last: &mut Option<u32>) -> Doc {
        let shown: Vec<&Statement> =
            case.statements.iter().filter(|statement| !matches!(statement.kind, StatementKind::Empty)).collect();
        let begins = shown.first().map_or(end, |first| first.span.from);
        let trailing = self.trailing(case.span.to, begins);
        if let [only] = shown.as_slice()
            && !trailing.breaks()
            && only.span.start.line == case.span.end.line
            && !self.has_comment_before(only.span.from)
        {
            let statement = self.statement(only);
            let leftover = self.leftover(only.span.to);
            let trailing = self.trailing(only.span.to, end);
            *last = self.printed(only.span.to);
            let inner = Doc::concat(vec![Doc::line(), statement]).indent();
            return Doc::concat(vec![Doc::concat(vec![label, inner]).group(), leftover, trailing]);
        }
        let mut parts = Vec::new();
        let mut within = None;
        if !shown.is_empty() {
            self.statements(&case.statements, begins, &mut within, &mut parts);
            *last = within.or(*last);
        }
        Doc::concat(vec![label, trailing, Doc::concat(parts).indent()])
    }
}
