//! Reads JSON, with the position of each value.
//!
//! Errors have the texts of Go's `encoding/json`, which Temporal's HTTP API passes on. Positions are for later errors:
//! line and column of a value that does not fit its field.

/// Values inside values. Each level takes stack, of which a thread has 2 MiB; messages of the protocol have far fewer.
const DEPTH_MAX: usize = 256;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Offset of its first byte.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
    /// The value.
    pub value: NodeValue,
}

/// A value in a text.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// As it is written.
    Number(String),
    /// A text, its escapes resolved.
    String(String),
    /// A list.
    Array(Vec<Node>),
    /// In the order in which they are written, repeated names included.
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where the name begins, its quotation mark included.
    pub start: usize,
    /// Where the name ends.
    pub end: usize,
    /// Its value.
    pub value: Node,
}

/// Reads the first value of a text; what follows it is ignored. `None` if there is none.
pub fn parse(text: &[u8]) -> Result<Option<Node>, String> {
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
            b'"' => NodeValue::String(self.string()?),
            b't' => self.literal("true", NodeValue::Bool(true))?,
            b'f' => self.literal("false", NodeValue::Bool(false))?,
            b'n' => self.literal("null", NodeValue::Null)?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return self.unexpected("looking for beginning of value"),
        };
        Ok(Node { start, end: self.at, value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<NodeValue, String>) -> Result<NodeValue, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<NodeValue, String> {
        let mut members = Vec::new();
        self.skip_space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(NodeValue::Object(members));
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
                    return Ok(NodeValue::Object(members));
                }
                _ => return self.unexpected("after object key:value pair"),
            }
        }
    }

    fn array(&mut self) -> Result<NodeValue, String> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(NodeValue::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(NodeValue::Array(items));
                }
                _ => return self.unexpected("after array element"),
            }
        }
    }

    fn literal(&mut self, word: &str, value: NodeValue) -> Result<NodeValue, String> {
        for expected in word.bytes() {
            if self.peek()? != expected {
                return self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected)));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<NodeValue, String> {
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
        Ok(NodeValue::Number(String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
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
        let NodeValue::Object(members) = &node.value else { panic!("{node:?}") };
        assert_eq!((node.start, members[0].start, members[0].value.start), (1, 2, 7));
        let NodeValue::Array(items) = &members[0].value.value else { panic!("{node:?}") };
        assert_eq!(items[1].value, NodeValue::String("é😀".to_owned()));
        assert_eq!(parse(b" \n").expect("nothing"), None);
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
