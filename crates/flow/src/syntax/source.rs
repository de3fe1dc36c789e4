//! Decodes the bytes of a source file.

use std::borrow::Cow;

use crate::diagnostic::{Diagnostic, Position, Severity};

/// The greatest size of a source in bytes.
pub const SOURCE_BYTES_MAX: usize = 262_144;

/// The source as versions see it: without a byte order mark, `\r\n` as `\n`.
#[must_use]
pub fn normalize(source: &[u8]) -> Cow<'_, [u8]> {
    let source = source.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(source);
    if !source.windows(2).any(|pair| pair == b"\r\n") {
        return Cow::Borrowed(source);
    }
    let mut out = Vec::with_capacity(source.len());
    let mut rest = source.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\r' || rest.peek() != Some(&b'\n') {
            out.push(byte);
        }
    }
    Cow::Owned(out)
}

/// The normalized source as text, or why it is none: too large (F0007), not UTF-8 or with NUL (F0006).
pub(crate) fn decode(source: &[u8]) -> Result<String, Diagnostic> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("source is over {SOURCE_BYTES_MAX} bytes");
        return Err(refusal("F0007", message, Position { line: 1, column: 1 }));
    }
    let bytes = normalize(source);
    let valid = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    let bad = valid.find('\0').or((valid.len() < bytes.len()).then_some(valid.len()));
    match bad {
        None => Ok(valid.to_owned()),
        Some(offset) => {
            let message = "source is not UTF-8, or contains NUL".to_owned();
            Err(refusal("F0006", message, position_after(&valid[..offset])))
        }
    }
}

/// The position of the character that follows this text.
fn position_after(text: &str) -> Position {
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Position { line: u32::try_from(line).unwrap_or(u32::MAX), column: u32::try_from(column).unwrap_or(u32::MAX) }
}

fn refusal(code: &'static str, message: String, start: Position) -> Diagnostic {
    let end = Position { line: start.line, column: start.column + 1 };
    Diagnostic { code, severity: Severity::Error, message, start, end, hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_mark_and_carriage_returns_go() {
        assert_eq!(normalize(b"\xEF\xBB\xBFa\r\nb\rc\r\n").as_ref(), b"a\nb\rc\n");
        assert_eq!(normalize(b"a\n").as_ref(), b"a\n");
    }

    #[test]
    fn what_is_no_text_is_refused_where_it_stands() {
        let refused = |source: &[u8]| decode(source).map_err(|d| (d.code, d.start.line, d.start.column));
        assert_eq!(refused(b"a\n\xC3\xA9\0"), Err(("F0006", 2, 2)));
        assert_eq!(refused(b"ab\xFF"), Err(("F0006", 1, 3)));
        assert_eq!(refused(&vec![b' '; SOURCE_BYTES_MAX + 1]), Err(("F0007", 1, 1)));
        assert!(decode(&vec![b' '; SOURCE_BYTES_MAX]).is_ok());
    }
}
