//! Any message as JSON, by its descriptor, in protobuf's JSON form. One walk over the wire form serves every command.
//!
//! Fields that are absent on the wire are absent in the JSON, as in Temporal's own command line. Fields of a newer
//! server that this binary does not know are left out.

use std::{
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use prost::{
    Message,
    encoding::{WireType, decode_key, decode_varint},
};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use segno_proto::{
    DESCRIPTORS,
    common::{Payload, Payloads},
};

use super::{Json, payload, time};

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

/// Why bytes are not the message they are said to be.
#[derive(Debug, thiserror::Error)]
pub enum DynamicError {
    /// There is no such message.
    #[error("there is no message {0} in the protocol")]
    Unknown(String),
    /// The bytes make no sense.
    #[error("not a message of the protocol: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// The bytes end too early, or have a form that proto3 does not know.
    #[error("not a message of the protocol: field {0} is cut off or of an unknown form")]
    Form(u32),
}

/// Everything the protocol defines, by full name with a dot in front, as descriptors refer to it.
struct Protocol {
    messages: HashMap<String, DescriptorProto>,
    enums: HashMap<String, EnumDescriptorProto>,
}

impl Protocol {
    fn get() -> &'static Self {
        static PROTOCOL: OnceLock<Protocol> = OnceLock::new();
        PROTOCOL.get_or_init(|| {
            let mut protocol = Self { messages: HashMap::new(), enums: HashMap::new() };
            let set = FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote these descriptors");
            for file in set.file {
                let package = format!(".{}", file.package());
                protocol.add(&package, file.message_type, file.enum_type);
            }
            protocol
        })
    }

    fn add(&mut self, scope: &str, messages: Vec<DescriptorProto>, enums: Vec<EnumDescriptorProto>) {
        for kind in enums {
            self.enums.insert(format!("{scope}.{}", kind.name()), kind);
        }
        for mut message in messages {
            let name = format!("{scope}.{}", message.name());
            let (nested, kinds) = (std::mem::take(&mut message.nested_type), std::mem::take(&mut message.enum_type));
            self.add(&name, nested, kinds);
            self.messages.insert(name, message);
        }
    }
}

/// A message as JSON. `name` is its full name, such as `temporal.api.history.v1.HistoryEvent`.
pub fn to_json(name: &str, message: &impl Message, view: View) -> Result<Json, DynamicError> {
    bytes_to_json(&format!(".{name}"), &message.encode_to_vec(), view)
}

/// One value on the wire.
enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
}

fn bytes_to_json(name: &str, bytes: &[u8], view: View) -> Result<Json, DynamicError> {
    if let Some(json) = well_known(name, bytes, view)? {
        return Ok(json);
    }
    let message = Protocol::get().messages.get(name).ok_or_else(|| DynamicError::Unknown(name.to_owned()))?;
    // By position in the descriptor, which is the order in which fields are shown.
    let mut fields: BTreeMap<usize, Json> = BTreeMap::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (tag, value) = next(&mut rest)?;
        let Some(position) = message.field.iter().position(|field| field.number() as u32 == tag) else { continue };
        let field = &message.field[position];
        if let (Some(entry), Value::Bytes(bytes)) = (map_entry(field), &value) {
            let (key, value) = map_item(entry, bytes, view)?;
            let object = fields.entry(position).or_insert_with(|| Json::Object(Vec::new()));
            object.push(&key, value);
        } else if field.label() == Label::Repeated {
            let list = fields.entry(position).or_insert_with(|| Json::Array(Vec::new()));
            let Json::Array(items) = list else { continue };
            match value {
                Value::Bytes(packed) if is_scalar(field.r#type()) => unpack(field, packed, view, items)?,
                value => items.push(one(field, value, view)?),
            }
        } else {
            fields.insert(position, one(field, value, view)?);
        }
    }
    // What is about scripts looks as it does over HTTP.
    let is_own = name.starts_with(".segno.flow.");
    let named = fields.into_iter().map(|(position, json)| {
        let field = &message.field[position];
        (if is_own { field.name().to_owned() } else { field.json_name_or_made() }, json)
    });
    Ok(Json::Object(named.collect()))
}

/// Takes one field off the front.
fn next<'a>(rest: &mut &'a [u8]) -> Result<(u32, Value<'a>), DynamicError> {
    let (tag, wire_type) = decode_key(rest)?;
    let mut take = |length: usize| -> Result<&'a [u8], DynamicError> {
        let (taken, left) = rest.split_at_checked(length).ok_or(DynamicError::Form(tag))?;
        *rest = left;
        Ok(taken)
    };
    let value = match wire_type {
        WireType::Varint => Value::Varint(decode_varint(rest)?),
        WireType::SixtyFourBit => Value::Fixed64(take(8)?.try_into().map_err(|_| DynamicError::Form(tag))?),
        WireType::ThirtyTwoBit => Value::Fixed32(take(4)?.try_into().map_err(|_| DynamicError::Form(tag))?),
        WireType::LengthDelimited => {
            let length = decode_varint(rest)?;
            let (taken, left) = rest.split_at_checked(length as usize).ok_or(DynamicError::Form(tag))?;
            *rest = left;
            Value::Bytes(taken)
        }
        WireType::StartGroup | WireType::EndGroup => return Err(DynamicError::Form(tag)),
    };
    Ok((tag, value))
}

/// The entry message of a map field.
fn map_entry(field: &FieldDescriptorProto) -> Option<&'static DescriptorProto> {
    if field.label() != Label::Repeated || field.r#type() != Type::Message {
        return None;
    }
    let entry = Protocol::get().messages.get(field.type_name())?;
    entry.options.as_ref().is_some_and(|options| options.map_entry()).then_some(entry)
}

fn map_item(entry: &DescriptorProto, bytes: &[u8], view: View) -> Result<(String, Json), DynamicError> {
    let [key_field, value_field] = entry.field.as_slice() else { return Err(DynamicError::Form(0)) };
    let (mut key, mut value) = (String::new(), None);
    let mut rest = bytes;
    while !rest.is_empty() {
        match next(&mut rest)? {
            (1, found) => {
                key = match one(key_field, found, view)? {
                    Json::String(text) | Json::Raw(text) => text,
                    other => other.to_string(),
                }
            }
            (2, found) => value = Some(one(value_field, found, view)?),
            _ => {}
        }
    }
    // An absent value is the default of its type.
    let default = || match value_field.r#type() {
        Type::Message => bytes_to_json(value_field.type_name(), &[], view),
        Type::String | Type::Bytes => Ok(Json::text("")),
        kind => one(value_field, if kind == Type::Double { Value::Fixed64([0; 8]) } else { Value::Varint(0) }, view),
    };
    Ok((key, value.map_or_else(default, Ok)?))
}

fn is_scalar(kind: Type) -> bool {
    !matches!(kind, Type::String | Type::Bytes | Type::Message | Type::Group)
}

/// Reads a packed list of numbers.
fn unpack(
    field: &FieldDescriptorProto,
    mut packed: &[u8],
    view: View,
    into: &mut Vec<Json>,
) -> Result<(), DynamicError> {
    let cut_off = || DynamicError::Form(field.number() as u32);
    while !packed.is_empty() {
        let value = match field.r#type() {
            Type::Double | Type::Fixed64 | Type::Sfixed64 => {
                let (taken, left) = packed.split_first_chunk().ok_or_else(cut_off)?;
                packed = left;
                Value::Fixed64(*taken)
            }
            Type::Float | Type::Fixed32 | Type::Sfixed32 => {
                let (taken, left) = packed.split_first_chunk().ok_or_else(cut_off)?;
                packed = left;
                Value::Fixed32(*taken)
            }
            _ => Value::Varint(decode_varint(&mut packed)?),
        };
        into.push(one(field, value, view)?);
    }
    Ok(())
}

/// One value by its field's type. Numbers of 64 bits are texts, since JSON readers lose their last digits.
fn one(field: &FieldDescriptorProto, value: Value<'_>, view: View) -> Result<Json, DynamicError> {
    let zigzag = |n: u64| (n >> 1) as i64 ^ -((n & 1) as i64);
    let float =
        |number: f64| if number.is_finite() { Json::Raw(number.to_string()) } else { Json::text(number.to_string()) };
    Ok(match (field.r#type(), value) {
        (Type::Bool, Value::Varint(n)) => Json::Bool(n != 0),
        (Type::Int32, Value::Varint(n)) => Json::number(n as i32),
        (Type::Uint32, Value::Varint(n)) => Json::number(n as u32),
        (Type::Sint32, Value::Varint(n)) => Json::number(zigzag(n)),
        (Type::Int64, Value::Varint(n)) => Json::text((n as i64).to_string()),
        (Type::Uint64, Value::Varint(n)) => Json::text(n.to_string()),
        (Type::Sint64, Value::Varint(n)) => Json::text(zigzag(n).to_string()),
        (Type::Enum, Value::Varint(n)) => enum_name(field.type_name(), n as i32, view),
        (Type::Double, Value::Fixed64(bytes)) => float(f64::from_le_bytes(bytes)),
        (Type::Fixed64, Value::Fixed64(bytes)) => Json::text(u64::from_le_bytes(bytes).to_string()),
        (Type::Sfixed64, Value::Fixed64(bytes)) => Json::text(i64::from_le_bytes(bytes).to_string()),
        (Type::Float, Value::Fixed32(bytes)) => match f32::from_le_bytes(bytes) {
            number if number.is_finite() => Json::Raw(number.to_string()),
            number => Json::text(number.to_string()),
        },
        (Type::Fixed32, Value::Fixed32(bytes)) => Json::number(u32::from_le_bytes(bytes)),
        (Type::Sfixed32, Value::Fixed32(bytes)) => Json::number(i32::from_le_bytes(bytes)),
        (Type::String, Value::Bytes(bytes)) => Json::text(String::from_utf8_lossy(bytes)),
        (Type::Bytes, Value::Bytes(bytes)) => Json::String(payload::base64(bytes)),
        (Type::Message, Value::Bytes(bytes)) => bytes_to_json(field.type_name(), bytes, view)?,
        _ => return Err(DynamicError::Form(field.number() as u32)),
    })
}

fn enum_name(kind: &str, number: i32, view: View) -> Json {
    let found = Protocol::get().enums.get(kind);
    let value = found.and_then(|kind| kind.value.iter().find(|value| value.number() == number));
    match value {
        None => Json::number(number),
        Some(value) if view == View::Readable => {
            Json::text(short_name(kind.rsplit('.').next().unwrap_or(kind), value.name()))
        }
        Some(value) => Json::text(value.name()),
    }
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

/// Messages that protobuf's JSON or the view shows in a way of their own.
fn well_known(name: &str, bytes: &[u8], view: View) -> Result<Option<Json>, DynamicError> {
    let shown = |payload: &Payload| match view {
        View::Readable => Json::Raw(payload::text(payload)),
        _ => payload::json(payload),
    };
    Ok(Some(match name {
        ".google.protobuf.Timestamp" => Json::String(time::exact(&prost_types::Timestamp::decode(bytes)?)),
        ".google.protobuf.Duration" => Json::String(time::span_json(&prost_types::Duration::decode(bytes)?)),
        ".google.protobuf.FieldMask" => Json::String(prost_types::FieldMask::decode(bytes)?.paths.join(",")),
        ".google.protobuf.Any" => {
            let any = prost_types::Any::decode(bytes)?;
            let inner = any.type_url.rsplit('/').next().unwrap_or_default();
            let mut json = Json::object([("@type", Json::text(&any.type_url))]);
            match bytes_to_json(&format!(".{inner}"), &any.value, view) {
                Ok(Json::Object(fields)) => fields.iter().for_each(|(name, value)| json.push(name, value.clone())),
                _ => json.push("value", Json::String(payload::base64(&any.value))),
            }
            json
        }
        ".temporal.api.common.v1.Payload" if view != View::Exact => shown(&Payload::decode(bytes)?),
        ".temporal.api.common.v1.Payloads" if view != View::Exact => {
            Json::Array(Payloads::decode(bytes)?.payloads.iter().map(shown).collect())
        }
        _ => return Ok(None),
    }))
}

/// The JSON name of a field, made by the rule if the descriptor does not carry it.
trait JsonName {
    fn json_name_or_made(&self) -> String;
}

impl JsonName for FieldDescriptorProto {
    fn json_name_or_made(&self) -> String {
        if let Some(name) = &self.json_name {
            return name.clone();
        }
        let mut words = self.name().split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| match word.split_at_checked(1) {
            Some((head, tail)) => name + &head.to_ascii_uppercase() + tail,
            None => name,
        })
    }
}

#[cfg(test)]
#[path = "dynamic_tests.rs"]
mod tests;
