//! Tokens and places in the source.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Position};

/// A stretch of source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its first character.
    pub start: Position,
    /// The place after its last character.
    pub end: Position,
    /// Offset of its first byte.
    pub from: u32,
    /// Offset after its last byte.
    pub to: u32,
}

impl Span {
    /// From the beginning of this one to the end of the other.
    pub fn to(self, other: Self) -> Self {
        Self { end: other.end, to: other.to, ..self }
    }

    /// The bytes.
    pub fn range(self) -> std::ops::Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or a reserved word.
    Word,
    /// An integer.
    Int(i64),
    /// A finite number written with a point or an exponent.
    Float(f64),
    /// A string; its value.
    Text(Arc<str>),
    /// A piece of a template between `` ` ``, `${` and `}`; its value.
    Template {
        /// The value of the piece.
        text: Arc<str>,
        /// Whether it begins the template.
        first: bool,
        /// Whether it ends the template.
        last: bool,
    },
    /// An operator, a bracket or a separator.
    Sign(&'static str),
    /// Text that is no token.
    Bad(Box<Diagnostic>),
    /// The end of the source.
    End,
}

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub span: Span,
    /// Whether a newline stands between the token before and this one.
    pub after_newline: bool,
}

/// A comment, with its delimiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    pub span: Span,
}

/// Words that cannot be names.
pub(crate) fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "async"
            | "await"
            | "break"
            | "case"
            | "catch"
            | "const"
            | "continue"
            | "default"
            | "delete"
            | "else"
            | "false"
            | "finally"
            | "for"
            | "function"
            | "if"
            | "in"
            | "let"
            | "new"
            | "null"
            | "return"
            | "switch"
            | "throw"
            | "true"
            | "try"
            | "typeof"
            | "while"
    ) || foreign_word(word).is_some()
}

/// The hint for words of JavaScript that are not part of the language (F0105).
pub(crate) fn foreign_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "class" | "extends" | "super" => "write functions and plain objects",
        "do" => "write while",
        "enum" => "write constants",
        "export" => "a file is one workflow; nothing is exported",
        "import" => "a file stands alone; what a library would do is a task",
        "instanceof" => "compare typeof x, or e.type of an error",
        "interface" => "there are no types",
        "this" => "variables of the workflow are visible in its functions and handlers",
        "undefined" | "void" => "write null",
        "var" => "write let",
        "with" => "write the name before each field",
        "yield" => "write await",
        _ => return None,
    })
}
