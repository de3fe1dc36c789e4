//! Responses as JSON, from their wire form, as in protobuf's JSON mapping, with fields in the order of their
//! definition. Fields that are absent on the wire are absent in the JSON.

use std::collections::BTreeMap;

use prost::{
    DecodeError, Message as _,
    encoding::{WireType, decode_key, decode_varint},
};
use prost_types::{Any, Duration, FieldMask, Timestamp, field_descriptor_proto::Type};

use super::{
    json::{self, Writer},
    payload, scalars,
    schema::{Field, Message, Schema, camel_case},
};

/// Writes a message, by its full name with a dot in front.
pub(super) fn message(name: &str, bytes: &[u8], short: bool, indent: bool) -> Result<String, MalformedMessage> {
    let message = Schema::get().message(name).ok_or_else(|| MalformedMessage(format!("there is no message {name}")))?;
    let mut encoder = Encoder { writer: Writer::new(indent), short };
    encoder.message(message, bytes)?;
    Ok(encoder.writer.finish())
}

/// Bytes are not the message they are said to be.
#[derive(Debug, thiserror::Error)]
#[error("the response is malformed: {0}")]
pub(super) struct MalformedMessage(String);

impl From<DecodeError> for MalformedMessage {
    fn from(error: DecodeError) -> Self {
        Self(error.to_string())
    }
}

/// One value on the wire.
enum Wire<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
}

struct Encoder {
    writer: Writer,
    short: bool,
}

impl Encoder {
    fn message(&mut self, message: &Message, bytes: &[u8]) -> Result<(), MalformedMessage> {
        if self.special(message, bytes)? {
            return Ok(());
        }
        self.writer.open('{');
        self.fields(message, bytes)?;
        self.writer.close('}');
        Ok(())
    }

    fn fields(&mut self, message: &Message, bytes: &[u8]) -> Result<(), MalformedMessage> {
        for (position, values) in sorted(message, bytes)? {
            let field = &message.fields[position];
            self.writer.name(&field.json_name);
            self.field(field, &values)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, values: &[Wire<'_>]) -> Result<(), MalformedMessage> {
        if let Some((key, value)) = Schema::get().map_entry(field) {
            return self.map(key, value, values);
        }
        if field.is_repeated {
            self.writer.open('[');
            for value in values {
                match value {
                    Wire::Bytes(packed) if is_packable(field.kind) => {
                        let mut rest = *packed;
                        while !rest.is_empty() {
                            let value = read(&mut rest, wire_type(field.kind))?;
                            self.writer.item();
                            self.one(field, &value)?;
                        }
                    }
                    value => {
                        self.writer.item();
                        self.one(field, value)?;
                    }
                }
            }
            self.writer.close(']');
            return Ok(());
        }
        match values {
            // Parts of one message.
            [_, _, ..] if field.kind == Type::Message => {
                let whole: Vec<u8> = values.iter().flat_map(|value| value.bytes().iter().copied()).collect();
                self.one(field, &Wire::Bytes(&whole))
            }
            [.., last] => self.one(field, last),
            [] => Ok(()),
        }
    }

    fn map(&mut self, key: &Field, value: &Field, entries: &[Wire<'_>]) -> Result<(), MalformedMessage> {
        // Numbers in their order, then text.
        let mut sorted: BTreeMap<(i128, String), Vec<u8>> = BTreeMap::new();
        for entry in entries {
            let mut rest = entry.bytes();
            let (mut name, mut content) = (default(key.kind), Vec::new());
            while !rest.is_empty() {
                let (number, wire) = decode_key(&mut rest)?;
                let begin = rest;
                let item = read(&mut rest, wire)?;
                match number {
                    1 => name = key_of(key, &item),
                    2 => content = begin[..begin.len() - rest.len()].to_vec(),
                    _ => {}
                }
            }
            sorted.insert(name, content);
        }
        self.writer.open('{');
        for ((number, text), content) in sorted {
            let is_text = matches!(key.kind, Type::String);
            match (is_text, key.kind) {
                (true, _) => self.writer.name(&text),
                (false, Type::Bool) => self.writer.name(if number == 0 { "false" } else { "true" }),
                (false, _) => self.writer.name(&number.to_string()),
            }
            let mut rest = content.as_slice();
            let item = match rest.is_empty() {
                true => empty(value.kind),
                false => read(&mut rest, wire_type(value.kind))?,
            };
            self.one(value, &item)?;
        }
        self.writer.close('}');
        Ok(())
    }

    fn one(&mut self, field: &Field, value: &Wire<'_>) -> Result<(), MalformedMessage> {
        match field.kind {
            Type::Message => {
                let message = Schema::get().message_of(field);
                let message =
                    message.ok_or_else(|| MalformedMessage(format!("there is no message {}", field.type_name)))?;
                return self.message(message, value.bytes());
            }
            Type::String => self.writer.string(&String::from_utf8_lossy(value.bytes())),
            Type::Bytes => self.writer.string(&scalars::to_base64(value.bytes())),
            Type::Bool => self.writer.raw(if value.number() == 0 { "false" } else { "true" }),
            Type::Enum => {
                let number = value.number() as i32;
                match Schema::get().enum_of(field).and_then(|kind| kind.names.get(&number)) {
                    _ if field.type_name == ".google.protobuf.NullValue" => self.writer.raw("null"),
                    Some(name) => self.writer.string(name),
                    None => self.writer.raw(&number.to_string()),
                }
            }
            Type::Double => self.float(f64::from_bits(value.number())),
            // The shortest text that is this number of 32 bits.
            Type::Float => self.float(f32::from_bits(value.number() as u32).to_string().parse().unwrap_or_default()),
            Type::Int32 | Type::Sfixed32 => self.writer.raw(&(value.number() as i32).to_string()),
            Type::Uint32 | Type::Fixed32 => self.writer.raw(&(value.number() as u32).to_string()),
            Type::Sint32 => self.writer.raw(&(unzigzag(value.number()) as i32).to_string()),
            Type::Int64 | Type::Sfixed64 => self.writer.string(&(value.number() as i64).to_string()),
            Type::Sint64 => self.writer.string(&unzigzag(value.number()).to_string()),
            Type::Uint64 | Type::Fixed64 => self.writer.string(&value.number().to_string()),
            Type::Group => return Err(MalformedMessage("groups are not part of proto3".to_owned())),
        }
        Ok(())
    }

    fn float(&mut self, number: f64) {
        match number {
            _ if number.is_nan() => self.writer.string("NaN"),
            f64::INFINITY => self.writer.string("Infinity"),
            f64::NEG_INFINITY => self.writer.string("-Infinity"),
            number => self.writer.raw(&json::float(number)),
        }
    }

    /// Messages that JSON has another form for.
    fn special(&mut self, message: &Message, bytes: &[u8]) -> Result<bool, MalformedMessage> {
        match message.name.as_str() {
            ".temporal.api.common.v1.Payload" if self.short => {
                let Some(short) = payload::short(bytes) else { return Ok(false) };
                short.write(&mut self.writer);
            }
            ".temporal.api.common.v1.Payloads" if self.short => {
                let mut all = Vec::new();
                for (_, values) in sorted(message, bytes)? {
                    for value in values {
                        let Some(short) = payload::short(value.bytes()) else { return Ok(false) };
                        all.push(short);
                    }
                }
                self.writer.open('[');
                for short in all {
                    self.writer.item();
                    short.write(&mut self.writer);
                }
                self.writer.close(']');
            }
            ".google.protobuf.Timestamp" => self.writer.string(&Timestamp::decode(bytes)?.to_string()),
            ".google.protobuf.Duration" => self.writer.string(&Duration::decode(bytes)?.to_string()),
            ".google.protobuf.FieldMask" => {
                let paths: Vec<String> = FieldMask::decode(bytes)?.paths.iter().map(|path| camel_case(path)).collect();
                self.writer.string(&paths.join(","));
            }
            ".google.protobuf.Any" => self.any(&Any::decode(bytes)?)?,
            ".google.protobuf.Struct" | ".google.protobuf.ListValue" => {
                let Some(field) = message.field(1) else { return Ok(false) };
                let values = sorted(message, bytes)?.into_values().flatten().collect::<Vec<_>>();
                self.field(field, &values)?;
            }
            name if name.starts_with(".google.protobuf.") && name.ends_with("Value") => {
                // Wrappers of one value, and values of any kind.
                let Some((position, values)) = sorted(message, bytes)?.pop_first() else {
                    let Some(field) = message.field(1).filter(|_| name != ".google.protobuf.Value") else {
                        self.writer.raw("null");
                        return Ok(true);
                    };
                    self.one(field, &empty(field.kind))?;
                    return Ok(true);
                };
                self.field(&message.fields[position], &values)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn any(&mut self, any: &Any) -> Result<(), MalformedMessage> {
        self.writer.open('{');
        self.writer.name("@type");
        self.writer.string(&any.type_url);
        let name = format!(".{}", any.type_url.rsplit('/').next().unwrap_or_default());
        let message =
            Schema::get().message(&name).ok_or_else(|| MalformedMessage(format!("there is no message {name}")))?;
        self.fields(message, &any.value)?;
        self.writer.close('}');
        Ok(())
    }
}

impl Wire<'_> {
    fn bytes(&self) -> &[u8] {
        if let Self::Bytes(bytes) = self { bytes } else { &[] }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Varint(number) => *number,
            Self::Fixed32(bytes) => u64::from(u32::from_le_bytes(*bytes)),
            Self::Fixed64(bytes) => u64::from_le_bytes(*bytes),
            Self::Bytes(_) => 0,
        }
    }
}

/// Values of the fields that are known, by the place of the field in the message.
fn sorted<'a>(message: &Message, bytes: &'a [u8]) -> Result<BTreeMap<usize, Vec<Wire<'a>>>, MalformedMessage> {
    let mut fields: BTreeMap<usize, Vec<Wire<'a>>> = BTreeMap::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, wire) = decode_key(&mut rest)?;
        let value = read(&mut rest, wire)?;
        if let Some(position) = message.position(number) {
            fields.entry(position).or_default().push(value);
        }
    }
    Ok(fields)
}

fn read<'a>(rest: &mut &'a [u8], wire: WireType) -> Result<Wire<'a>, MalformedMessage> {
    let cut_off = || MalformedMessage("it is cut off".to_owned());
    Ok(match wire {
        WireType::Varint => Wire::Varint(decode_varint(rest)?),
        WireType::ThirtyTwoBit => {
            let (bytes, after) = rest.split_first_chunk().ok_or_else(cut_off)?;
            *rest = after;
            Wire::Fixed32(*bytes)
        }
        WireType::SixtyFourBit => {
            let (bytes, after) = rest.split_first_chunk().ok_or_else(cut_off)?;
            *rest = after;
            Wire::Fixed64(*bytes)
        }
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(rest)?).map_err(|_| cut_off())?;
            let (bytes, after) = rest.split_at_checked(length).ok_or_else(cut_off)?;
            *rest = after;
            Wire::Bytes(bytes)
        }
        WireType::StartGroup | WireType::EndGroup => {
            return Err(MalformedMessage("groups are not part of proto3".to_owned()));
        }
    })
}

/// How values of a kind are on the wire.
fn wire_type(kind: Type) -> WireType {
    match kind {
        Type::Double | Type::Fixed64 | Type::Sfixed64 => WireType::SixtyFourBit,
        Type::Float | Type::Fixed32 | Type::Sfixed32 => WireType::ThirtyTwoBit,
        Type::String | Type::Bytes | Type::Message => WireType::LengthDelimited,
        _ => WireType::Varint,
    }
}

fn is_packable(kind: Type) -> bool {
    wire_type(kind) != WireType::LengthDelimited
}

fn empty(kind: Type) -> Wire<'static> {
    if is_packable(kind) { Wire::Varint(0) } else { Wire::Bytes(&[]) }
}

fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
}

fn default(_: Type) -> (i128, String) {
    (0, String::new())
}

/// The key of a map, in an order.
fn key_of(field: &Field, value: &Wire<'_>) -> (i128, String) {
    match field.kind {
        Type::String => (0, String::from_utf8_lossy(value.bytes()).into_owned()),
        Type::Uint32 | Type::Uint64 | Type::Fixed32 | Type::Fixed64 | Type::Bool => {
            (i128::from(value.number()), String::new())
        }
        Type::Sint32 | Type::Sint64 => (i128::from(unzigzag(value.number())), String::new()),
        Type::Sfixed32 => (i128::from(value.number() as i32), String::new()),
        _ => (i128::from(value.number() as i64), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        common::{Payload, Payloads, WorkflowExecution},
        workflow::WorkflowExecutionInfo,
    };

    use super::*;

    #[test]
    fn a_message_is_shown_as_protobuf_has_it() {
        let info = WorkflowExecutionInfo {
            execution: Some(WorkflowExecution { workflow_id: "w\n".to_owned(), run_id: String::new() }),
            start_time: Some(Timestamp { seconds: 0, nanos: 367_324_990 }),
            execution_time: Some(Timestamp { seconds: 1, nanos: 500_000_000 }),
            execution_duration: Some(Duration { seconds: 1, nanos: 500_000_000 }),
            status: 1,
            history_length: 2,
            memo: Some(Default::default()),
            ..Default::default()
        };
        let name = ".temporal.api.workflow.v1.WorkflowExecutionInfo";
        let shown = message(name, &info.encode_to_vec(), true, false).expect("JSON");
        let expected = r#"{"execution":{"workflowId":"w\n"},"startTime":"1970-01-01T00:00:00.367324990Z","status":"WORKFLOW_EXECUTION_STATUS_RUNNING","historyLength":"2","executionTime":"1970-01-01T00:00:01.500Z","memo":{},"executionDuration":"1.500s"}"#;
        assert_eq!(shown, expected);
        let execution = info.execution.expect("it has one");
        let name = ".temporal.api.common.v1.WorkflowExecution";
        let shown = message(name, &execution.encode_to_vec(), true, true).expect("JSON");
        assert_eq!(shown, "{\n  \"workflowId\": \"w\\n\"\n}");
    }

    #[test]
    fn one_payload_without_a_short_form_keeps_all_long() {
        let metadata = |encoding: &str| [("encoding".to_owned(), encoding.to_owned().into_bytes().into())].into();
        let json = Payload { metadata: metadata("json/plain"), data: "1".into(), ..Default::default() };
        let binary = Payload { metadata: metadata("binary/plain"), data: "x".into(), ..Default::default() };
        let shown = |payloads: Vec<Payload>, short: bool| {
            let bytes = Payloads { payloads }.encode_to_vec();
            message(".temporal.api.common.v1.Payloads", &bytes, short, false).expect("JSON")
        };
        assert_eq!(shown(vec![json.clone(), json.clone()], true), "[1,1]");
        let long = r#"{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"MQ=="}"#;
        assert_eq!(shown(vec![json.clone()], false), format!(r#"{{"payloads":[{long}]}}"#));
        let mixed = r#"{"payloads":[1,{"metadata":{"encoding":"YmluYXJ5L3BsYWlu"},"data":"eA=="}]}"#;
        assert_eq!(shown(vec![json, binary], true), mixed);
    }
}
