//! Buckets: a fixed hash that assigns each workflow to a range of runs.
//!
//! A bucket is 16 bits of SipHash-2-4 with a key of zeros over the namespace key (32 bits, little endian) and the
//! workflow id. It is stored with runs and outbox rows and never changes, so that the runs of a range of buckets can be
//! found.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::NamespaceKey;

/// A workflow's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket(pub u16);

impl Bucket {
    /// The bucket of a workflow.
    pub fn of(namespace: NamespaceKey, workflow_id: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(&namespace.0.to_le_bytes());
        hasher.write(workflow_id.as_bytes());
        let [low, high, ..] = hasher.finish().to_le_bytes();
        Self(u16::from_le_bytes([low, high]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored buckets depend on it.
    #[test]
    fn buckets_stay_what_they_are() {
        let of = |namespace, id| Bucket::of(NamespaceKey(namespace), id).0;
        assert_eq!([of(1, ""), of(1, "a"), of(2, "a"), of(1, "order-17")], [17461, 36589, 8386, 55073]);
    }
}
