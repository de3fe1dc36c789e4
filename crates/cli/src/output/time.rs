//! Points in time and spans as text: RFC 3339, `3 minutes ago`, `1h30m`.

use jiff::Timestamp;
use prost_types::{Duration, Timestamp as WireTimestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The wire's way to say that there is no time: Go's zero time, or nothing.
fn known(time: Option<&WireTimestamp>) -> Option<Timestamp> {
    let time = time?;
    Timestamp::new(time.seconds, time.nanos).ok().filter(|time| time.as_second() > 0)
}

/// In RFC 3339, to the millisecond; empty if there is none.
pub fn precise(time: Option<&WireTimestamp>) -> String {
    known(time).map(|time| format!("{time:.3}")).unwrap_or_default()
}

/// In RFC 3339, to the second; empty if there is none.
pub fn short(time: Option<&WireTimestamp>) -> String {
    known(time).map(|time| format!("{time:.0}")).unwrap_or_default()
}

/// Seen from `now`: `3 minutes ago`, `in 2 hours`; empty if there is none.
pub fn relative(time: Option<&WireTimestamp>, now: Timestamp) -> String {
    let Some(time) = known(time) else { return String::new() };
    let seconds = now.as_second() - time.as_second();
    let (count, unit) = match seconds.abs() {
        0 => return "now".to_owned(),
        n if n < MINUTE => (n, "second"),
        n if n < HOUR => (n / MINUTE, "minute"),
        n if n < DAY => (n / HOUR, "hour"),
        n => (n / DAY, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    if seconds < 0 { format!("in {count} {unit}{plural}") } else { format!("{count} {unit}{plural} ago") }
}

/// Exactly, with how long ago it was: `2026-11-15T16:36:48.104Z (3 minutes ago)`.
pub fn both(time: Option<&WireTimestamp>, now: Timestamp) -> String {
    match precise(time) {
        text if text.is_empty() => text,
        text => format!("{text} ({})", relative(time, now)),
    }
}

/// A span: `1h30m`, `10s`, `1.5s`; empty if there is none or it is zero.
pub fn span(duration: Option<&Duration>) -> String {
    let Some(Duration { seconds, nanos }) = duration.copied() else { return String::new() };
    if seconds <= 0 && nanos <= 0 {
        return String::new();
    }
    let mut text = String::new();
    for (unit, name) in [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")] {
        let count = match unit {
            DAY => seconds / DAY,
            HOUR => seconds % DAY / HOUR,
            _ => seconds % HOUR / MINUTE,
        };
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
        }
    }
    if seconds % MINUTE != 0 || nanos != 0 || text.is_empty() {
        // No reader needs microseconds behind seconds.
        let nanos = if seconds > 0 { nanos / 1_000_000 * 1_000_000 } else { nanos };
        let fraction = format!("{}.{nanos:09}", seconds % MINUTE);
        text.push_str(fraction.trim_end_matches('0').trim_end_matches('.'));
        text.push('s');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: WireTimestamp = WireTimestamp { seconds: 1_000_000_000, nanos: 123_456_789 };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    #[test]
    fn points_in_time() {
        assert_eq!(precise(Some(&AT)), "2001-09-09T01:46:40.123Z");
        assert_eq!(short(Some(&AT)), "2001-09-09T01:46:40Z");
        assert_eq!(short(None), "");
        let zero_of_go = WireTimestamp { seconds: -62_135_596_800, nanos: 0 };
        assert_eq!(precise(Some(&zero_of_go)), "");
    }

    #[test]
    fn seen_from_now() {
        for (now, text) in [
            (1_000_000_000, "now"),
            (1_000_000_001, "1 second ago"),
            (1_000_000_185, "3 minutes ago"),
            (1_000_007_200, "2 hours ago"),
            (1_000_172_800, "2 days ago"),
            (999_999_940, "in 1 minute"),
        ] {
            assert_eq!(relative(Some(&AT), at(now)), text);
        }
        assert_eq!(relative(None, at(0)), "");
        assert_eq!(both(Some(&AT), at(1_000_000_185)), "2001-09-09T01:46:40.123Z (3 minutes ago)");
    }

    #[test]
    fn spans() {
        for (seconds, nanos, text) in [
            (10, 0, "10s"),
            (5400, 0, "1h30m"),
            (1, 500_000_000, "1.5s"),
            (0, 1_000, "0.000001s"),
            (60, 1_000_001, "1m0.001s"),
            (86_400, 0, "1d"),
            (0, 0, ""),
        ] {
            assert_eq!(span(Some(&Duration { seconds, nanos })), text);
        }
        assert_eq!(span(None), "");
    }
}
