//! Search attributes: which names exist, of which types, and whether given values fit.
//!
//! Three kinds of name: those the server fills itself (`SYSTEM`), those it knows and workers may set (part of
//! `PREDEFINED`), and custom ones, which belong to a namespace and are given to [`Rules`]. Values are payloads of JSON;
//! the type a payload claims in its metadata does not count, the type under which the name is registered does.

use std::collections::BTreeMap;

use prost::Message;
use segno_proto::Nanos;
use segno_proto::common::{Payload, SearchAttributes};
use segno_proto::enums::IndexedValueType::{self, Bool, Datetime, Double, Int, Keyword, KeywordList, Text};
use serde_json::Value;

use crate::validate::{Invalid, text};

/// How many attributes a request may set.
pub const KEYS_MAX: usize = 100;
/// Size limit of one value in bytes.
pub const VALUE_SIZE_MAX: usize = 2 * 1024;
/// Size limit of all attributes of a request together in bytes.
pub const TOTAL_SIZE_MAX: usize = 40 * 1024;

/// Attributes that the server fills in; users may not set them.
pub const SYSTEM: [(&str, IndexedValueType); 16] = [
    ("WorkflowId", Keyword),
    ("RunId", Keyword),
    ("WorkflowType", Keyword),
    ("StartTime", Datetime),
    ("ExecutionTime", Datetime),
    ("CloseTime", Datetime),
    ("ExecutionStatus", Keyword),
    ("TaskQueue", Keyword),
    ("HistoryLength", Int),
    ("ExecutionDuration", Int),
    ("StateTransitionCount", Int),
    ("HistorySizeBytes", Int),
    ("ParentWorkflowId", Keyword),
    ("ParentRunId", Keyword),
    ("RootWorkflowId", Keyword),
    ("RootRunId", Keyword),
];

/// Attributes stored beside the custom ones, and whether users may set them.
pub const PREDEFINED: [(&str, IndexedValueType, bool); 19] = [
    ("TemporalChangeVersion", KeywordList, true),
    ("BinaryChecksums", KeywordList, true),
    ("BuildIds", KeywordList, true),
    ("BatcherNamespace", Keyword, true),
    ("BatcherUser", Keyword, true),
    ("TemporalScheduledStartTime", Datetime, true),
    ("TemporalScheduledById", Keyword, true),
    ("TemporalSchedulePaused", Bool, true),
    ("TemporalNamespaceDivision", Keyword, true),
    ("TemporalPauseInfo", KeywordList, true),
    ("TemporalReportedProblems", KeywordList, true),
    ("TemporalWorkerDeploymentVersion", Keyword, false),
    ("TemporalWorkflowVersioningBehavior", Keyword, false),
    ("TemporalWorkerDeployment", Keyword, false),
    ("TemporalUsedWorkerDeploymentVersions", KeywordList, false),
    ("TemporalExternalPayloadCount", Int, false),
    ("TemporalExternalPayloadSizeBytes", Int, false),
    // Set on every run that is a script.
    ("SegnoFlowVersion", Keyword, false),
    // Set on a run whose task waits for a version of workers that no worker has.
    ("WaitsForVersion", Keyword, false),
];

/// The type of any attribute in a namespace with these custom ones.
pub fn type_of(name: &str, custom: &BTreeMap<String, IndexedValueType>) -> Option<IndexedValueType> {
    let system = SYSTEM.iter().find(|known| known.0 == name).map(|known| known.1);
    custom.get(name).copied().or_else(|| predefined(name).map(|known| known.0)).or(system)
}

/// The search attributes that the workflows of a namespace may set.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Name of the namespace, for error texts.
    pub namespace: &'a str,
    /// Its custom attributes.
    pub custom: &'a BTreeMap<String, IndexedValueType>,
}

impl Rules<'_> {
    /// Writes the type of each known attribute into its payload, where readers look for it.
    pub fn apply_types(&self, attributes: &mut SearchAttributes) {
        for (name, payload) in &mut attributes.indexed_fields {
            if let Some(kind) = type_of(name, self.custom) {
                payload.metadata.insert("type".to_owned(), crate::validate::text::indexed_value_type(kind).into());
            }
        }
    }

    /// All checks in the order in which requests get them.
    pub fn check(&self, attributes: &SearchAttributes) -> Result<(), Invalid> {
        self.names(attributes)?;
        self.values(attributes)?;
        self.sizes(attributes)
    }

    /// Refuses names that are neither the server's nor the namespace's.
    pub fn names(&self, attributes: &SearchAttributes) -> Result<(), Invalid> {
        match attributes.indexed_fields.keys().find(|name| type_of(name, self.custom).is_none()) {
            None => Ok(()),
            Some(name) => {
                Err(Invalid(format!("Namespace {} has no mapping defined for search attribute {name}", self.namespace)))
            }
        }
    }

    /// Refuses too many attributes, those that may not be set, and values of the wrong type.
    pub fn values(&self, attributes: &SearchAttributes) -> Result<(), Invalid> {
        let count = attributes.indexed_fields.len();
        if count > KEYS_MAX {
            return Err(Invalid(format!("number of search attributes {count} exceeds limit {KEYS_MAX}")));
        }
        for (name, payload) in &attributes.indexed_fields {
            let kind = match (self.custom.get(name).copied(), predefined(name)) {
                _ if SYSTEM.iter().any(|known| known.0 == name) => None,
                (_, Some((_, false))) => None,
                (Some(kind), _) | (None, Some((kind, true))) => Some(kind),
                (None, None) => return Err(Invalid(format!("search attribute {name} is not defined"))),
            };
            let Some(kind) = kind else {
                return Err(Invalid(format!("{name} attribute can't be set in SearchAttributes")));
            };
            if !fits(payload, kind) {
                return Err(Invalid(format!(
                    "invalid value for search attribute {name} of type {}: {}",
                    text::indexed_value_type(kind),
                    shown(payload)
                )));
            }
        }
        Ok(())
    }

    /// Refuses values that are too large, alone or together.
    pub fn sizes(&self, attributes: &SearchAttributes) -> Result<(), Invalid> {
        for (name, payload) in &attributes.indexed_fields {
            let size = payload.data.len();
            if size > VALUE_SIZE_MAX {
                return Err(Invalid(format!(
                    "search attribute {name} value size {size} exceeds size limit {VALUE_SIZE_MAX}"
                )));
            }
        }
        let total = attributes.encoded_len();
        if total > TOTAL_SIZE_MAX {
            return Err(Invalid(format!(
                "total size of search attributes {total} exceeds size limit {TOTAL_SIZE_MAX}"
            )));
        }
        Ok(())
    }
}

/// Whether an attribute is the server's own: users neither define nor remove it.
pub fn is_reserved(name: &str) -> bool {
    predefined(name).is_some() || SYSTEM.iter().any(|known| known.0 == name)
}

fn predefined(name: &str) -> Option<(IndexedValueType, bool)> {
    PREDEFINED.iter().find(|known| known.0 == name).map(|known| (known.1, known.2))
}

fn encoding(payload: &Payload) -> &[u8] {
    payload.metadata.get("encoding").map_or(&[], |encoding| encoding)
}

/// The JSON that a payload holds.
pub fn json(payload: &Payload) -> Option<Value> {
    // Go replaces broken characters where a stricter parser would refuse them.
    serde_json::from_str(&String::from_utf8_lossy(&payload.data)).ok()
}

/// Whether a payload is of a type. Nothing unsets the attribute, and any type may come as a list of itself.
fn fits(payload: &Payload, kind: IndexedValueType) -> bool {
    match encoding(payload) {
        b"binary/null" => true,
        b"json/plain" => match json(payload) {
            None => false,
            Some(value) if is(&value, kind) => true,
            Some(Value::Array(items)) => match kind {
                // A list of lists counts as the list it holds.
                KeywordList => items.len() <= 1 && items.iter().all(|item| is(item, kind)),
                _ => items.iter().all(|item| is(item, kind)),
            },
            Some(_) => false,
        },
        _ => false,
    }
}

fn is(value: &Value, kind: IndexedValueType) -> bool {
    match (kind, value) {
        (IndexedValueType::Unspecified, _) => false,
        (_, Value::Null) | (Bool, Value::Bool(_)) | (Double, Value::Number(_)) => true,
        (Int, Value::Number(number)) => number.is_i64(),
        (Keyword | Text, Value::String(_)) => true,
        (Datetime, Value::String(time)) => is_rfc3339(time),
        (KeywordList, Value::Array(items)) => items.iter().all(|item| matches!(item, Value::String(_) | Value::Null)),
        _ => false,
    }
}

/// `2006-01-02T15:04:05.999Z` or with an offset such as `+07:00`; nothing looser.
fn is_rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = bytes.get(from..to)?;
        digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0')))
    };
    let parts = (number(0, 4), number(5, 7), number(8, 10), number(11, 13), number(14, 16), number(17, 19));
    let (Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)) = parts else { return false };
    if [bytes[4], bytes[7], bytes[10], bytes[13], bytes[16]] != *b"--T::" {
        return false;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return false;
    }
    let mut at = 19;
    if bytes.get(at) == Some(&b'.') {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        at += 1 + digits;
    }
    match &bytes[at..] {
        b"Z" => true,
        [b'+' | b'-', _, _, b':', _, _] => {
            matches!((number(at + 1, at + 3), number(at + 4, at + 6)), (Some(0..=23), Some(0..=59)))
        }
        _ => false,
    }
}

/// The moment that a text in the form above names.
pub fn rfc3339_nanos(text: &str) -> Option<Nanos> {
    let time: jiff::Timestamp = is_rfc3339(text).then(|| text.parse().ok())??;
    i64::try_from(time.as_nanosecond()).ok()
}

/// A value that was refused, as Go prints it.
fn shown(payload: &Payload) -> String {
    match encoding(payload) {
        b"json/plain" => json(payload).map(|value| go(&value)),
        b"binary/plain" => {
            let bytes: Vec<String> = payload.data.iter().map(u8::to_string).collect();
            Some(format!("[{}]", bytes.join(" ")))
        }
        _ => None,
    }
    .unwrap_or_else(|| format!("value from <{}>", text_format(payload)))
}

fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => text::float(number.as_f64().unwrap_or_default()),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", go(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

fn text_format(payload: &Payload) -> String {
    let mut fields: Vec<String> = Vec::new();
    for (key, value) in &payload.metadata {
        fields.push(format!("metadata:{{key:{} value:{}}}", text::quoted(key), text::quoted_bytes(value)));
    }
    if !payload.data.is_empty() {
        fields.push(format!("data:{}", text::quoted_bytes(&payload.data)));
    }
    fields.join(" ")
}

#[cfg(test)]
#[path = "search_attributes_tests.rs"]
mod tests;
