//! Payloads as bodies of HTTP requests and responses, with the headers that describe them.
//!
//! A payload with an encoding of its own, or with more metadata than these headers can carry, travels as a whole.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use segno_engine::nexus::no_value;
use segno_proto::common::Payload;

/// The prefix of the headers that describe a body.
pub const CONTENT_PREFIX: &str = "content-";

const ENCODING: &str = "encoding";
const MESSAGE_TYPE: &str = "messageType";
const TYPE: &str = "type";
/// The encoding of a body of which only its own headers say what it is.
const UNKNOWN: &str = "unknown/nexus-content";
/// The type of a body that is a whole payload.
const PAYLOAD: &str = "application/x-temporal-payload";

/// A body and the headers that describe it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// Headers without [`CONTENT_PREFIX`], in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Bytes,
}

/// A body that is said to be a payload, and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not an encoded payload")]
pub struct NotPayload;

impl Content {
    /// The content of a message, from all of its headers, whose names are in lower case.
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>, body: Bytes) -> Self {
        let own = headers.into_iter().filter_map(|(name, value)| {
            let name = name.strip_prefix(CONTENT_PREFIX).filter(|name| *name != "length")?;
            Some((name.to_owned(), value.to_owned()))
        });
        Self { headers: own.collect(), body }
    }

    fn typed(kind: impl Into<String>, body: Bytes) -> Self {
        Self { headers: [(TYPE.to_owned(), kind.into())].into(), body }
    }

    /// A payload as a body.
    pub fn of(payload: &Payload) -> Self {
        Self::described(payload).unwrap_or_else(|| Self::typed(PAYLOAD, payload.encode_to_vec().into()))
    }

    /// The body alone, if headers can say all of the payload's metadata.
    fn described(payload: &Payload) -> Option<Self> {
        let Payload { metadata, data, external_payloads } = payload;
        let encoding = std::str::from_utf8(metadata.get(ENCODING)?).ok()?;
        if !external_payloads.is_empty() {
            return None;
        }
        let message_type = metadata.get(MESSAGE_TYPE).and_then(|name| std::str::from_utf8(name).ok());
        let message_type = message_type.filter(|name| !name.is_empty() && name.bytes().all(is_plain_in_quotes));
        let (kind, entries) = match encoding {
            UNKNOWN => return described_itself(metadata).map(|headers| Self { headers, body: data.clone() }),
            "binary/null" if data.is_empty() && metadata.len() == 1 => return Some(Self::default()),
            "json/plain" => ("application/json".to_owned(), 1),
            "binary/plain" => ("application/octet-stream".to_owned(), 1),
            "json/protobuf" => (format!("application/json; format=protobuf; message-type=\"{}\"", message_type?), 2),
            "binary/protobuf" => (format!("application/x-protobuf; message-type=\"{}\"", message_type?), 2),
            _ => return None,
        };
        (metadata.len() == entries).then(|| Self::typed(kind, data.clone()))
    }

    /// The payload that a body is.
    pub fn into_payload(self) -> Result<Payload, NotPayload> {
        let kind = self.headers.get(TYPE).map(String::as_str).unwrap_or_default();
        if self.headers.len() > usize::from(!kind.is_empty()) {
            return Ok(self.undescribed());
        }
        if kind.is_empty() && self.body.is_empty() {
            return Ok(no_value());
        }
        let Some((media_type, parameters)) = media_type(kind) else { return Ok(self.undescribed()) };
        let parameter = |name: &str| parameters.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let metadata = match (media_type.as_str(), parameters.len()) {
            (PAYLOAD, _) => return Payload::decode(self.body).map_err(|_| NotPayload),
            ("application/json", 0) => vec![(ENCODING, "json/plain")],
            ("application/octet-stream", 0) => vec![(ENCODING, "binary/plain")],
            ("application/json", 2) if parameter("format") == Some("protobuf") => match parameter("message-type") {
                Some(name) => vec![(ENCODING, "json/protobuf"), (MESSAGE_TYPE, name)],
                None => return Ok(self.undescribed()),
            },
            ("application/x-protobuf", 1) => match parameter("message-type") {
                Some(name) => vec![(ENCODING, "binary/protobuf"), (MESSAGE_TYPE, name)],
                None => return Ok(self.undescribed()),
            },
            _ => return Ok(self.undescribed()),
        };
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), Bytes::from(value.to_owned())));
        Ok(Payload { metadata: metadata.collect(), data: self.body, ..Default::default() })
    }

    /// A payload of an encoding that only its headers describe.
    fn undescribed(self) -> Payload {
        let mut metadata: BTreeMap<String, Bytes> =
            self.headers.into_iter().map(|(name, value)| (name, value.into())).collect();
        metadata.insert(ENCODING.to_owned(), Bytes::from_static(UNKNOWN.as_bytes()));
        Payload { metadata, data: self.body, ..Default::default() }
    }
}

/// The headers that a payload of no known encoding came with; `None` if its metadata cannot be headers.
fn described_itself(metadata: &BTreeMap<String, Bytes>) -> Option<BTreeMap<String, String>> {
    let headers = metadata.iter().filter(|(name, _)| *name != ENCODING).map(|(name, value)| {
        let is_name = !name.is_empty() && *name != "length" && name.bytes().all(is_token);
        let value = std::str::from_utf8(value).ok().filter(|value| value.bytes().all(is_printable))?;
        is_name.then(|| (name.to_lowercase(), value.to_owned()))
    });
    headers.collect()
}

fn is_printable(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

/// Whether a byte may be between quotation marks as it is.
fn is_plain_in_quotes(byte: u8) -> bool {
    is_printable(byte) && !matches!(byte, b'"' | b'\\')
}

/// Whether a byte may be in a name of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A media type and its parameters, names in lower case; `None` if it is malformed.
pub(crate) fn media_type(text: &str) -> Option<(String, BTreeMap<String, String>)> {
    let (kind, mut rest) = text.split_once(';').map_or((text, ""), |(kind, rest)| (kind, rest.trim_start()));
    let kind = kind.trim().to_lowercase();
    let (major, minor) = kind.split_once('/')?;
    if ![major, minor].iter().all(|part| !part.is_empty() && part.bytes().all(is_token)) {
        return None;
    }
    let mut parameters = BTreeMap::new();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let name = name.trim().to_lowercase();
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = value.bytes().position(|byte| !is_token(byte)).unwrap_or(value.len());
                (value[..end].to_owned(), &value[end..])
            }
        };
        let is_new = !name.is_empty() && name.bytes().all(is_token) && parameters.insert(name, value).is_none();
        let behind = behind.trim_start();
        rest = match behind.strip_prefix(';') {
            Some(next) => next.trim_start(),
            None => behind,
        };
        if !is_new || (!behind.is_empty() && !behind.starts_with(';')) {
            return None;
        }
    }
    Some((kind, parameters))
}

/// The text up to the closing quotation mark, and what follows it.
pub(crate) fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(metadata: &[(&str, &str)], data: &str) -> Payload {
        let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), Bytes::from((*value).to_owned())));
        Payload { metadata: metadata.collect(), data: data.to_owned().into(), ..Default::default() }
    }

    fn read(headers: &[(&str, &str)], body: &'static str) -> Payload {
        Content::new(headers.iter().copied(), Bytes::from_static(body.as_bytes())).into_payload().expect("a payload")
    }

    #[test]
    fn known_types_are_encodings_and_back() {
        let protobuf = [("encoding", "json/protobuf"), ("messageType", "a.B")];
        let cases = [
            ("application/json", payload(&[("encoding", "json/plain")], "1")),
            ("application/octet-stream", payload(&[("encoding", "binary/plain")], "1")),
            ("application/json; format=protobuf; message-type=\"a.B\"", payload(&protobuf, "1")),
            (
                "application/x-protobuf; message-type=\"a B\"",
                payload(&[("encoding", "binary/protobuf"), ("messageType", "a B")], "1"),
            ),
        ];
        for (kind, wanted) in cases {
            assert_eq!(read(&[("content-type", kind), ("content-length", "1"), ("x", "y")], "1"), wanted, "{kind}");
            assert_eq!(Content::of(&wanted), Content::typed(kind, "1".into()));
        }
        assert_eq!(read(&[("content-type", "APPLICATION/JSON")], "1"), payload(&[("encoding", "json/plain")], "1"));
        let kind = "application/json;Format=protobuf ; message-type=a.B";
        assert_eq!(read(&[("content-type", kind)], "1"), payload(&protobuf, "1"));
    }

    #[test]
    fn nothing_is_no_value() {
        assert_eq!(read(&[("content-length", "0")], ""), no_value());
        assert_eq!(Content::of(&no_value()), Content::default());
    }

    #[test]
    fn other_types_keep_their_headers() {
        let unknown = |kind: &str| payload(&[("encoding", UNKNOWN), ("type", kind)], "1");
        for kind in [
            "application/json; charset=utf-8",
            "application/json; message-type=X",
            "application/json; format=protobuf; message-type=",
            "application/x-protobuf",
            "application/octet-stream; a=b",
            "application/json; a=1; a=1",
            "text/plain",
            "bad",
            "bad;;",
            "application/json; a=\"",
        ] {
            assert_eq!(read(&[("content-type", kind)], "1"), unknown(kind), "{kind}");
            assert_eq!(Content::of(&unknown(kind)), Content::typed(kind, "1".into()));
        }
        assert_eq!(read(&[], "x"), payload(&[("encoding", UNKNOWN)], "x"));
        let several = read(&[("content-type", "application/json"), ("content-foo", "y")], "1");
        assert_eq!(several, payload(&[("encoding", UNKNOWN), ("type", "application/json"), ("foo", "y")], "1"));
        assert_eq!(Content::of(&several).headers.len(), 2);
    }

    #[test]
    fn what_headers_cannot_say_is_sent_as_a_whole() {
        for whole in [
            payload(&[("encoding", "json/plain"), ("a", "b")], "1"),
            payload(&[("encoding", "json/protobuf")], "{}"),
            payload(&[("encoding", "binary/protobuf"), ("messageType", "a\"")], "1"),
            payload(&[("encoding", "binary/encrypted")], "1"),
            payload(&[("encoding", "binary/null")], "1"),
            payload(&[("encoding", UNKNOWN), ("type", "a\r\nb: c")], "1"),
            payload(&[("encoding", UNKNOWN), ("a b", "c")], "1"),
            payload(&[], ""),
        ] {
            let content = Content::of(&whole);
            assert_eq!(content.headers[TYPE], PAYLOAD);
            assert_eq!(content.into_payload(), Ok(whole));
        }
        let bad = Content::typed(PAYLOAD, Bytes::from_static(b"\xff\xff"));
        assert_eq!(bad.into_payload(), Err(NotPayload));
    }
}
