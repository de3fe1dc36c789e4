//! The cache of compiled code, bounded by bytes. When it is full it is cleared.

use std::sync::{Arc, Mutex};

use segno_engine::script::Version;
use segno_environment::{hash::HashMap, lock::lock};
use segno_flow::Code;
use segno_store::NamespaceKey;

/// Bytes of compiled code in memory.
const CODE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes that a version counts for besides its code.
const ENTRY_BYTES: usize = 1024;

/// The key of code: namespace, name and version.
pub(super) type CodeKey = (NamespaceKey, Arc<str>, Version);

/// The code of a version, or why it cannot be used.
#[derive(Clone)]
pub(super) enum VersionCode {
    Usable(Arc<Code>),
    /// The reason.
    Unusable(Arc<str>),
}

#[derive(Default)]
struct CachedCode {
    by_version: HashMap<CodeKey, VersionCode>,
    bytes: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct CodeCache(Mutex<CachedCode>);

impl CodeCache {
    pub fn get(&self, key: &CodeKey) -> Option<VersionCode> {
        lock(&self.0).by_version.get(key).cloned()
    }

    pub fn insert(&self, key: CodeKey, code: VersionCode) {
        let bytes = ENTRY_BYTES
            + match &code {
                VersionCode::Usable(code) => code.memory(),
                VersionCode::Unusable(reason) => reason.len(),
            };
        let mut cached = lock(&self.0);
        if cached.bytes + bytes > CODE_BYTES_MAX {
            *cached = CachedCode::default();
        }
        cached.bytes += bytes;
        cached.by_version.insert(key, code);
    }
}
