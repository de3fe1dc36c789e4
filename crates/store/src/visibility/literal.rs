//! Literals of filters that are written as texts: times, durations and statuses.

/// Names of the statuses, by their number.
const STATUSES: [(&str, &str); 9] = [
    ("Unspecified", "WORKFLOW_EXECUTION_STATUS_UNSPECIFIED"),
    ("Running", "WORKFLOW_EXECUTION_STATUS_RUNNING"),
    ("Completed", "WORKFLOW_EXECUTION_STATUS_COMPLETED"),
    ("Failed", "WORKFLOW_EXECUTION_STATUS_FAILED"),
    ("Canceled", "WORKFLOW_EXECUTION_STATUS_CANCELED"),
    ("Terminated", "WORKFLOW_EXECUTION_STATUS_TERMINATED"),
    ("ContinuedAsNew", "WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW"),
    ("TimedOut", "WORKFLOW_EXECUTION_STATUS_TIMED_OUT"),
    ("Paused", "WORKFLOW_EXECUTION_STATUS_PAUSED"),
];

const SECOND: i128 = 1_000_000_000;

/// The number of a status.
pub(super) fn status(name: &str) -> Option<i64> {
    let place = STATUSES.iter().position(|(short, long)| *short == name || *long == name)?;
    i64::try_from(place).ok()
}

/// Whether a status has this number.
pub(super) fn is_status(number: i64) -> bool {
    usize::try_from(number).is_ok_and(|number| number < STATUSES.len())
}

/// The statuses a filter may name.
pub(super) fn status_names() -> String {
    STATUSES.iter().skip(1).map(|(short, _)| *short).collect::<Vec<_>>().join(", ")
}

/// A moment as in RFC 3339, in nanoseconds since the epoch; one too far away is the farthest there is.
pub(super) fn moment(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once('T')?;
    let [year, month, day] = parts(date, '-', [4, 2, 2])?;
    let zone_at = rest.find(['Z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = match clock.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, nanos(fraction)?),
        None => (clock, 0),
    };
    let [hour, minute, second] = parts(clock, ':', [2, 2, 2])?;
    let days = days_since_epoch(year, month, day)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days * 86_400 + i128::from(hour * 3_600 + minute * 60 + second) - i128::from(offset(zone)?);
    Some(clamp(seconds * SECOND + fraction))
}

/// A duration in nanoseconds: `90s`, `1h30m`, `2d`, `-1.5h`, `01:30:00` or a number of nanoseconds.
pub(super) fn duration(text: &str) -> Option<i64> {
    if let Ok(nanos) = text.parse() {
        return Some(nanos);
    }
    if text.contains(':') {
        let mut fields = text.split(':').map(|field| {
            let plain = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| field.parse::<i64>().ok()).flatten()
        });
        let (hours, minutes, seconds) = (fields.next()??, fields.next()??, fields.next()??);
        let valid = fields.next().is_none() && minutes < 60 && seconds < 60;
        let total = (i128::from(hours) * 3_600 + i128::from(minutes) * 60 + i128::from(seconds)) * SECOND;
        return if valid { i64::try_from(total).ok() } else { None };
    }
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let unit_at = rest.find(|found: char| !found.is_ascii_digit() && found != '.')?;
        let (number, after) = rest.split_at(unit_at);
        let (unit, nanos) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        total = total.checked_add(scaled(number, *nanos)?)?;
        rest = &after[unit.len()..];
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// `ms` stands before `m`.
const UNITS: [(&str, i128); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
];

/// A decimal number times a whole one, without its fraction.
fn scaled(number: &str, by: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // More digits than these change nothing.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<i128>().ok()? * by / 10_i128.pow(u32::try_from(fraction.len()).ok()?)
    };
    Some(whole.checked_mul(by)? + part)
}

/// Three numbers of fixed widths.
fn parts(text: &str, separator: char, widths: [usize; 3]) -> Option<[i64; 3]> {
    let mut fields = text.split(separator);
    let mut numbers = [0; 3];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let field = fields.next()?;
        if field.len() != width || !field.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = field.parse().ok()?;
    }
    fields.next().is_none().then_some(numbers)
}

fn nanos(fraction: &str) -> Option<i128> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<9}")[..9].parse().ok()
}

/// Seconds east of Greenwich.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let [hours, minutes, _] = parts(&format!("{}:00", zone.get(1..)?), ':', [2, 2, 2])?;
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i128> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years that begin in March, so that leap days are last; 400 of them have 146,097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(i128::from(era * 146_097 + day_of_era - 719_468))
}

fn clamp(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59.5Z", Some(-500_000_000)),
            ("2000-02-29T12:00:00Z", Some(951_825_600_000_000_000)),
            ("2024-01-01T01:00:00+01:00", Some(1_704_067_200_000_000_000)),
            ("2023-12-31T19:00:00-05:00", Some(1_704_067_200_000_000_000)),
            ("2020-01-01T00:00:00,123456789123Z", Some(1_577_836_800_123_456_789)),
            ("9999-12-31T23:59:59Z", Some(i64::MAX)),
            ("0000-01-01T00:00:00Z", Some(i64::MIN)),
            ("2020-02-30T00:00:00Z", None),
            ("2021-02-29T00:00:00Z", None),
            ("2020-13-01T00:00:00Z", None),
            ("2020-01-01T24:00:00Z", None),
            ("2020-01-01T00:00:60Z", None),
            ("2020-01-01", None),
            ("2020-01-01 00:00:00Z", None),
            ("2020-01-01T00:00:00", None),
            ("2020-01-01T00:00:00z", None),
            ("2020-01-01T00:00:00.Z", None),
            ("2020-1-1T00:00:00Z", None),
            ("2020-01-01T00:00:00+1:00", None),
            ("2020-01-01T00:00:00Zé", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(moment(text), wanted, "{text}");
        }
    }

    #[test]
    fn durations() {
        let cases = [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("1h", Some(3_600_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("2d", Some(172_800_000_000_000)),
            ("1ms", Some(1_000_000)),
            (".5s", Some(500_000_000)),
            ("1µs2ns", Some(1_002)),
            ("01:30:05", Some(5_405_000_000_000)),
            ("100:00:00", Some(360_000_000_000_000)),
            ("1:60:00", None),
            ("1:00", None),
            ("1:00:00:00", None),
            ("-1:00:00", None),
            ("abc", None),
            ("", None),
            ("-", None),
            ("1", Some(1)),
            ("1x", None),
            ("1.2.3s", None),
            (".s", None),
            ("9999999999h", None),
            ("99999999999999999999999h", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(duration(text), wanted, "{text}");
        }
    }
}
