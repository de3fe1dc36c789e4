//! Whether a text is a cron schedule. The syntax is Temporal's, which is that of robfig/cron v3 `ParseStandard`: five
//! fields, `@daily` and its kin, `@every 90s`, and a prefix `CRON_TZ=` or `TZ=`. When it fires is the server's matter.

use super::time;

/// Whether this is a cron schedule.
#[must_use]
pub fn is_valid(text: &str) -> bool {
    let spec = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
        Some(rest) => match rest.split_once(' ') {
            Some((zone, spec)) if is_zone(zone) => spec.trim(),
            _ => return false,
        },
        None => text,
    };
    if let Some(duration) = spec.strip_prefix("@every ") {
        return is_go_duration(duration);
    }
    if matches!(spec, "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly") {
        return true;
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else { return false };
    let Some(days) = field(day, 1, 31, &[]) else { return false };
    let Some(months) = field(month, 1, 12, &MONTHS) else { return false };
    let Some(weekdays) = field(weekday, 0, 6, &WEEKDAYS) else { return false };
    matches!(field(minute, 0, 59, &[]), Some(1..))
        && matches!(field(hour, 0, 23, &[]), Some(1..))
        && fires(days, months, weekdays)
}

const STAR: u64 = 1 << 63;

/// Whether any day matches. Where day of month and day of week are both restricted, one of them suffices.
fn fires(days: u64, months: u64, weekdays: u64) -> bool {
    let by_day = (1..=12).any(|month| {
        let last: u32 = match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        months & (1 << month) != 0 && days & ((2 << last) - 1) != 0
    });
    let by_weekday = months & !STAR != 0 && weekdays & !STAR != 0;
    if (days | weekdays) & STAR != 0 { by_day && by_weekday } else { by_day || by_weekday }
}

fn is_zone(name: &str) -> bool {
    matches!(name, "" | "UTC" | "Local") || time::is_zone(name)
}

const MONTHS: [&str; 13] = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The values of a field as bits: a list of ranges.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Option<u64> {
    text.split(',')
        .filter(|part| !part.is_empty())
        .try_fold(0, |bits, part| Some(bits | range(part, least, most, names)?))
}

/// `*`, `n`, `n-m`, each perhaps with `/step`; `n/step` goes to the end.
fn range(text: &str, least: u32, most: u32, names: &[&str]) -> Option<u64> {
    let (span, step) = match text.split_once('/') {
        Some((span, step)) => (span, Some(step.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let value = |text: &str| -> Option<u32> {
        let named = names.iter().position(|name| !name.is_empty() && text.eq_ignore_ascii_case(name));
        named.map_or_else(|| text.parse().ok(), |place| u32::try_from(place).ok())
    };
    let (first, last) = span.split_once('-').map_or((span, None), |(first, last)| (first, Some(last)));
    let (low, high, star) = match (first, last) {
        ("*" | "?", _) => (least, most, if step.is_none_or(|step| step == 1) { STAR } else { 0 }),
        (first, None) => (value(first)?, if step.is_some() { most } else { value(first)? }, 0),
        (first, Some(last)) => (value(first)?, value(last)?, 0),
    };
    let step = step.unwrap_or(1);
    if low < least || high > most || low > high || step == 0 {
        return None;
    }
    Some((low..=high).step_by(step as usize).fold(star, |bits, value| bits | 1 << value))
}

/// Go's `time.ParseDuration`: `1h30m`, `1.5s`.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let Ok(amount) = amount.parse::<f64>() else { return false };
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return false,
        };
        total += amount * seconds;
        rest = tail;
    }
    // Go counts nanoseconds in 64 bits.
    total < 9.2e9
}
