//! Maps whose keys come from outside: a hash with a random seed, several times as fast as the standard library's.
//!
//! No caller learns a hash, so that no client can find, by trying, keys which all collide.

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
pub use foldhash::fast::RandomState;
