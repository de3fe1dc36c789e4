//! The random numbers of a run: xoshiro256**, seeded by the run id, so that the state of a run fixes them.

use sha2::{Digest, Sha256};

/// A generator. Its state is stored with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of the run with this id.
    #[must_use]
    pub fn seeded(run_id: &str) -> Self {
        let hash: [u8; 32] = Sha256::digest(run_id.as_bytes()).into();
        let mut state = [0; 4];
        for (word, bytes) in state.iter_mut().zip(hash.chunks_exact(8)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Self::from_state(state)
    }

    /// The generator with this stored state.
    #[must_use]
    pub const fn from_state(state: [u64; 4]) -> Self {
        // All zeros would give zeros forever.
        if let [0, 0, 0, 0] = state { Self { state: [1, 2, 3, 4] } } else { Self { state } }
    }

    /// The state to store.
    #[must_use]
    pub const fn state(&self) -> [u64; 4] {
        self.state
    }

    /// 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        let [mut a, mut b, mut c, mut d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = b << 17;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= shifted;
        d = d.rotate_left(45);
        self.state = [a, b, c, d];
        result
    }

    /// A number from 0 to less than 1, with 53 random bits.
    pub const fn next_double(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// A UUID of version 4.
    pub fn uuid(&mut self) -> String {
        let high = self.next_u64() & !0xf000 | 0x4000;
        let low = self.next_u64() & !(3 << 62) | 2 << 62;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}
