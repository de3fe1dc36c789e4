//! The parser: recursive descent by hand, one function per rule of the grammar.
//!
//! A syntax error is reported where it is found; then the rest of the statement is skipped and its words are remembered
//! ([`File::broken`]), so that nothing that follows from it is reported. Recursion is bounded: brackets by
//! [`BRACKETS_MAX`], everything together by [`DEPTH_MAX`].

mod expression;
mod file;
mod pattern;
mod statement;

use std::sync::Arc;

use super::lexer::lex;
use super::token::{Comment, Span, Token, TokenKind, foreign_word, is_reserved};
use super::tree::{Expr, ExprKind, File, Name};
use crate::diagnostic::{Diagnostic, Severity};

/// How deep brackets and blocks may be nested.
const BRACKETS_MAX: u32 = 100;
/// How deep the tree may be, also without brackets (`!!!x`, `a + b + …`).
const DEPTH_MAX: u32 = 500;
/// What a statement counts for: it needs more of the stack than an expression does.
const STATEMENT_DEPTH: u32 = 3;

/// What parsing gives.
pub(crate) struct ParsedFile {
    pub file: File,
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Whether a file is a script or a test file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Script,
    Test,
    /// Not known: what either may contain.
    Any,
}

/// Parses a source.
pub(crate) fn parse(source: &str, kind: FileKind) -> ParsedFile {
    let lexed = lex(source);
    let partners = partners(&lexed.tokens);
    let mut parser = Parser {
        source,
        tokens: lexed.tokens,
        partners,
        next: 0,
        diagnostics: Vec::new(),
        file: File::default(),
        kind,
        brackets: 0,
        depth: 0,
        silent: false,
    };
    parser.file();
    ParsedFile { file: parser.file, tokens: parser.tokens, comments: lexed.comments, diagnostics: parser.diagnostics }
}

/// A syntax error was reported; the statement cannot be parsed any further.
#[derive(Debug)]
struct SyntaxErrorReported;

type Result<T> = std::result::Result<T, SyntaxErrorReported>;

struct Parser<'a> {
    source: &'a str,
    /// Ends with [`TokenKind::End`].
    tokens: Vec<Token>,
    /// For each bracket the place of its other half, if it has one.
    partners: Vec<Option<usize>>,
    next: usize,
    diagnostics: Vec<Diagnostic>,
    file: File,
    kind: FileKind,
    brackets: u32,
    depth: u32,
    /// The end of the source was reached within something open: everything else would follow from that.
    silent: bool,
}

/// Finds the other half of each bracket. Of those that do not fit, the inner ones have none.
fn partners(tokens: &[Token]) -> Vec<Option<usize>> {
    let mut partners = vec![None; tokens.len()];
    let mut open: Vec<(usize, char)> = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let closes = match &token.kind {
            TokenKind::Sign(sign @ ("(" | "[" | "{")) => {
                open.push((place, opener(sign)));
                continue;
            }
            TokenKind::Template { first, last, .. } => {
                if !first && let Some(found) = open.iter().rposition(|(_, kind)| *kind == '`') {
                    open.truncate(found);
                }
                if !last {
                    open.push((place, '`'));
                }
                continue;
            }
            TokenKind::Sign(")") => '(',
            TokenKind::Sign("]") => '[',
            TokenKind::Sign("}") => '{',
            _ => continue,
        };
        if let Some(found) = open.iter().rposition(|(_, kind)| *kind == closes) {
            partners[place] = Some(open[found].0);
            partners[open[found].0] = Some(place);
            open.truncate(found);
        }
    }
    partners
}

fn opener(sign: &str) -> char {
    sign.chars().next().unwrap_or('(')
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        // The last token is the end, and nothing goes past it.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn token_at(&self, place: usize) -> &Token {
        &self.tokens[place.min(self.tokens.len() - 1)]
    }

    fn span(&self) -> Span {
        self.token().span
    }

    /// The span of the last token taken.
    fn last_span(&self) -> Span {
        self.token_at(self.next.saturating_sub(1)).span
    }

    fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    fn advance(&mut self) {
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
    }

    fn text_at(&self, place: usize) -> &str {
        &self.source[self.token_at(place).span.range()]
    }

    fn is_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    fn is_sign_at(&self, place: usize, sign: &str) -> bool {
        matches!(self.token_at(place).kind, TokenKind::Sign(found) if found == sign)
    }

    fn is_sign(&self, sign: &str) -> bool {
        self.is_sign_at(self.next, sign)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.advance();
        }
        found
    }

    fn word_at(&self, place: usize) -> Option<&str> {
        (self.token_at(place).kind == TokenKind::Word).then(|| self.text_at(place))
    }

    fn word(&self) -> Option<&str> {
        self.word_at(self.next)
    }

    fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    /// Whether the next token is a word that may be a name.
    fn is_name_at(&self, place: usize) -> bool {
        self.word_at(place).is_some_and(|word| !is_reserved(word))
    }

    fn expect_sign(&mut self, sign: &str) -> Result<Span> {
        let span = self.span();
        if self.take_sign(sign) { Ok(span) } else { self.expected(&format!("\"{sign}\"")) }
    }

    fn expect_word(&mut self, word: &str) -> Result<Span> {
        let span = self.span();
        if self.take_word(word) { Ok(span) } else { self.expected(&format!("\"{word}\"")) }
    }

    fn name(&mut self, what: &str) -> Result<Name> {
        if self.is_name_at(self.next) { Ok(self.take_name()) } else { self.expected(what) }
    }

    /// The next token, a word, as a name.
    fn take_name(&mut self) -> Name {
        let name = Name { text: Arc::from(self.text_at(self.next)), span: self.span(), quoted: false };
        self.advance();
        name
    }

    /// The next token as a name, if it is a string.
    fn take_text(&mut self) -> Option<Name> {
        let TokenKind::Text(text) = &self.token().kind else { return None };
        let name = Name { text: text.clone(), span: self.span(), quoted: true };
        self.advance();
        Some(name)
    }

    /// `;`, a newline, `}` or the end.
    fn end(&mut self) -> Result<()> {
        if self.take_sign(";") || self.token().after_newline || self.is_sign("}") || self.is_end() {
            return Ok(());
        }
        self.expected("a new line or \";\"")
    }

    /// Opens a bracket that is the next token. Every call needs one of [`Self::close`].
    fn open(&mut self, sign: &str) -> Result<usize> {
        let place = self.next;
        self.expect_sign(sign)?;
        if self.brackets >= BRACKETS_MAX {
            return self.too_deep(self.token_at(place).span);
        }
        self.brackets += 1;
        Ok(place)
    }

    /// Closes the bracket that was opened at this place.
    fn close(&mut self, place: usize, sign: &str, what: &str) -> Result<()> {
        if self.take_sign(sign) {
            self.brackets -= 1;
            return Ok(());
        }
        self.not_closed(place, what)
    }

    /// Reports what stands where a bracket should be closed.
    fn not_closed<T>(&mut self, place: usize, what: &str) -> Result<T> {
        let closes = matches!(self.token().kind, TokenKind::Sign(")" | "]" | "}") | TokenKind::End);
        let bad = matches!(self.token().kind, TokenKind::Bad(_));
        if bad || (self.partners[place].is_some() && !closes) {
            return self.expected(what);
        }
        let open = self.token_at(place);
        let message = format!("\"{}\" of line {} is not closed", self.text_at(place), open.span.start.line);
        let at_end = self.is_end();
        let result = self.error("F0102", message, self.span(), None);
        self.silent |= at_end;
        result
    }

    /// Separated by commas up to the closing bracket, a comma at the end allowed.
    fn list<T>(&mut self, place: usize, close: &str, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_sign(close) {
            items.push(item(self)?);
            if !self.take_sign(",") {
                break;
            }
        }
        self.close(place, close, &format!("\",\" or \"{close}\""))?;
        Ok(items)
    }

    /// So many levels deeper while parsing this.
    fn deeper<T>(&mut self, levels: u32, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth + levels > DEPTH_MAX {
            return self.too_deep(self.span());
        }
        self.depth += levels;
        let result = parse(self);
        self.depth -= levels;
        result
    }

    /// An expression above others.
    fn node(&mut self, kind: ExprKind, span: Span, below: u16) -> Result<Expr> {
        let depth = below.saturating_add(1);
        if self.depth + u32::from(depth) > DEPTH_MAX {
            return self.too_deep(span);
        }
        Ok(Expr { kind, span, depth })
    }

    fn too_deep<T>(&mut self, span: Span) -> Result<T> {
        self.error("F0008", "nested too deeply".to_owned(), span, None)
    }

    fn error<T>(&mut self, code: &'static str, message: String, span: Span, hint: Option<&str>) -> Result<T> {
        if !self.silent {
            let hint = hint.map(str::to_owned);
            let diagnostic =
                Diagnostic { code, severity: Severity::Error, message, start: span.start, end: span.end, hint };
            self.diagnostics.push(diagnostic);
        }
        Err(SyntaxErrorReported)
    }

    /// Reports that something else was expected instead of the next token.
    fn expected<T>(&mut self, what: &str) -> Result<T> {
        self.expected_with(what, None)
    }

    fn expected_with<T>(&mut self, what: &str, hint: Option<&str>) -> Result<T> {
        let token = self.token();
        let span = token.span;
        match &token.kind {
            TokenKind::Bad(bad) => {
                // What is not closed has swallowed the rest of the source.
                let swallowed = bad.code == "F0003" || (bad.code == "F0002" && span.to as usize == self.source.len());
                let bad = (**bad).clone();
                if !self.silent {
                    self.diagnostics.push(bad);
                }
                self.silent |= swallowed;
                return Err(SyntaxErrorReported);
            }
            TokenKind::Word => {
                let word = self.text_at(self.next);
                if let Some(hint) = foreign_word(word) {
                    let message = format!("\"{word}\" is not part of the language");
                    return self.error("F0105", message, span, Some(hint));
                }
            }
            _ => {}
        }
        let hint = hint.or_else(|| self.hint());
        let message = format!("expected {what}, found {}", self.show());
        self.error("F0101", message, span, hint)
    }

    /// What to write instead of an operator that no expression has.
    fn hint(&self) -> Option<&'static str> {
        let before = self.next.checked_sub(1).map(|before| &self.token_at(before).kind);
        match self.token().kind {
            TokenKind::Sign("*" | "*=") if before == Some(&TokenKind::Sign("*")) => Some("write Math.pow(x, y)"),
            TokenKind::Sign("++" | "--") => Some("write it as a statement of its own"),
            TokenKind::Sign("+=" | "-=" | "*=" | "/=" | "%=" | "??=") => {
                Some("an assignment is a statement of its own")
            }
            _ => None,
        }
    }

    /// The next token as messages show it.
    fn show(&self) -> String {
        match &self.token().kind {
            TokenKind::End => "the end of the file".to_owned(),
            TokenKind::Template { .. } => "a template".to_owned(),
            TokenKind::Text(_) => format!("text {}", self.text_at(self.next)),
            _ => format!("\"{}\"", self.text_at(self.next)),
        }
    }

    /// Skips the rest of a statement that began at this place and could not be parsed. It ends where a line begins a new
    /// statement, not counting lines within its brackets. `starts` says which words can begin one.
    fn skip(&mut self, start: usize, starts: impl Fn(&Self, usize) -> bool) {
        let failed = self.next;
        let mut place = start;
        let next = loop {
            let token = self.token_at(place);
            match token.kind {
                TokenKind::End => break place,
                TokenKind::Sign(";") if place >= failed => break place + 1,
                TokenKind::Sign("}") if self.partners[place].is_some_and(|open| open < start) => break place,
                _ if place >= failed && place > start && token.after_newline && starts(self, place) => break place,
                TokenKind::Sign("(" | "[" | "{") => {
                    place = match self.partners[place] {
                        Some(partner) => partner + 1,
                        None => place + 1,
                    };
                }
                _ => place += 1,
            }
        };
        let words: Vec<Arc<str>> = (start..next).filter_map(|place| self.word_at(place).map(Arc::from)).collect();
        self.file.broken.extend(words);
        self.next = next.max(start + 1).min(self.tokens.len() - 1);
    }

    /// Whether a token at the beginning of a line can begin a statement.
    fn starts_statement(&self, place: usize) -> bool {
        match &self.token_at(place).kind {
            TokenKind::Word => !matches!(self.text_at(place), "in" | "instanceof" | "else" | "catch" | "finally"),
            TokenKind::Sign(sign) => matches!(*sign, "(" | "[" | "{" | "!"),
            TokenKind::Template { first, .. } => *first,
            TokenKind::Bad(_) | TokenKind::End => false,
            TokenKind::Int(_) | TokenKind::Float(_) | TokenKind::Text(_) => true,
        }
    }
}
