//! The text of a document, and its positions in three measures: bytes, positions of the protocol, places of the language.
//!
//! They differ. The protocol counts lines from 0, ends them at `\n`, `\r\n` and `\r`, and counts columns in UTF-16 code
//! units, or bytes if the editor offers it. The language counts from 1, ends lines at `\n`, counts columns in
//! characters, and sees neither a byte order mark nor the `\r` of `\r\n`.

use lsp_types::{Position, PositionEncodingKind, Range};
use segno_flow::diagnostic::Position as Place;

/// How the columns of positions are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    #[default]
    Utf16,
}

impl Encoding {
    /// The best one of those that an editor offers. Every editor knows UTF-16.
    pub fn negotiate(offered: &[PositionEncodingKind]) -> Self {
        if offered.contains(&PositionEncodingKind::UTF8) { Self::Utf8 } else { Self::Utf16 }
    }

    pub const fn kind(self) -> PositionEncodingKind {
        match self {
            Self::Utf8 => PositionEncodingKind::UTF8,
            Self::Utf16 => PositionEncodingKind::UTF16,
        }
    }

    const fn units(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
        }
    }
}

/// The text of a document.
#[derive(Debug)]
pub struct Text {
    pub source: String,
    encoding: Encoding,
    /// Where the lines of the protocol begin.
    lines: Vec<usize>,
    /// Where the lines of the language begin, the first one after a byte order mark.
    places: Vec<usize>,
}

impl Text {
    pub fn new(source: String, encoding: Encoding) -> Self {
        let bytes = source.as_bytes();
        let begins = |byte: usize, end: u8| match end {
            b'\n' => true,
            b'\r' => bytes.get(byte + 1) != Some(&b'\n'),
            _ => false,
        };
        let ends = || bytes.iter().enumerate().filter(|(byte, end)| begins(*byte, **end));
        let lines = std::iter::once(0).chain(ends().map(|(byte, _)| byte + 1)).collect();
        let first = if source.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
        let newlines = ends().filter(|(_, end)| **end == b'\n');
        let places = std::iter::once(first).chain(newlines.map(|(byte, _)| byte + 1)).collect();
        Self { source, encoding, lines, places }
    }

    /// The byte of a position. What is outside of a line or the text is at its end.
    pub fn byte_of(&self, position: Position) -> usize {
        let Some((start, line)) = self.line(&self.lines, position.line as usize) else { return self.source.len() };
        let line = line.strip_suffix('\r').unwrap_or(line);
        let mut units = 0;
        let after = line.char_indices().find(|(_, c)| {
            units += self.encoding.units(*c);
            units > position.character as usize
        });
        start + after.map_or(line.len(), |(byte, _)| byte)
    }

    /// The position of a byte, which is at the beginning of a character.
    pub fn position_of(&self, byte: usize) -> Position {
        let number = self.lines.partition_point(|start| *start <= byte).saturating_sub(1);
        let Some((start, line)) = self.line(&self.lines, number) else { return Position::default() };
        let line = line.strip_suffix('\r').unwrap_or(line);
        let before = line.get(..byte.saturating_sub(start)).unwrap_or(line);
        let character = before.chars().map(|c| self.encoding.units(c)).sum::<usize>();
        Position { line: number_of(number), character: number_of(character) }
    }

    /// The byte of a place.
    pub fn byte_of_place(&self, place: Place) -> usize {
        let Some((start, line)) = self.line(&self.places, place.line.saturating_sub(1) as usize) else {
            return self.source.len();
        };
        let after = line.char_indices().nth(place.column.saturating_sub(1) as usize);
        start + after.map_or(line.len(), |(byte, _)| byte)
    }

    /// The place of a byte, which is at the beginning of a character.
    pub fn place_of(&self, byte: usize) -> Place {
        let number = self.places.partition_point(|start| *start <= byte).saturating_sub(1);
        let (start, line) = self.line(&self.places, number).unwrap_or((0, ""));
        let before = line.get(..byte.saturating_sub(start)).unwrap_or(line);
        Place { line: number_of(number + 1), column: number_of(before.chars().count() + 1) }
    }

    /// The range between two places.
    pub fn range(&self, start: Place, end: Place) -> Range {
        let position = |place| self.position_of(self.byte_of_place(place));
        Range { start: position(start), end: position(end) }
    }

    /// Where the word around a byte begins and ends; both are the byte if there is none.
    pub fn word_around(&self, byte: usize) -> (usize, usize) {
        let (before, after) = self.source.split_at_checked(byte).unwrap_or((&self.source, ""));
        let start = before.trim_end_matches(is_word).len();
        let end = self.source.len() - after.trim_start_matches(is_word).len();
        (start, end)
    }

    /// Where a line begins, and its text up to `\n` or `\r\n`, or for lines of the protocol `\r`.
    fn line(&self, starts: &[usize], number: usize) -> Option<(usize, &str)> {
        let start = *starts.get(number)?;
        let line = match starts.get(number + 1) {
            Some(next) => {
                let line = self.source.get(start..*next)?;
                line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n')).unwrap_or(line)
            }
            None => self.source.get(start..)?,
        };
        Some((start, line))
    }
}

/// Whether a character can be part of a name.
pub fn is_word(c: char) -> bool {
    c == '_' || c == '$' || c.is_alphanumeric()
}

/// Documents are far smaller than the numbers of the protocol reach.
fn number_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line and column of a position, a byte, line and column of a place.
    type Measures = ((u32, u32), usize, (u32, u32));

    /// The beginning of each of the words.
    fn found(source: &str, encoding: Encoding, words: &[&str]) -> Vec<Measures> {
        let text = Text::new(source.to_owned(), encoding);
        words
            .iter()
            .map(|word| {
                let byte = source.find(word).unwrap();
                let (position, place) = (text.position_of(byte), text.place_of(byte));
                assert_eq!(text.byte_of(position), byte, "{word}");
                assert_eq!(text.byte_of_place(place), byte, "{word}");
                ((position.line, position.character), byte, (place.line, place.column))
            })
            .collect()
    }

    #[test]
    fn columns_count_code_units() {
        let source = "größe x\n👍 y\n";
        assert_eq!(found(source, Encoding::Utf16, &["x", "y"]), [((0, 6), 8, (1, 7)), ((1, 3), 15, (2, 3))]);
        assert_eq!(found(source, Encoding::Utf8, &["x", "y"]), [((0, 8), 8, (1, 7)), ((1, 5), 15, (2, 3))]);
    }

    #[test]
    fn ends_of_lines_and_the_byte_order_mark() {
        let source = "\u{FEFF}a\r\nb\rc\nd";
        // To the editor the mark is a character and `\r` ends a line.
        assert_eq!(
            found(source, Encoding::Utf16, &["a", "b", "c", "d"]),
            [((0, 1), 3, (1, 1)), ((1, 0), 6, (2, 1)), ((2, 0), 8, (2, 3)), ((3, 0), 10, (3, 1))]
        );
    }

    #[test]
    fn positions_outside_are_at_the_end() {
        let text = Text::new("ab\r\n👍c\rd".to_owned(), Encoding::Utf16);
        let byte = |line, character| text.byte_of(Position { line, character });
        assert_eq!([byte(0, 2), byte(0, 3), byte(0, 99)], [2, 2, 2]);
        assert_eq!([byte(1, 1), byte(1, 2), byte(1, 9)], [4, 8, 9], "the half of a character is its beginning");
        assert_eq!([byte(2, 1), byte(2, 7), byte(3, 0), byte(u32::MAX, u32::MAX)], [11, 11, 11, 11]);
        assert_eq!(text.position_of(3), Position { line: 0, character: 2 }, "between the characters of a line end");
        assert_eq!(text.position_of(11), Position { line: 2, character: 1 });
        let place = |line, column| text.byte_of_place(Place { line, column });
        assert_eq!([place(1, 3), place(1, 9), place(2, 2), place(9, 1), place(0, 0)], [2, 2, 8, 11, 0]);
    }

    #[test]
    fn words() {
        let text = Text::new("a größe.x".to_owned(), Encoding::Utf16);
        assert_eq!([text.word_around(4), text.word_around(9), text.word_around(1)], [(2, 9), (2, 9), (0, 1)]);
    }

    #[test]
    fn encodings_are_negotiated() {
        assert_eq!(Encoding::negotiate(&[]), Encoding::Utf16);
        assert_eq!(Encoding::negotiate(&[PositionEncodingKind::UTF32]), Encoding::Utf16);
        assert_eq!(
            Encoding::negotiate(&[PositionEncodingKind::UTF16, PositionEncodingKind::UTF8]).kind(),
            PositionEncodingKind::UTF8
        );
    }
}
