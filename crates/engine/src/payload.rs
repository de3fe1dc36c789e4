//! Payloads that the server makes or understands itself: JSON, search attributes, "no value".

use segno_proto::{common::Payload, enums::IndexedValueType};
use serde_json::Value;

use crate::validate::text;

/// A payload with this JSON.
pub(crate) fn json(json: impl Into<String>) -> Payload {
    let metadata = [("encoding".to_owned(), "json/plain".into())].into();
    Payload { metadata, data: json.into().into(), ..Default::default() }
}

/// The value of a search attribute, from its JSON.
pub(crate) fn search_attribute(json: &str, kind: IndexedValueType) -> Payload {
    let mut payload = self::json(json);
    payload.metadata.insert("type".to_owned(), text::indexed_value_type(kind).into());
    payload
}

/// The value of a search attribute of type Keyword.
pub(crate) fn keyword(value: &str) -> Payload {
    search_attribute(&Value::from(value).to_string(), IndexedValueType::Keyword)
}

/// The value of a search attribute of type KeywordList.
pub(crate) fn keyword_list(values: &[String]) -> Payload {
    search_attribute(&Value::from(values).to_string(), IndexedValueType::KeywordList)
}

/// The payload that stands for no value.
pub fn no_value() -> Payload {
    let metadata = [("encoding".to_owned(), "binary/null".into())].into();
    Payload { metadata, ..Default::default() }
}

/// Whether a payload stands for "no value": absent data, JSON null or an empty list.
pub(crate) fn is_null(payload: &Payload) -> bool {
    let encoding = payload.metadata.get("encoding").map(|bytes| bytes.as_ref());
    encoding == Some(b"binary/null")
        || (payload.data.as_ref() == b"null" || payload.data.as_ref() == b"[]") && encoding == Some(b"json/plain")
}
