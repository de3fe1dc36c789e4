//! Protobuf's JSON for the messages of the protocol. It goes by their descriptors: nothing is written per message.
//!
//! [`to_json`] and [`bytes_to_json`] turn a message into [`Json`]; a [`View`] says how payloads and enums are shown. [`parse`]
//! reads JSON and keeps the place of each value, so that [`from_json`] can say where a value is that does not fit its field.
//! Messages without a type at compile time are those of `prost-reflect`.

mod from_json;
mod json;
mod parse;
mod scalars;
mod to_json;

use std::sync::LazyLock;

pub use from_json::{Reading, from_json, span};
pub use json::{Json, float};
pub use parse::{Member, Node, NodeValue, parse};
pub use prost_reflect;
use prost_reflect::{DescriptorPool, MessageDescriptor, prost::Message};
use prost_types::FileDescriptorSet;
pub use scalars::{base64, from_base64, integer, whole};
use segno_proto::DESCRIPTORS;
pub use to_json::{View, bytes_to_json, to_json};

const PAYLOAD: &str = "temporal.api.common.v1.Payload";
const PAYLOADS: &str = "temporal.api.common.v1.Payloads";

/// The descriptor of a message by its full name, such as `temporal.api.history.v1.HistoryEvent`.
pub fn descriptor(name: &str) -> Option<MessageDescriptor> {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let set = FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote these descriptors");
        DescriptorPool::from_file_descriptor_set(set).expect("they are complete")
    });
    POOL.get_message_by_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_its_messages() {
        for route in segno_proto::ROUTES {
            for name in [route.request, route.response] {
                assert!(descriptor(name).is_some(), "{name}");
            }
        }
    }
}
