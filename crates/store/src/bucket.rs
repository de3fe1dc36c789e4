//! Buckets: which part of the runs a workflow belongs to.
//!
//! A bucket is 16 bits of SipHash-2-4 with a key of zeros over the namespace key (32 bits, little endian) and the workflow
//! id. It is stored with runs and outbox rows and never changes, so that the runs of a range of buckets can be found.

use crate::NamespaceKey;

/// A workflow's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket(pub u16);

impl Bucket {
    /// The bucket of a workflow.
    pub fn of(namespace: NamespaceKey, workflow_id: &str) -> Self {
        let mut bytes = Vec::with_capacity(4 + workflow_id.len());
        bytes.extend_from_slice(&namespace.0.to_le_bytes());
        bytes.extend_from_slice(workflow_id.as_bytes());
        let [low, high, ..] = siphash(0, 0, &bytes).to_le_bytes();
        Self(u16::from_le_bytes([low, high]))
    }
}

/// SipHash-2-4. The one of the standard library may change with its version; a stored hash may not.
fn siphash(key_low: u64, key_high: u64, bytes: &[u8]) -> u64 {
    let mut state = [
        key_low ^ 0x736f_6d65_7073_6575,
        key_high ^ 0x646f_7261_6e64_6f6d,
        key_low ^ 0x6c79_6765_6e65_7261,
        key_high ^ 0x7465_6462_7974_6573,
    ];
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight bytes"));
        absorb(&mut state, word);
    }
    let mut last = [0; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len().to_le_bytes()[0];
    absorb(&mut state, u64::from_le_bytes(last));
    state[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut state));
    state.into_iter().fold(0, |sum, part| sum ^ part)
}

fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    round(state);
    state[0] ^= word;
}

fn round(state: &mut [u64; 4]) {
    let [a, b, c, d] = state;
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the paper (key 00..0f, input 00, 00 01, ...), in numbers.
    #[test]
    fn it_is_siphash() {
        let (low, high) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(low, high, &input), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(low, high, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(low, high, &input[..8]), 0x93f5_f579_9a93_2462);
    }

    /// Stored buckets depend on it.
    #[test]
    fn buckets_stay_what_they_are() {
        let of = |namespace, id| Bucket::of(NamespaceKey(namespace), id).0;
        let standard = |bytes: &[u8]| siphash(0, 0, bytes).to_le_bytes();
        assert_eq!(of(1, "a").to_le_bytes(), standard(b"\x01\0\0\0a")[..2]);
        assert_ne!(of(1, "a"), of(2, "a"));
    }
}
