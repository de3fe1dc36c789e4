//! Free space of the disk with the data, as the task that watches it reports.

use std::sync::atomic::{AtomicU64, Ordering};

/// Not reported: there is no data directory, or the system does not tell.
const UNKNOWN: u64 = u64::MAX;

static FREE: AtomicU64 = AtomicU64::new(UNKNOWN);

/// Notes how many bytes are free where the data is, for `/metrics` and the page of the server.
pub fn report_disk_free(bytes: u64) {
    FREE.store(bytes, Ordering::Relaxed);
}

/// Bytes that are free, if they were reported.
pub(crate) fn disk_free() -> Option<u64> {
    Some(FREE.load(Ordering::Relaxed)).filter(|bytes| *bytes != UNKNOWN)
}
