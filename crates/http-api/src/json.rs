//! JSON with the position of each value, and written as Go's encoders write it.
//!
//! Errors have the texts of Go's `encoding/json`, which Temporal's HTTP API passes on. Positions are for later errors:
//! line and column of a value that does not fit its field.

/// Values inside values. Each level takes stack, of which a thread has 2 MiB; messages of the protocol have far fewer.
const DEPTH_MAX: usize = 256;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Offset of its first byte.
    pub(super) start: usize,
    /// Offset behind its last byte.
    pub(super) end: usize,
    pub(super) value: Value,
}

/// What JSON has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As it is written.
    Number(String),
    String(String),
    Array(Vec<Node>),
    /// In the order in which they are written, repeated names included.
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    /// Where the name begins, its quotation mark included.
    pub(super) start: usize,
    /// Where the name ends.
    pub(super) end: usize,
    pub(super) value: Node,
}

/// Reads the first value of a text; what follows it is ignored. `None` if there is none.
pub(super) fn parse(text: &[u8]) -> Result<Option<Node>, String> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.skip_space();
    if parser.at == text.len() {
        return Ok(None);
    }
    parser.value().map(Some)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte, which is not taken.
    fn peek(&self) -> Result<u8, String> {
        self.text.get(self.at).copied().ok_or_else(|| "unexpected EOF".to_owned())
    }

    fn unexpected<T>(&self, context: &str) -> Result<T, String> {
        let byte = self.peek()?;
        let shown = match byte {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            b'\\' => r"'\\'".to_owned(),
            b'\n' => r"'\n'".to_owned(),
            b'\r' => r"'\r'".to_owned(),
            b'\t' => r"'\t'".to_owned(),
            0x20..=0x7e | 0x80.. => format!("'{}'", char::from(byte)),
            _ => format!("'\\x{byte:02x}'"),
        };
        Err(format!("invalid character {shown} {context}"))
    }

    fn value(&mut self) -> Result<Node, String> {
        self.skip_space();
        let start = self.at;
        let value = match self.peek()? {
            b'{' => self.nested(Self::object)?,
            b'[' => self.nested(Self::array)?,
            b'"' => Value::String(self.string()?),
            b't' => self.literal("true", Value::Bool(true))?,
            b'f' => self.literal("false", Value::Bool(false))?,
            b'n' => self.literal("null", Value::Null)?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return self.unexpected("looking for beginning of value"),
        };
        Ok(Node { start, end: self.at, value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut members = Vec::new();
        self.skip_space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek()? != b'"' {
                return self.unexpected("looking for beginning of object key string");
            }
            let start = self.at;
            let name = self.string()?;
            let end = self.at;
            self.skip_space();
            if self.peek()? != b':' {
                return self.unexpected("after object key");
            }
            self.at += 1;
            members.push(Member { name, start, end, value: self.value()? });
            self.skip_space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return self.unexpected("after object key:value pair"),
            }
        }
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return self.unexpected("after array element"),
            }
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for expected in word.bytes() {
            if self.peek()? != expected {
                return self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected)));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return self.unexpected("in numeric literal"),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            if !self.peek()?.is_ascii_digit() {
                return self.unexpected("after decimal point in numeric literal");
            }
            self.digits();
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek()?, b'+' | b'-') {
                self.at += 1;
            }
            if !self.peek()?.is_ascii_digit() {
                return self.unexpected("in exponent of numeric literal");
            }
            self.digits();
        }
        Ok(Value::Number(String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                b'\\' => {
                    self.at += 1;
                    self.escape(&mut bytes)?;
                }
                0..0x20 => return self.unexpected("in string literal"),
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let byte = match self.peek()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.at += 1;
                let first = self.hexadecimal()?;
                let letter = match first {
                    0xd800..0xdc00 if self.text[self.at..].starts_with(b"\\u") => {
                        let begin = self.at;
                        self.at += 2;
                        let second = self.hexadecimal()?;
                        match second {
                            0xdc00..0xe000 => char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)),
                            // The second one stands for itself.
                            _ => {
                                self.at = begin;
                                None
                            }
                        }
                    }
                    code => char::from_u32(code),
                };
                let mut buffer = [0; 4];
                let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
                bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
                return Ok(());
            }
            _ => return self.unexpected("in string escape code"),
        };
        bytes.push(byte);
        self.at += 1;
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.peek()?).to_digit(16) else {
                return self.unexpected("in \\u hexadecimal character escape");
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// Writes JSON, in one line or indented.
pub(super) struct Writer {
    out: String,
    indent: bool,
    depth: usize,
    /// Whether something was written at this depth.
    any: bool,
}

impl Writer {
    pub(super) fn new(indent: bool) -> Self {
        Self { out: String::new(), indent, depth: 0, any: false }
    }

    /// What was written.
    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Begins an object or an array.
    pub(super) fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
        self.any = false;
    }

    /// Ends an object or an array.
    pub(super) fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if self.any {
            self.line();
        }
        self.out.push(bracket);
        self.any = true;
    }

    /// Separates an item of an array from the one before.
    pub(super) fn item(&mut self) {
        if self.any {
            self.out.push(',');
        }
        self.line();
        self.any = true;
    }

    /// Begins a member of an object.
    pub(super) fn name(&mut self, name: &str) {
        self.item();
        quote(name, false, &mut self.out);
        self.out.push_str(if self.indent { ": " } else { ":" });
    }

    /// Writes a string.
    pub(super) fn string(&mut self, text: &str) {
        quote(text, false, &mut self.out);
    }

    /// Writes what is JSON already: a number, a literal.
    pub(super) fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        if self.indent {
            self.out.push('\n');
            (0..self.depth).for_each(|_| self.out.push_str("  "));
        }
    }
}

/// Adds a string with its quotation marks. Go's `encoding/json` also escapes what HTML would take for its own.
pub(super) fn quote(text: &str, for_html: bool, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if for_html => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter if u32::from(letter) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// A number as Go writes it: with an exponent only if it is very large or very small.
pub(super) fn float(number: f64) -> String {
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

    fn error(text: &str) -> String {
        parse(text.as_bytes()).expect_err(text)
    }

    #[test]
    fn errors_are_those_of_go() {
        assert_eq!(error("{"), "unexpected EOF");
        assert_eq!(error("x"), "invalid character 'x' looking for beginning of value");
        assert_eq!(error("{x"), "invalid character 'x' looking for beginning of object key string");
        assert_eq!(error(r#"{"a" 1}"#), "invalid character '1' after object key");
        assert_eq!(error(r#"{"a":1 "b"}"#), "invalid character '\"' after object key:value pair");
        assert_eq!(error(r#"{"a":1,}"#), "invalid character '}' looking for beginning of object key string");
        assert_eq!(error("[1 2]"), "invalid character '2' after array element");
        assert_eq!(error("[1,]"), "invalid character ']' looking for beginning of value");
        assert_eq!(error("trux"), "invalid character 'x' in literal true (expecting 'e')");
        assert_eq!(error("-x"), "invalid character 'x' in numeric literal");
        assert_eq!(error("\"\n\""), "invalid character '\\n' in string literal");
        assert_eq!(error(r#""\x""#), "invalid character 'x' in string escape code");
    }

    #[test]
    fn values_have_their_places() {
        let node = parse(br#" {"a": [1, "\u00e9\ud83d\ude00"]} trailing"#).expect("JSON").expect("a value");
        let Value::Object(members) = &node.value else { panic!("{node:?}") };
        assert_eq!((node.start, members[0].start, members[0].value.start), (1, 2, 7));
        let Value::Array(items) = &members[0].value.value else { panic!("{node:?}") };
        assert_eq!(items[1].value, Value::String("é😀".to_owned()));
        assert_eq!(parse(b" \n").expect("nothing"), None);
    }

    #[test]
    fn numbers_look_as_in_go() {
        let shown = [0.0, 1.0, 1.5, 1e20, 1e21, 1.5e22, 1e-6, 1e-7, -2.0].map(float);
        let expected = ["0", "1", "1.5", "100000000000000000000", "1e+21", "1.5e+22", "0.000001", "1e-7", "-2"];
        assert_eq!(shown, expected);
    }

    /// A thread of the server has 2 MiB of stack.
    #[test]
    fn nesting_is_limited_to_what_a_thread_has_room_for() {
        let deep = |levels: usize| format!("{}1{}", "{\"a\":[".repeat(levels), "]}".repeat(levels));
        let text = deep(5_000);
        let parsed = std::thread::Builder::new().stack_size(1 << 20).spawn(move || parse(text.as_bytes()).is_err());
        assert!(parsed.expect("a thread").join().expect("no overflow"));
        assert!(parse(deep(100).as_bytes()).is_ok());
    }
}
