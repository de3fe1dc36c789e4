//! The hash of stream ids in a connection's table.
//!
//! Every frame looks up its stream. Ids are small numbers that the peer chooses, in ascending order: multiplying by a random
//! odd number spreads them, costs a few instructions, and the peer cannot know which ids collide.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes the hashers of one connection.
#[derive(Clone, Debug)]
pub(crate) struct StreamHash {
    factor: u64,
}

impl Default for StreamHash {
    fn default() -> Self {
        Self { factor: RandomState::new().build_hasher().finish() | 1 }
    }
}

impl BuildHasher for StreamHash {
    type Hasher = StreamHasher;

    fn build_hasher(&self) -> StreamHasher {
        StreamHasher { factor: self.factor, hash: 0 }
    }
}

/// The hash of one id.
pub(crate) struct StreamHasher {
    factor: u64,
    hash: u64,
}

impl Hasher for StreamHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        // Both halves of the product: the table takes its bucket from the low bits and a tag from the high ones.
        let product = u128::from(self.hash ^ u64::from(id)) * u128::from(self.factor);
        self.hash = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_spread_over_buckets_and_tags() {
        let hash = StreamHash::default();
        let hashes: Vec<u64> = (0..4096_u32).map(|number| hash.hash_one(2 * number + 1)).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), 4096);
        let buckets: HashSet<u64> = hashes.iter().map(|hash| hash % 8192).collect();
        assert!(buckets.len() > 2000, "{} of 8192 buckets for 4096 ids", buckets.len());
    }
}
