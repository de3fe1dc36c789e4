//! Namespaces: few, small, all in memory, stored when they change.

use std::{
    collections::BTreeMap,
    sync::{Arc, RwLock},
};

use bytes::Bytes;
use prost::Message;
use segno_proto::{Nanos, enums::IndexedValueType};
use segno_store::{NamespaceKey, NamespaceRecord, Store};

use crate::{error::CallError, ids::Ids};

/// What is stored of a namespace besides key and name.
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
    /// Custom search attributes by name, with their type.
    #[prost(btree_map = "string, int32", tag = "6")]
    pub search_attributes: BTreeMap<String, i32>,
}

/// A custom search attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CustomAttribute {
    /// Its type.
    #[prost(enumeration = "IndexedValueType", tag = "1")]
    pub kind: i32,
    /// Its number.
    #[prost(uint32, tag = "2")]
    pub number: u32,
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
    /// Custom search attributes.
    pub search_attributes: BTreeMap<String, IndexedValueType>,
    /// The same with their numbers.
    pub attributes: BTreeMap<String, CustomAttribute>,
}

impl Namespace {
    fn from_record(record: &NamespaceRecord) -> Result<Self, CallError> {
        let damaged = |what: &str| CallError::DataLoss(format!("namespace {}: {what}", record.name));
        let detail = NamespaceDetail::decode(record.detail.clone()).map_err(|error| damaged(&error.to_string()))?;
        let token_key = detail.token_key.as_slice().try_into().map_err(|_| damaged("token key is missing"))?;
        let typed = |kind: i32| IndexedValueType::try_from(kind).unwrap_or(IndexedValueType::Keyword);
        let search_attributes =
            detail.search_attributes.iter().map(|(name, kind)| (name.clone(), typed(*kind))).collect();
        Ok(Self {
            key: record.key,
            name: record.name.clone(),
            detail,
            token_key,
            search_attributes,
            attributes: BTreeMap::new(),
        })
    }
}

/// All namespaces.
pub struct Namespaces {
    by_name: RwLock<BTreeMap<String, Arc<Namespace>>>,
}

/// Closed runs are kept for a day unless told otherwise.
const RETENTION_DEFAULT: Nanos = 24 * 3600 * 1_000_000_000;

impl Namespaces {
    /// Reads what is stored and creates `default` if it is not there.
    pub fn load(store: &dyn Store, ids: &Ids) -> Result<Self, CallError> {
        let mut by_name = BTreeMap::new();
        let mut next = 1;
        for record in store.namespaces()? {
            next = next.max(record.key.0 + 1);
            by_name.insert(record.name.clone(), Arc::new(Namespace::from_record(&record)?));
        }
        if !by_name.contains_key("default") {
            let token_key: Vec<u8> = [ids.bits().to_le_bytes(), ids.bits().to_le_bytes()].concat();
            let detail =
                NamespaceDetail { id: ids.uuid(), token_key, retention: RETENTION_DEFAULT, ..Default::default() };
            let record = NamespaceRecord {
                key: NamespaceKey(next),
                name: "default".to_owned(),
                detail: Bytes::from(detail.encode_to_vec()),
            };
            store.put_namespace(&record)?;
            by_name.insert(record.name.clone(), Arc::new(Namespace::from_record(&record)?));
        }
        Ok(Self { by_name: RwLock::new(by_name) })
    }

    /// A namespace by name.
    pub fn get(&self, name: &str) -> Option<Arc<Namespace>> {
        self.by_name.read().unwrap_or_else(|poisoned| poisoned.into_inner()).get(name).cloned()
    }

    /// A namespace by key.
    pub fn by_key(&self, key: NamespaceKey) -> Option<Arc<Namespace>> {
        self.all().into_iter().find(|namespace| namespace.key == key)
    }

    /// All namespaces, by name.
    pub fn all(&self) -> Vec<Arc<Namespace>> {
        self.by_name.read().unwrap_or_else(|poisoned| poisoned.into_inner()).values().cloned().collect()
    }

    /// A namespace by id.
    pub fn by_id(&self, id: &str) -> Option<Arc<Namespace>> {
        let all = self.by_name.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.values().find(|namespace| namespace.detail.id == id).cloned()
    }
}
