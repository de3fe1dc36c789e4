//! Protocol messages from JSON, by the protocol's own descriptors: what `temporal workflow show --output json` and user
//! interfaces write.

use prost::{
    Message,
    encoding::{self, WireType, encode_key, encode_varint},
};
use prost_types::{
    DescriptorProto, FieldDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use serde_json::Value;

use super::{camel, schema};

/// How deeply messages may be nested: deeper than any real history, and no danger to the stack.
const DEPTH_MAX: usize = 100;

fn json_name(field: &FieldDescriptorProto) -> String {
    match field.json_name.as_deref() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => {
            let mut words = field.name().split('_');
            let first = words.next().unwrap_or_default().to_owned();
            first + &words.map(camel).collect::<String>()
        }
    }
}

/// Encodes JSON as the message with this name (`.package.Message`).
pub(crate) fn encode_message(name: &str, json: &Value, depth: usize) -> Result<Vec<u8>, String> {
    if depth > DEPTH_MAX {
        return Err("messages are nested too deeply".to_owned());
    }
    match name {
        ".google.protobuf.Timestamp" => return timestamp(text(json)?).map(|time| time.encode_to_vec()),
        ".google.protobuf.Duration" => return duration(text(json)?).map(|span| span.encode_to_vec()),
        _ => {}
    }
    let message = schema().messages.get(name).ok_or_else(|| format!("{name} is not part of the protocol"))?;
    let fields = json.as_object().ok_or_else(|| format!("{name} must be an object"))?;
    let mut bytes = Vec::new();
    for (key, value) in fields {
        if value.is_null() {
            continue;
        }
        // What newer servers add is skipped, as it would be on the wire.
        let Some(field) = message.field.iter().find(|field| json_name(field) == *key || field.name() == key) else {
            continue;
        };
        let within = |error: String| format!("{key}: {error}");
        if let Some(entry) = map_entry(field) {
            let entries = value.as_object().ok_or_else(|| within("must be an object".to_owned()))?;
            for (key, value) in entries {
                let mut inner = Vec::new();
                encode_field(&entry.field[0], &Value::String(key.clone()), &mut inner, depth).map_err(within)?;
                encode_field(&entry.field[1], value, &mut inner, depth).map_err(within)?;
                length_delimited(field.number(), &inner, &mut bytes);
            }
        } else if field.label() == Label::Repeated {
            for item in value.as_array().ok_or_else(|| within("must be a list".to_owned()))? {
                encode_field(field, item, &mut bytes, depth).map_err(within)?;
            }
        } else {
            encode_field(field, value, &mut bytes, depth).map_err(within)?;
        }
    }
    Ok(bytes)
}

fn map_entry(field: &FieldDescriptorProto) -> Option<&'static DescriptorProto> {
    if field.r#type() != Type::Message {
        return None;
    }
    let message = schema().messages.get(field.type_name())?;
    let is_map = message.options.as_ref().is_some_and(|options| options.map_entry());
    (is_map && message.field.len() == 2).then_some(message)
}

fn length_delimited(number: i32, inner: &[u8], bytes: &mut Vec<u8>) {
    encode_key(u32::try_from(number).unwrap_or_default(), WireType::LengthDelimited, bytes);
    encode_varint(inner.len() as u64, bytes);
    bytes.extend_from_slice(inner);
}

fn encode_field(field: &FieldDescriptorProto, value: &Value, bytes: &mut Vec<u8>, depth: usize) -> Result<(), String> {
    let tag = u32::try_from(field.number()).unwrap_or_default();
    match field.r#type() {
        Type::Message => {
            let inner = encode_message(field.type_name(), value, depth + 1)?;
            length_delimited(field.number(), &inner, bytes);
        }
        Type::String => encoding::string::encode(tag, &text(value)?.to_owned(), bytes),
        Type::Bytes => encoding::bytes::encode(tag, &base64(text(value)?)?, bytes),
        Type::Bool => encoding::bool::encode(tag, &(value.as_bool() == Some(true) || value == "true"), bytes),
        Type::Enum => {
            let number = match value {
                Value::String(name) => *schema()
                    .enums
                    .get(field.type_name())
                    .and_then(|values| values.get(name))
                    .ok_or_else(|| format!("{name:?} is not a value of {}", field.type_name()))?,
                other => i32::try_from(integer(other)?).map_err(|error| error.to_string())?,
            };
            encoding::int32::encode(tag, &number, bytes);
        }
        Type::Double => encoding::double::encode(tag, &float(value)?, bytes),
        Type::Float => encoding::float::encode(tag, &(float(value)? as f32), bytes),
        Type::Int32 => encoding::int32::encode(tag, &(integer(value)? as i32), bytes),
        Type::Int64 => encoding::int64::encode(tag, &(integer(value)? as i64), bytes),
        Type::Uint32 => encoding::uint32::encode(tag, &(integer(value)? as u32), bytes),
        Type::Uint64 => encoding::uint64::encode(tag, &(integer(value)? as u64), bytes),
        Type::Sint32 => encoding::sint32::encode(tag, &(integer(value)? as i32), bytes),
        Type::Sint64 => encoding::sint64::encode(tag, &(integer(value)? as i64), bytes),
        Type::Fixed32 => encoding::fixed32::encode(tag, &(integer(value)? as u32), bytes),
        Type::Fixed64 => encoding::fixed64::encode(tag, &(integer(value)? as u64), bytes),
        Type::Sfixed32 => encoding::sfixed32::encode(tag, &(integer(value)? as i32), bytes),
        Type::Sfixed64 => encoding::sfixed64::encode(tag, &(integer(value)? as i64), bytes),
        Type::Group => return Err("groups are not supported".to_owned()),
    }
    Ok(())
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("a text was expected, not {value}"))
}

fn integer(value: &Value) -> Result<i128, String> {
    let number = match value {
        Value::Number(number) => number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| format!("a whole number was expected, not {value}"))
}

fn float(value: &Value) -> Result<f64, String> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| format!("a number was expected, not {value}"))
}

fn base64(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=' && !letter.is_ascii_whitespace()) {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return Err(format!("{text:?} is not base64")),
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Ok(bytes)
}

fn duration(text: &str) -> Result<prost_types::Duration, String> {
    let wrong = || format!("{text:?} is not a duration");
    let seconds: f64 = text.strip_suffix('s').ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
    let whole = seconds.trunc();
    let nanos = ((seconds - whole) * 1e9).round() as i32;
    Ok(prost_types::Duration { seconds: whole as i64, nanos })
}

/// RFC 3339.
fn timestamp(text: &str) -> Result<prost_types::Timestamp, String> {
    let wrong = || format!("{text:?} is not a time");
    let number = |range: std::ops::Range<usize>| -> Result<i64, String> {
        text.get(range).and_then(|part| part.parse().ok()).ok_or_else(wrong)
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let mut rest = text.get(19..).ok_or_else(wrong)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        for (index, digit) in fraction.bytes().take(digits.min(9)).enumerate() {
            nanos += i32::from(digit - b'0') * 10_i32.pow(8 - index as u32);
        }
        rest = &fraction[digits..];
    }
    let offset = match rest {
        "Z" | "z" => 0,
        zone if zone.len() == 6 && zone.is_ascii() => {
            let part = |range: std::ops::Range<usize>| zone[range].parse::<i64>().map_err(|_| wrong());
            let seconds = part(1..3)? * 3600 + part(4..6)? * 60;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
        _ => return Err(wrong()),
    };
    // Days since the epoch, by the proleptic Gregorian calendar with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
            - 719_469;
    Ok(prost_types::Timestamp { seconds: days * 86_400 + hour * 3600 + minute * 60 + second - offset, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_spans() {
        assert_eq!(timestamp("1970-01-01T00:00:00Z").unwrap().seconds, 0);
        assert_eq!(timestamp("2000-02-29T12:00:00Z").unwrap().seconds, 951_825_600);
        let time = timestamp("2026-11-16T19:30:01.25+01:00").unwrap();
        assert_eq!((time.seconds, time.nanos), (1_794_853_801, 250_000_000));
        assert!(timestamp("tomorrow").is_err());
        assert_eq!(duration("1.5s").unwrap(), prost_types::Duration { seconds: 1, nanos: 500_000_000 });
        assert!(duration("1.5").is_err());
    }

    #[test]
    fn base_64() {
        assert_eq!(base64("SGVsbG8=").unwrap(), b"Hello");
        assert_eq!(base64("SGVsbG8").unwrap(), b"Hello");
        assert!(base64("?").is_err());
    }

    #[test]
    fn both_forms_of_event_types() {
        for name in ["EVENT_TYPE_TIMER_STARTED", "TimerStarted"] {
            let json = serde_json::json!({ "eventId": "7", "eventType": name, "timerStartedEventAttributes": { "timerId": "t" } });
            let bytes = encode_message(".temporal.api.history.v1.HistoryEvent", &json, 0).unwrap();
            let event = segno_proto::events::HistoryEvent::decode(bytes.as_slice()).unwrap();
            assert_eq!(event.event_id, 7);
            assert_eq!(event.event_type(), segno_proto::enums::EventType::TimerStarted);
        }
    }
}
