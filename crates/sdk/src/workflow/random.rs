//! Random numbers and ids that replay repeats.
//!
//! The generator is fixed here (SplitMix64 into xoshiro256++) and belongs to no other crate, because a stream that
//! changes with a version would break every open workflow.

use uuid::{Builder, Uuid};

/// The source of all random values of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u64, u64);

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn absorb(mut state: u64, bytes: &[u8]) -> u64 {
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state ^ u64::from_le_bytes(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    mix(state ^ bytes.len() as u64)
}

impl Seed {
    /// The seed of a run.
    pub fn of(run_id: &str) -> Self {
        Self(absorb(0x5345_474e_4f31, run_id.as_bytes()), absorb(0x5345_474e_4f32, run_id.as_bytes()))
    }

    /// The seed of a part of it.
    pub fn part(self, name: &str) -> Self {
        Self(absorb(self.0, name.as_bytes()), absorb(self.1, name.as_bytes()))
    }

    /// The id of the `index`-th thing of a type. It depends on nothing else, so that no other call can shift it.
    pub fn id(self, kind: &str, index: u64) -> Uuid {
        let part = self.part(kind);
        let high = mix(part.0 ^ mix(index.wrapping_add(1)));
        let low = mix(part.1 ^ mix(index.wrapping_add(0x1234_5678_9abc_def1)));
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        Builder::from_custom_bytes(bytes).into_uuid()
    }

    /// A stream of numbers.
    pub fn generator(self) -> Generator {
        let mut state = self.0 ^ self.1.rotate_left(32);
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        };
        Generator([next(), next(), next(), next()])
    }
}

/// xoshiro256++.
#[derive(Clone, Debug)]
pub(crate) struct Generator([u64; 4]);

impl Generator {
    pub fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// From 0 to below 1.
    pub fn next_f64(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next().to_be_bytes());
        bytes
    }

    pub fn uuid4(&mut self) -> Uuid {
        Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    pub fn uuid7(&mut self, millis: u64) -> Uuid {
        let mut random = [0; 10];
        random.copy_from_slice(&self.bytes()[..10]);
        Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let seed = Seed::of("0199d3a2-5b1e-7c3a-8f00-000000000001");
        let mut generator = seed.generator();
        let first: Vec<u64> = (0..3).map(|_| generator.next()).collect();
        assert_eq!(first, FIRST, "every open workflow depends on these numbers");
        assert_eq!(seed.id("task", 0).to_string(), FIRST_ID);
        assert_eq!(seed.id("task", 0).get_version_num(), 8);
    }

    const FIRST: [u64; 3] = [16_920_433_945_102_877_184, 16_845_775_144_657_603_672, 13_928_725_473_417_010_706];
    const FIRST_ID: &str = "fbee0ec1-7b5d-88ce-b0fb-7b24ca34cfaa";

    #[test]
    fn ids_differ_by_type_and_index() {
        let seed = Seed::of("run");
        let ids: std::collections::BTreeSet<Uuid> = ["task", "timer", "child"]
            .iter()
            .flat_map(|kind| (0..1000).map(move |index| seed.id(kind, index)))
            .collect();
        assert_eq!(ids.len(), 3000);
        assert_ne!(seed.id("task", 0), Seed::of("other").id("task", 0));
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut generator = Seed::of("run").generator();
        let mean = (0..10_000).map(|_| generator.next_f64()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
