//! What the names in a source mean: for editors, which show, follow and complete them.
//!
//! The checker notes each name as it resolves it. Names in statements that cannot be parsed have no meaning.

use std::sync::Arc;

use crate::diagnostic::Position;
use crate::library::{Function, Method};
use crate::syntax::lexer::lex;
use crate::syntax::token::{Span, TokenKind};

/// The names of a source that have a meaning.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// In the order of the source, each place once.
    uses: Vec<NameUse>,
}

/// A name where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameUse {
    /// Its first character; for `Task.run` that of `Task`.
    pub start: Position,
    /// The place after its last character.
    pub end: Position,
    /// What it means.
    pub meaning: Meaning,
}

/// What a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A variable, constant or function of the file.
    Declared(Declaration),
    /// A function of the library.
    Library(Function),
    /// A function of a value.
    Method(Method),
}

/// Where a name is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The name.
    pub name: Arc<str>,
    /// What it declares.
    pub kind: DeclarationKind,
    /// The first character of the name.
    pub start: Position,
    /// The place after its last character.
    pub end: Position,
}

/// What a name declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the language")]
pub enum DeclarationKind {
    Variable,
    Constant,
    Function,
}

impl Names {
    pub(crate) fn new(mut uses: Vec<NameUse>) -> Self {
        uses.sort_by_key(|name| name.start);
        uses.dedup_by_key(|name| name.start);
        Self { uses }
    }

    /// The name at this place: a place in it, or the one after its last character if no other name begins there.
    #[must_use]
    pub fn at(&self, place: Position) -> Option<&NameUse> {
        let after = self.uses.partition_point(|name| name.start <= place);
        let name = self.uses.get(after.checked_sub(1)?)?;
        (place <= name.end).then_some(name)
    }

    /// The declarations, in the order of the source.
    pub fn declarations(&self) -> impl Iterator<Item = &Declaration> {
        self.uses.iter().filter_map(|name| match &name.meaning {
            Meaning::Declared(declaration) if declaration.start == name.start => Some(declaration),
            _ => None,
        })
    }
}

impl NameUse {
    pub(crate) const fn new(span: Span, meaning: Meaning) -> Self {
        Self { start: span.start, end: span.end, meaning }
    }
}

impl Declaration {
    pub(crate) const fn new(name: Arc<str>, kind: DeclarationKind, span: Span) -> Self {
        Self { name, kind, start: span.start, end: span.end }
    }
}

/// Whether a place in a source is in a comment or in a string, where no name can stand. Between the parts of a template,
/// in `${…}`, names can.
#[must_use]
pub fn is_text(source: &str, place: Position) -> bool {
    let lexed = lex(source);
    let is_inside = |span: Span| span.start < place && place < span.end;
    let is_comment = lexed.comments.iter().any(|comment| {
        // A comment to the end of the line goes on where it ends.
        let is_line = source.get(comment.span.range()).is_some_and(|text| text.starts_with("//"));
        is_inside(comment.span) || is_line && comment.span.end == place
    });
    is_comment
        || lexed.tokens.iter().any(|token| match &token.kind {
            TokenKind::Text(_) | TokenKind::Template { .. } => is_inside(token.span),
            // What is not closed goes on where it ends.
            TokenKind::Bad(bad) => {
                matches!(bad.code, "F0002" | "F0003" | "F0004")
                    && (is_inside(token.span) || bad.code != "F0004" && token.span.end == place)
            }
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    const SOURCE: &str = "const LIMIT = 3\n\
        function double(x) { return x * 2 }\n\
        workflow w(input) {\n\
        \x20 sum = 0\n\
        \x20 for (const [n, ...rest] of [[LIMIT]]) sum += double(n) + rest.length\n\
        \x20 ys = [1].map(double)\n\
        \x20 ys.push(sum)\n\
        \x20 await Task.run(\"x\", { ys })\n\
        \x20 if (input == 1) throw new Error(\"no\")\n\
        \x20 query now() { return ys.slice(1) }\n\
        }\n";

    /// `line:column` of the declaration, or the name in the library, of each use.
    fn meanings(source: &str) -> Vec<(u32, u32, String)> {
        let names = types::check(source.as_bytes()).names;
        let meaning = |name: &NameUse| match &name.meaning {
            Meaning::Declared(declared) => {
                format!("{} {}:{}", declared.name, declared.start.line, declared.start.column)
            }
            Meaning::Library(function) => function.signature().name.to_owned(),
            Meaning::Method(method) => format!(".{}", method.signature().name),
        };
        names.uses.iter().map(|name| (name.start.line, name.start.column, meaning(name))).collect()
    }

    #[test]
    fn every_name_has_its_meaning() {
        let found = meanings(SOURCE);
        let found: Vec<_> = found.iter().map(|(line, column, meaning)| (*line, *column, meaning.as_str())).collect();
        assert_eq!(
            found,
            [
                (1, 7, "LIMIT 1:7"),
                (2, 10, "double 2:10"),
                (2, 17, "x 2:17"),
                (2, 29, "x 2:17"),
                (3, 12, "input 3:12"),
                (4, 3, "sum 4:3"),
                (5, 15, "n 5:15"),
                (5, 21, "rest 5:21"),
                (5, 32, "LIMIT 1:7"),
                (5, 41, "sum 4:3"),
                (5, 48, "double 2:10"),
                (5, 55, "n 5:15"),
                (5, 60, "rest 5:21"),
                (6, 3, "ys 6:3"),
                (6, 12, ".map"),
                (6, 16, "double 2:10"),
                (7, 3, "ys 6:3"),
                (7, 6, ".push"),
                (7, 11, "sum 4:3"),
                (8, 9, "Task.run"),
                (8, 25, "ys 6:3"),
                (9, 7, "input 3:12"),
                (9, 29, "Error"),
                (10, 24, "ys 6:3"),
                (10, 27, ".slice"),
            ]
        );
    }

    #[test]
    fn names_beside_an_error_have_their_meaning() {
        let source = "workflow w(input) {\n  const a = 1\n  if (a ==\n  return a + nothing\n}\n";
        assert!(meanings(source).contains(&(2, 9, "a 2:9".to_owned())), "{:?}", meanings(source));
    }

    #[test]
    fn a_name_is_found_up_to_its_end() {
        let names = types::check(SOURCE.as_bytes()).names;
        let at = |column| names.at(Position { line: 8, column }).map(|name| name.start.column);
        assert_eq!([8, 9, 13, 17, 18, 25, 27].map(at), [None, Some(9), Some(9), Some(9), None, Some(25), Some(25)]);
        let declared: Vec<_> = names.declarations().map(|declared| &*declared.name).collect();
        assert_eq!(declared, ["LIMIT", "double", "x", "input", "sum", "n", "rest", "ys"]);
    }

    #[test]
    fn comments_and_strings_are_text() {
        let source = "a // b\n\"c\" + `d${e}f` /* g\nh */ i \"j";
        let text = |line, column| is_text(source, Position { line, column });
        assert_eq!([(1, 1), (1, 2), (1, 5), (1, 7)].map(|(l, c)| text(l, c)), [false, false, true, true]);
        assert_eq!([(2, 1), (2, 2), (2, 4), (2, 8)].map(|(l, c)| text(l, c)), [false, true, false, true]);
        assert_eq!([(2, 11), (2, 13), (2, 19)].map(|(l, c)| text(l, c)), [false, true, true]);
        assert_eq!([(3, 1), (3, 6), (3, 8), (3, 9)].map(|(l, c)| text(l, c)), [true, false, false, true]);
    }
}
