//! An open document: its text, and what the checker found in it.

use lsp_types::{Location, TextEdit, Uri};
use segno_flow::diagnostic::{Diagnostic, Position as Place};
use segno_flow::names::Meaning;
use segno_flow::types::{self, Type, TypedCheck};
use segno_flow::{SOURCE_BYTES_MAX, compile, format, normalize};

use crate::text::{Encoding, Text};

/// An open document.
pub struct Document {
    pub uri: Uri,
    /// The version of the editor.
    pub version: i32,
    /// Empty if the document is too large for a script.
    pub text: Text,
    pub checked: TypedCheck,
    /// Of the checker, or of the compiler if the checker found no error.
    pub diagnostics: Vec<Diagnostic>,
}

impl Document {
    /// Checks a script, or a test if the name says so.
    pub fn new(uri: Uri, version: i32, source: String, encoding: Encoding) -> Self {
        let checked = check(&uri, &source);
        let mut diagnostics = checked.diagnostics.clone();
        if let Some(program) = &checked.program
            && let Err(found) = compile(program, uri.as_str())
        {
            diagnostics.extend(found);
        }
        let source = if source.len() > SOURCE_BYTES_MAX { String::new() } else { source };
        Self { uri, version, text: Text::new(source, encoding), checked, diagnostics }
    }

    pub fn is_test(&self) -> bool {
        is_test(&self.uri)
    }

    /// The same document with other text, checked.
    pub fn check_instead(&self, source: &str) -> TypedCheck {
        check(&self.uri, source)
    }

    /// The source as the language sees it.
    pub fn normalized(&self) -> String {
        String::from_utf8_lossy(&normalize(self.text.source.as_bytes())).into_owned()
    }

    /// Where the name at a byte is declared.
    pub fn definition(&self, byte: usize) -> Option<Location> {
        let name = self.checked.names.at(self.text.place_of(byte))?;
        match &name.meaning {
            Meaning::Declared(declaration) => {
                Some(Location { uri: self.uri.clone(), range: self.text.range(declaration.start, declaration.end) })
            }
            Meaning::Library(_) | Meaning::Method(_) => None,
        }
    }

    /// The edits of formatting. `None` if there are syntax errors. Line ends and a byte order mark are up to the editor.
    pub fn formatted(&self) -> Option<Vec<TextEdit>> {
        let new_text = format(&self.text.source).ok()?;
        if new_text == self.normalized() {
            return Some(Vec::new());
        }
        let start = self.text.position_of(self.text.byte_of_place(Place { line: 1, column: 1 }));
        let end = self.text.position_of(self.text.source.len());
        Some(vec![TextEdit { range: lsp_types::Range { start, end }, new_text }])
    }
}

/// The type of what stands at a place or ends there. The type of a function is that of its result.
pub fn type_at(checked: &TypedCheck, place: Place) -> Option<&Type> {
    let start = checked.names.at(place).map(|name| name.start);
    let before = Place { column: place.column.saturating_sub(1), ..place };
    let known = |place| checked.types.at(place);
    start.and_then(known).or_else(|| known(place)).or_else(|| known(before))
}

fn check(uri: &Uri, source: &str) -> TypedCheck {
    if is_test(uri) { types::check_test(source.as_bytes()) } else { types::check(source.as_bytes()) }
}

fn is_test(uri: &Uri) -> bool {
    uri.as_str().ends_with("_test.flow")
}
