//! Statements.

use super::{Parser, Result, SyntaxErrorReported};
use crate::syntax::token::Span;
use crate::syntax::tree::{Arm, Assign, Block, Case, Catch, Expr, ExprKind, Let, Statement, StatementKind};

const IN_HINT: &str = "write for … of Object.keys(…)";

impl Parser<'_> {
    /// `Block`.
    pub(super) fn block(&mut self) -> Result<Block> {
        let start = self.span();
        let open = self.open("{")?;
        let mut block = self.block_rest(open)?;
        block.span = start.to(block.span);
        Ok(block)
    }

    /// The statements of a block whose `{` has been read, and its `}`.
    pub(super) fn block_rest(&mut self, open: usize) -> Result<Block> {
        let start = self.span();
        let mut statements = Vec::new();
        while !self.is_sign("}") && !self.is_end() {
            self.statement_or_skip(&mut statements);
        }
        self.close(open, "}", "\"}\"")?;
        Ok(Block { statements, span: self.since(start) })
    }

    /// One statement, or none after a syntax error in it.
    fn statement_or_skip(&mut self, statements: &mut Vec<Statement>) {
        let (start, span, brackets) = (self.next, self.span(), self.brackets);
        match self.statement() {
            Ok(statement) => statements.push(statement),
            Err(SyntaxErrorReported) => {
                self.brackets = brackets;
                self.skip(start, Self::starts_statement);
                statements.push(Statement { kind: StatementKind::Broken, span: self.since(span) });
            }
        }
    }

    /// `Statement`, also functions and handlers (the checker knows where they may stand).
    fn statement(&mut self) -> Result<Statement> {
        self.deeper(super::STATEMENT_DEPTH, |parser| match parser.inner_declaration() {
            Some(declaration) => declaration,
            None => parser.plain_statement(),
        })
    }

    fn plain_statement(&mut self) -> Result<Statement> {
        let start = self.span();
        if self.is_sign("{") {
            if let Some(close) = self.partners[self.next].filter(|close| self.is_sign_at(close + 1, "=")) {
                // A block cannot be followed by it: this is meant as a pattern.
                let pattern = start.to(self.token_at(close).span);
                return self.error("F0110", "this cannot be assigned to".to_owned(), pattern, Some("write let"));
            }
            let block = self.block()?;
            return Ok(Statement { span: block.span, kind: StatementKind::Block(block) });
        }
        if self.take_sign(";") {
            return Ok(Statement { kind: StatementKind::Empty, span: start });
        }
        let word = self.word().map(str::to_owned);
        let kind = match word.as_deref() {
            Some("if") => self.if_statement()?,
            Some("while") => {
                self.advance();
                let condition = self.condition()?;
                StatementKind::While { condition, body: self.body()? }
            }
            Some("for") => self.for_statement()?,
            Some("switch") => self.switch()?,
            Some("try") => self.try_statement()?,
            _ => {
                let kind = self.short_statement(word.as_deref())?;
                let span = self.since(start);
                self.end()?;
                return Ok(Statement { kind, span });
            }
        };
        Ok(Statement { kind, span: self.since(start) })
    }

    /// Statements that end with `End`.
    fn short_statement(&mut self, word: Option<&str>) -> Result<StatementKind> {
        Ok(match word {
            Some("let" | "const") => StatementKind::Let(self.let_statement()?),
            Some("throw") => {
                self.advance();
                StatementKind::Throw(self.expression()?)
            }
            Some("return") => {
                self.advance();
                let ends = self.token().after_newline || self.is_sign(";") || self.is_sign("}") || self.is_end();
                StatementKind::Return(if ends { None } else { Some(self.expression()?) })
            }
            Some("break") => {
                self.advance();
                StatementKind::Break
            }
            Some("continue") => {
                self.advance();
                StatementKind::Continue
            }
            Some("delete") => {
                self.advance();
                let target = self.expression()?;
                if matches!(target.kind, ExprKind::Name(_)) || !is_target(&target) {
                    return self.error("F0110", "this cannot be assigned to".to_owned(), target.span, None);
                }
                StatementKind::Delete(target)
            }
            _ => self.change_or_expression()?,
        })
    }

    /// `Change | Expression`.
    fn change_or_expression(&mut self) -> Result<StatementKind> {
        let target = self.expression()?;
        let operator = Assign::ALL.iter().find(|(_, sign)| self.is_sign(sign)).map(|(operator, _)| *operator);
        let steps = (self.is_sign("++") || self.is_sign("--")) && !self.token().after_newline;
        if operator.is_none() && !steps {
            return Ok(StatementKind::Expr(target));
        }
        if !is_target(&target) {
            let pattern = matches!(target.kind, ExprKind::List(_) | ExprKind::Object(_));
            let hint = pattern.then_some("write let");
            return self.error("F0110", "this cannot be assigned to".to_owned(), target.span, hint);
        }
        match operator {
            Some(operator) => {
                self.advance();
                let value = self.expression()?;
                Ok(StatementKind::Assign { target, operator, value })
            }
            None => {
                let up = self.is_sign("++");
                self.advance();
                Ok(StatementKind::Step { target, up })
            }
        }
    }

    /// `Let`.
    fn let_statement(&mut self) -> Result<Let> {
        let constant = self.is_word("const");
        self.advance();
        let mut items = Vec::new();
        loop {
            let pattern = self.pattern()?;
            let value = if self.take_sign("=") { Some(self.expression()?) } else { None };
            items.push((pattern, value));
            if !self.take_sign(",") {
                return Ok(Let { constant, items });
            }
        }
    }

    /// An expression in parentheses. After a syntax error in it the statement goes on behind it.
    fn condition(&mut self) -> Result<Expr> {
        let (start, brackets, span) = (self.next, self.brackets, self.span());
        match self.plain_condition() {
            Ok(condition) => Ok(condition),
            Err(broken) => {
                self.skip_brackets(start, brackets).ok_or(broken)?;
                self.node(ExprKind::Broken, span, 0)
            }
        }
    }

    fn plain_condition(&mut self) -> Result<Expr> {
        let open = self.open("(")?;
        let condition = self.expression()?;
        if self.is_sign("=") {
            return self.expected_with("\")\"", Some("== compares"));
        }
        self.close(open, ")", "\")\"")?;
        Ok(condition)
    }

    /// After a syntax error within the brackets that open at this place: goes behind them, if they are closed.
    pub(super) fn skip_brackets(&mut self, start: usize, brackets: u32) -> Option<()> {
        if self.silent || !self.is_sign_at(start, "(") {
            return None;
        }
        let partner = self.partners[start].filter(|partner| *partner >= self.next)?;
        let words: Vec<_> =
            (start..partner).filter_map(|place| self.word_at(place).map(std::sync::Arc::from)).collect();
        self.file.broken.extend(words);
        self.brackets = brackets;
        self.next = partner + 1;
        Some(())
    }

    /// `Body`: a statement, but no declaration.
    fn body(&mut self) -> Result<Box<Statement>> {
        if matches!(self.word(), Some("let" | "const" | "function")) {
            return self.expected("a statement, or a block around the declaration");
        }
        self.statement().map(Box::new)
    }

    fn if_statement(&mut self) -> Result<StatementKind> {
        let mut arms = Vec::new();
        let otherwise = loop {
            let span = self.span();
            self.advance();
            let condition = self.condition()?;
            let then = *self.body()?;
            arms.push(Arm { span, condition, then });
            if !self.take_word("else") {
                break None;
            }
            if !self.is_word("if") {
                break Some(self.body()?);
            }
        };
        let end = self.last_span();
        arms.iter_mut().for_each(|arm| arm.span = arm.span.to(end));
        Ok(StatementKind::If { arms, otherwise })
    }

    fn for_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let (start, brackets) = (self.next, self.brackets);
        match self.for_header() {
            Ok(mut kind) => {
                let parsed = self.body()?;
                if let StatementKind::ForOf { body, .. } | StatementKind::For { body, .. } = &mut kind {
                    *body = parsed;
                }
                Ok(kind)
            }
            Err(broken) => {
                self.skip_brackets(start, brackets).ok_or(broken)?;
                let condition = Some(self.node(ExprKind::Broken, self.token_at(start).span, 0)?);
                let body = self.body()?;
                Ok(StatementKind::For { first: None, condition, next: None, body })
            }
        }
    }

    /// What stands in the parentheses of `for`. The body is filled in by the caller.
    fn for_header(&mut self) -> Result<StatementKind> {
        let open = self.open("(")?;
        let start = self.span();
        let body = || Box::new(Statement { kind: StatementKind::Empty, span: start });
        if matches!(self.word(), Some("let" | "const")) {
            let constant = self.is_word("const");
            let before = self.next;
            self.advance();
            let pattern = self.pattern()?;
            if self.take_word("of") {
                let list = self.expression()?;
                self.close(open, ")", "\")\"")?;
                return Ok(StatementKind::ForOf { constant, pattern, list, body: body() });
            }
            if self.is_word("in") {
                return self.expected_with("\"of\"", Some(IN_HINT));
            }
            self.next = before;
        }
        let first = self.for_part(start, ";")?;
        if matches!(first.as_ref().map(|first| &first.kind), Some(StatementKind::Expr(_))) {
            return self.expected("\"=\"");
        }
        self.expect_sign(";")?;
        let condition = if self.is_sign(";") { None } else { Some(self.expression()?) };
        if condition.is_some() && self.is_sign("=") {
            return self.expected_with("\";\"", Some("== compares"));
        }
        self.expect_sign(";")?;
        let next = self.for_part(self.span(), ")")?;
        self.close(open, ")", "\")\"")?;
        Ok(StatementKind::For { first, condition, next, body: body() })
    }

    /// The first or the last part of a `for` header, which may be empty.
    fn for_part(&mut self, start: Span, end: &str) -> Result<Option<Box<Statement>>> {
        if self.is_sign(end) {
            return Ok(None);
        }
        let kind = if end == ";" && matches!(self.word(), Some("let" | "const")) {
            StatementKind::Let(self.let_statement()?)
        } else if end == ";" && self.is_name_at(self.next) && matches!(self.word_at(self.next + 1), Some("in" | "of")) {
            self.advance();
            let hint = if self.is_word("in") { IN_HINT } else { "write for (const x of …)" };
            return self.expected_with("\"=\"", Some(hint));
        } else {
            self.change_or_expression()?
        };
        Ok(Some(Box::new(Statement { kind, span: self.since(start) })))
    }

    fn switch(&mut self) -> Result<StatementKind> {
        self.advance();
        let value = self.condition()?;
        let open = self.open("{")?;
        let mut cases = Vec::new();
        while !self.is_sign("}") && !self.is_end() {
            let start = self.span();
            let label = if self.take_word("case") {
                Some(self.expression()?)
            } else if self.take_word("default") {
                None
            } else {
                return self.not_closed(open, "\"case\", \"default\" or \"}\"");
            };
            self.expect_sign(":")?;
            let span = self.since(start);
            let mut statements = Vec::new();
            while !self.is_sign("}") && !self.is_end() && !matches!(self.word(), Some("case" | "default")) {
                self.statement_or_skip(&mut statements);
            }
            cases.push(Case { label, statements, span });
        }
        self.close(open, "}", "\"}\"")?;
        Ok(StatementKind::Switch { value, cases })
    }

    fn try_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let body = self.block()?;
        let mut catch = None;
        if self.take_word("catch") {
            let mut name = None;
            if self.is_sign("(") {
                let open = self.open("(")?;
                name = Some(self.name("a name")?);
                self.close(open, ")", "\")\"")?;
            }
            catch = Some(Catch { name, body: self.block()? });
        }
        let finally = if self.take_word("finally") { Some(self.block()?) } else { None };
        if catch.is_none() && finally.is_none() {
            return self.expected("\"catch\" or \"finally\"");
        }
        Ok(StatementKind::Try { body, catch, finally })
    }
}

/// Whether an expression is `Target`: a name and a path without `?.`.
fn is_target(expr: &Expr) -> bool {
    let mut expr = expr;
    loop {
        expr = match &expr.kind {
            ExprKind::Name(_) => return true,
            ExprKind::Field { base, optional: false, .. } | ExprKind::Index { base, optional: false, .. } => base,
            _ => return false,
        }
    }
}
