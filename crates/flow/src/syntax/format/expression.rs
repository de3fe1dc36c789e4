//! Expressions.

use super::Formatter;
use super::doc::Doc;
use super::file::quoted;
use crate::hir;
use crate::syntax::token::Span;
use crate::syntax::tree::{
    Arrow, ArrowBody, Binary, Expr, ExprKind, ListItem, Name, ObjectItem, Operation, Params, Pattern, Unary,
};

impl Formatter<'_> {
    /// An expression, with the comments in front of it.
    pub fn expr(&mut self, expr: &Expr) -> Doc {
        let leading = self.leading(expr.span.from);
        Doc::concat(vec![leading, self.bare(expr)])
    }

    fn bare(&mut self, expr: &Expr) -> Doc {
        match &expr.kind {
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Name(_)
            | ExprKind::Broken => Doc::text(self.source_of(expr.span)),
            ExprKind::Str(_) => Doc::raw(&quoted(self.source_of(expr.span))),
            ExprKind::Template(_) => {
                self.skip_comments(expr.span);
                Doc::raw(self.source_of(expr.span))
            }
            ExprKind::Paren(inner) => self.paren(inner),
            ExprKind::List(items) => {
                let spans: Vec<Span> = items.iter().map(list_span).collect();
                self.list("[", expr.span, "]", false, &spans, |formatter, place| match &items[place] {
                    ListItem::Item(item) => formatter.expr(item),
                    ListItem::Spread(item) => Doc::concat(vec![Doc::text("..."), formatter.expr(item)]),
                })
            }
            ExprKind::Object(items) => {
                let spans: Vec<Span> = items.iter().map(object_span).collect();
                self.list("{", expr.span, "}", false, &spans, |formatter, place| formatter.object_item(&items[place]))
            }
            ExprKind::New { name, arguments } => {
                let open = Span { from: name.span.to, ..expr.span };
                let arguments = self.arguments(arguments, open);
                Doc::concat(vec![Doc::text("new "), Doc::text(&*name.text), arguments])
            }
            ExprKind::Field { .. } | ExprKind::Index { .. } | ExprKind::Call { .. } => self.chain(expr),
            ExprKind::Unary { operator, operand } => {
                let sign = match operator {
                    Unary::Not => "!",
                    // `- -x` is not `--x`.
                    Unary::Negate if matches!(operand.kind, ExprKind::Unary { operator: Unary::Negate, .. }) => "- ",
                    Unary::Negate => "-",
                    Unary::Typeof => "typeof ",
                    Unary::Await => "await ",
                };
                Doc::concat(vec![Doc::text(sign), self.expr(operand)])
            }
            ExprKind::Binary { first, rest } => self.binary(first, rest),
            ExprKind::Conditional { arms, otherwise } => self.conditional(arms, otherwise),
            ExprKind::Arrow(arrow) => self.arrow(arrow),
        }
    }

    fn paren(&mut self, inner: &Expr) -> Doc {
        let hugs = hugs(inner) && !self.has_comment_before(inner.span.from);
        let inner = self.expr(inner);
        if hugs {
            return Doc::concat(vec![Doc::text("("), inner, Doc::text(")")]);
        }
        let inner = Doc::concat(vec![Doc::soft(), inner]).indent();
        Doc::concat(vec![Doc::text("("), inner, Doc::soft(), Doc::text(")")]).group()
    }

    /// `a ? b : c`; a further one behind the `:` is not indented more.
    fn conditional(&mut self, arms: &[(Expr, Expr)], otherwise: &Expr) -> Doc {
        let mut first = None;
        let mut rest = Vec::new();
        for (condition, then) in arms {
            let condition = self.expr(condition);
            if first.is_none() {
                first = Some(condition);
            } else {
                rest.push(condition);
            }
            rest.extend([Doc::line(), Doc::text("? "), self.expr(then), Doc::line(), Doc::text(": ")]);
        }
        rest.push(self.expr(otherwise));
        Doc::concat(vec![first.unwrap_or_else(Doc::none), Doc::concat(rest).indent()]).group()
    }

    /// Items in brackets: on one line, or each on its own with a comma after the last (but not after a rest).
    pub fn list(
        &mut self,
        open: &'static str,
        span: Span,
        close: &'static str,
        rest: bool,
        spans: &[Span],
        item: impl Fn(&mut Self, usize) -> Doc,
    ) -> Doc {
        let closing = span.to.saturating_sub(1);
        let edge = || if open == "{" { Doc::line() } else { Doc::soft() };
        let mut inner = vec![self.trailing(span.from + 1, spans.first().map_or(closing, |first| first.from))];
        inner.push(edge());
        for (place, span) in spans.iter().enumerate() {
            inner.push(self.leading(span.from));
            inner.push(item(self, place));
            let is_last = place + 1 == spans.len();
            let limit = spans.get(place + 1).map_or(closing, |next| next.from);
            let leftover = self.leftover(span.to);
            inner.push(match (is_last, rest) {
                (false, _) => Doc::text(","),
                (true, false) => Doc::if_broken(","),
                (true, true) => Doc::none(),
            });
            inner.push(leftover);
            inner.push(self.trailing(span.to, limit));
            if is_last {
                inner.push(self.inline(span.to, limit));
            } else {
                inner.push(Doc::line());
            }
        }
        let mut last = spans.last().and_then(|last| self.printed(last.to));
        let mut dangling = Vec::new();
        self.own_lines(closing, &mut last, &mut dangling);
        if spans.is_empty() && dangling.is_empty() && !inner[0].breaks() {
            return Doc::text(format!("{open}{close}"));
        }
        if spans.is_empty() && !dangling.is_empty() {
            // The first comment has its own line break.
            inner.pop();
        }
        inner.extend(dangling);
        Doc::concat(vec![Doc::text(open), Doc::concat(inner).indent(), edge(), Doc::text(close)]).group()
    }

    fn object_item(&mut self, item: &ObjectItem) -> Doc {
        match item {
            ObjectItem::Field(key, value) => {
                let key = self.name(key);
                Doc::concat(vec![key, Doc::text(": "), self.expr(value)])
            }
            ObjectItem::Short(name) => Doc::text(&*name.text),
            ObjectItem::Computed(key, value) => {
                let key = self.expr(key);
                Doc::concat(vec![Doc::text("["), key, Doc::text("]: "), self.expr(value)])
            }
            ObjectItem::Spread(value) => Doc::concat(vec![Doc::text("..."), self.expr(value)]),
        }
    }

    /// Operators of one strength side by side; broken behind the operators.
    fn binary(&mut self, first: &Expr, operations: &[Operation]) -> Doc {
        let Some(last) = operations.last() else { return self.expr(first) };
        let weakest = strength(last.operator);
        let stronger = operations.iter().rposition(|operation| strength(operation.operator) != weakest);
        let (inner, outer) = operations.split_at(stronger.map_or(0, |place| place + 1));
        let first = self.binary(first, inner);
        let mut rest = Vec::new();
        for operation in outer {
            rest.push(Doc::text(format!(" {}", self.source_of(operation.sign))));
            rest.push(Doc::line());
            rest.push(self.expr(&operation.right));
        }
        Doc::concat(vec![first, Doc::concat(rest).indent()]).group()
    }

    /// Accesses and calls one after the other. Three or more calls of functions of values are broken at their dots if they do
    /// not fit.
    fn chain(&mut self, expr: &Expr) -> Doc {
        let mut links = Vec::new();
        let mut base = expr;
        while let ExprKind::Field { base: inner, .. }
        | ExprKind::Index { base: inner, .. }
        | ExprKind::Call { callee: inner, .. } = &base.kind
        {
            links.push(base);
            base = inner;
        }
        links.reverse();
        // `Task.run` and `xs.map` stand together; a break before the first dot would gain nothing.
        let mut first = vec![self.expr(base)];
        // `1.x` would be a number.
        if matches!(base.kind, ExprKind::Int(_) | ExprKind::Float(_))
            && matches!(links.first().map(|link| &link.kind), Some(ExprKind::Field { optional: false, .. }))
            && self.source_of(base.span).bytes().all(|byte| byte != b'.' && byte != b'x')
        {
            first.push(Doc::text(" "));
        }
        let mut rest: Vec<Doc> = Vec::new();
        let mut dots = 0;
        let breaks = count_calls(expr) >= 3;
        for link in links {
            let doc = self.link(link);
            if matches!(link.kind, ExprKind::Field { .. }) {
                dots += 1;
            }
            if dots <= 1 {
                first.push(doc);
            } else {
                if breaks && matches!(link.kind, ExprKind::Field { .. }) {
                    rest.push(Doc::soft());
                }
                rest.push(doc);
            }
        }
        first.push(Doc::concat(rest).indent());
        let chain = Doc::concat(first);
        if breaks { chain.group() } else { chain }
    }

    fn link(&mut self, link: &Expr) -> Doc {
        match &link.kind {
            ExprKind::Field { key, optional, .. } => field(key, *optional),
            ExprKind::Index { index, optional, .. } => {
                let index = self.expr(index);
                Doc::concat(vec![Doc::text(if *optional { "?.[" } else { "[" }), index, Doc::text("]")])
            }
            ExprKind::Call { callee, arguments } => {
                let open = Span { from: callee.span.to, ..link.span };
                self.arguments(arguments, open)
            }
            _ => Doc::none(),
        }
    }

    /// Arguments in parentheses; `span` ends with theirs. If they do not fit on a line, the last one may be broken behind
    /// the others: `f("x", {` … `})`.
    fn arguments(&mut self, arguments: &[Expr], span: Span) -> Doc {
        let spans: Vec<Span> = arguments.iter().map(|argument| argument.span).collect();
        let open = spans.first().map_or(span.to.saturating_sub(1), |first| first.from);
        let opening = self.source[span.from as usize..open as usize].find('(').unwrap_or(0);
        let span = Span { from: span.from + u32::try_from(opening).unwrap_or(0), ..span };
        let commented = self.has_comment_in_list(span, &spans);
        if commented || !arguments.last().is_some_and(hugs_as_argument) {
            return self.list("(", span, ")", false, &spans, |formatter, place| formatter.expr(&arguments[place]));
        }
        // No comment stands in front of any of them.
        let docs: Vec<Doc> = arguments.iter().map(|argument| self.bare(argument)).collect();
        let (last, others) = match docs.split_last() {
            Some((last, others)) => (last, others),
            None => return Doc::text("()"),
        };
        let mut items = vec![Doc::soft()];
        let mut hugged = vec![Doc::text("(")];
        for other in others {
            items.extend([other.clone(), Doc::text(","), Doc::line()]);
            hugged.extend([other.clone(), Doc::text(", ")]);
        }
        items.extend([last.clone(), Doc::if_broken(",")]);
        hugged.extend([last.broken(), Doc::text(")")]);
        let list = Doc::concat(vec![Doc::text("("), Doc::concat(items).indent(), Doc::soft(), Doc::text(")")]).group();
        if others.iter().any(Doc::breaks) {
            return list.broken();
        }
        let broken = list.broken();
        Doc::choice(list, Doc::concat(hugged), broken)
    }

    /// Whether a comment stands between the items of a list.
    fn has_comment_in_list(&self, span: Span, items: &[Span]) -> bool {
        let within = self.comments[self.next..].iter().take_while(|comment| comment.span.from < span.to);
        within
            .into_iter()
            .any(|comment| !items.iter().any(|item| item.from <= comment.span.from && comment.span.to <= item.to))
    }

    fn arrow(&mut self, arrow: &Arrow) -> Doc {
        let mut head = vec![Doc::text(if arrow.is_async { "async " } else { "" })];
        head.push(self.arrow_params(&arrow.params));
        head.push(Doc::text(" =>"));
        let head = Doc::concat(head);
        match &arrow.body {
            ArrowBody::Block(block) => {
                let leading = self.leading(block.span.from);
                let block = self.block(block);
                Doc::concat(vec![head, Doc::text(" "), leading, block]).group()
            }
            ArrowBody::Expr(body) => {
                let on_line = hugs(body) || matches!(body.kind, ExprKind::Paren(_) | ExprKind::Call { .. });
                let on_line = on_line && !self.has_comment_before(body.span.from);
                let body = self.expr(body);
                if on_line {
                    return Doc::concat(vec![head, Doc::text(" "), body]).group();
                }
                Doc::concat(vec![head, Doc::concat(vec![Doc::line(), body]).indent()]).group()
            }
        }
    }

    /// A single name needs no parentheses.
    fn arrow_params(&mut self, params: &Params) -> Doc {
        if let [only] = params.items.as_slice()
            && let (Pattern::Name(name), None) = (&only.pattern, &only.default)
            && !self.has_comment_before(params.span.to)
        {
            return Doc::text(&*name.text);
        }
        self.params(params)
    }
}

fn field(key: &Name, optional: bool) -> Doc {
    Doc::text(format!("{}{}", if optional { "?." } else { "." }, key.text))
}

/// Calls of functions of values in a chain.
fn count_calls(expr: &Expr) -> usize {
    let mut calls = 0;
    let mut link = expr;
    loop {
        link = match &link.kind {
            ExprKind::Call { callee, .. } => {
                calls += usize::from(matches!(callee.kind, ExprKind::Field { .. }));
                callee
            }
            ExprKind::Field { base, .. } | ExprKind::Index { base, .. } => base,
            _ => return calls,
        }
    }
}

/// Whether an expression has brackets of its own at both ends.
fn hugs(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Object(_) | ExprKind::List(_) | ExprKind::Template(_))
}

fn hugs_as_argument(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Object(items) => !items.is_empty(),
        ExprKind::List(items) => !items.is_empty(),
        ExprKind::Arrow(arrow) => matches!(&arrow.body, ArrowBody::Block(_)),
        _ => false,
    }
}

/// Without the three dots of a spread: comments between them and the value go in front.
fn list_span(item: &ListItem) -> Span {
    let (ListItem::Item(item) | ListItem::Spread(item)) = item;
    item.span
}

fn object_span(item: &ObjectItem) -> Span {
    match item {
        ObjectItem::Field(key, value) => key.span.to(value.span),
        ObjectItem::Short(name) => name.span,
        ObjectItem::Computed(key, value) => key.span.to(value.span),
        ObjectItem::Spread(value) => value.span,
    }
}

const fn strength(operator: Binary) -> u8 {
    match operator {
        Binary::Default => 1,
        Binary::Or => 2,
        Binary::And => 3,
        Binary::Operator(hir::Binary::Equal | hir::Binary::NotEqual) => 4,
        Binary::Operator(
            hir::Binary::Less
            | hir::Binary::LessOrEqual
            | hir::Binary::Greater
            | hir::Binary::GreaterOrEqual
            | hir::Binary::In,
        ) => 5,
        Binary::Operator(hir::Binary::Add | hir::Binary::Subtract) => 6,
        Binary::Operator(hir::Binary::Multiply | hir::Binary::Divide | hir::Binary::Remainder) => 7,
    }
}
