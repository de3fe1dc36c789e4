//! Output of commands: text, or JSON for programs. One file per kind of output.
//!
//! Text from outside (ids, payloads, messages) passes through [`plain`] on its way to a terminal, so that no workflow
//! id can move the cursor.

pub mod dynamic;
pub mod event;
pub mod failure;
pub mod fields;
pub mod payload;
pub mod status;
pub mod style;
pub mod table;
pub mod time;

use std::{
    borrow::Cow,
    io::{self, Write},
};

use clap::ValueEnum;

pub use segno_proto_json::Json;
pub use style::Color;

/// In which form results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // For people. (Plain comments here: the help stays short.)
    #[default]
    Text,
    // For programs; docs/reference/cli.md has the shapes.
    Json,
    // The same with a line for each item of a list, for tools that read line by line.
    Jsonl,
}

impl Format {
    /// A value as programs read it: an array has a line for each item in lines.
    pub fn render(self, json: &Json) -> String {
        match (self, json) {
            (Self::Jsonl, Json::Array(items)) => items.iter().map(|item| format!("{item}\n")).collect(),
            (Self::Jsonl, json) => json.to_string(),
            (_, json) => json.pretty(),
        }
    }
}

/// Prints a text and a line end. Unlike `println!` it reports a closed pipe instead of panicking.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A text without control characters: they are shown as escapes.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_a_list_are_lines() {
        let list = Json::Array(vec![Json::object([("a", Json::text("x\ny"))]), Json::Array(Vec::new())]);
        assert_eq!(Format::Jsonl.render(&list), "{\"a\":\"x\\ny\"}\n[]\n");
        assert_eq!(Format::Jsonl.render(&Json::text("x")), "\"x\"");
        assert!(Format::Json.render(&list).starts_with("[\n"));
    }

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(plain("käse"), "käse");
        assert_eq!(plain("a\x1b[31m\nb"), "a\\u{1b}[31m\\nb");
    }
}
