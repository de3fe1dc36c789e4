//! Positions in UTF-16 code units and in bytes, after characters of several bytes, `\r\n` and a byte order mark.

use serde_json::json;

use crate::editor::{Editor, range};

const URI: &str = "file:///scripts/%C3%A9.flow";

/// In the second line a name of 8 bytes stands after a character of 4 bytes, which is 2 code units.
const SOURCE: &str = "\u{FEFF}workflow w() {\r\n  const größe = 1\r\n  return \"👍\" + größe + nothing\r\n}\r\n";

fn positions(encodings: &serde_json::Value, declared: &str, read: (u32, u32), nothing: &str) -> String {
    let mut editor = Editor::with_encodings(encodings);
    let diagnostics = editor.open(URI, SOURCE);
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    assert_eq!(range(&diagnostics[0]["range"]), nothing);
    let location = editor.ask("textDocument/definition", URI, read);
    assert_eq!((location["uri"].as_str(), &*range(&location["range"])), (Some(URI), declared));
    assert_eq!(editor.hover(URI, read).as_deref(), Some("```flow\ngröße: number\n```"));
    editor.initialized["capabilities"]["positionEncoding"].as_str().unwrap().to_owned()
}

#[test]
fn utf16_unless_the_editor_offers_utf8() {
    for encodings in [json!(null), json!([]), json!(["utf-16"]), json!(["utf-32", "utf-16"])] {
        assert_eq!(positions(&encodings, "1:8-1:13", (2, 16), "2:24-2:31"), "utf-16", "{encodings}");
    }
    // A column of the declaration in bytes: `ö` and `ß` have two.
    assert_eq!(positions(&json!(["utf-16", "utf-8"]), "1:8-1:15", (2, 18), "2:28-2:35"), "utf-8");
}

#[test]
fn a_carriage_return_alone_ends_a_line_of_the_editor() {
    let mut editor = Editor::start();
    // For the language it is white space.
    assert_eq!(editor.open(URI, "workflow w() {\r  const a = 1;\r  return a;\r}\r"), Vec::<serde_json::Value>::new());
    assert_eq!(range(&editor.ask("textDocument/definition", URI, (2, 9))["range"]), "1:8-1:9");
}
