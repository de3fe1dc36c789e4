//! The tokens of a filter, each with its position.

use super::parse::BadFilter;

/// A word or sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A name or keyword without quotes.
    Word(&'a str),
    /// A name in back quotes.
    Name(String),
    /// A text in quotes. For patterns, `\%`, `\_` and `\\` are kept as they were written.
    Text { plain: String, pattern: String },
    /// Digits, perhaps with a point and an exponent, without a sign.
    Number(&'a str),
    /// A comparison, bracket, comma, sign, or `&&`, `||` and `;`.
    Sign(&'static str),
    /// Nothing is left.
    End,
}

/// Longest first, so that none hides another.
const SIGNS: [&str; 17] = ["<=>", "!=", "<>", "<=", ">=", "&&", "||", "=", "<", ">", "(", ")", ",", "-", "+", ";", "!"];

/// Reads a filter from left to right.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The byte to be read next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next token and the byte it begins at.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, usize), BadFilter> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = self.rest();
        let token = match rest.as_bytes().first() {
            None => Token::End,
            Some(b'\'' | b'"') => self.quoted()?,
            Some(b'`') => self.name()?,
            Some(byte) if is_letter(*byte) => Token::Word(self.take(word_length(rest))),
            Some(byte) if byte.is_ascii_digit() || starts_with_fraction(rest) => self.number()?,
            Some(_) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    self.at += sign.len();
                    Token::Sign(sign)
                }
                None => {
                    let found = rest.chars().next().unwrap_or_default();
                    return Err(BadFilter::new(start, format!("{found:?} has no meaning here; put texts in quotes")));
                }
            },
        };
        Ok((token, start))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let taken = &self.text[self.at..self.at + bytes];
        self.at += bytes;
        taken
    }

    /// Blanks and comments.
    fn skip_blanks(&mut self) -> Result<(), BadFilter> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return Err(BadFilter::new(self.at, "this comment has no end: close it with */"));
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    /// A text up to its closing quote. A quote inside is doubled or has a backslash before it.
    fn quoted(&mut self) -> Result<Token<'a>, BadFilter> {
        let start = self.at;
        let quote = self.take(1);
        let (mut plain, mut pattern) = (String::new(), String::new());
        loop {
            let rest = self.rest();
            let Some(stop) = rest.find([char::from(quote.as_bytes()[0]), '\\']) else {
                return Err(BadFilter::new(start, format!("this text has no end: close it with {quote}")));
            };
            let piece = self.take(stop);
            plain.push_str(piece);
            pattern.push_str(piece);
            if self.take(1) == quote {
                if !self.rest().starts_with(quote) {
                    return Ok(Token::Text { plain, pattern });
                }
                plain.push_str(self.take(1));
                pattern.push_str(quote);
                continue;
            }
            let Some(escaped) = self.rest().chars().next() else {
                return Err(BadFilter::new(start, format!("this text has no end: close it with {quote}")));
            };
            self.at += escaped.len_utf8();
            let decoded = match escaped {
                '0' => '\0',
                'b' => '\u{8}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'Z' => '\u{1a}',
                other => other,
            };
            plain.push(decoded);
            if matches!(escaped, '%' | '_' | '\\') {
                pattern.push('\\');
            }
            pattern.push(decoded);
        }
    }

    /// A name up to its closing back quote, which is doubled inside.
    fn name(&mut self) -> Result<Token<'a>, BadFilter> {
        let start = self.at;
        self.at += 1;
        let mut name = String::new();
        loop {
            let Some(stop) = self.rest().find('`') else {
                return Err(BadFilter::new(start, "this name has no end: close it with `"));
            };
            name.push_str(self.take(stop));
            self.at += 1;
            if !self.rest().starts_with('`') {
                break;
            }
            name.push_str(self.take(1));
        }
        if name.is_empty() {
            return Err(BadFilter::new(start, "expected a name between the back quotes"));
        }
        Ok(Token::Name(name))
    }

    fn number(&mut self) -> Result<Token<'a>, BadFilter> {
        let (start, bytes) = (self.at, self.rest().as_bytes());
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut length = digits(0);
        if bytes.get(length) == Some(&b'.') {
            length += 1 + digits(length + 1);
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            length += 1 + usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            length += digits(length);
        }
        if bytes.get(length).is_some_and(|byte| is_letter(*byte)) {
            return Err(BadFilter::new(start, "a number ends here but letters follow; put texts in quotes"));
        }
        Ok(Token::Number(self.take(length)))
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'@'
}

/// Words may be joined by points.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let part = |byte: &&u8| is_letter(**byte) || byte.is_ascii_digit();
    let mut length = bytes.iter().take_while(part).count();
    while bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(|byte| is_letter(*byte)) {
        length += 1 + bytes[length + 1..].iter().take_while(part).count();
    }
    length
}

fn starts_with_fraction(text: &str) -> bool {
    text.starts_with('.') && text.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
}
