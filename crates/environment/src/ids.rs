//! Fresh ids: random bits and UUIDs, from one seed drawn at the start.

use std::sync::atomic::{AtomicU64, Ordering};

use segno_engine::uuid;

/// Hands out random-looking numbers that never repeat within a process.
pub struct Ids {
    counter: AtomicU64,
    key: u64,
}

impl Ids {
    /// Draws a seed from the system.
    pub fn seeded() -> Self {
        let mut seed = [0; 16];
        // Without system randomness ids are still unique in this process; that is all the server relies on.
        let _ = getrandom::fill(&mut seed);
        let (low, high) = seed.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Self { counter: AtomicU64::new(number(low)), key: number(high) }
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
