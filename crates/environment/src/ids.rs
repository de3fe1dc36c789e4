//! Fresh ids: random bits and UUIDs, from one seed that is given.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use segno_engine::uuid;

use crate::environment::Random;

/// Hands out random-looking numbers that never repeat within a process.
pub struct Ids {
    counter: AtomicU64,
    key: u64,
}

impl Ids {
    /// Draws a seed.
    pub fn seeded(random: &dyn Random) -> Self {
        // Without randomness ids are still unique in this process; that is all the server relies on.
        let draw = || random.bits().unwrap_or_default();
        Self { counter: AtomicU64::new(draw()), key: draw() }
    }

    /// The ids that follow from a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self { counter: AtomicU64::new(seed), key: 0 }
    }

    /// 64 random bits.
    pub fn bits(&self) -> u64 {
        // splitmix64 over a counter: a permutation, so no value comes twice.
        let counter = self.counter.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mut z = counter ^ self.key;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random UUID (version 4).
    pub fn uuid(&self) -> String {
        uuid(4, self.bits(), self.bits())
    }
}

/// The random numbers of a simulation: the same numbers for the same seed.
impl Random for Ids {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]));
        Ok(())
    }
}
