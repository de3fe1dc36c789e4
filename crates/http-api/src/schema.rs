//! What the protocol defines, by name: messages with their fields, and enums. Read once, when the first call needs it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use segno_proto::DESCRIPTORS;

/// All messages and enums, by full name with a dot in front, as descriptors refer to them.
pub(super) struct Schema {
    messages: HashMap<String, Message>,
    enums: HashMap<String, Enum>,
}

/// A message.
pub(super) struct Message {
    /// Its full name, with a dot in front.
    pub(super) name: String,
    /// In the order of their definition, which is the order in which JSON shows them.
    pub(super) fields: Vec<Field>,
    by_number: HashMap<u32, usize>,
    by_name: HashMap<String, usize>,
    by_json_name: HashMap<String, usize>,
    /// Names of its oneofs.
    pub(super) oneofs: Vec<String>,
    is_map_entry: bool,
}

/// A field of a message.
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) json_name: String,
    pub(super) kind: Type,
    /// The message or enum that it holds.
    pub(super) type_name: String,
    pub(super) is_repeated: bool,
    /// The oneof that it belongs to, unless that has this field alone to tell whether it is set.
    pub(super) oneof: Option<usize>,
}

/// An enum.
pub(super) struct Enum {
    /// Its name without the package.
    pub(super) name: String,
    pub(super) names: BTreeMap<i32, String>,
    pub(super) numbers: HashMap<String, i32>,
}

impl Schema {
    /// The schema of everything the server speaks.
    pub(super) fn get() -> &'static Self {
        static SCHEMA: OnceLock<Schema> = OnceLock::new();
        SCHEMA.get_or_init(|| {
            let mut schema = Self { messages: HashMap::new(), enums: HashMap::new() };
            let set = FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote these descriptors");
            for file in set.file {
                let package = format!(".{}", file.package());
                schema.add(&package, file.message_type, file.enum_type);
            }
            schema
        })
    }

    /// A message by its full name, with a dot in front.
    pub(super) fn message(&self, name: &str) -> Option<&Message> {
        self.messages.get(name)
    }

    /// The message that a field holds.
    pub(super) fn message_of(&self, field: &Field) -> Option<&Message> {
        (field.kind == Type::Message).then(|| self.message(&field.type_name))?
    }

    /// The enum that a field holds.
    pub(super) fn enum_of(&self, field: &Field) -> Option<&Enum> {
        self.enums.get(&field.type_name)
    }

    /// Key and value of a field that is a map.
    pub(super) fn map_entry(&self, field: &Field) -> Option<(&Field, &Field)> {
        let entry = self.message_of(field).filter(|message| field.is_repeated && message.is_map_entry)?;
        Some((entry.field(1)?, entry.field(2)?))
    }

    fn add(&mut self, scope: &str, messages: Vec<DescriptorProto>, enums: Vec<EnumDescriptorProto>) {
        for kind in enums {
            self.enums.insert(format!("{scope}.{}", kind.name()), Enum::new(&kind));
        }
        for message in messages {
            let name = format!("{scope}.{}", message.name());
            self.messages.insert(name.clone(), Message::new(&name, &message));
            self.add(&name, message.nested_type, message.enum_type);
        }
    }
}

impl Message {
    fn new(name: &str, message: &DescriptorProto) -> Self {
        let fields: Vec<Field> = message.field.iter().map(Field::new).collect();
        let index = |key: fn(&Field) -> String| fields.iter().enumerate().map(|(at, field)| (key(field), at)).collect();
        Self {
            name: name.to_owned(),
            by_number: fields.iter().enumerate().map(|(at, field)| (field.number, at)).collect(),
            by_name: index(|field| field.name.clone()),
            by_json_name: index(|field| field.json_name.clone()),
            oneofs: message.oneof_decl.iter().map(|oneof| oneof.name().to_owned()).collect(),
            is_map_entry: message.options.as_ref().is_some_and(|options| options.map_entry()),
            fields,
        }
    }

    /// A field by its number.
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        self.by_number.get(&number).map(|at| &self.fields[*at])
    }

    /// A field by its name in JSON, or else by that in the protocol.
    pub(super) fn named_in_json(&self, name: &str) -> Option<&Field> {
        self.by_json_name.get(name).or_else(|| self.by_name.get(name)).map(|at| &self.fields[*at])
    }

    /// The place of a field in the order of their definition.
    pub(super) fn position(&self, number: u32) -> Option<usize> {
        self.by_number.get(&number).copied()
    }
}

impl Field {
    fn new(field: &FieldDescriptorProto) -> Self {
        let oneof = field.oneof_index.filter(|_| !field.proto3_optional());
        Self {
            number: field.number() as u32,
            name: field.name().to_owned(),
            json_name: match &field.json_name {
                Some(name) => name.clone(),
                None => camel_case(field.name()),
            },
            kind: field.r#type(),
            type_name: field.type_name().to_owned(),
            is_repeated: field.label() == Label::Repeated,
            oneof: oneof.and_then(|index| usize::try_from(index).ok()),
        }
    }
}

impl Enum {
    fn new(kind: &EnumDescriptorProto) -> Self {
        let mut names = BTreeMap::new();
        // Of several names of a number the first is the one that is shown.
        for value in &kind.value {
            names.entry(value.number()).or_insert_with(|| value.name().to_owned());
        }
        let numbers = kind.value.iter().map(|value| (value.name().to_owned(), value.number())).collect();
        Self { name: kind.name().to_owned(), names, numbers }
    }

    /// The number of a value by its name, or by the short name that older clients use (`AllowDuplicate`).
    pub(super) fn number(&self, name: &str) -> Option<i32> {
        let known = |name: &str| self.numbers.get(name).copied();
        known(name).or_else(|| known(&screaming_snake_case(&format!("{}_{name}", self.name))))
    }
}

/// `page_size` as `pageSize`.
pub(super) fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_start = false;
    for letter in name.chars() {
        match letter {
            '_' => is_start = true,
            _ if is_start => {
                text.push(letter.to_ascii_uppercase());
                is_start = false;
            }
            _ => text.push(letter),
        }
    }
    text
}

/// `pageSize` as `page_size`.
pub(super) fn snake_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// `QueryRejectCondition_None` as `QUERY_REJECT_CONDITION_NONE`.
fn screaming_snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::with_capacity(name.len() + 8);
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let starts = match before {
            Some(before) if letter.is_ascii_uppercase() => {
                let next_is_lower = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
                before.is_ascii_lowercase() || before.is_ascii_digit() || (before.is_ascii_uppercase() && next_is_lower)
            }
            _ => false,
        };
        if starts {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_its_messages() {
        for route in segno_proto::ROUTES {
            for name in [route.request, route.response] {
                assert!(Schema::get().message(&format!(".{name}")).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn names_change_their_case() {
        assert_eq!(camel_case("workflow_id_reuse_policy"), "workflowIdReusePolicy");
        assert_eq!(snake_case("workflowIdReusePolicy"), "workflow_id_reuse_policy");
        let name = "WorkflowIdReusePolicy_AllowDuplicate";
        assert_eq!(screaming_snake_case(name), "WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE");
    }
}
