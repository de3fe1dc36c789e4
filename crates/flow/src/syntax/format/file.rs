//! Files, functions, handlers and patterns.

use super::Formatter;
use super::doc::Doc;
use crate::syntax::token::Span;
use crate::syntax::tree::{Expr, File, Function, Handler, HandlerKind, Item, Name, Params, Pattern, PatternField};

impl Formatter<'_> {
    pub fn file(&mut self, file: &File) -> Doc {
        let mut parts = Vec::new();
        let mut last = None;
        let end = u32::try_from(self.source.len()).unwrap_or(u32::MAX);
        for (place, item) in file.items.iter().enumerate() {
            let Span { from, to, .. } = item.span();
            self.own_lines(from, &mut last, &mut parts);
            parts.push(self.separator(last, from));
            parts.push(self.item(item));
            let limit = file.items.get(place + 1).map_or(end, |next| next.span().from);
            parts.push(self.leftover(to));
            parts.push(self.trailing(to, limit));
            last = self.printed(to);
        }
        self.own_lines(end, &mut last, &mut parts);
        // Each has its line break in front of it; the first needs none.
        if !parts.is_empty() {
            parts.remove(0);
        }
        Doc::concat(parts)
    }

    fn item(&mut self, item: &Item) -> Doc {
        match item {
            Item::Use(path, _) => {
                let path = self.name(path);
                Doc::concat(vec![Doc::text("use "), path])
            }
            Item::Schedule(schedule) => {
                let cron = self.name(&schedule.cron);
                let mut parts = vec![Doc::text("schedule("), cron];
                if let Some(options) = &schedule.options {
                    parts.push(Doc::text(", "));
                    parts.push(self.expr(options));
                }
                parts.push(Doc::text(")"));
                Doc::concat(parts)
            }
            Item::Constant(constant) => {
                let head = Doc::text(format!("const {} = ", constant.name.text));
                Doc::concat(vec![head, self.expr(&constant.value)])
            }
            Item::Function(function) => self.function(function),
            Item::Workflow(workflow) => {
                let name = self.name(&workflow.name);
                let params = self.params(&workflow.params);
                let body = self.block(&workflow.body).group();
                Doc::concat(vec![Doc::text("workflow "), name, params, Doc::text(" "), body])
            }
            Item::Test(test) => {
                let name = self.name(&test.name);
                let body = self.block(&test.body).group();
                Doc::concat(vec![Doc::text("test "), name, Doc::text(" "), body])
            }
        }
    }

    /// A name or a string.
    pub fn name(&mut self, name: &Name) -> Doc {
        if name.quoted { Doc::raw(&quoted(self.source_of(name.span))) } else { Doc::text(&*name.text) }
    }

    pub fn function(&mut self, function: &Function) -> Doc {
        let head = if function.is_async { "async function " } else { "function " };
        let params = self.params(&function.params);
        let body = self.block(&function.body).group();
        Doc::concat(vec![Doc::text(head), Doc::text(&*function.name.text), params, Doc::text(" "), body])
    }

    pub fn handler(&mut self, handler: &Handler) -> Doc {
        let head = match handler.kind {
            HandlerKind::Query => "query ",
            HandlerKind::Signal => "signal ",
            HandlerKind::Update => "update ",
        };
        let name = self.name(&handler.name);
        let params = self.params(&handler.params);
        let validate = handler.validate.as_ref().map(|(word, block)| (*word, block));
        let body = self.block_after(&handler.body, validate).group();
        Doc::concat(vec![Doc::text(head), name, params, Doc::text(" "), body])
    }

    pub fn params(&mut self, params: &Params) -> Doc {
        let spans: Vec<Span> =
            params.items.iter().map(|param| spanned(&param.pattern, param.default.as_ref())).collect();
        self.list("(", params.span, ")", false, &spans, |formatter, place| {
            let param = &params.items[place];
            formatter.pattern_with(&param.pattern, param.default.as_ref())
        })
    }

    /// A pattern and the value or default after `=`.
    pub fn pattern_with(&mut self, pattern: &Pattern, value: Option<&Expr>) -> Doc {
        let pattern = self.pattern(pattern);
        match value {
            Some(value) => Doc::concat(vec![pattern, Doc::text(" = "), self.expr(value)]),
            None => pattern,
        }
    }

    pub fn pattern(&mut self, pattern: &Pattern) -> Doc {
        match pattern {
            Pattern::Name(name) => {
                let leading = self.leading(name.span.from);
                Doc::concat(vec![leading, Doc::text(&*name.text)])
            }
            Pattern::List { items, rest, span } => {
                let mut spans: Vec<Span> =
                    items.iter().map(|(item, default)| spanned(item, default.as_ref())).collect();
                spans.extend(rest.as_ref().map(|rest| rest.span));
                self.list("[", *span, "]", rest.is_some(), &spans, |formatter, place| match items.get(place) {
                    Some((item, default)) => formatter.pattern_with(item, default.as_ref()),
                    None => rest_doc(rest.as_ref()),
                })
            }
            Pattern::Object { fields, rest, span } => {
                let mut spans: Vec<Span> = fields.iter().map(field_span).collect();
                spans.extend(rest.as_ref().map(|rest| rest.span));
                self.list("{", *span, "}", rest.is_some(), &spans, |formatter, place| match fields.get(place) {
                    Some(field) => formatter.pattern_field(field),
                    None => rest_doc(rest.as_ref()),
                })
            }
        }
    }

    fn pattern_field(&mut self, field: &PatternField) -> Doc {
        let key = self.name(&field.key);
        let mut parts = vec![key];
        if let Some(pattern) = &field.pattern {
            parts.push(Doc::text(": "));
            parts.push(self.pattern(pattern));
        }
        if let Some(default) = &field.default {
            parts.push(Doc::text(" = "));
            parts.push(self.expr(default));
        }
        Doc::concat(parts)
    }
}

fn rest_doc(rest: Option<&Name>) -> Doc {
    Doc::text(format!("...{}", rest.map_or("", |rest| &rest.text)))
}

fn spanned(pattern: &Pattern, default: Option<&Expr>) -> Span {
    let span = pattern.span();
    default.map_or(span, |default| span.to(default.span))
}

fn field_span(field: &PatternField) -> Span {
    let pattern = field.pattern.as_ref().map(Pattern::span);
    let default = field.default.as_ref().map(|default| default.span);
    field.key.span.to(default.or(pattern).unwrap_or(field.key.span))
}

/// A string in `"`. Its escapes stay as they are written.
pub(super) fn quoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) else { return text.to_owned() };
    let mut out = String::from("\"");
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => match rest.next() {
                Some('\'') => out.push('\''),
                Some(escaped) => out.extend(['\\', escaped]),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
