//! JSON as it is printed. Unlike `serde_json::Value` it keeps fields in the order they were added, and users' own JSON
//! exactly as they wrote it: no digit of a large number is lost.

use std::fmt::{self, Write};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// JSON text that is valid already: numbers, and what users wrote.
    Raw(String),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// Fields, in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    /// A whole number.
    pub fn number(number: impl Into<i64>) -> Self {
        Self::Raw(number.into().to_string())
    }

    /// An object of these fields.
    pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Self {
        Self::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::String(text) => text.is_empty(),
            Self::Array(items) => items.is_empty(),
            Self::Object(fields) => fields.is_empty(),
            Self::Bool(_) | Self::Raw(_) => false,
        }
    }

    /// A field of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        let Self::Object(fields) = self else { return None };
        fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// Adds a field to an object.
    pub fn push(&mut self, name: &str, value: Json) {
        if let Self::Object(fields) = self {
            fields.push((name.to_owned(), value));
        }
    }

    /// Over several lines, two spaces per level.
    pub fn pretty(&self) -> String {
        self.print(true, char::is_control)
    }

    /// On one line or, with `indent`, several. JSON has escapes for some characters; `escaped` says which others have one here.
    pub fn print(&self, indent: bool, escaped: fn(char) -> bool) -> String {
        let mut text = String::new();
        self.write(&mut text, indent.then_some(0), escaped);
        text
    }

    fn write(&self, out: &mut String, level: Option<usize>, escaped: fn(char) -> bool) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Raw(text) => out.push_str(text),
            Self::String(text) => quote(text, escaped, out),
            Self::Array(items) => {
                block(out, level, "[]", items.iter(), |item, out, inner| item.write(out, inner, escaped));
            }
            Self::Object(fields) => block(out, level, "{}", fields.iter(), |(name, value), out, inner| {
                quote(name, escaped, out);
                out.push_str(if inner.is_some() { ": " } else { ":" });
                value.write(out, inner, escaped);
            }),
        }
    }
}

/// On one line.
impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.print(false, char::is_control))
    }
}

/// Writes what is between a pair of brackets.
fn block<T>(
    out: &mut String,
    level: Option<usize>,
    brackets: &str,
    items: impl ExactSizeIterator<Item = T>,
    write: impl Fn(T, &mut String, Option<usize>),
) {
    if items.len() == 0 {
        out.push_str(brackets);
        return;
    }
    let inner = level.map(|level| level + 1);
    let line = |out: &mut String, level: Option<usize>| {
        if let Some(level) = level {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", level));
        }
    };
    out.push_str(&brackets[..1]);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        line(out, inner);
        write(item, out, inner);
    }
    line(out, level);
    out.push_str(&brackets[1..]);
}

fn quote(text: &str, escaped: fn(char) -> bool, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string cannot fail.
            letter if escaped(letter) => drop(write!(out, "\\u{:04x}", u32::from(letter))),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..' ' => drop(write!(out, "\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// A number as Go writes it: with an exponent only if it is very large or very small.
pub fn float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        return match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
            _ => text,
        };
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Json {
        Json::object([
            ("z", Json::number(1)),
            ("a", Json::Array(vec![Json::text("x\n\"\u{1}ä"), Json::Null, Json::Bool(true)])),
            ("none", Json::Array(Vec::new())),
            ("user", Json::Raw("{\"b\": 12345678901234567890123}".to_owned())),
        ])
    }

    #[test]
    fn one_line() {
        let expected = r#"{"z":1,"a":["x\n\"\u0001ä",null,true],"none":[],"user":{"b": 12345678901234567890123}}"#;
        assert_eq!(sample().to_string(), expected);
    }

    #[test]
    fn several_lines() {
        let json = Json::object([("a", Json::Array(vec![Json::number(1), Json::object([])])), ("b", Json::Null)]);
        assert_eq!(json.pretty(), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": null\n}");
    }

    #[test]
    fn escapes() {
        let json = Json::text("\u{8}\u{1}\u{7f}<");
        assert_eq!(json.print(false, |_| false), "\"\\b\\u0001\u{7f}<\"");
        assert_eq!(json.print(false, |letter| letter == '<'), "\"\\b\\u0001\u{7f}\\u003c\"");
        assert_eq!(json.to_string(), "\"\\u0008\\u0001\\u007f<\"");
    }

    #[test]
    fn numbers_look_as_in_go() {
        let shown = [0.0, 1.0, 1.5, 1e20, 1e21, 1.5e22, 1e-6, 1e-7, -2.0].map(float);
        let expected = ["0", "1", "1.5", "100000000000000000000", "1e+21", "1.5e+22", "0.000001", "1e-7", "-2"];
        assert_eq!(shown, expected);
    }
}
