//! Prints a diagnostic with its source line.

use std::fmt::Write;

use crate::diagnostic::{Diagnostic, Severity};

/// A diagnostic as text: place, code and message, then the line of the source with carets, then the hint. Without a newline
/// at the end.
///
/// ```text
/// order.flow:7:10: error[F0201]: unknown name "reslt"
///   7 |   return reslt
///     |          ^^^^^
///   hint: did you mean "result"?
/// ```
#[must_use]
pub fn render(diagnostic: &Diagnostic, file_name: &str, source: &str) -> String {
    let Diagnostic { code, severity, message, start, end, hint } = diagnostic;
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut out = format!("{file_name}:{}:{}: {severity}[{code}]: {message}", start.line, start.column);
    let source = source.strip_prefix('\u{FEFF}').unwrap_or(source);
    let line = source.split('\n').nth(start.line.saturating_sub(1) as usize).unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let number = start.line.to_string();
    let before = start.column.saturating_sub(1) as usize;
    // Tabs stay, so that carets stand below what they mean.
    let indent: String = line.chars().take(before).map(|c| if c == '\t' { c } else { ' ' }).collect();
    let length = line.chars().count();
    let until = if end.line == start.line { end.column.saturating_sub(1) as usize } else { length };
    let carets = "^".repeat(until.min(length).saturating_sub(before).max(1));
    let shown = format!("  {number} | {line}");
    // Writing to a string cannot fail.
    let _ = write!(out, "\n{}\n  {:width$} | {indent}{carets}", shown.trim_end(), "", width = number.len());
    if let Some(hint) = hint {
        let _ = write!(out, "\n  hint: {hint}");
    }
    out
}
