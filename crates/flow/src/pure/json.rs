//! JSON: reading and writing values (RFC 8259).
//!
//! Reading is strict. Numbers without point and exponent are integers and must fit into 64 bits; others are doubles and
//! must be finite. Writing is compact, keys in order, nothing escaped but `"`, `\` and control characters.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::value::{DEPTH_MAX, FIELD_BYTES, ITEM_BYTES, LIST_BYTES, LanguageError, OBJECT_BYTES, Object, Value};

use super::{Cost, DOUBLE_TEXT, VALUE_MEMORY_MAX, VALUE_UNITS, number, room_for};

/// Reads JSON. The error says what is wrong with it.
pub fn parse(source: &[u8]) -> Result<Value, String> {
    parse_counting(source, &mut Cost::default())
}

/// Reads JSON and counts what that costs.
pub fn parse_counting(source: &[u8], cost: &mut Cost) -> Result<Value, String> {
    let text = str::from_utf8(source).map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))?;
    let mut reader = Reader::new(text);
    let result = reader.whole();
    cost.touch(reader.at.saturating_add(reader.made.saturating_mul(VALUE_UNITS)));
    result
}

/// Reads a number in JSON's syntax; `None` if it is none, or none that a value can be.
#[must_use]
pub fn number(source: &str) -> Option<Value> {
    let mut reader = Reader::new(source);
    let value = reader.number().ok()?;
    (reader.at == source.len()).then_some(value)
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    /// Texts, lists and objects so far.
    made: usize,
    /// Memory of finished values that belong to lists and objects under way.
    memory: usize,
}

impl<'a> Reader<'a> {
    const fn new(source: &'a str) -> Self {
        Self { source, at: 0, made: 0, memory: 0 }
    }

    fn whole(&mut self) -> Result<Value, String> {
        self.space();
        let value = self.value(0)?;
        self.space();
        if self.at < self.source.len() { Err(self.expected("the end")) } else { Ok(value) }
    }

    /// Counts an element or field, and refuses it before the whole takes too much memory.
    fn count(&mut self, place: usize, value: &Value) -> Result<(), String> {
        // What a list or an object contains was counted when it was read.
        let own = match value {
            Value::List(_) => LIST_BYTES,
            Value::Object(_) => OBJECT_BYTES,
            other => other.memory(),
        };
        self.memory += own + place;
        if self.memory > VALUE_MEMORY_MAX { Err("it takes too much memory".to_owned()) } else { Ok(()) }
    }

    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn expected(&self, what: &str) -> String {
        match self.source.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => {
                format!("not JSON: expected {what} at byte {}, found {}", self.at, quote(&found.to_string()))
            }
            None => format!("not JSON: expected {what} at byte {}, found the end", self.at),
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value, String> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::Str),
            Some(b'{' | b'[') if depth >= DEPTH_MAX => Err(format!("nested more than {DEPTH_MAX} deep")),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        if self.source[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.expected("a value"))
        }
    }

    fn list(&mut self, depth: u32) -> Result<Value, String> {
        self.at += 1;
        self.made += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Value::list(items));
        }
        loop {
            self.space();
            let item = self.value(depth + 1)?;
            self.count(ITEM_BYTES, &item)?;
            items.push(item);
            self.space();
            if self.eat(b']') {
                return Ok(Value::list(items));
            }
            if !self.eat(b',') {
                return Err(self.expected("\",\" or \"]\""));
            }
        }
    }

    fn object(&mut self, depth: u32) -> Result<Value, String> {
        self.at += 1;
        self.made += 1;
        let mut object = Object::default();
        self.space();
        if self.eat(b'}') {
            return Ok(Value::Object(object.into()));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key"));
            }
            let key = self.string()?;
            self.made += 1;
            self.space();
            if !self.eat(b':') {
                return Err(self.expected("\":\""));
            }
            self.space();
            let value = self.value(depth + 1)?;
            self.count(FIELD_BYTES + key.len(), &value)?;
            object.insert(key, value);
            self.space();
            if self.eat(b'}') {
                return Ok(Value::Object(object.into()));
            }
            if !self.eat(b',') {
                return Err(self.expected("\",\" or \"}\""));
            }
        }
    }

    fn string(&mut self) -> Result<Arc<str>, String> {
        self.made += 1;
        let begin = self.at + 1;
        self.at = begin;
        let mut unescaped: Option<String> = None;
        // Where the part begins that is not in `unescaped` yet.
        let mut part = begin;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let rest = &self.source[part..self.at];
                    self.at += 1;
                    return Ok(match unescaped {
                        Some(text) => (text + rest).into(),
                        None => rest.into(),
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(&self.source[part..self.at]);
                    let character = self.escape()?;
                    if let Some(text) = &mut unescaped {
                        text.push(character);
                    }
                    part = self.at;
                }
                Some(0..=0x1f) => return Err(self.expected("a character of a string")),
                Some(_) => self.at += 1,
                None => return Err(self.expected("\"\\\"\"")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let character = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.escape_of_unit(),
            _ => return Err(self.expected("an escape")),
        };
        self.at += 1;
        Ok(character)
    }

    /// A `u` with four hexadecimal digits, or two of them that are a pair of surrogates.
    fn escape_of_unit(&mut self) -> Result<char, String> {
        let begin = self.at - 1;
        let first = self.unit()?;
        let code = match first {
            0xd800..0xdc00 if self.source[self.at..].starts_with("\\u") => {
                self.at += 1;
                match self.unit()? {
                    second @ 0xdc00..0xe000 => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => first,
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| format!("not JSON: lone surrogate at byte {begin}"))
    }

    fn unit(&mut self) -> Result<u32, String> {
        self.at += 1;
        let digits =
            self.source.get(self.at..self.at + 4).filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.expected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }

    fn digits(&mut self) -> Result<(), String> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.expected("a digit"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, String> {
        let begin = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        let mut is_integer = true;
        if self.eat(b'.') {
            is_integer = false;
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            is_integer = false;
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        let text = &self.source[begin..self.at];
        let value =
            if is_integer { text.parse().ok().map(Value::Int) } else { text.parse().ok().and_then(Value::float) };
        value.ok_or_else(|| format!("the number {} is out of range", shortened(text)))
    }
}

fn shortened(text: &str) -> String {
    if text.len() > 40 { format!("{}…", &text[..40]) } else { text.to_owned() }
}

/// Writes compact JSON. Promises and payloads have none.
pub fn write(value: &Value, cost: &mut Cost) -> Result<String, LanguageError> {
    write_indented(value, 0, cost)
}

/// Writes JSON with this many spaces for each level; 0 is compact.
pub fn write_indented(value: &Value, indent: usize, cost: &mut Cost) -> Result<String, LanguageError> {
    let mut text = String::with_capacity(value.size().min(1 << 16));
    let mut units = 0;
    let result = write_value(value, indent, 0, &mut text, &mut units);
    cost.touch(text.len() + units);
    result.map(|()| text)
}

/// Units of a value in JSON besides the bytes of its text.
const WRITTEN: usize = 4;

fn write_value(
    value: &Value,
    indent: usize,
    level: usize,
    to: &mut String,
    units: &mut usize,
) -> Result<(), LanguageError> {
    *units += WRITTEN;
    match value {
        Value::Null => to.push_str("null"),
        Value::Bool(true) => to.push_str("true"),
        Value::Bool(false) => to.push_str("false"),
        Value::Int(integer) => {
            let _ = write!(to, "{integer}");
        }
        Value::Float(double) => {
            *units += DOUBLE_TEXT;
            to.push_str(&number::double_text(*double));
        }
        Value::Str(text) => write_string(text, to),
        Value::List(list) => {
            to.push('[');
            for (place, item) in list.items().iter().enumerate() {
                begin_item(place, indent, level, to)?;
                write_value(item, indent, level + 1, to, units)?;
            }
            end_items(list.items().is_empty(), indent, level, to);
            to.push(']');
        }
        Value::Object(object) => {
            to.push('{');
            for (place, (key, field)) in object.iter().enumerate() {
                begin_item(place, indent, level, to)?;
                write_string(key, to);
                to.push_str(if indent > 0 { ": " } else { ":" });
                write_value(field, indent, level + 1, to, units)?;
            }
            end_items(object.is_empty(), indent, level, to);
            to.push('}');
        }
        Value::Promise(_) => return Err(LanguageError::type_error("a promise cannot be sent; await it first")),
        Value::Payload(_) if level == 0 => {
            return Err(LanguageError::type_error("a payload has no text; use Payload.text or Payload.base64"));
        }
        Value::Payload(_) => return Err(LanguageError::type_error("a payload inside a list or object cannot be sent")),
    }
    Ok(())
}

fn begin_item(place: usize, indent: usize, level: usize, to: &mut String) -> Result<(), LanguageError> {
    if place > 0 {
        to.push(',');
    }
    new_line(indent, level + 1, to);
    // Indentation can make a long text of a deep value.
    if indent > 0 { room_for(to.len()) } else { Ok(()) }
}

fn end_items(is_empty: bool, indent: usize, level: usize, to: &mut String) {
    if !is_empty {
        new_line(indent, level, to);
    }
}

fn new_line(indent: usize, level: usize, to: &mut String) {
    if indent > 0 {
        to.push('\n');
        to.extend(std::iter::repeat_n(' ', indent * level));
    }
}

/// A text as a JSON string.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    write_string(text, &mut quoted);
    quoted
}

fn write_string(text: &str, to: &mut String) {
    to.push('"');
    let mut part = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        to.push_str(&text[part..at]);
        part = at + 1;
        match byte {
            b'"' => to.push_str("\\\""),
            b'\\' => to.push_str("\\\\"),
            b'\n' => to.push_str("\\n"),
            b'\r' => to.push_str("\\r"),
            b'\t' => to.push_str("\\t"),
            0x8 => to.push_str("\\b"),
            0xc => to.push_str("\\f"),
            other => {
                let _ = write!(to, "\\u{other:04x}");
            }
        }
    }
    to.push_str(&text[part..]);
    to.push('"');
}
