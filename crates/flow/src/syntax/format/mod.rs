//! The formatter: one style. Two spaces, `"`, no `;`, 100 columns, a comma after the last item of a broken list.
//!
//! The tree stays the same but for empty statements. Comments are kept: each is printed before the next part of the tree
//! that follows it, or at the end of the line it stands on. A block that was written on one line stays there if it has one
//! statement and fits; otherwise line breaks of the source do not matter, but for one empty line between statements.

mod comments;
mod doc;
mod expression;
mod file;
mod statement;

use super::parser::{FileKind, parse};
use super::token::Comment;
use crate::diagnostic::Diagnostic;
use crate::syntax::decode;

/// Formats a script or a test file. Its syntax errors if it has some.
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    let source = decode(source.as_bytes()).map_err(|diagnostic| vec![diagnostic])?;
    let parsed = parse(&source, FileKind::Any);
    if !parsed.diagnostics.is_empty() {
        return Err(parsed.diagnostics);
    }
    let mut formatter = Formatter { source: &source, comments: &parsed.comments, next: 0 };
    let doc = formatter.file(&parsed.file);
    let mut out = doc.print();
    while out.ends_with([' ', '\n']) {
        out.pop();
    }
    if !out.is_empty() {
        out.push('\n');
    }
    Ok(out)
}

/// Walks the tree in the order of the source.
struct Formatter<'a> {
    source: &'a str,
    comments: &'a [Comment],
    /// The first comment that has not been printed.
    next: usize,
}
