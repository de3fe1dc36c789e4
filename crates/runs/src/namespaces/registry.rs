//! Finding and changing namespaces.
//!
//! What holds: a change is stored before any call sees it; changes come one after the other; names are unique; a key is
//! never used again, even after its namespace was deleted.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use prost::Message;
use segno_engine::Rejection;
use segno_environment::ids::Ids;
use segno_proto::{Nanos, enums::NamespaceState};
use segno_store::{CommitError, NamespaceKey, NamespaceRecord, Store, Write};

use super::{CallLimits, Namespace, NamespaceDetail, Settings};
use crate::error::CallError;

/// Closed runs are kept for a day unless told otherwise.
const RETENTION_DEFAULT: Nanos = 24 * 3600 * 1_000_000_000;
/// The record under which the registry keeps its own notes. No namespace has an empty name.
const NOTES: NamespaceKey = NamespaceKey(0);

/// Data that the registry stores besides the namespaces.
#[derive(Clone, PartialEq, prost::Message)]
struct Notes {
    /// The highest key ever given, as far as the records themselves do not show it.
    #[prost(uint32, tag = "1")]
    last_key: u32,
}

/// How a request names a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceName {
    /// By name.
    Name(String),
    /// By id.
    Id(String),
}

/// A namespace to be registered.
#[derive(Clone, Debug, Default)]
pub struct NewNamespace {
    /// Its name.
    pub name: String,
    /// How long closed runs are kept.
    pub retention: Nanos,
    /// Free text.
    pub description: String,
    /// Free text.
    pub owner_email: String,
    /// The user's own notes.
    pub data: BTreeMap<String, String>,
}

#[derive(Default)]
struct Tables {
    by_key: BTreeMap<NamespaceKey, Arc<Namespace>>,
    by_name: BTreeMap<String, Arc<Namespace>>,
    last_key: u32,
}

impl Tables {
    fn put(&mut self, namespace: Arc<Namespace>) {
        self.remove(namespace.key);
        self.last_key = self.last_key.max(namespace.key.0);
        self.by_name.insert(namespace.name.clone(), namespace.clone());
        self.by_key.insert(namespace.key, namespace);
    }

    fn remove(&mut self, key: NamespaceKey) {
        if let Some(before) = self.by_key.remove(&key) {
            self.by_name.remove(&before.name);
        }
    }

    fn limits_calls(&self) -> bool {
        self.by_key.values().any(|namespace| namespace.settings.calls != CallLimits::default())
    }

    fn find(&self, name: &NamespaceName) -> Option<&Arc<Namespace>> {
        match name {
            NamespaceName::Name(name) => self.by_name.get(name),
            NamespaceName::Id(id) => self.by_key.values().find(|namespace| namespace.detail.id == *id),
        }
    }

    async fn read(store: &dyn Store) -> Result<Self, CallError> {
        let mut tables = Self::default();
        for record in store.namespaces().await? {
            if record.key == NOTES {
                let notes = Notes::decode(record.detail).unwrap_or_default();
                tables.last_key = tables.last_key.max(notes.last_key);
                continue;
            }
            let namespace = Namespace::from_record(&record)?;
            if namespace.record() != record {
                // An older version wrote it: what was added to it on load is stored before it is used.
                store.put_namespace(&namespace.record()).await?;
            }
            tables.put(Arc::new(namespace));
        }
        Ok(tables)
    }
}

/// All namespaces.
pub struct Namespaces {
    tables: RwLock<Tables>,
    /// Held while a namespace is changed; the tables themselves are locked only to look and to publish.
    changing: tokio::sync::Mutex<()>,
    /// Whether any of them limits its calls.
    limits_calls: AtomicBool,
}

impl Namespaces {
    /// Reads what is stored and creates `default` if it is not there.
    pub async fn load(store: &dyn Store, ids: &Ids) -> Result<Self, CallError> {
        let tables = Tables::read(store).await?;
        let namespaces = Self {
            limits_calls: AtomicBool::new(tables.limits_calls()),
            tables: RwLock::new(tables),
            changing: tokio::sync::Mutex::default(),
        };
        if namespaces.get("default").is_none() {
            let default =
                NewNamespace { name: "default".to_owned(), retention: RETENTION_DEFAULT, ..Default::default() };
            match namespaces.register(store, ids, default).await {
                // Another node that started at the same time was first.
                Err(_) if namespaces.get("default").is_some() => {}
                registered => drop(registered?),
            }
        }
        Ok(namespaces)
    }

    fn tables(&self) -> std::sync::RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, change: impl FnOnce(&mut Tables)) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut tables);
        self.limits_calls.store(tables.limits_calls(), Ordering::Relaxed);
    }

    /// Whether any namespace limits its calls.
    pub fn limit_calls(&self) -> bool {
        self.limits_calls.load(Ordering::Relaxed)
    }

    /// A namespace by name, in any state.
    pub fn get(&self, name: &str) -> Option<Arc<Namespace>> {
        self.tables().by_name.get(name).cloned()
    }

    /// A namespace by name that is not about to be deleted.
    pub fn live(&self, name: &str) -> Option<Arc<Namespace>> {
        self.get(name).filter(|namespace| namespace.is_live())
    }

    /// A namespace by name or id, in any state.
    pub fn find(&self, name: &NamespaceName) -> Option<Arc<Namespace>> {
        self.tables().find(name).cloned()
    }

    /// A namespace by key, in any state.
    pub fn by_key(&self, key: NamespaceKey) -> Option<Arc<Namespace>> {
        self.tables().by_key.get(&key).cloned()
    }

    /// All namespaces, in the order in which they were registered.
    pub fn all(&self) -> Vec<Arc<Namespace>> {
        self.tables().by_key.values().cloned().collect()
    }

    /// Namespaces after a key, in the order in which they were registered.
    pub fn after(&self, key: NamespaceKey) -> Vec<Arc<Namespace>> {
        let from = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
        self.tables().by_key.range(from).map(|(_, namespace)| namespace.clone()).collect()
    }

    /// Registers a namespace. Once this returns it is stored.
    pub async fn register(&self, store: &dyn Store, ids: &Ids, new: NewNamespace) -> Result<Arc<Namespace>, CallError> {
        let _changing = self.changing.lock().await;
        if self.get(&new.name).is_some() {
            return Err(CallError::NamespaceExists(new.name));
        }
        check_settings(&new.data)?;
        let detail = NamespaceDetail {
            id: ids.uuid(),
            token_key: [ids.bits().to_le_bytes(), ids.bits().to_le_bytes()].concat(),
            retention: new.retention,
            description: new.description,
            owner_email: new.owner_email,
            state: NamespaceState::Registered as i32,
            data: new.data,
            ..Default::default()
        };
        let last_key = self.tables().last_key;
        let key = last_key.checked_add(1).ok_or_else(|| CallError::StorageFull("no namespace keys left".to_owned()))?;
        let namespace = Namespace::new(NamespaceKey(key), new.name, detail)
            .ok_or_else(|| CallError::Unavailable("a token key has 16 bytes".to_owned()))?;
        let record = namespace.record();
        self.store(store, namespace, store.create_namespace(&record)).await
    }

    /// Changes a namespace: `edit` gets its newest state. Once this returns the change is stored.
    pub async fn change(
        &self,
        store: &dyn Store,
        name: &NamespaceName,
        edit: impl FnOnce(&mut Namespace) -> Result<(), CallError>,
    ) -> Result<Arc<Namespace>, CallError> {
        let _changing = self.changing.lock().await;
        let Some(before) = self.find(name) else {
            let (NamespaceName::Name(name) | NamespaceName::Id(name)) = name;
            return Err(CallError::NamespaceNotFound(name.clone()));
        };
        let mut after = Namespace::clone(&before);
        edit(&mut after)?;
        if after.detail == before.detail && after.name == before.name {
            return Ok(before);
        }
        let Namespace { key, name, detail, .. } = after;
        if detail.data != before.detail.data {
            check_settings(&detail.data)?;
        }
        let after = Namespace::new(key, name, detail)
            .ok_or_else(|| CallError::Unavailable("a token key has 16 bytes".to_owned()))?;
        let record = after.record();
        self.store(store, after, store.put_namespace(&record)).await
    }

    /// Forgets a namespace whose runs are gone.
    pub async fn forget(&self, store: &dyn Store, key: NamespaceKey) -> Result<(), CallError> {
        let _changing = self.changing.lock().await;
        let last_key = self.tables().last_key;
        if key.0 == last_key {
            // Without its record nothing else says that the key was used.
            store.put_namespace(&notes(last_key)).await?;
        }
        if let Err(error) = store.delete_namespace(key).await {
            self.read_again(store).await;
            return Err(error.into());
        }
        self.publish(|tables| tables.remove(key));
        Ok(())
    }

    /// Stores a namespace, then publishes it. If the outcome is unknown, the stored namespaces are read again.
    async fn store(
        &self,
        store: &dyn Store,
        namespace: Namespace,
        put: Write<()>,
    ) -> Result<Arc<Namespace>, CallError> {
        if let Err(error) = put.await {
            if error != CommitError::Full {
                self.read_again(store).await;
            }
            return Err(error.into());
        }
        let namespace = Arc::new(namespace);
        self.publish(|tables| tables.put(namespace.clone()));
        Ok(namespace)
    }

    /// Reads the namespaces again: another node changed some.
    pub async fn reload(&self, store: &dyn Store) -> Result<(), CallError> {
        let _changing = self.changing.lock().await;
        self.try_read_again(store).await
    }

    async fn read_again(&self, store: &dyn Store) {
        if let Err(error) = self.try_read_again(store).await {
            tracing::warn!(%error, "namespaces could not be read again");
        }
    }

    async fn try_read_again(&self, store: &dyn Store) -> Result<(), CallError> {
        let mut stored = Tables::read(store).await?;
        self.publish(|tables| {
            stored.last_key = stored.last_key.max(tables.last_key);
            *tables = stored;
        });
        Ok(())
    }
}

fn check_settings(data: &BTreeMap<String, String>) -> Result<(), CallError> {
    Settings::read(data).map(drop).map_err(|text| Rejection::InvalidArgument(text).into())
}

/// The registry's own notes as a record.
fn notes(last_key: u32) -> NamespaceRecord {
    let detail = Notes { last_key }.encode_to_vec().into();
    NamespaceRecord { key: NOTES, name: String::new(), detail }
}

#[cfg(test)]
mod tests {
    use segno_store::MemoryStore;

    use super::*;

    fn new(name: &str) -> NewNamespace {
        NewNamespace { name: name.to_owned(), retention: RETENTION_DEFAULT, ..Default::default() }
    }

    #[tokio::test]
    async fn keys_are_never_used_again() {
        let (store, ids) = (MemoryStore::default(), Ids::of_seed(1));
        let namespaces = Namespaces::load(&store, &ids).await.expect("an empty store can be read");
        let second = namespaces.register(&store, &ids, new("second")).await.expect("the name is free").key;
        assert_eq!(
            namespaces.register(&store, &ids, new("second")).await.err(),
            Some(CallError::NamespaceExists("second".into()))
        );
        namespaces.forget(&store, second).await.expect("it is there");
        assert!(namespaces.get("second").is_none());
        let again = Namespaces::load(&store, &ids).await.expect("the store can be read");
        assert!(again.get("second").is_none() && again.get("default").is_some() && again.get("").is_none());
        let third = again.register(&store, &ids, new("second")).await.expect("the name is free").key;
        assert!(third > second, "{third:?}");
    }
}
