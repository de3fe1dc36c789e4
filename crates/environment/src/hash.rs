//! Maps whose keys come from outside: a hash with a random seed, several times as fast as the standard library's.
//!
//! Of what it hashes to nobody outside learns anything, so that keys which all collide cannot be found by trying.

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
pub use foldhash::fast::RandomState;
