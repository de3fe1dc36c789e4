//! Expressions. Operators are parsed by precedence climbing.

use super::{Parser, Result};
use crate::hir;
use crate::syntax::token::{Span, TokenKind, is_reserved};
use crate::syntax::tree::{
    Arrow, ArrowBody, Binary, Expr, ExprKind, ListItem, Name, ObjectItem, Operation, Param, Params, Pattern,
    TemplatePart, Unary,
};

/// Strengths of binary operators, from `??` to `*`.
const DEFAULT: u8 = 1;
const OR: u8 = 2;
const AND: u8 = 3;
const EQUAL: u8 = 4;
const COMPARE: u8 = 5;
const SUM: u8 = 6;
const PRODUCT: u8 = 7;

impl Parser<'_> {
    /// `Expression`, also an arrow (the checker knows where one may stand).
    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.deeper(1, |parser| {
            if parser.is_arrow() {
                return parser.arrow();
            }
            let condition = parser.binary(DEFAULT)?;
            if parser.is_sign("?") { parser.conditional(condition) } else { Ok(condition) }
        })
    }

    /// `condition ? then : otherwise`, of which the last may be another one.
    fn conditional(&mut self, mut condition: Expr) -> Result<Expr> {
        let start = condition.span;
        let mut arms: Vec<(Expr, Expr)> = Vec::new();
        let mut below = 0;
        while self.take_sign("?") {
            let then = self.expression()?;
            self.expect_sign(":")?;
            below = condition.depth.max(then.depth).max(below);
            arms.push((condition, then));
            condition = if self.is_arrow() { self.arrow()? } else { self.binary(DEFAULT)? };
            if matches!(condition.kind, ExprKind::Arrow(_)) {
                break;
            }
        }
        let otherwise = Box::new(condition);
        let (below, span) = (below.max(otherwise.depth), start.to(otherwise.span));
        self.node(ExprKind::Conditional { arms, otherwise }, span, below)
    }

    /// Whether an arrow begins here: `x =>`, `(…) =>`, both also after `async`.
    fn is_arrow(&self) -> bool {
        let mut place = self.next;
        if self.word_at(place) == Some("async") {
            if self.word_at(place + 1) == Some("function") {
                return false;
            }
            place += 1;
        }
        if self.is_sign_at(place, "(") {
            return self.partners[place].is_some_and(|close| self.is_sign_at(close + 1, "=>"));
        }
        self.is_name_at(place) && self.is_sign_at(place + 1, "=>")
    }

    fn arrow(&mut self) -> Result<Expr> {
        let start = self.span();
        let is_async = self.take_word("async");
        let params = if self.is_sign("(") {
            self.params()?
        } else {
            let name = self.name("a name")?;
            let span = name.span;
            Params { items: vec![Param { pattern: Pattern::Name(name), default: None }], span }
        };
        self.expect_sign("=>")?;
        let (body, below) = if self.is_sign("{") {
            (ArrowBody::Block(self.block()?), 0)
        } else {
            let value = self.expression()?;
            let depth = value.depth;
            (ArrowBody::Expr(value), depth)
        };
        let span = self.since(start);
        self.node(ExprKind::Arrow(Box::new(Arrow { is_async, params, body })), span, below)
    }

    /// The binary operator that stands here, and its strength.
    fn operator(&self) -> Option<(Binary, u8)> {
        let operator = |operator, strength| Some((Binary::Operator(operator), strength));
        match self.token().kind {
            TokenKind::Sign(sign) => match sign {
                "??" => Some((Binary::Default, DEFAULT)),
                "||" => Some((Binary::Or, OR)),
                "&&" => Some((Binary::And, AND)),
                "==" | "===" => operator(hir::Binary::Equal, EQUAL),
                "!=" | "!==" => operator(hir::Binary::NotEqual, EQUAL),
                "<" => operator(hir::Binary::Less, COMPARE),
                "<=" => operator(hir::Binary::LessOrEqual, COMPARE),
                ">" => operator(hir::Binary::Greater, COMPARE),
                ">=" => operator(hir::Binary::GreaterOrEqual, COMPARE),
                "+" => operator(hir::Binary::Add, SUM),
                "-" => operator(hir::Binary::Subtract, SUM),
                "*" => operator(hir::Binary::Multiply, PRODUCT),
                "/" => operator(hir::Binary::Divide, PRODUCT),
                "%" => operator(hir::Binary::Remainder, PRODUCT),
                _ => None,
            },
            TokenKind::Word if self.is_word("in") => operator(hir::Binary::In, COMPARE),
            _ => None,
        }
    }

    /// Operators of at least this strength. They group to the left; comparisons do not chain.
    fn binary(&mut self, least: u8) -> Result<Expr> {
        let first = self.unary()?;
        let mut rest: Vec<Operation> = Vec::new();
        let (start, mut below) = (first.span, first.depth);
        let mut compared = None;
        while let Some((operator, strength)) = self.operator() {
            if strength < least {
                break;
            }
            let sign = self.span();
            if (strength == COMPARE || strength == EQUAL) && compared == Some(strength) {
                return self
                    .expected_with("the end of the comparison", Some("comparisons do not chain; join them with &&"));
            }
            if operator == Binary::Default && rest.last().is_some_and(is_logical) {
                return self.mixed();
            }
            self.advance();
            let right = self.binary(strength + 1)?;
            if operator == Binary::Default
                && let ExprKind::Binary { rest, .. } = &right.kind
                && let Some(first) = rest.iter().find(|operation| is_logical(operation))
            {
                // The operand was read up to here; the operator that does not fit is the first one in it.
                return self.mixed_at(first.sign);
            }
            compared = Some(strength);
            below = below.max(right.depth);
            rest.push(Operation { operator, sign, right });
        }
        match rest.last() {
            None => Ok(first),
            Some(last) => {
                let span = start.to(last.right.span);
                self.node(ExprKind::Binary { first: Box::new(first), rest }, span, below)
            }
        }
    }

    fn mixed<T>(&mut self) -> Result<T> {
        self.expected_with("the end of the operand", Some("put parentheses around || or && next to ??"))
    }

    fn mixed_at<T>(&mut self, sign: Span) -> Result<T> {
        if let Some(place) = self.tokens.iter().position(|token| token.span == sign) {
            self.next = place;
        }
        self.mixed()
    }

    fn unary(&mut self) -> Result<Expr> {
        let start = self.span();
        let operator = if self.is_sign("!") {
            Unary::Not
        } else if self.is_sign("-") {
            Unary::Negate
        } else if self.is_word("typeof") {
            Unary::Typeof
        } else if self.is_word("await") {
            Unary::Await
        } else {
            return self.postfix();
        };
        self.advance();
        let operand = self.deeper(1, Self::unary)?;
        let (below, span) = (operand.depth, start.to(operand.span));
        self.node(ExprKind::Unary { operator, operand: Box::new(operand) }, span, below)
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut base = self.primary()?;
        let mut below = base.depth;
        loop {
            let start = base.span;
            let newline = self.token().after_newline;
            let kind = match self.token().kind {
                TokenKind::Sign("." | "?.") => {
                    let optional = self.is_sign("?.");
                    self.advance();
                    if optional && self.is_sign("[") {
                        let (bracket, index) = self.index()?;
                        below = below.max(index.depth);
                        ExprKind::Index { base: Box::new(base), index: Box::new(index), optional, bracket }
                    } else if self.word().is_some() {
                        ExprKind::Field { base: Box::new(base), key: self.take_name(), optional }
                    } else {
                        return self.expected("the name of a field");
                    }
                }
                TokenKind::Sign("[") if !newline => {
                    let (bracket, index) = self.index()?;
                    below = below.max(index.depth);
                    ExprKind::Index { base: Box::new(base), index: Box::new(index), optional: false, bracket }
                }
                TokenKind::Sign("(") if !newline => {
                    let arguments = self.arguments()?;
                    below = below.max(deepest(&arguments));
                    ExprKind::Call { callee: Box::new(base), arguments }
                }
                _ => return Ok(base),
            };
            let span = self.since(start);
            base = self.node(kind, span, below)?;
        }
    }

    fn index(&mut self) -> Result<(Span, Expr)> {
        let bracket = self.span();
        let open = self.open("[")?;
        let index = self.expression()?;
        self.close(open, "]", "\"]\"")?;
        Ok((bracket, index))
    }

    fn arguments(&mut self) -> Result<Vec<Expr>> {
        let open = self.open("(")?;
        self.list(open, ")", Self::expression)
    }

    fn primary(&mut self) -> Result<Expr> {
        let start = self.span();
        let token = self.token();
        let kind = match &token.kind {
            TokenKind::Int(number) => ExprKind::Int(*number),
            TokenKind::Float(number) => ExprKind::Float(*number),
            TokenKind::Text(text) => ExprKind::Str(text.clone()),
            TokenKind::Template { first: true, .. } => return self.template(),
            TokenKind::Word => {
                let word = self.text_at(self.next);
                match word {
                    "true" => ExprKind::Bool(true),
                    "false" => ExprKind::Bool(false),
                    "null" => ExprKind::Null,
                    "new" => return self.new_expression(),
                    "function" | "async" if !token.after_newline => {
                        let hint = "declare it by its name, or write an arrow where the library takes one: x => x + 1";
                        return self.error("F0107", "functions are not values".to_owned(), start, Some(hint));
                    }
                    _ if is_reserved(word) => return self.expected("an expression"),
                    _ => ExprKind::Name(self.take_name().text),
                }
            }
            TokenKind::Sign("(") => {
                let open = self.open("(")?;
                let inner = self.expression()?;
                if self.is_sign("=") && matches!(inner.kind, ExprKind::List(_) | ExprKind::Object(_)) {
                    return self.expected_with("\")\"", Some("write let"));
                }
                self.close(open, ")", "\")\"")?;
                let (below, span) = (inner.depth, self.since(start));
                return self.node(ExprKind::Paren(Box::new(inner)), span, below);
            }
            TokenKind::Sign("[") => {
                let open = self.open("[")?;
                let items = self.list(open, "]", Self::list_item)?;
                let below = items.iter().map(|(ListItem::Item(item) | ListItem::Spread(item))| item.depth).max();
                let span = self.since(start);
                return self.node(ExprKind::List(items), span, below.unwrap_or(0));
            }
            TokenKind::Sign("{") => {
                let open = self.open("{")?;
                let items = self.list(open, "}", Self::object_item)?;
                let below = items.iter().map(item_depth).max();
                let span = self.since(start);
                return self.node(ExprKind::Object(items), span, below.unwrap_or(0));
            }
            _ => return self.expected("an expression"),
        };
        if self.span() == start {
            self.advance();
        }
        self.node(kind, start, 0)
    }

    fn list_item(&mut self) -> Result<ListItem> {
        let spread = self.take_sign("...");
        let item = self.expression()?;
        Ok(if spread { ListItem::Spread(item) } else { ListItem::Item(item) })
    }

    fn object_item(&mut self) -> Result<ObjectItem> {
        if self.take_sign("...") {
            return self.expression().map(ObjectItem::Spread);
        }
        if self.is_sign("[") {
            let (_, key) = self.index()?;
            self.expect_sign(":")?;
            return Ok(ObjectItem::Computed(key, self.expression()?));
        }
        let short = self.is_name_at(self.next) && !self.is_sign_at(self.next + 1, ":");
        let key: Name = self.key()?;
        if short && !self.is_sign("(") {
            return Ok(ObjectItem::Short(key));
        }
        self.expect_sign(":")?;
        Ok(ObjectItem::Field(key, self.expression()?))
    }

    fn new_expression(&mut self) -> Result<Expr> {
        let start = self.span();
        self.advance();
        let name = self.name("\"Error\"")?;
        let arguments = self.arguments()?;
        let below = deepest(&arguments);
        let span = self.since(start);
        self.node(ExprKind::New { name, arguments }, span, below)
    }

    fn template(&mut self) -> Result<Expr> {
        let start = self.span();
        let mut parts = Vec::new();
        let mut below = 0;
        self.brackets += 1;
        if self.brackets > super::BRACKETS_MAX {
            return self.too_deep(start);
        }
        loop {
            let TokenKind::Template { text, last, first } = &self.token().kind else {
                if self.is_end() {
                    let result = self.error("F0002", "text is not closed".to_owned(), start, None);
                    self.silent = true;
                    return result;
                }
                return self.expected("\"}\"");
            };
            if *first && !parts.is_empty() {
                return self.expected("\"}\"");
            }
            let last = *last;
            parts.push(TemplatePart::Text(text.clone()));
            self.advance();
            if last {
                break;
            }
            let part = self.expression()?;
            below = below.max(part.depth);
            parts.push(TemplatePart::Expr(part));
        }
        self.brackets -= 1;
        let span = self.since(start);
        self.node(ExprKind::Template(parts), span, below)
    }
}

fn is_logical(operation: &Operation) -> bool {
    matches!(operation.operator, Binary::And | Binary::Or)
}

fn deepest(items: &[Expr]) -> u16 {
    items.iter().map(|item| item.depth).max().unwrap_or(0)
}

fn item_depth(item: &ObjectItem) -> u16 {
    match item {
        ObjectItem::Field(_, value) | ObjectItem::Spread(value) => value.depth,
        ObjectItem::Short(_) => 0,
        ObjectItem::Computed(key, value) => key.depth.max(value.depth),
    }
}
