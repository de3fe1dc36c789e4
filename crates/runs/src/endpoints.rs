//! Nexus endpoints: names, unique in the cluster, of the queues or URLs where the handlers of operations are.
//!
//! All are in memory; [`crate::endpoint_changes`] stores them.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
};

use segno_proto::{Nanos, common::Payload};

/// An endpoint, as it is stored. Tags are never reused.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Endpoint {
    /// Its id, a UUID.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Counts its changes, from 1.
    #[prost(int64, tag = "2")]
    pub version: i64,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// A description, for people.
    #[prost(message, optional, tag = "4")]
    pub description: Option<Payload>,
    /// Where its handlers are.
    #[prost(oneof = "EndpointTarget", tags = "5, 6")]
    pub target: Option<EndpointTarget>,
    /// When it was created.
    #[prost(int64, tag = "7")]
    pub created: Nanos,
    /// When it was changed.
    #[prost(int64, tag = "8")]
    pub modified: Nanos,
}

/// Where the handlers of an endpoint are.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum EndpointTarget {
    /// They poll a queue.
    #[prost(message, tag = "5")]
    Worker(WorkerTarget),
    /// They are called at a URL.
    #[prost(string, tag = "6")]
    External(String),
}

/// A queue of a namespace.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WorkerTarget {
    /// The namespace's id.
    #[prost(string, tag = "1")]
    pub namespace_id: String,
    /// The queue.
    #[prost(string, tag = "2")]
    pub queue: String,
}

/// The fields of an endpoint that its users set.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSpec {
    /// Its name.
    pub name: String,
    /// A description, for people.
    pub description: Option<Payload>,
    /// Where its handlers are.
    pub target: EndpointTarget,
}

/// Why an endpoint is not created or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Another one has the name.
    #[error("error {action} Nexus endpoint. Endpoint with name {name} already registered")]
    NameTaken {
        /// `creating` or `updating`.
        action: &'static str,
        /// The name.
        name: String,
    },
    /// It does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It has changed meanwhile.
    #[error("nexus endpoint version mismatch. received: {received} expected {expected}")]
    Version {
        /// The version that the caller knows.
        received: i64,
        /// The version that it has.
        expected: i64,
    },
}

/// The endpoints by id and by name.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) by_id: BTreeMap<String, Arc<Endpoint>>,
    by_name: BTreeMap<String, Arc<Endpoint>>,
}

impl Tables {
    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(before) = self.by_id.remove(id) {
            self.by_name.remove(&before.name);
        }
    }

    pub(crate) fn put(&mut self, endpoint: Arc<Endpoint>) {
        self.remove(&endpoint.id);
        self.by_name.insert(endpoint.name.clone(), endpoint.clone());
        self.by_id.insert(endpoint.id.clone(), endpoint);
    }
}

/// All endpoints.
#[derive(Default)]
pub struct Endpoints {
    tables: RwLock<Tables>,
    /// Held while one is changed.
    pub(crate) changing: tokio::sync::Mutex<()>,
}

impl Endpoints {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn publish<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        change(&mut self.tables.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// An endpoint by its id.
    pub fn by_id(&self, id: &str) -> Option<Arc<Endpoint>> {
        self.read().by_id.get(id).cloned()
    }

    /// An endpoint by its name.
    pub fn by_name(&self, name: &str) -> Option<Arc<Endpoint>> {
        self.read().by_name.get(name).cloned()
    }

    /// An endpoint by its id, so that it may have been renamed, or by its name, so that it may have been created again.
    pub fn find(&self, id: &str, name: &str) -> Option<Arc<Endpoint>> {
        self.by_id(id).or_else(|| self.by_name(name))
    }

    /// Endpoints after an id, in the order of their ids.
    pub fn after(&self, id: Option<&str>, most: usize) -> Vec<Arc<Endpoint>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let tables = self.read();
        tables
            .by_id
            .range::<str, _>((from, Bound::Unbounded))
            .take(most)
            .map(|(_, endpoint)| endpoint.clone())
            .collect()
    }

    /// The first endpoint by name whose handlers are in a namespace.
    pub fn of_namespace(&self, namespace_id: &str) -> Option<Arc<Endpoint>> {
        let is_of = |endpoint: &&Arc<Endpoint>| match &endpoint.target {
            Some(EndpointTarget::Worker(target)) => target.namespace_id == namespace_id,
            _ => false,
        };
        self.read().by_name.values().find(is_of).cloned()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.read().by_id.len()
    }
}
