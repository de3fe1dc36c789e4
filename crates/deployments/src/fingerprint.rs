//! FarmHash's `Fingerprint32`, in the variant `mk` without a seed. It decides which workflows ramp, so it has to agree with Temporal's
//! server in every bit: a workflow stays where it is when clients move from one server to the other.

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;
const STEP: u32 = 0xe654_6b64;
/// What a round of a long id reads.
const ROUND_BYTES: usize = 20;

/// The hash of a workflow id, by which a ramp divides workflows.
pub fn hash_of(id: &str) -> u32 {
    let bytes = id.as_bytes();
    match bytes.len() {
        0..=4 => short(bytes),
        5..=12 => medium(bytes),
        13..=24 => large(bytes),
        _ => long(bytes),
    }
}

fn short(bytes: &[u8]) -> u32 {
    let (mut b, mut c) = (0u32, 9u32);
    for byte in bytes {
        // Bytes have a sign here.
        b = b.wrapping_mul(C1).wrapping_add_signed(i32::from(byte.cast_signed()));
        c ^= b;
    }
    finalize(mix(b, mix(length(bytes), c)))
}

fn medium(bytes: &[u8]) -> u32 {
    let len = bytes.len();
    let start = length(bytes).wrapping_mul(5);
    let a = length(bytes).wrapping_add(word(bytes, 0));
    let b = start.wrapping_add(word(bytes, len - 4));
    let c = word(bytes, (len >> 1) & 4).wrapping_add(9);
    finalize(mix(c, mix(b, mix(a, start))))
}

fn large(bytes: &[u8]) -> u32 {
    let len = bytes.len();
    let [b, c, d] = [4, len - 8, len >> 1].map(|at| word(bytes, at));
    let [e, f] = [0, len - 4].map(|at| word(bytes, at));
    let mut a = word(bytes, (len >> 1) - 4).rotate_right(12).wrapping_add(f);
    let mut h = d.wrapping_mul(C1).wrapping_add(length(bytes));
    h = mix(c, h).wrapping_add(a);
    a = a.rotate_right(3).wrapping_add(c);
    h = mix(e, h).wrapping_add(a);
    a = a.wrapping_add(f).rotate_right(12).wrapping_add(d);
    finalize(mix(b, h).wrapping_add(a))
}

fn long(bytes: &[u8]) -> u32 {
    let len = bytes.len();
    let tail = |before_end: usize| word(bytes, len - before_end).wrapping_mul(C1).rotate_right(17).wrapping_mul(C2);
    let mut h = length(bytes);
    let mut g = length(bytes).wrapping_mul(C1);
    let mut f = g.wrapping_add(tail(20)).rotate_right(19).wrapping_add(113);
    h = step(step(h ^ tail(4)) ^ tail(16));
    g = step(step(g ^ tail(8)) ^ tail(12));
    for round in bytes.chunks(ROUND_BYTES).take((len - 1) / ROUND_BYTES) {
        let [a, b, c, d, e] = [0, 4, 8, 12, 16].map(|at| word(round, at));
        h = mix(d, h.wrapping_add(a)).wrapping_add(e);
        g = mix(c, g.wrapping_add(b)).wrapping_add(a);
        f = mix(b.wrapping_add(e.wrapping_mul(C1)), f.wrapping_add(c)).wrapping_add(d);
        f = f.wrapping_add(g);
        g = g.wrapping_add(f);
    }
    for rest in [g, f] {
        let rest = rest.rotate_right(11).wrapping_mul(C1).rotate_right(17).wrapping_mul(C1);
        h = step(h.wrapping_add(rest)).rotate_right(17).wrapping_mul(C1);
    }
    h
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Four bytes in little-endian order.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn step(h: u32) -> u32 {
    h.rotate_right(19).wrapping_mul(5).wrapping_add(STEP)
}

fn mix(a: u32, h: u32) -> u32 {
    step(h ^ a.wrapping_mul(C1).rotate_right(17).wrapping_mul(C2))
}

fn finalize(mut h: u32) -> u32 {
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

#[cfg(test)]
mod tests {
    use super::hash_of;

    #[test]
    fn hashes_are_those_of_temporals_server() {
        for (id, hash) in [
            ("a", 0x3c97_3d4d),
            ("wf", 0xe02d_25d8),
            ("ramp-0", 0xdecc_1050),
            ("ramp-1", 0x3356_eeb3),
            ("order-12345", 0xdec7_565c),
            ("a-workflow-id-of-24-byte", 0xb540_8508),
            ("a-rather-long-workflow-id-with-more-than-24-bytes", 0xe26b_9150),
        ] {
            assert_eq!(hash_of(id), hash, "{id}");
        }
    }

    #[test]
    fn every_length_has_a_hash_of_its_own() {
        let hashes: std::collections::BTreeSet<u32> = (0..200).map(|len| hash_of(&"x".repeat(len))).collect();
        assert_eq!(hashes.len(), 200);
    }

    #[test]
    fn bytes_beyond_ascii_have_a_sign() {
        assert_eq!(hash_of("é"), super::finalize(super::mix(signed(&[-61, -87]), super::mix(2, xored(&[-61, -87])))));
    }

    fn signed(bytes: &[i32]) -> u32 {
        bytes.iter().fold(0, |b: u32, byte| b.wrapping_mul(super::C1).wrapping_add_signed(*byte))
    }

    fn xored(bytes: &[i32]) -> u32 {
        (1..=bytes.len()).fold(9, |c, len| c ^ signed(&bytes[..len]))
    }
}
