//! Points in time and spans, for people.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use maud::{Markup, html};
use prost_types::{Duration, Timestamp as WireTime};
use segno_proto::{Nanos, duration_nanos, timestamp_nanos};

const SECOND: Nanos = 1_000_000_000;

/// Now, as the clock on the wall says.
pub(super) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or(Nanos::MAX)
}

/// In RFC 3339, to milliseconds.
pub(super) fn exact(nanos: Nanos) -> String {
    match Timestamp::from_nanosecond(i128::from(nanos)) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => String::new(),
    }
}

/// A time of the protocol in nanoseconds; nothing if it is not set.
pub(super) fn nanos(time: Option<&WireTime>) -> Option<Nanos> {
    time.filter(|time| time.seconds > 0).map(timestamp_nanos)
}

/// A time that browsers show in their own zone, and relative to now if it is near.
pub(super) fn shown(time: Option<&WireTime>) -> Markup {
    match nanos(time) {
        Some(at) => shown_nanos(at),
        None => html! { span.faint { "–" } },
    }
}

/// The same for nanoseconds.
pub(super) fn shown_nanos(at: Nanos) -> Markup {
    let exact = exact(at);
    // The first is what is seen without scripts.
    let readable = exact.get(..19).unwrap_or(&exact).replace('T', " ");
    html! { time datetime=(exact) title=(exact) { (readable) } }
}

/// The same, shown as the distance from now.
pub(super) fn relative(time: Option<&WireTime>) -> Markup {
    match nanos(time) {
        Some(at) => {
            let exact = exact(at);
            let readable = exact.get(..19).unwrap_or(&exact).replace('T', " ");
            html! { time datetime=(exact) title=(exact) data-relative { (readable) } }
        }
        None => html! { span.faint { "–" } },
    }
}

/// A length of time in at most two units.
pub(super) fn span(nanos: Nanos) -> String {
    let millis = nanos / 1_000_000;
    let seconds = nanos / SECOND;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |a: i64, unit: &str, b: i64, lower: &str| match b {
        0 => format!("{a}{unit}"),
        _ => format!("{a}{unit} {b}{lower}"),
    };
    match () {
        () if nanos < 0 => format!("-{}", span(nanos.saturating_neg())),
        () if nanos < 1_000_000 => format!("{} µs", nanos / 1000),
        () if millis < 1000 => format!("{millis} ms"),
        () if seconds < 10 && millis % 1000 >= 100 => format!("{}.{} s", seconds, (millis % 1000) / 100),
        () if seconds < 60 => format!("{seconds} s"),
        () if minutes < 60 => two(minutes, "m", seconds % 60, "s"),
        () if hours < 24 => two(hours, "h", minutes % 60, "m"),
        () => two(days, "d", hours % 24, "h"),
    }
}

/// A span of the protocol.
pub(super) fn span_of(duration: Option<&Duration>) -> String {
    duration.map_or_else(|| "–".to_owned(), |duration| span(duration_nanos(Some(duration))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (nanos, expected) in [
            (0, "0 µs"),
            (1_500_000, "1 ms"),
            (1_250_000_000, "1.2 s"),
            (5 * SECOND, "5 s"),
            (59 * SECOND, "59 s"),
            (60 * SECOND, "1m"),
            (3725 * SECOND, "1h 2m"),
            (90_000 * SECOND, "1d 1h"),
        ] {
            assert_eq!(span(nanos), expected);
        }
    }

    #[test]
    fn times() {
        assert_eq!(exact(1_000_000_000_250_000_000), "2001-09-09T01:46:40.250Z");
        let absent = WireTime { seconds: -62_135_596_800, nanos: 0 };
        assert_eq!(nanos(Some(&absent)), None);
    }
}
