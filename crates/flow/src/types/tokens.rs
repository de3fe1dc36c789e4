//! Ends of tokens, by where they begin.

use crate::diagnostic::Position;

/// Characters of operators.
const SIGNS: &str = "=!<>&|?+-*/%.";

/// The lines of a source.
pub(super) struct Tokens<'s> {
    lines: Vec<Line<'s>>,
}

struct Line<'s> {
    text: &'s str,
    /// Where each character begins, unless each has one byte.
    characters: Option<Vec<usize>>,
}

impl<'s> Tokens<'s> {
    pub fn new(source: &'s str) -> Self {
        let line = |text: &'s str| {
            let characters = || text.char_indices().map(|(byte, _)| byte).collect();
            Line { text, characters: (!text.is_ascii()).then(characters) }
        };
        Self { lines: source.split('\n').map(line).collect() }
    }

    /// The place after the token that begins here.
    pub fn end(&self, start: Position) -> Position {
        let is_word = |c: &char| *c == '_' || *c == '$' || unicode_ident::is_xid_continue(*c);
        let rest = self.from(start).chars();
        let word = rest.clone().take_while(is_word).count();
        let length = match rest.clone().next() {
            Some(quote @ ('"' | '\'')) => text_length(rest, quote),
            Some(sign) if word == 0 && SIGNS.contains(sign) => rest.take_while(|c| SIGNS.contains(*c)).count(),
            _ => word.max(1),
        };
        Position { line: start.line, column: start.column + u32::try_from(length).unwrap_or(1) }
    }

    /// The rest of the line.
    fn from(&self, start: Position) -> &'s str {
        let Some(line) = self.lines.get(start.line.saturating_sub(1) as usize) else { return "" };
        let column = start.column.saturating_sub(1) as usize;
        let byte = match &line.characters {
            Some(characters) => characters.get(column).copied().unwrap_or(line.text.len()),
            None => column,
        };
        line.text.get(byte..).unwrap_or_default()
    }
}

/// The length of a string with its quotes.
fn text_length(rest: std::str::Chars<'_>, quote: char) -> usize {
    let mut is_escaped = false;
    let inner = rest.skip(1).take_while(|c| {
        let ends = *c == quote && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        !ends
    });
    inner.count() + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let tokens = Tokens::new("let größe = \"a\\\"b\" ?? xs.length\n(x)");
        for (line, column, end) in [(1, 1, 4), (1, 5, 10), (1, 13, 19), (1, 20, 22), (1, 26, 32), (2, 1, 2), (9, 1, 2)]
        {
            assert_eq!(tokens.end(Position { line, column }), Position { line, column: end }, "{line}:{column}");
        }
    }
}
