//! The field of an encoded request that decides who may make it: the namespace.
//!
//! It is found in the bytes, so that a rule holds for every service in the same way and before anything is decoded. Which
//! field it is comes from the descriptors of the protocol.

use std::collections::HashMap;

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};
use segno_proto::DESCRIPTORS;

/// Wire types of protobuf.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// Numbers of the fields by which a request names what it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceField {
    /// The namespace's name.
    pub(crate) name: Option<u32>,
    /// The namespace's id, where a request may give that instead.
    pub(crate) id: Option<u32>,
}

/// The fields of all requests, by path.
pub(crate) fn namespace_fields() -> HashMap<String, NamespaceField> {
    // Without descriptors nothing would be known, and everything refused.
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
    let mut messages: HashMap<String, &DescriptorProto> = HashMap::new();
    for file in &set.file {
        let of_file = file.message_type.iter();
        messages.extend(of_file.map(|message| (format!(".{}.{}", file.package(), message.name()), message)));
    }
    let mut found = HashMap::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let message = messages.get(method.input_type());
                found.insert(path, message.map(|message| fields_of(method.name(), message)).unwrap_or_default());
            }
        }
    }
    found
}

fn fields_of(method: &str, message: &DescriptorProto) -> NamespaceField {
    let number = |name: &str| {
        let field = message.field.iter().find(|field| field.name() == name && field.r#type() == Type::String)?;
        u32::try_from(field.number()).ok()
    };
    NamespaceField {
        name: number("namespace"),
        id: match method {
            "DescribeNamespace" => number("id"),
            "DeleteNamespace" => number("namespace_id"),
            _ => None,
        },
    }
}

/// The last value of a field, which is the one that counts. `None` if the message is malformed.
pub(crate) fn last(message: &[u8], number: u32) -> Option<&[u8]> {
    let mut rest = message;
    let mut found: &[u8] = &[];
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        match key & 7 {
            VARINT => {
                varint(&mut rest)?;
            }
            FIXED64 => rest = rest.get(8..)?,
            FIXED32 => rest = rest.get(4..)?,
            BYTES => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let value = rest.get(..length)?;
                rest = &rest[length..];
                if key >> 3 == u64::from(number) {
                    found = value;
                }
            }
            _ => return None,
        }
    }
    Some(found)
}

/// The same as text.
pub(crate) fn last_text(message: &[u8], number: u32) -> Option<&str> {
    std::str::from_utf8(last(message, number)?).ok()
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use segno_proto::workflowservice::RespondQueryTaskCompletedRequest;

    use super::*;

    #[test]
    fn fields_are_found_whatever_their_number() {
        let fields = namespace_fields();
        let of = |name: &str| fields[&format!("/temporal.api.workflowservice.v1.WorkflowService/{name}")];
        let query = RespondQueryTaskCompletedRequest {
            namespace: "here".to_owned(),
            task_token: "token".into(),
            error_message: "x".repeat(300),
            ..Default::default()
        };
        let name = of("RespondQueryTaskCompleted").name.expect("a field");
        assert_eq!(last_text(&query.encode_to_vec(), name), Some("here"));
        assert!(of("DescribeNamespace").id.is_some());
        assert_eq!(of("GetSystemInfo").name, None);
    }

    #[test]
    fn the_last_value_counts_and_junk_is_refused() {
        assert_eq!(last_text(b"\x0a\x01a\x0a\x01b", 1), Some("b"));
        assert_eq!(last_text(b"\x12\x01a", 1), Some(""));
        for junk in [&b"\x0a\x05a"[..], b"\x0a", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b"] {
            assert_eq!(last(junk, 1), None);
        }
    }
}
