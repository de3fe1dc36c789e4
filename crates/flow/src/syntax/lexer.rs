//! The lexer. It never fails: invalid text becomes [`TokenKind::Bad`] with its diagnostic.

use std::sync::Arc;

use super::token::{Comment, Span, Token, TokenKind};
use crate::diagnostic::{Diagnostic, Position, Severity};

/// The tokens of a source, the last of which is [`TokenKind::End`], and its comments in order.
pub(crate) struct Lexed {
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
}

/// The operator, bracket or separator that a text begins with. Of two, the longer one.
fn sign_at(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let second = bytes.get(1).copied().unwrap_or(0);
    let third = bytes.get(2).copied().unwrap_or(0);
    Some(match (bytes.first()?, second, third) {
        (b'.', b'.', b'.') => "...",
        (b'.', ..) => ".",
        (b'(', ..) => "(",
        (b')', ..) => ")",
        (b'[', ..) => "[",
        (b']', ..) => "]",
        (b'{', ..) => "{",
        (b'}', ..) => "}",
        (b',', ..) => ",",
        (b';', ..) => ";",
        (b':', ..) => ":",
        (b'=', b'=', b'=') => "===",
        (b'=', b'=', _) => "==",
        (b'=', b'>', _) => "=>",
        (b'=', ..) => "=",
        (b'!', b'=', b'=') => "!==",
        (b'!', b'=', _) => "!=",
        (b'!', ..) => "!",
        (b'?', b'?', b'=') => "??=",
        (b'?', b'?', _) => "??",
        (b'?', b'.', _) => "?.",
        (b'?', ..) => "?",
        (b'<', b'=', _) => "<=",
        (b'<', ..) => "<",
        (b'>', b'=', _) => ">=",
        (b'>', ..) => ">",
        (b'&', b'&', _) => "&&",
        (b'|', b'|', _) => "||",
        (b'+', b'+', _) => "++",
        (b'+', b'=', _) => "+=",
        (b'+', ..) => "+",
        (b'-', b'-', _) => "--",
        (b'-', b'=', _) => "-=",
        (b'-', ..) => "-",
        (b'*', b'=', _) => "*=",
        (b'*', ..) => "*",
        (b'/', b'=', _) => "/=",
        (b'/', ..) => "/",
        (b'%', b'=', _) => "%=",
        (b'%', ..) => "%",
        _ => return None,
    })
}

/// Splits a source into tokens.
pub(crate) fn lex(source: &str) -> Lexed {
    let mut lexer = Lexer {
        source,
        offset: 0,
        at: Position { line: 1, column: 1 },
        tokens: Vec::with_capacity(source.len() / 4 + 1),
        comments: Vec::new(),
        after_newline: true,
        templates: Vec::new(),
    };
    while lexer.token() {}
    Lexed { tokens: lexer.tokens, comments: lexer.comments }
}

struct Lexer<'a> {
    source: &'a str,
    offset: usize,
    at: Position,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
    after_newline: bool,
    /// For each template whose `${` is open: how many `{` are open in it.
    templates: Vec<u32>,
}

/// The place where a token begins.
#[derive(Clone, Copy)]
struct Mark {
    at: Position,
    offset: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.offset..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.offset += c.len_utf8();
        if c == '\n' {
            self.at = Position { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    fn bump_while(&mut self, accept: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&accept) {
            self.bump();
        }
    }

    const fn mark(&self) -> Mark {
        Mark { at: self.at, offset: self.offset }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a source has at most 256 KiB")]
    const fn span(&self, from: Mark) -> Span {
        Span { start: from.at, end: self.at, from: from.offset as u32, to: self.offset as u32 }
    }

    fn push(&mut self, kind: TokenKind, from: Mark) {
        let span = self.span(from);
        self.tokens.push(Token { kind, span, after_newline: self.after_newline });
        self.after_newline = false;
    }

    fn bad(&self, code: &'static str, message: String, from: Mark) -> TokenKind {
        let Span { start, end, .. } = self.span(from);
        TokenKind::Bad(Box::new(Diagnostic { code, severity: Severity::Error, message, start, end, hint: None }))
    }

    /// Reads one token or a stretch of white space and comments. `false` after the last token.
    fn token(&mut self) -> bool {
        let from = self.mark();
        let Some(c) = self.peek() else {
            self.push(TokenKind::End, from);
            return false;
        };
        match c {
            '\n' => {
                self.bump();
                self.after_newline = true;
            }
            _ if c.is_whitespace() => {
                self.bump();
            }
            '/' if self.second() == Some('/') => {
                self.bump_while(|c| c != '\n');
                self.comments.push(Comment { span: self.span(from) });
            }
            '/' if self.second() == Some('*') => self.block_comment(from),
            '"' | '\'' => self.string(from),
            '`' => {
                self.bump();
                self.template(from, true);
            }
            '}' if self.templates.last() == Some(&0) => {
                self.templates.pop();
                self.bump();
                self.template(from, false);
            }
            '0'..='9' => self.number(from),
            '.' if self.second().is_some_and(|c| c.is_ascii_digit()) => {
                self.bump_while(|c| c == '.' || is_name_part(c));
                let bad = self.bad_number(from);
                self.push(bad, from);
            }
            _ if is_name_start(c) => {
                self.bump_while(is_name_part);
                self.push(TokenKind::Word, from);
            }
            _ => self.sign(from, c),
        }
        true
    }

    fn block_comment(&mut self, from: Mark) {
        let rest = self.rest();
        match rest[2..].find("*/") {
            Some(length) => {
                let end = self.offset + length + 4;
                while self.offset < end {
                    if self.bump() == Some('\n') {
                        self.after_newline = true;
                    }
                }
                self.comments.push(Comment { span: self.span(from) });
            }
            None => {
                self.bump();
                self.bump();
                let bad = self.bad("F0003", "comment is not closed".to_owned(), from);
                self.bump_while(|_| true);
                self.push(bad, from);
            }
        }
    }

    fn sign(&mut self, from: Mark, c: char) {
        let Some(sign) = sign_at(self.rest()) else {
            self.bump();
            let bad = self.bad("F0001", format!("unexpected character \"{c}\""), from);
            self.push(bad, from);
            return;
        };
        for _ in 0..sign.len() {
            self.bump();
        }
        if let Some(open) = self.templates.last_mut() {
            match sign {
                "{" => *open += 1,
                "}" => *open -= 1,
                _ => {}
            }
        }
        self.push(TokenKind::Sign(sign), from);
    }

    fn bad_number(&self, from: Mark) -> TokenKind {
        self.bad("F0005", "not a number, or out of range".to_owned(), from)
    }

    /// `0`, `12`, `1_000`, `1.5`, `6e23`, `0xFF`, `0b101`.
    fn number(&mut self, from: Mark) {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let mut length = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let radix = match bytes {
            [b'0', b'x', ..] => 16,
            [b'0', b'b', ..] => 2,
            _ => 10,
        };
        if radix == 10 {
            // After an exponent a point is that of a function.
            let is_complete = bytes[..length].iter().any(|byte| matches!(byte, b'e' | b'E'));
            if bytes.get(length) == Some(&b'.') && !is_complete {
                length += 1;
                length += count_digits(&bytes[length..]);
            }
            if matches!(bytes.get(length - 1), Some(b'e' | b'E')) && matches!(bytes.get(length), Some(b'+' | b'-')) {
                length += 1;
                length += count_digits(&bytes[length..]);
            }
        }
        while self.offset < from.offset + length {
            self.bump();
        }
        // Letters that ASCII does not have belong to no number either.
        let text = &self.source[from.offset..self.offset];
        let kind = if self.peek().is_some_and(is_name_part) { None } else { number_value(text, radix) };
        self.bump_while(is_name_part);
        let kind = kind.unwrap_or_else(|| self.bad_number(from));
        self.push(kind, from);
    }

    fn string(&mut self, from: Mark) {
        let quote = self.bump();
        let mut value = String::new();
        let mut bad = None;
        loop {
            match self.peek() {
                None | Some('\n') => {
                    let bad = self.bad("F0002", "text is not closed".to_owned(), from);
                    self.push(bad, from);
                    return;
                }
                Some('\\') => self.escape(&mut value, &mut bad),
                c if c == quote => break,
                Some(c) => {
                    value.push(c);
                    self.bump();
                }
            }
        }
        self.bump();
        self.push(bad.unwrap_or_else(|| TokenKind::Text(Arc::from(value))), from);
    }

    /// A piece of a template. Its `` ` `` or `}` has been read.
    fn template(&mut self, from: Mark, first: bool) {
        let mut value = String::new();
        let mut bad = None;
        let last = loop {
            match self.peek() {
                None => {
                    let start =
                        Mark { at: Position { column: from.at.column + 1, ..from.at }, offset: from.offset + 1 };
                    let TokenKind::Bad(mut bad) = self.bad("F0002", "text is not closed".to_owned(), from) else {
                        return;
                    };
                    bad.end = start.at;
                    self.push(TokenKind::Bad(bad), from);
                    return;
                }
                Some('\\') => self.escape(&mut value, &mut bad),
                Some('`') => {
                    self.bump();
                    break true;
                }
                Some('$') if self.second() == Some('{') => {
                    self.bump();
                    self.bump();
                    self.templates.push(0);
                    break false;
                }
                Some(c) => {
                    value.push(c);
                    self.bump();
                }
            }
        };
        self.push(bad.unwrap_or_else(|| TokenKind::Template { text: Arc::from(value), first, last }), from);
    }

    /// A backslash and what follows. Remembers the first one that is unknown.
    fn escape(&mut self, value: &mut String, bad: &mut Option<TokenKind>) {
        let from = self.mark();
        self.bump();
        let Some(c) = self.peek() else { return };
        self.bump();
        let meaning = match c {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{C}'),
            '0' => Some('\0'),
            '\\' | '"' | '\'' | '`' | '$' => Some(c),
            '\n' => return,
            'x' => self.hex(2).and_then(char::from_u32),
            'u' => self.unicode(),
            _ => None,
        };
        match meaning {
            Some(meaning) => value.push(meaning),
            None => {
                if bad.is_none() {
                    *bad = Some(self.bad("F0004", format!("unknown escape \"\\{c}\""), from));
                }
            }
        }
    }

    /// `HHHH`, `{H…}`, or two surrogates.
    fn unicode(&mut self) -> Option<char> {
        if self.peek() == Some('{') {
            let digits = self.rest()[1..].bytes().take_while(u8::is_ascii_hexdigit).count();
            let text = &self.rest()[1..=digits];
            let number = u32::from_str_radix(text, 16).ok();
            if self.rest().as_bytes().get(digits + 1) != Some(&b'}') {
                return None;
            }
            for _ in 0..digits + 2 {
                self.bump();
            }
            return number.and_then(char::from_u32);
        }
        let high = self.hex(4)?;
        if !(0xD800..0xDC00).contains(&high) {
            return char::from_u32(high);
        }
        if !self.rest().starts_with("\\u") {
            return None;
        }
        self.bump();
        self.bump();
        let low = self.hex(4)?;
        if !(0xDC00..0xE000).contains(&low) {
            return None;
        }
        char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text = self.rest().get(..digits)?;
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for _ in 0..digits {
            self.bump();
        }
        u32::from_str_radix(text, 16).ok()
    }
}

fn is_name_start(c: char) -> bool {
    c == '_' || c == '$' || unicode_ident::is_xid_start(c)
}

fn is_name_part(c: char) -> bool {
    c == '$' || unicode_ident::is_xid_continue(c)
}

fn count_digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

/// The value of a number, if it is one.
fn number_value(text: &str, radix: u32) -> Option<TokenKind> {
    if radix != 10 {
        let digits = plain_digits(&text[2..], radix)?;
        return i64::from_str_radix(&digits, radix).ok().map(TokenKind::Int);
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let mut plain = plain_digits(whole, 10)?;
    if plain.len() > 1 && plain.starts_with('0') {
        return None;
    }
    if fraction.is_none() && exponent.is_none() {
        return plain.parse().ok().map(TokenKind::Int);
    }
    if let Some(fraction) = fraction {
        plain.push('.');
        plain.push_str(&plain_digits(fraction, 10)?);
    }
    if let Some(exponent) = exponent {
        let sign = if exponent.starts_with('-') { "-" } else { "" };
        let digits = plain_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent), 10)?;
        plain.push('e');
        plain.push_str(sign);
        plain.push_str(&digits);
    }
    plain.parse().ok().filter(|number: &f64| number.is_finite()).map(TokenKind::Float)
}

/// Digits without the `_` between them. `None` if there are none, or something else is among them.
fn plain_digits(text: &str, radix: u32) -> Option<String> {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_digit(radix));
    let fine = ends(text.chars().next())
        && ends(text.chars().next_back())
        && !text.contains("__")
        && text.chars().all(|c| c == '_' || c.is_digit(radix));
    fine.then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<TokenKind> {
        let mut tokens = lex(source).tokens;
        assert_eq!(tokens.pop().map(|token| token.kind), Some(TokenKind::End));
        tokens.into_iter().map(|token| token.kind).collect()
    }

    fn refused(source: &str) -> Option<(&'static str, u32)> {
        kinds(source).into_iter().find_map(|kind| match kind {
            TokenKind::Bad(bad) => Some((bad.code, bad.start.column)),
            _ => None,
        })
    }

    #[test]
    fn numbers() {
        let int = |source| match kinds(source).as_slice() {
            [TokenKind::Int(number)] => Some(*number),
            _ => None,
        };
        for (source, value) in
            [("0", 0), ("12", 12), ("1_000", 1000), ("0xFF", 255), ("0b101", 5), ("9223372036854775807", i64::MAX)]
        {
            assert_eq!(int(source), Some(value), "{source}");
        }
        for (source, value) in [("1.5", 1.5), ("6e23", 6e23), ("1.0", 1.0), ("1E-7", 1e-7), ("1_0.2_5e+1_0", 10.25e10)]
        {
            assert_eq!(kinds(source), [TokenKind::Float(value)], "{source}");
        }
        for source in [
            "007",
            ".5",
            "5.",
            "5.x",
            "1_",
            "1__0",
            "12ab",
            "0x",
            "0b2",
            "1e",
            "1e400",
            "9223372036854775808",
            "0o7",
            "1n",
            "3é",
            "5b1",
            "5x1",
        ] {
            assert_eq!(refused(source), Some(("F0005", 1)), "{source}");
            assert_eq!(kinds(source).len(), 1, "{source}");
        }
    }

    #[test]
    fn strings() {
        let text = |source: &str| match kinds(source).as_slice() {
            [TokenKind::Text(text)] => text.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(text(r#""a\n\t\r\b\f\0\\\"\'\`\$""#), "a\n\t\r\u{8}\u{c}\0\\\"'`$");
        assert_eq!(text(r"'\x41\u00e9\u{1F44D}\ud83d\udc4d'"), "Aé👍👍");
        assert_eq!(text("\"a\\\nb\""), "ab");
        for (source, expected) in [
            ("  \"ab", ("F0002", 3)),
            ("'a\n'", ("F0002", 1)),
            ("`a${1}b", ("F0002", 6)),
            (r#""a\q""#, ("F0004", 3)),
            (r#""\ud83d""#, ("F0004", 2)),
            (r#""\u{110000}""#, ("F0004", 2)),
            (r#""\u12""#, ("F0004", 2)),
            ("a /* b", ("F0003", 3)),
            ("a # b", ("F0001", 3)),
        ] {
            assert_eq!(refused(source), Some(expected), "{source}");
        }
    }

    #[test]
    fn templates_hold_braces() {
        let kinds = kinds("`a${ {b: `${c}`} }d` e");
        let pieces: Vec<_> = kinds
            .iter()
            .filter_map(|kind| match kind {
                TokenKind::Template { text, first, last } => Some((text.to_string(), *first, *last)),
                _ => None,
            })
            .collect();
        let piece = |text: &str, first, last| (text.to_owned(), first, last);
        assert_eq!(
            pieces,
            [piece("a", true, false), piece("", true, false), piece("", false, true), piece("d", false, true)]
        );
        assert_eq!(kinds.last(), Some(&TokenKind::Word));
    }

    #[test]
    fn positions_count_characters() {
        let tokens = lex("é\n👍 /* 👍\n */ x").tokens;
        let x = tokens.iter().find(|token| token.kind == TokenKind::Word && token.span.start.line == 3);
        assert_eq!(x.map(|token| (token.span.start.column, token.after_newline)), Some((5, true)));
    }
}
