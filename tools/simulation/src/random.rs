//! Seeded pseudo-random numbers (SplitMix64), in streams: each part of a world has its own, so that leaving out one part
//! changes no number of another.

/// A generator that repeats exactly for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a part of the world with this seed.
    pub fn stream(seed: u64, part: &str) -> Self {
        let mut random = Self(seed);
        for byte in part.bytes() {
            random.0 ^= u64::from(byte);
            random.bits();
        }
        random
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        // The state of a stream depends on all that was mixed into it.
        self.0 ^= mixed.rotate_left(17);
        mixed
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.bits() % (most - least + 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// True so many times in a thousand.
    pub fn per_mille(&mut self, times: u64) -> bool {
        self.bits() % 1000 < times
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let numbers = |seed, part| {
            let mut random = Random::stream(seed, part);
            (0..50).map(|_| random.between(10, 20)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7, "disk"), numbers(7, "disk"));
        assert_ne!(numbers(7, "disk"), numbers(7, "links"));
        assert_ne!(numbers(7, "disk"), numbers(8, "disk"));
        assert!(numbers(7, "disk").into_iter().all(|number| (10..=20).contains(&number)));
        assert_eq!(numbers(9, "disk").into_iter().collect::<std::collections::BTreeSet<_>>().len(), 11);
    }
}
