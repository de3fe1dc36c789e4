//! Maps whose keys come from outside: a hash with a random seed, several times as fast as the standard library's.
//!
//! No caller learns a hash, so that no client can find, by trying, keys which all collide. Seeds decide in which order a map is
//! iterated, so a simulation gives its thread a seed ([`seed_thread`]); all other threads share one of the process.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::{cell::Cell, hash::BuildHasher, sync::OnceLock};

use foldhash::{
    SharedSeed,
    fast::{FoldHasher, SeedableRandomState},
};

use crate::{environment::Random, machine::MachineRandom};

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
/// A set.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;

/// Maps have seeds of their own: copying one in its own order into another with the same seed would be quadratic.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

type Seeds = (u64, &'static SharedSeed);

thread_local! {
    /// The seed of the next map of this thread.
    static SEEDS: Cell<Seeds> = Cell::new(process_seeds());
}

fn process_seeds() -> Seeds {
    static SEED: OnceLock<(u64, SharedSeed)> = OnceLock::new();
    let (first, shared) = SEED.get_or_init(|| {
        // Without system randomness maps work all the same.
        let draw = || MachineRandom.bits().unwrap_or_default();
        (draw(), SharedSeed::from_u64(draw()))
    });
    (*first, shared)
}

/// The maps that this thread makes from now on are iterated in an order that depends only on the seed and on what is done
/// with them. For simulations: a few bytes are never freed.
pub fn seed_thread(seed: u64) {
    SEEDS.set((seed, Box::leak(Box::new(SharedSeed::from_u64(seed)))));
}

/// Hashes with a seed of its own.
#[derive(Clone, Debug)]
pub struct RandomState(SeedableRandomState);

impl Default for RandomState {
    fn default() -> Self {
        let (seed, shared) = SEEDS.get();
        SEEDS.set((seed.wrapping_add(SEED_STEP), shared));
        Self(SeedableRandomState::with_seed(seed, shared))
    }
}

impl BuildHasher for RandomState {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of several maps of the same keys.
    fn orders() -> Vec<Vec<usize>> {
        let order = |_| (0..100).collect::<HashSet<_>>().into_iter().collect();
        (0..3).map(order).collect()
    }

    #[test]
    fn the_order_of_maps_follows_from_the_seed_of_the_thread() {
        let drawn = orders();
        assert_ne!(drawn[0], drawn[1]);
        seed_thread(7);
        let seven = orders();
        seed_thread(8);
        let eight = orders();
        seed_thread(7);
        assert_eq!(orders(), seven);
        assert!(seven != eight && seven != drawn && seven[0] != seven[1]);
    }
}
