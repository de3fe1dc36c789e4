//! Times in headers.

use jiff::{Timestamp, fmt::rfc2822};
use segno_proto::Nanos;

/// A span in Go's form, in seconds alone: SDKs read one number and one unit.
pub fn go_duration(span: Nanos) -> String {
    let (seconds, rest) = (span.max(0) / 1_000_000_000, span.max(0) % 1_000_000_000);
    let fraction = format!("{rest:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{seconds}s"),
        fraction => format!("{seconds}.{fraction}s"),
    }
}

/// A span in milliseconds.
pub fn milliseconds(span: Nanos) -> String {
    format!("{}ms", span.max(0) / 1_000_000)
}

/// The span that a header has: a number and `ms`, `s` or `m`.
pub fn read_span(text: &str) -> Option<Nanos> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    let is_decimal = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| is_decimal)?;
    Some((number * unit) as Nanos)
}

/// A point in time as HTTP writes it (RFC 9110), in whole seconds.
pub fn http_date(time: Nanos) -> String {
    let seconds = Timestamp::from_second(time.div_euclid(1_000_000_000)).unwrap_or_default();
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&seconds).unwrap_or_default()
}

/// A point in time as HTTP writes it.
pub fn http_date_from(text: &str) -> Option<Nanos> {
    // The other forms of such times are no longer written.
    if !text.ends_with(" GMT") {
        return None;
    }
    let time = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    time.as_second().checked_mul(1_000_000_000)
}

/// A point in time as RFC 3339 writes it, in UTC.
pub fn rfc3339(time: Nanos) -> String {
    Timestamp::from_nanosecond(time.into()).unwrap_or_default().to_string()
}

/// A point in time as RFC 3339 writes it.
pub fn rfc3339_from(text: &str) -> Option<Nanos> {
    let time: Timestamp = text.parse().ok()?;
    Nanos::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_one_unit() {
        assert_eq!(go_duration(10_000_000_000), "10s");
        assert_eq!(go_duration(7_992_487_423), "7.992487423s");
        assert_eq!(go_duration(90_500_000_000), "90.5s");
        assert_eq!((go_duration(-1), milliseconds(1_999_999)), ("0s".to_owned(), "1ms".to_owned()));
    }

    #[test]
    fn headers_have_a_number_and_a_unit() {
        let read = ["7s", "1.5m", "20ms", "0.5s"].map(read_span);
        assert_eq!(read, [Some(7_000_000_000), Some(90_000_000_000), Some(20_000_000), Some(500_000_000)]);
        assert_eq!(["", "s", "7", "-1s", "1h", "1e3s", "infs", "1s "].map(read_span), [None; 8]);
    }

    #[test]
    fn points_in_time_are_written_and_read() {
        let time = 784_111_777_000_000_000;
        assert_eq!(http_date(time + 999), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date_from("Sun, 06 Nov 1994 08:49:37 GMT"), Some(time));
        assert_eq!(rfc3339(time + 5_000_000), "1994-11-06T08:49:37.005Z");
        assert_eq!(rfc3339_from("1994-11-06T09:49:37.005+01:00"), Some(time + 5_000_000));
        for bad in ["", "x", "06 Nov 1994 08:49:37", "Mon, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(http_date_from(bad), None, "{bad}");
        }
        assert_eq!(rfc3339_from("yesterday"), None);
    }
}
