//! Any message as JSON, by its descriptor: one walk over the wire form serves every command.
//!
//! Fields that are absent on the wire are absent in the JSON, as in Temporal's own command line. Fields of a newer
//! server that this binary does not know are left out.

use prost::Message;

use super::{Json, payload};

/// How some things are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Payloads as metadata and bytes: what SDKs read to replay a history.
    Exact,
    /// Payloads that hold JSON as that JSON.
    Decoded,
    /// For people: payloads as text, enums in short (`StartToClose`).
    Readable,
}

/// A message as JSON, with what is in its payloads. `name` is its full name.
pub fn decoded(name: &str, message: &impl Message) -> Json {
    to_json(name, message, View::Decoded)
}

/// A message as JSON. `name` is its full name, such as `temporal.api.history.v1.HistoryEvent`.
pub fn to_json(name: &str, message: &impl Message, view: View) -> Json {
    use segno_proto_json::View as Shown;
    let view = match view {
        View::Exact => Shown::EXACT,
        View::Decoded => Shown { payload: Some(|payload| Some(payload::json(payload))), ..Shown::EXACT },
        View::Readable => {
            Shown { payload: Some(|payload| Some(Json::Raw(payload::text(payload)))), enum_value: short_name }
        }
    };
    segno_proto_json::to_json(name, message, view)
}

/// `StartToClose` for `TIMEOUT_TYPE_START_TO_CLOSE` of `TimeoutType`.
pub fn short_name(kind: &str, value: &str) -> String {
    let letters = |c: char| c.is_ascii_alphanumeric();
    let mut prefix = kind.chars().map(|c| c.to_ascii_uppercase());
    let mut rest = value.chars();
    let mut next = prefix.next();
    let mut at = rest.clone();
    while let (Some(expected), Some(found)) = (next, rest.next()) {
        if found == '_' {
            continue;
        }
        if found != expected {
            // Not named after its type.
            at = value.chars();
            break;
        }
        next = prefix.next();
        at = rest.clone();
    }
    let words = at.as_str().split(|c| !letters(c)).filter(|word| !word.is_empty());
    words.map(|word| format!("{}{}", &word[..1], word[1..].to_ascii_lowercase())).collect()
}

#[cfg(test)]
#[path = "dynamic_tests.rs"]
mod tests;
