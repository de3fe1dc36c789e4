//! Conversion between protobuf timestamps and durations and plain nanoseconds.

use prost_types::{Duration, Timestamp};

/// Nanoseconds: since the Unix epoch for points in time, plain for spans.
pub type Nanos = i64;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in time as the wire has it.
pub fn nanos_timestamp(nanos: Nanos) -> Timestamp {
    Timestamp { seconds: nanos.div_euclid(NANOS_PER_SECOND), nanos: nanos.rem_euclid(NANOS_PER_SECOND) as i32 }
}

/// A point in time from the wire; saturates instead of overflowing.
pub fn timestamp_nanos(timestamp: &Timestamp) -> Nanos {
    timestamp.seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(i64::from(timestamp.nanos))
}

/// A span as the wire has it.
pub fn nanos_duration(nanos: Nanos) -> Duration {
    Duration { seconds: nanos / NANOS_PER_SECOND, nanos: (nanos % NANOS_PER_SECOND) as i32 }
}

/// A span from the wire; absent means zero, and too long saturates.
pub fn duration_nanos(duration: Option<&Duration>) -> Nanos {
    duration.map_or(0, |d| d.seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(i64::from(d.nanos)))
}
