//! Errors and warnings about source text.

/// A place in source text. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// Whether a diagnostic prevents deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The source cannot be compiled.
    Error,
    /// The source is compiled all the same.
    Warning,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// `F0201` and so on.
    pub code: &'static str,
    /// Whether it prevents deployment.
    pub severity: Severity,
    /// What is wrong, one line.
    pub message: String,
    /// The first character of the offending token.
    pub start: Position,
    /// The place after its last character.
    pub end: Position,
    /// What to write instead.
    pub hint: Option<String>,
}
