//! Readable payloads and failures: JSON over several lines, other bytes as their number and first hexadecimal digits.

use bytes::Bytes;
use maud::{Markup, html};
use segno_proto::{
    common::{Payload, Payloads},
    failure::{Failure, failure::FailureInfo},
};
use serde_json::Value;
use tonic::Status;

use super::{codec, forms::hex};

/// Longest text that is shown whole.
const SHOWN_BYTES_MAX: usize = 32 * 1024;
/// Bytes of other payloads that are shown.
const HEX_BYTES: usize = 64;
/// Most causes of a failure that are shown.
const CAUSES_MAX: usize = 20;

fn encoding(payload: &Payload) -> &str {
    payload.metadata.get("encoding").and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("")
}

/// The JSON in a payload.
pub(super) fn json_of(payload: &Payload) -> Option<Value> {
    match encoding(payload) {
        "json/plain" | "json/protobuf" => serde_json::from_slice(&payload.data).ok(),
        "binary/null" => Some(Value::Null),
        _ => None,
    }
}

/// The content of a payload, over several lines.
pub(super) fn text(payload: &Payload) -> String {
    if let Some(json) = json_of(payload) {
        // Numbers of more digits than JSON readers keep are shown as they were written.
        let pretty = serde_json::to_string_pretty(&json).unwrap_or_default();
        let same = serde_json::to_string(&json).unwrap_or_default();
        let written = String::from_utf8_lossy(&payload.data);
        let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
        let faithful = payload.data.is_empty() || without_spaces(&same) == without_spaces(&written);
        return cut(if faithful || !written.bytes().any(|byte| byte.is_ascii_digit()) {
            pretty
        } else {
            written.into_owned()
        });
    }
    match (encoding(payload), std::str::from_utf8(&payload.data)) {
        ("binary/plain" | "json/plain", Ok(text)) if !text.contains(is_unprintable) => cut(text.to_owned()),
        (encoding, _) => {
            let size = payload.data.len();
            let shown = hex(&payload.data[..size.min(HEX_BYTES)]);
            let more = if size > HEX_BYTES { "…" } else { "" };
            let kind = if encoding.is_empty() { "no encoding" } else { encoding };
            format!("{size} bytes ({kind}) {shown}{more}")
        }
    }
}

/// Whether a character shows that bytes are no text.
fn is_unprintable(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\r' | '\t')
}

fn cut(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        let whole = text.len();
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&format!("\n… {whole} bytes in all"));
    }
    text
}

/// All payloads in a block each.
pub(super) fn blocks(payloads: Option<&Payloads>) -> Markup {
    let payloads = payloads.map(|payloads| payloads.payloads.as_slice()).unwrap_or_default();
    html! {
        @if payloads.is_empty() { p.faint { "nothing" } }
        @for payload in payloads {
            pre.payload tabindex="0" data-encoded=[codec::attribute([payload])] { (text(payload)) }
        }
    }
}

/// The first characters of a text.
pub(super) fn short(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The arguments that the reader typed: a JSON text per line is an argument; a whole text that is JSON is one.
pub(super) fn typed(text: &str) -> Result<Option<Payloads>, Status> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let is_json = |text: &str| serde_json::from_str::<Value>(text).map(|_| ());
    let arguments: Vec<&str> = match is_json(text) {
        Ok(()) => vec![text],
        Err(whole) => {
            let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            if lines.iter().any(|line| is_json(line).is_err()) {
                return Err(Status::invalid_argument(format!(
                    "the input is not JSON: {whole}. A text needs quotation marks; several arguments are one JSON value per line"
                )));
            }
            lines
        }
    };
    let payload = |text: &&str| Payload {
        metadata: [("encoding".to_owned(), Bytes::from_static(b"json/plain"))].into(),
        data: Bytes::copy_from_slice(text.as_bytes()),
        ..Default::default()
    };
    Ok(Some(Payloads { payloads: arguments.iter().map(payload).collect() }))
}

/// A failure in one line: its type and message, then its causes.
pub(super) fn failure_line(failure: &Failure) -> String {
    let mut line = String::new();
    let mut next = Some(failure);
    for _ in 0..CAUSES_MAX {
        let Some(failure) = next else { break };
        if !line.is_empty() {
            line.push_str(" ← ");
        }
        line.push_str(&one_failure(failure));
        next = failure.cause.as_deref();
    }
    short(&line, 600)
}

fn one_failure(failure: &Failure) -> String {
    let kind = match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => info.r#type.clone(),
        Some(FailureInfo::TimeoutFailureInfo(info)) => {
            info.timeout_type().as_str_name().trim_start_matches("TIMEOUT_TYPE_").replace('_', " ").to_lowercase()
        }
        _ => String::new(),
    };
    match (kind.is_empty(), failure.message.is_empty()) {
        (false, false) => format!("{kind}: {}", failure.message),
        (false, true) => kind,
        (true, _) => failure.message.clone(),
    }
}

/// A failure with its stack trace and causes.
pub(super) fn failure_block(failure: &Failure) -> Markup {
    let mut chain = Vec::new();
    let mut next = Some(failure);
    while let Some(failure) = next.filter(|_| chain.len() < CAUSES_MAX) {
        chain.push(failure);
        next = failure.cause.as_deref();
    }
    html! {
        @for (place, failure) in chain.iter().enumerate() {
            div.failure {
                p { @if place > 0 { span.faint { "caused by " } } strong { (one_failure(failure)) } }
                @if !failure.stack_trace.is_empty() { pre tabindex="0" { (cut(failure.stack_trace.clone())) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(encoding: &str, data: &[u8]) -> Payload {
        Payload {
            metadata: [("encoding".to_owned(), encoding.to_owned().into())].into(),
            data: data.to_vec().into(),
            ..Default::default()
        }
    }

    #[test]
    fn readable() {
        assert_eq!(text(&payload("json/plain", b"{\"b\":1,\"a\":[]}")), "{\n  \"b\": 1,\n  \"a\": []\n}");
        assert_eq!(text(&payload("json/plain", b"12345678901234567890123")), "12345678901234567890123");
        assert_eq!(text(&payload("binary/null", b"")), "null");
        assert_eq!(text(&payload("binary/encrypted", b"\x01\xff")), "2 bytes (binary/encrypted) 01ff");
        assert!(text(&payload("binary/plain", &[7; 100])).ends_with('…'));
    }

    #[test]
    fn what_is_typed() {
        assert_eq!(typed("  ").expect("nothing"), None);
        assert_eq!(typed("{\n\"a\": 1\n}").expect("JSON").expect("one").payloads.len(), 1);
        assert_eq!(typed("1\n\"x\"\n").expect("JSON").expect("two").payloads.len(), 2);
        assert!(typed("hello").expect_err("no JSON").message().contains("quotation marks"));
    }
}
