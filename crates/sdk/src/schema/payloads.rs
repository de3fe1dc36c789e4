//! Visits every payload in a message: for codecs that encrypt or compress them.

use bytes::Bytes;
use prost::{
    Message,
    encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint},
};
use prost_types::field_descriptor_proto::Type;
use segno_proto::{common::Payload, failure::Failure};

use super::schema;

const PAYLOAD: &str = ".temporal.api.common.v1.Payload";
const FAILURE: &str = ".temporal.api.failure.v1.Failure";
const ANY: &str = ".google.protobuf.Any";
/// Servers must be able to read the first; the second is for interceptors, which may be of other programs.
const PLAIN: [&str; 2] = [".temporal.api.common.v1.SearchAttributes", ".temporal.api.common.v1.Header"];
/// How deeply messages may be nested.
const DEPTH_MAX: usize = 100;

/// The payloads of a message, in the order in which they stand. `name` is its full name with a leading dot.
pub(crate) fn collect(name: &str, message: &impl Message) -> Result<Vec<Payload>, String> {
    let mut found = Vec::new();
    walk(name, &message.encode_to_vec(), 0, &mut |part| {
        if let Part::Payload(payload) = part {
            found.push(payload);
        }
        Ok(None)
    })?;
    Ok(found)
}

/// The message with what `change` makes of each failure in it; causes are failures of their own.
pub(crate) fn change_failures<M: Message + Default>(
    name: &str,
    message: &M,
    change: impl Fn(&mut Failure) -> Result<(), String>,
) -> Result<M, String> {
    let bytes = walk(name, &message.encode_to_vec(), 0, &mut |part| {
        let Part::Failure(mut failure) = part else { return Ok(None) };
        change(&mut failure)?;
        Ok(Some(failure.encode_to_vec()))
    })?;
    M::decode(bytes.as_slice()).map_err(|error| error.to_string())
}

/// The message with other payloads in their places.
pub(crate) fn replace<M: Message + Default>(
    name: &str,
    message: &M,
    payloads: &mut impl Iterator<Item = Payload>,
) -> Result<M, String> {
    let bytes = walk(name, &message.encode_to_vec(), 0, &mut |part| {
        let Part::Payload(_) = part else { return Ok(None) };
        let payload = payloads.next().ok_or("a codec gave back fewer payloads than it got")?;
        Ok(Some(payload.encode_to_vec()))
    })?;
    M::decode(bytes.as_slice()).map_err(|error| error.to_string())
}

/// What is shown on a walk through a message.
enum Part {
    Payload(Payload),
    /// Before what is inside of it.
    Failure(Box<Failure>),
}

/// Gives back what is to be in the place of a part, if it changes.
type Visit<'a> = dyn FnMut(Part) -> Result<Option<Vec<u8>>, String> + 'a;

/// Copies a message, with what `visit` makes of its parts.
fn walk(name: &str, bytes: &[u8], depth: usize, visit: &mut Visit<'_>) -> Result<Vec<u8>, String> {
    if depth > DEPTH_MAX {
        return Err("messages are nested too deeply".to_owned());
    }
    if name == PAYLOAD {
        let payload = Payload::decode(Bytes::copy_from_slice(bytes)).map_err(|error| error.to_string())?;
        return Ok(visit(Part::Payload(payload))?.unwrap_or_else(|| bytes.to_vec()));
    }
    let changed = match name {
        FAILURE => visit(Part::Failure(Box::new(Failure::decode(bytes).map_err(|error| error.to_string())?)))?,
        _ => None,
    };
    let bytes = changed.as_deref().unwrap_or(bytes);
    if name == ANY {
        let mut any = prost_types::Any::decode(bytes).map_err(|error| error.to_string())?;
        let inner = format!(".{}", any.type_url.rsplit('/').next().unwrap_or_default());
        if schema().messages.contains_key(&inner) {
            any.value = walk(&inner, &any.value, depth + 1, visit)?;
        }
        return Ok(any.encode_to_vec());
    }
    let Some(message) = schema().messages.get(name).filter(|_| !PLAIN.contains(&name)) else {
        return Ok(bytes.to_vec());
    };
    let mut copy = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        let (tag, wire_type) = decode_key(&mut rest).map_err(|error| error.to_string())?;
        let length = match wire_type {
            WireType::Varint => {
                decode_varint(&mut rest).map_err(|error| error.to_string())?;
                0
            }
            WireType::ThirtyTwoBit => 4,
            WireType::SixtyFourBit => 8,
            WireType::LengthDelimited => {
                let length = decode_varint(&mut rest).map_err(|error| error.to_string())?;
                usize::try_from(length).map_err(|error| error.to_string())?
            }
            WireType::StartGroup | WireType::EndGroup => return Err("groups are not supported".to_owned()),
        };
        let (content, after) = rest.split_at_checked(length).ok_or("a message ends early")?;
        rest = after;
        let number = i32::try_from(tag).unwrap_or_default();
        let nested = message.field.iter().find(|field| field.number() == number && field.r#type() == Type::Message);
        match nested {
            Some(field) if wire_type == WireType::LengthDelimited => {
                let inner = walk(field.type_name(), content, depth + 1, visit)?;
                encode_key(tag, WireType::LengthDelimited, &mut copy);
                encode_varint(inner.len() as u64, &mut copy);
                copy.extend_from_slice(&inner);
            }
            _ => copy.extend_from_slice(&before[..before.len() - rest.len()]),
        }
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        command::{Command, RecordMarkerCommandAttributes, command::Attributes},
        common::Payloads,
        protocol, update,
    };

    use super::*;
    use crate::converter::encode_json;

    #[test]
    fn payloads_are_found_and_replaced_everywhere() {
        let details = [("result".to_owned(), Payloads { payloads: vec![encode_json("secret").unwrap()] })].into();
        let marker = RecordMarkerCommandAttributes { marker_name: "m".to_owned(), details, ..Default::default() };
        let command =
            Command { attributes: Some(Attributes::RecordMarkerCommandAttributes(marker)), ..Default::default() };
        let name = ".temporal.api.command.v1.Command";
        assert_eq!(collect(name, &command).unwrap(), vec![encode_json("secret").unwrap()]);
        let changed = replace(name, &command, &mut [encode_json("hidden").unwrap()].into_iter()).unwrap();
        assert_eq!(collect(name, &changed).unwrap(), vec![encode_json("hidden").unwrap()]);
        assert!(replace(name, &command, &mut std::iter::empty()).is_err());
    }

    #[test]
    fn also_inside_of_messages_of_updates() {
        let input =
            update::Input { args: Some(Payloads { payloads: vec![encode_json(&1).unwrap()] }), ..Default::default() };
        let request = update::Request { input: Some(input), ..Default::default() };
        let body = prost_types::Any {
            type_url: "type.googleapis.com/temporal.api.update.v1.Request".to_owned(),
            value: request.encode_to_vec(),
        };
        let message = protocol::Message { body: Some(body), ..Default::default() };
        assert_eq!(collect(".temporal.api.protocol.v1.Message", &message).unwrap().len(), 1);
    }
}
