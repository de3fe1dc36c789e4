//! Access keys, stored as documents of no namespace, all of them in memory.
//!
//! Only the digest of a key is stored. A key may stand for a client certificate instead; then there is no secret.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use prost::Message;
use segno_environment::{finish::finish, hash::HashMap};
use segno_runs::{CallError, Runs};
use segno_store::{Commit, DocumentWrite, NamespaceKey};

const PREFIX: &str = "access-key/";
/// Documents that belong to no namespace.
const SERVER: NamespaceKey = NamespaceKey(0);
/// Keys of a server; each is in memory.
const KEYS_MAX: usize = 100_000;

/// A key as it is stored.
#[derive(Clone, PartialEq, Message)]
pub struct AccessKey {
    /// The name of the key; unique.
    #[prost(string, tag = "1")]
    pub name: String,
    /// SHA-256 of the secret; empty if it stands for a certificate.
    #[prost(bytes = "vec", tag = "2")]
    pub digest: Vec<u8>,
    /// The common name of the client certificate that it stands for.
    #[prost(string, tag = "3")]
    pub certificate: String,
    /// The rights of the key, such as `default:write`.
    #[prost(string, repeated, tag = "4")]
    pub grants: Vec<String>,
    /// The queues that may be polled with it; none means all.
    #[prost(string, repeated, tag = "5")]
    pub queues: Vec<String>,
    /// When it was made, in nanoseconds since the epoch.
    #[prost(sfixed64, tag = "6")]
    pub created: i64,
    /// When it ends; zero: never.
    #[prost(sfixed64, tag = "7")]
    pub expires: i64,
    /// Who made it.
    #[prost(string, tag = "8")]
    pub created_by: String,
    /// How many calls may be made with it; zero is no limit.
    #[prost(uint32, tag = "9")]
    pub calls_per_second: u32,
}

/// Why a key was not made.
#[derive(Debug, thiserror::Error)]
pub enum NewKeyError {
    /// There is one.
    #[error("there is a key {0:?} already; revoke it first, or choose another name")]
    Exists(String),
    /// Another key stands for the certificate.
    #[error("the key {0:?} stands for this certificate already")]
    CertificateTaken(String),
    /// There are as many as may be.
    #[error("there are {KEYS_MAX} keys already; revoke some")]
    TooMany,
    /// It could not be stored.
    #[error(transparent)]
    Call(#[from] CallError),
}

#[derive(Default)]
struct Tables {
    by_name: HashMap<String, Arc<AccessKey>>,
    by_digest: HashMap<Vec<u8>, Arc<AccessKey>>,
    by_certificate: HashMap<String, Arc<AccessKey>>,
}

impl Tables {
    fn insert(&mut self, key: AccessKey) {
        let key = Arc::new(key);
        match key.certificate.as_str() {
            "" => self.by_digest.insert(key.digest.clone(), key.clone()),
            subject => self.by_certificate.insert(subject.to_owned(), key.clone()),
        };
        self.by_name.insert(key.name.clone(), key);
    }

    fn remove(&mut self, name: &str) {
        if let Some(key) = self.by_name.remove(name) {
            self.by_digest.remove(&key.digest);
            self.by_certificate.remove(&key.certificate);
        }
    }
}

/// All keys.
pub struct AccessKeys {
    runs: Arc<Runs>,
    tables: RwLock<Tables>,
    /// How often they have changed.
    changes: AtomicU64,
    /// Held by the call that changes them.
    changing: tokio::sync::Mutex<()>,
}

impl AccessKeys {
    /// No keys yet.
    pub fn new(runs: Arc<Runs>) -> Arc<Self> {
        Arc::new(Self { runs, tables: RwLock::default(), changes: AtomicU64::new(0), changing: Default::default() })
    }

    /// The key with this digest.
    pub fn by_digest(&self, digest: &[u8]) -> Option<Arc<AccessKey>> {
        self.read().by_digest.get(digest).cloned()
    }

    /// The key that stands for the certificate of a subject.
    pub fn by_certificate(&self, subject: &str) -> Option<Arc<AccessKey>> {
        self.read().by_certificate.get(subject).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<AccessKey>> {
        let mut all: Vec<_> = self.read().by_name.values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often they have changed. What was looked up holds as long as this stays the same.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn change(&self, change: impl FnOnce(&mut Tables)) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut tables);
        // Before the lock is released: a call that sees the new tables sees the new number as well.
        self.changes.fetch_add(1, Ordering::Release);
    }
}

fn document(name: &str, content: Option<Vec<u8>>) -> Commit {
    let write = DocumentWrite { namespace: SERVER, name: format!("{PREFIX}{name}"), content: content.map(Into::into) };
    Commit { documents: vec![write], ..Default::default() }
}

impl AccessKeys {
    /// Reads all keys.
    pub async fn load(&self) -> Result<(), CallError> {
        // What is read is not older than what is replaced.
        let _changing = self.changing.lock().await;
        let mut tables = Tables::default();
        self.runs.each_message(SERVER, PREFIX, |key: AccessKey| tables.insert(key)).await?;
        self.change(|known| *known = tables);
        Ok(())
    }

    /// Stores a new key. It is in effect once this returns.
    pub async fn create(self: &Arc<Self>, key: AccessKey) -> Result<(), NewKeyError> {
        self.runs.refuse_overload()?;
        let keys = self.clone();
        finish(async move {
            let _changing = keys.changing.lock().await;
            let (has_name, same_certificate, count) = {
                let known = keys.read();
                let same = known.by_certificate.get(&key.certificate).map(|key| key.name.clone());
                (known.by_name.contains_key(&key.name), same, known.by_name.len())
            };
            if has_name {
                return Err(NewKeyError::Exists(key.name));
            }
            if let Some(other) = same_certificate {
                return Err(NewKeyError::CertificateTaken(other));
            }
            if count >= KEYS_MAX {
                return Err(NewKeyError::TooMany);
            }
            let commit = document(&key.name, Some(key.encode_to_vec()));
            keys.runs.committer.commit(commit).await.map_err(CallError::from)?;
            keys.change(|known| known.insert(key));
            Ok(())
        })
        .await
    }

    /// Removes a key; false if there is none. No caller is let in with it once this returns.
    pub async fn revoke(self: &Arc<Self>, name: &str) -> Result<bool, CallError> {
        let (keys, name) = (self.clone(), name.to_owned());
        finish(async move {
            let _changing = keys.changing.lock().await;
            if !keys.read().by_name.contains_key(&name) {
                return Ok(false);
            }
            keys.runs.committer.commit(document(&name, None)).await?;
            keys.change(|known| known.remove(&name));
            Ok(true)
        })
        .await
    }
}
