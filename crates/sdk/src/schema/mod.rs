//! The protocol's descriptors, for code that handles any message: JSON, codecs.

pub(crate) mod json;
pub(crate) mod payloads;

use std::{collections::HashMap, sync::OnceLock};

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};

#[derive(Default)]
struct Schema {
    messages: HashMap<String, DescriptorProto>,
    enums: HashMap<String, HashMap<String, i32>>,
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = Schema::default();
        let set = FileDescriptorSet::decode(segno_proto::DESCRIPTORS).unwrap_or_default();
        for file in set.file {
            let package = format!(".{}", file.package());
            file.message_type.into_iter().for_each(|message| schema.add(&package, message));
            file.enum_type.into_iter().for_each(|one| schema.add_enum(&package, one));
        }
        schema
    })
}

impl Schema {
    fn add(&mut self, parent: &str, mut message: DescriptorProto) {
        let name = format!("{parent}.{}", message.name());
        for nested in std::mem::take(&mut message.nested_type) {
            self.add(&name, nested);
        }
        for one in std::mem::take(&mut message.enum_type) {
            self.add_enum(&name, one);
        }
        self.messages.insert(name, message);
    }

    fn add_enum(&mut self, parent: &str, one: prost_types::EnumDescriptorProto) {
        let name = format!("{parent}.{}", one.name());
        let prefix = format!("{}_", snake(one.name()).to_uppercase());
        let mut values = HashMap::new();
        for value in &one.value {
            values.insert(value.name().to_owned(), value.number());
            // Older tools write `WorkflowExecutionStarted` for `EVENT_TYPE_WORKFLOW_EXECUTION_STARTED`.
            let short = value.name().strip_prefix(&prefix).unwrap_or(value.name());
            values.insert(camel(short), value.number());
        }
        self.enums.insert(name, values);
    }
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            format!("{}{}", first.to_uppercase(), rest.to_lowercase())
        })
        .collect()
}
