//! Every payload in a message, wherever it stands: for codecs that encrypt or compress them.

use std::collections::BTreeMap;

use prost::Message;
use segno_proto::{common::Payload, failure::Failure};
use segno_proto_json::{
    descriptor,
    prost_reflect::{DynamicMessage, ReflectMessage, Value},
};

const PAYLOAD: &str = "temporal.api.common.v1.Payload";
const FAILURE: &str = "temporal.api.failure.v1.Failure";
const ANY: &str = "google.protobuf.Any";
/// Servers must be able to read the first; the second is for interceptors, which may be of other programs.
const PLAIN: [&str; 2] = ["temporal.api.common.v1.SearchAttributes", "temporal.api.common.v1.Header"];

/// The payloads of a message, in the order in which they stand. `name` is its full name.
pub(crate) fn collect(name: &str, message: &impl Message) -> Result<Vec<Payload>, String> {
    let mut found = Vec::new();
    walk(&mut dynamic(name, &message.encode_to_vec())?, &mut |part| {
        if let Part::Payload(payload) = part {
            found.push(payload.clone());
        }
        Ok(false)
    })?;
    Ok(found)
}

/// The message with what `change` makes of each failure in it; causes are failures of their own.
pub(crate) fn change_failures<M: Message + Default>(
    name: &str,
    message: &M,
    change: impl Fn(&mut Failure) -> Result<(), String>,
) -> Result<M, String> {
    let mut changed = dynamic(name, &message.encode_to_vec())?;
    walk(&mut changed, &mut |part| {
        let Part::Failure(failure) = part else { return Ok(false) };
        change(failure)?;
        Ok(true)
    })?;
    changed.transcode_to().map_err(|error| error.to_string())
}

/// The message with other payloads in their places.
pub(crate) fn replace<M: Message + Default>(
    name: &str,
    message: &M,
    payloads: &mut impl Iterator<Item = Payload>,
) -> Result<M, String> {
    let mut changed = dynamic(name, &message.encode_to_vec())?;
    walk(&mut changed, &mut |part| {
        let Part::Payload(payload) = part else { return Ok(false) };
        *payload = payloads.next().ok_or("a codec gave back fewer payloads than it got")?;
        Ok(true)
    })?;
    changed.transcode_to().map_err(|error| error.to_string())
}

/// A part found on a walk through a message.
enum Part<'a> {
    Payload(&'a mut Payload),
    /// Before what is inside of it.
    Failure(&'a mut Failure),
}

/// May change a part, and returns whether it did.
type Visit<'a> = dyn FnMut(Part<'_>) -> Result<bool, String> + 'a;

fn dynamic(name: &str, bytes: &[u8]) -> Result<DynamicMessage, String> {
    let descriptor = descriptor(name).ok_or_else(|| format!("{name} is not part of the protocol"))?;
    DynamicMessage::decode(descriptor, bytes).map_err(|error| error.to_string())
}

/// Shows a part as a message of its type, and takes it over if it was changed.
fn show<M: Message + Default>(
    message: &mut DynamicMessage,
    visit: impl FnOnce(&mut M) -> Result<bool, String>,
) -> Result<(), String> {
    let mut part: M = message.transcode_to().map_err(|error| error.to_string())?;
    if visit(&mut part)? {
        message.clear();
        message.transcode_from(&part).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Shows the parts of a message to `visit`.
fn walk(message: &mut DynamicMessage, visit: &mut Visit<'_>) -> Result<(), String> {
    match message.descriptor().full_name() {
        PAYLOAD => return show(message, |payload| visit(Part::Payload(payload))),
        FAILURE => show(message, |failure| visit(Part::Failure(failure)))?,
        ANY => {
            let mut any: prost_types::Any = message.transcode_to().map_err(|error| error.to_string())?;
            let inner = any.type_url.rsplit('/').next().unwrap_or_default();
            if descriptor(inner).is_some() {
                let mut inner = dynamic(inner, &any.value)?;
                walk(&mut inner, visit)?;
                any.value = inner.encode_to_vec();
            }
            return show(message, |shown| {
                *shown = any;
                Ok(true)
            });
        }
        name if PLAIN.contains(&name) => return Ok(()),
        _ => {}
    }
    message.fields_mut().try_for_each(|(_, value)| walk_value(value, visit))
}

fn walk_value(value: &mut Value, visit: &mut Visit<'_>) -> Result<(), String> {
    match value {
        Value::Message(message) => walk(message, visit),
        Value::List(items) => items.iter_mut().try_for_each(|item| walk_value(item, visit)),
        // In the same order on each walk.
        Value::Map(entries) => {
            let sorted: BTreeMap<_, _> = entries.iter_mut().collect();
            sorted.into_values().try_for_each(|value| walk_value(value, visit))
        }
        _ => Ok(()),
    }
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
        let name = "temporal.api.command.v1.Command";
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
        assert_eq!(collect("temporal.api.protocol.v1.Message", &message).unwrap().len(), 1);
    }
}
