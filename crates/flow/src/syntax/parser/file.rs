//! Files, workflows, functions, handlers and tests.

use super::{FileKind, Parser, Result};
use crate::syntax::token::TokenKind;
use crate::syntax::tree::{
    Constant, Function, Handler, HandlerKind, Item, Name, Params, Schedule, Statement, StatementKind, Test, Workflow,
};

/// The greatest length of names that others see, in bytes.
const NAME_BYTES_MAX: usize = 1_000;

impl Parser<'_> {
    pub(super) fn file(&mut self) {
        while !self.is_end() {
            let start = self.next;
            if self.take_sign(";") {
                continue;
            }
            match self.item() {
                Ok(item) => self.file.items.push(item),
                Err(_) => {
                    self.brackets = 0;
                    self.file.broken_item = true;
                    self.skip(start, |parser, place| {
                        let word = parser.word_at(place);
                        // Words of other languages begin an item that has an error of its own.
                        let is_foreign =
                            matches!(word, Some("class" | "enum" | "export" | "import" | "interface" | "var"));
                        let is_item = matches!(word, Some("const" | "function" | "async"));
                        is_item || is_foreign || parser.is_header(place)
                    });
                }
            }
        }
    }

    /// Whether the contextual word at this place begins an item of a file or a handler.
    fn is_header(&self, place: usize) -> bool {
        let next = self.token_at(place + 1);
        let named = (self.is_name_at(place + 1) || matches!(next.kind, TokenKind::Text(_))) && !next.after_newline;
        match self.word_at(place) {
            Some("workflow" | "query" | "signal" | "update" | "test" | "use") => named,
            Some("schedule") => self.is_sign_at(place + 1, "("),
            _ => false,
        }
    }

    fn item(&mut self) -> Result<Item> {
        let start = self.span();
        let word = self.word().map(str::to_owned);
        match word.as_deref() {
            Some("const") => {
                self.advance();
                let name = self.name("a name")?;
                self.expect_sign("=")?;
                let value = self.expression()?;
                let span = self.since(start);
                self.end()?;
                Ok(Item::Constant(Constant { name, value, span }))
            }
            Some("function" | "async") => self.function().map(Item::Function),
            Some("workflow") if self.kind != FileKind::Test => self.workflow().map(Item::Workflow),
            Some("schedule") if self.kind != FileKind::Test && self.is_header(self.next) => {
                self.schedule().map(Item::Schedule)
            }
            Some("use") if self.kind != FileKind::Script => {
                self.advance();
                let Some(path) = self.take_text() else { return self.expected("the path of a script") };
                self.end()?;
                let span = start.to(path.span);
                Ok(Item::Use(path, span))
            }
            Some("test") if self.kind != FileKind::Script => {
                self.advance();
                let Some(name) = self.take_text() else { return self.expected("the name of the test") };
                let body = self.block()?;
                Ok(Item::Test(Test { name, body, span: self.since(start) }))
            }
            Some("query" | "signal" | "update") if self.is_header(self.next) => {
                self.handler()?;
                let message = "handler belongs into the outermost block of the workflow".to_owned();
                self.error("F0108", message, start, None)
            }
            _ => self.expected(match self.kind {
                FileKind::Script | FileKind::Any => "\"workflow\", \"function\", \"const\" or \"schedule\"",
                FileKind::Test => "\"use\", \"test\", \"function\" or \"const\"",
            }),
        }
    }

    fn workflow(&mut self) -> Result<Workflow> {
        let start = self.span();
        self.advance();
        let name = self.outer_name()?;
        let params = self.params_or_skip()?;
        let body = self.block()?;
        Ok(Workflow { name, params, body, span: self.since(start) })
    }

    /// The name of a workflow or handler, which others use: a name or a string.
    fn outer_name(&mut self) -> Result<Name> {
        let start = self.next;
        let name = match self.take_text() {
            Some(text) => text,
            None => self.name("a name")?,
        };
        if name.text.is_empty() || name.text.len() > NAME_BYTES_MAX || name.text.starts_with("segno.") {
            self.next = start;
            return self.expected("a name of 1 to 1000 bytes that does not begin with \"segno.\"");
        }
        Ok(name)
    }

    /// Parameters; if they are broken, nothing else is.
    fn params_or_skip(&mut self) -> Result<Params> {
        let start = self.next;
        let brackets = self.brackets;
        match self.params() {
            Ok(params) => Ok(params),
            Err(broken) => self.skip_brackets(start, brackets).map(|()| Params::default()).ok_or(broken),
        }
    }

    fn schedule(&mut self) -> Result<Schedule> {
        let start = self.span();
        self.advance();
        let open = self.open("(")?;
        let Some(cron) = self.take_text() else { return self.expected("a cron text") };
        let mut options = None;
        if self.take_sign(",") && !self.is_sign(")") {
            if !self.is_sign("{") {
                return self.expected("an object of options");
            }
            options = Some(self.expression()?);
            self.take_sign(",");
        }
        self.close(open, ")", "\")\"")?;
        let span = self.since(start);
        self.end()?;
        Ok(Schedule { cron, options, span })
    }

    fn function(&mut self) -> Result<Function> {
        let start = self.span();
        let is_async = self.take_word("async");
        self.expect_word("function")?;
        let name = self.name("the name of the function")?;
        let params = self.params_or_skip()?;
        let body = self.block()?;
        Ok(Function { is_async, name, params, body, span: self.since(start) })
    }

    /// A function or a handler where a statement stands, if it is one.
    pub(super) fn inner_declaration(&mut self) -> Option<Result<Statement>> {
        let start = self.span();
        let is_function =
            self.is_word("function") || (self.is_word("async") && self.word_at(self.next + 1) == Some("function"));
        let is_handler = matches!(self.word(), Some("query" | "signal" | "update")) && self.is_header(self.next);
        let kind = if is_function {
            self.function().map(|function| StatementKind::Function(Box::new(function)))
        } else if is_handler {
            self.handler().map(|handler| StatementKind::Handler(Box::new(handler)))
        } else {
            return None;
        };
        Some(kind.map(|kind| Statement { kind, span: self.since(start) }))
    }

    fn handler(&mut self) -> Result<Handler> {
        let start = self.span();
        let kind = match self.word() {
            Some("query") => HandlerKind::Query,
            Some("signal") => HandlerKind::Signal,
            _ => HandlerKind::Update,
        };
        self.advance();
        let name = self.outer_name()?;
        let params = self.params_or_skip()?;
        let open_span = self.span();
        let open = self.open("{")?;
        let mut validate = None;
        if kind == HandlerKind::Update && self.is_word("validate") && self.is_sign_at(self.next + 1, "{") {
            let word = self.span();
            self.advance();
            validate = Some((word, self.block()?));
        }
        let mut body = self.block_rest(open)?;
        body.span = open_span.to(body.span);
        Ok(Handler { kind, name, params, validate, body, span: self.since(start) })
    }
}
