//! Namespaces: few, small, all in memory, stored when they change.
//!
//! [`registry`] has all of them, [`settings`] are what can be set for each. The crate `segno-operations` registers, changes and
//! deletes them.

mod registry;
mod settings;

use std::collections::BTreeMap;

use prost::Message;
use segno_engine::start::{Start, StartOptions};
use segno_proto::{
    Nanos,
    enums::{IndexedValueType, NamespaceState},
    namespace::BadBinaryInfo,
    rules::WorkflowRule,
};
use segno_store::{NamespaceKey, NamespaceRecord};

pub use registry::{NamespaceName, Namespaces, NewNamespace};
pub use settings::{CallLimits, FlowLimits, Settings};

use crate::error::CallError;

/// The number of the first custom search attribute; smaller numbers are the server's own attributes.
const ATTRIBUTE_NUMBER_FIRST: u32 = 1000;

/// The stored form of a namespace besides key and name. Tags are never reused.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceDetail {
    /// Its id as clients see it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Authenticates tokens.
    #[prost(bytes = "vec", tag = "2")]
    pub token_key: Vec<u8>,
    /// How long closed runs are kept.
    #[prost(int64, tag = "3")]
    pub retention: Nanos,
    /// Free text.
    #[prost(string, tag = "4")]
    pub description: String,
    /// Free text.
    #[prost(string, tag = "5")]
    pub owner_email: String,
    /// Custom search attributes as the first version stored them; turned into `attributes` on load.
    #[prost(btree_map = "string, int32", tag = "6")]
    pub unnumbered_attributes: BTreeMap<String, i32>,
    /// Its state; none means registered, as the first version stored it.
    #[prost(enumeration = "NamespaceState", tag = "7")]
    pub state: i32,
    /// The user's own notes.
    #[prost(btree_map = "string, string", tag = "8")]
    pub data: BTreeMap<String, String>,
    /// Worker binaries by checksum that their user marked as bad.
    #[prost(btree_map = "string, message", tag = "9")]
    pub bad_binaries: BTreeMap<String, BadBinaryInfo>,
    /// Custom search attributes by name.
    #[prost(btree_map = "string, message", tag = "10")]
    pub attributes: BTreeMap<String, CustomAttribute>,
    /// How many numbers were given to attributes, also to those removed since.
    #[prost(uint32, tag = "11")]
    pub attributes_numbered: u32,
    /// Set once it is being deleted.
    #[prost(message, optional, tag = "12")]
    pub deletion: Option<Deletion>,
    /// Workflow rules by their ids, see [`crate::rules`].
    #[prost(btree_map = "string, message", tag = "13")]
    pub workflow_rules: BTreeMap<String, WorkflowRule>,
}

/// How a namespace is being deleted.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Deletion {
    /// The record stays until then.
    #[prost(int64, tag = "1")]
    pub not_before: Nanos,
}

/// A search attribute that belongs to a namespace.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CustomAttribute {
    /// Its type.
    #[prost(enumeration = "IndexedValueType", tag = "1")]
    pub kind: i32,
    /// Names it in what is stored: unique within the namespace, never used again. One that was removed and added again
    /// has a new number, so that old values do not come back.
    #[prost(uint32, tag = "2")]
    pub number: u32,
}

impl NamespaceDetail {
    /// Adds a search attribute under a fresh number; one of that name stays as it is.
    pub fn add_attribute(&mut self, name: &str, kind: IndexedValueType) {
        if !self.attributes.contains_key(name) {
            let number = ATTRIBUTE_NUMBER_FIRST + self.attributes_numbered;
            self.attributes.insert(name.to_owned(), CustomAttribute { kind: kind as i32, number });
            self.attributes_numbered += 1;
        }
    }

    /// Its search attributes by the names of the fields that Temporal would give them (`Keyword01`): here these only number
    /// them.
    pub fn attribute_aliases(&self) -> impl Iterator<Item = (String, String)> {
        self.attributes.iter().map(|(name, attribute)| {
            let field = attribute_type_name(attribute.kind());
            (format!("{field}{:02}", attribute.number.saturating_sub(ATTRIBUTE_NUMBER_FIRST) + 1), name.clone())
        })
    }

    /// Gives numbers to attributes that an older version stored without. Says whether there were any.
    fn number_attributes(&mut self) -> bool {
        let unnumbered = std::mem::take(&mut self.unnumbered_attributes);
        for (name, kind) in &unnumbered {
            self.add_attribute(name, IndexedValueType::try_from(*kind).unwrap_or(IndexedValueType::Keyword));
        }
        !unnumbered.is_empty()
    }
}

/// A namespace in memory.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its number.
    pub key: NamespaceKey,
    /// Its name.
    pub name: String,
    /// Everything else.
    pub detail: NamespaceDetail,
    /// Authenticates tokens.
    pub token_key: [u8; 16],
    /// Custom search attributes by name, with type and number.
    pub attributes: BTreeMap<String, CustomAttribute>,
    /// The types of the custom search attributes.
    pub search_attributes: BTreeMap<String, IndexedValueType>,
    /// The settings of the namespace.
    pub settings: Settings,
}

impl Namespace {
    /// The start of a run in this namespace.
    pub fn start(&self, options: StartOptions) -> Start {
        Start::new(self.key.0, self.detail.id.clone(), self.detail.retention, options)
    }

    fn from_record(record: &NamespaceRecord) -> Result<Self, CallError> {
        let damaged = |what: &str| CallError::DataLoss(format!("namespace {}: {what}", record.name));
        let mut detail = NamespaceDetail::decode(record.detail.clone()).map_err(|error| damaged(&error.to_string()))?;
        detail.number_attributes();
        Self::new(record.key, record.name.clone(), detail).ok_or_else(|| damaged("token key is missing"))
    }

    fn new(key: NamespaceKey, name: String, detail: NamespaceDetail) -> Option<Self> {
        let token_key = detail.token_key.as_slice().try_into().ok()?;
        let attributes = detail.attributes.clone();
        let search_attributes = attributes.iter().map(|(name, attribute)| (name.clone(), attribute.kind())).collect();
        // What cannot be read was not accepted by this version; the default holds.
        let settings = Settings::read(&detail.data).unwrap_or_default();
        Some(Self { key, name, detail, token_key, attributes, search_attributes, settings })
    }

    fn record(&self) -> NamespaceRecord {
        let detail = self.detail.encode_to_vec().into();
        NamespaceRecord { key: self.key, name: self.name.clone(), detail }
    }

    /// Its state.
    pub fn state(&self) -> NamespaceState {
        match self.detail.state() {
            NamespaceState::Unspecified => NamespaceState::Registered,
            state => state,
        }
    }

    /// Whether it is there for good: runs may be started in it by others.
    pub fn is_live(&self) -> bool {
        self.state() != NamespaceState::Deleted
    }
}

/// The name of a type of search attributes.
pub fn attribute_type_name(kind: IndexedValueType) -> &'static str {
    match kind {
        IndexedValueType::Text => "Text",
        IndexedValueType::Int => "Int",
        IndexedValueType::Double => "Double",
        IndexedValueType::Bool => "Bool",
        IndexedValueType::Datetime => "Datetime",
        IndexedValueType::KeywordList => "KeywordList",
        IndexedValueType::Keyword | IndexedValueType::Unspecified => "Keyword",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_the_first_version_get_numbers_and_no_number_comes_twice() {
        let unnumbered = BTreeMap::from([("B".to_owned(), IndexedValueType::Int as i32), ("A".to_owned(), 2)]);
        let old = NamespaceDetail { token_key: vec![0; 16], unnumbered_attributes: unnumbered, ..Default::default() };
        let record = NamespaceRecord { key: NamespaceKey(1), name: "n".to_owned(), detail: old.encode_to_vec().into() };
        let mut namespace = Namespace::from_record(&record).expect("it can be read");
        let numbered = |namespace: &Namespace| -> Vec<(String, u32)> {
            namespace.detail.attributes.iter().map(|(name, attribute)| (name.clone(), attribute.number)).collect()
        };
        assert_eq!(numbered(&namespace), [("A".to_owned(), 1000), ("B".to_owned(), 1001)]);
        assert_eq!(namespace.search_attributes["B"], IndexedValueType::Int);
        assert!(namespace.detail.unnumbered_attributes.is_empty());

        namespace.detail.attributes.remove("B");
        namespace.detail.add_attribute("B", IndexedValueType::Text);
        namespace.detail.add_attribute("A", IndexedValueType::Text);
        assert_eq!(numbered(&namespace), [("A".to_owned(), 1000), ("B".to_owned(), 1002)]);
        assert_eq!(namespace.detail.attributes["A"].kind(), IndexedValueType::Keyword);
    }
}
