//! How texts, run ids and attribute values are stored.
//!
//! PostgreSQL's text cannot hold NUL. Texts are therefore escaped so that their bytewise order stays: 0x00 becomes 01 01,
//! 0x01 becomes 01 02. Workflow ids are stored as bytes and need no escape.
//!
//! Attributes are JSON by number. A double is `{"double": "<shortest decimal form>"}`, so that it comes back exactly as it
//! was and is told from an integer. Beside it each value is an entry of `attributes` whose bytes order as the values do.

use std::borrow::Cow;
use std::collections::BTreeMap;

use segno_store::visibility::Value;
use serde_json::{Map, Value as Json};
use uuid::Uuid;

/// A text as it is stored.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', '\u{1}']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for found in text.chars() {
        match found {
            '\0' => escaped.push_str("\u{1}\u{1}"),
            '\u{1}' => escaped.push_str("\u{1}\u{2}"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// The text that [`escape`] made this of.
pub(crate) fn unescape(text: String) -> String {
    if !text.contains('\u{1}') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(found) = chars.next() {
        plain.push(match found {
            '\u{1}' if chars.next() == Some('\u{1}') => '\0',
            other => other,
        });
    }
    plain
}

/// A run id, if it is one in the form in which Segno makes them.
pub(crate) fn run_id(text: &str) -> Option<Uuid> {
    let parsed = Uuid::try_parse(text).ok()?;
    let mut buffer = Uuid::encode_buffer();
    (parsed.hyphenated().encode_lower(&mut buffer) == text).then_some(parsed)
}

/// Attributes as JSON; `None` if there is none.
pub(crate) fn attributes_to_json(attributes: &BTreeMap<u32, Value>) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let text = |text: &str| Json::String(escape(text).into_owned());
    let json: Map<String, Json> = attributes
        .iter()
        .map(|(number, value)| {
            let value = match value {
                Value::Text(value) => text(value),
                Value::List(items) => Json::Array(items.iter().map(|item| text(item)).collect()),
                Value::Int(value) => Json::from(*value),
                Value::Bool(value) => Json::Bool(*value),
                Value::Double(value) => {
                    Json::Object(Map::from_iter([("double".to_owned(), Json::String(format!("{value:?}")))]))
                }
            };
            (number.to_string(), value)
        })
        .collect();
    Some(Json::Object(json).to_string())
}

/// The attributes in JSON; `None` if it is not what [`attributes_to_json`] writes.
pub(crate) fn attributes_from_json(json: Option<&str>) -> Option<BTreeMap<u32, Value>> {
    let Some(json) = json else { return Some(BTreeMap::new()) };
    let read: Map<String, Json> = serde_json::from_str(json).ok()?;
    let text = |json: Json| match json {
        Json::String(text) => Some(unescape(text)),
        _ => None,
    };
    let value = |json: Json| match json {
        Json::Array(items) => items.into_iter().map(text).collect::<Option<_>>().map(Value::List),
        Json::Number(number) => number.as_i64().map(Value::Int),
        Json::Bool(truth) => Some(Value::Bool(truth)),
        Json::Object(object) => object.get("double")?.as_str()?.parse().ok().map(Value::Double),
        json => text(json).map(Value::Text),
    };
    read.into_iter().map(|(number, json)| Some((number.parse().ok()?, value(json)?))).collect()
}

/// A namespace's attribute in the table of entries.
pub(crate) fn attribute_entry(namespace: u32, number: u32) -> i64 {
    (i64::from(namespace) << 32) | i64::from(number)
}

/// Entries longer than this are cut: an index row has at most some 2,700 bytes. They only lead to runs, and the query
/// that follows them compares the whole value.
const ENTRY_BYTES_MAX: usize = 512;

/// The entry of a value that is not a list. Bytes order as values of one kind do.
pub(crate) fn entry(value: &Value) -> Option<Vec<u8>> {
    let number = |kind: u8, bits: u64| {
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&bits.to_be_bytes());
        bytes
    };
    Some(match value {
        Value::Int(value) => number(1, value.cast_unsigned() ^ (1 << 63)),
        Value::Double(value) => {
            // Both zeros are one value.
            let bits = if *value == 0.0 { 0 } else { value.to_bits() };
            number(2, if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
        }
        Value::Bool(value) => vec![3, u8::from(*value)],
        Value::Text(text) => text_entry(text),
        Value::List(_) => return None,
    })
}

/// The entry of a text, or of an item of a list.
pub(crate) fn text_entry(text: &str) -> Vec<u8> {
    let mut bytes = vec![4];
    bytes.extend_from_slice(&text.as_bytes()[..text.len().min(ENTRY_BYTES_MAX)]);
    bytes
}

/// All entries of a value, each once.
pub(crate) fn entries(value: &Value) -> Vec<Vec<u8>> {
    let mut all = match value {
        Value::List(items) => items.iter().map(|item| text_entry(item)).collect(),
        value => entry(value).into_iter().collect::<Vec<_>>(),
    };
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_texts_keep_their_order_and_come_back() {
        let mut texts =
            ["", "\0", "\0\0", "\0a", "\u{1}", "\u{1}\0", "\u{2}", "a", "a\0", "a\0b", "a\u{1}", "ab", "é\0x"];
        texts.sort_unstable();
        let escaped: Vec<_> = texts.iter().map(|text| escape(text).into_owned()).collect();
        assert!(escaped.is_sorted() && escaped.iter().all(|text| !text.contains('\0')));
        assert!(escaped.into_iter().map(unescape).eq(texts.iter().map(|text| (*text).to_owned())));
    }

    #[test]
    fn attributes_come_back_as_they_were() {
        let attributes = BTreeMap::from([
            (1, Value::Text("a\0\"\u{1}".to_owned())),
            (2, Value::List(vec![String::new(), "é\0".to_owned()])),
            (3, Value::Int(i64::MIN)),
            (4, Value::Double(5e-324)),
            (5, Value::Double(-0.0)),
            (6, Value::Double(1e300)),
            (7, Value::Double(f64::INFINITY)),
            (u32::MAX, Value::Bool(false)),
        ]);
        let json = attributes_to_json(&attributes).expect("there are some");
        assert_eq!(attributes_from_json(Some(&json)), Some(attributes));
        assert_eq!(attributes_from_json(Some("{\"1\": null}")), None);
    }

    #[test]
    fn entries_order_as_values_do() {
        let doubles = [f64::NEG_INFINITY, -1e300, -2.5, -5e-324, 0.0, 5e-324, 1.0, 1e300, f64::INFINITY];
        assert!(doubles.map(|value| entry(&Value::Double(value))).is_sorted());
        assert!([i64::MIN, -1, 0, 1, i64::MAX].map(|value| entry(&Value::Int(value))).is_sorted());
        assert_eq!(entry(&Value::Double(0.0)), entry(&Value::Double(-0.0)));
    }

    #[test]
    fn only_run_ids_of_our_own_form() {
        assert!(run_id("00000000-0001-8abc-8def-0123456789ab").is_some());
        for other in ["", "x", "00000000-0001-8ABC-8def-0123456789ab", "0000000000018abc8def0123456789ab"] {
            assert_eq!(run_id(other), None, "{other:?}");
        }
    }
}
