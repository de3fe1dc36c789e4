//! Fields of requests, found in their bytes before anything is decoded. Which fields those are comes from the descriptors of the
//! protocol.

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};
use segno_node::HashMap;
use segno_proto::DESCRIPTORS;

/// Wire types of protobuf.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// A value for every method, read from the descriptor of its request, by the method's path.
pub fn of_requests<T: Default>(read: impl Fn(&str, &DescriptorProto) -> T) -> HashMap<String, T> {
    // Without descriptors nothing would be known, and everything refused.
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
    let mut messages: HashMap<String, &DescriptorProto> = HashMap::default();
    for file in &set.file {
        let of_file = file.message_type.iter();
        messages.extend(of_file.map(|message| (format!(".{}.{}", file.package(), message.name()), message)));
    }
    let mut found = HashMap::default();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let request = messages.get(method.input_type());
                found.insert(path, request.map(|message| read(method.name(), message)).unwrap_or_default());
            }
        }
    }
    found
}

/// The number of a field that is a text.
pub fn text_field(message: &DescriptorProto, name: &str) -> Option<u32> {
    let field = message.field.iter().find(|field| field.name() == name && field.r#type() == Type::String)?;
    u32::try_from(field.number()).ok()
}

/// The last value of a field, which is the one that counts. `None` if the message is malformed.
pub fn last(message: &[u8], number: u32) -> Option<&[u8]> {
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
pub fn last_text(message: &[u8], number: u32) -> Option<&str> {
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
    use super::*;

    #[test]
    fn the_last_value_counts_and_junk_is_refused() {
        assert_eq!(last_text(b"\x0a\x01a\x0a\x01b", 1), Some("b"));
        assert_eq!(last_text(b"\x12\x01a", 1), Some(""));
        for junk in [&b"\x0a\x05a"[..], b"\x0a", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b"] {
            assert_eq!(last(junk, 1), None);
        }
    }
}
