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
        let mut text = String::new();
        self.write(&mut text, Some(0));
        text
    }

    fn write(&self, out: &mut String, level: Option<usize>) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Raw(text) => out.push_str(text),
            Self::String(text) => quote(text, out),
            Self::Array(items) => {
                block(out, level, "[]", items.iter(), |item, out, inner| item.write(out, inner));
            }
            Self::Object(fields) => block(out, level, "{}", fields.iter(), |(name, value), out, inner| {
                quote(name, out);
                out.push_str(if inner.is_some() { ": " } else { ":" });
                value.write(out, inner);
            }),
        }
    }
}

/// On one line.
impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text, None);
        out.write_str(&text)
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

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string cannot fail.
            c if c.is_control() => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
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
    fn others_can_read_it() {
        for text in [sample().pretty(), sample().to_string()] {
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(value["a"][0], "x\n\"\u{1}ä");
        }
    }
}
