//! Cron schedules of workflows: when does the next run begin?
//!
//! The syntax is that of robfig/cron v3 `ParseStandard`, which Temporal uses: five fields, `@daily` and its kin,
//! `@every 90s`, and a `CRON_TZ=` or `TZ=` prefix. Its quirks are kept on purpose (7 is no Sunday, `1-5/0` is refused,
//! an hour that a clock change skips does not fire), since a workflow moved from Temporal must fire at the same times.
//!
//! The engine computes times with it, and the compiler of scripts checks texts with it. Calendars of schedules have another
//! syntax and are the engine's.
//!
//! Nothing here reads a clock, and zones come from the bundled database, never from the machine: replaying the same
//! inputs gives the same answer on every machine.

use std::sync::OnceLock;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};

/// A time or duration in nanoseconds.
type Nanos = i64;

const SECOND: i64 = 1_000_000_000;
/// Set beside the bits of a field written `*` or `?`: day of month and day of week combine differently then.
const STAR: u64 = 1 << 63;
/// Catching up from long ago starts this close to the present. A day would do: what fires after a moment depends on the
/// past only through the clock changes of that day.
const CATCH_UP_SECONDS: i64 = 2 * 24 * 3600;
/// Where `validate` looks for a first firing. Any moment serves, for a schedule that fires at all does so in every
/// span of five years (except around a turn of the century without a leap year).
const VALIDATE_FROM: i64 = 1_767_225_600; // 2026-01-01

/// Refuses a schedule that cannot be parsed or never fires; the text is Temporal's. An empty schedule is none, and fine.
pub fn validate(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Ok(());
    }
    let schedule = Schedule::parse(schedule).ok_or("invalid CronSchedule.")?;
    match schedule.next(VALIDATE_FROM) {
        Some(_) => Ok(()),
        None => Err("invalid CronSchedule, no time can be found to satisfy the schedule".into()),
    }
}

/// How long after `close` the next run begins, in whole seconds, given when the closing run was due (`start`).
///
/// `None` means that there is no next run: no schedule, one that cannot be parsed, or one that never fires again.
pub fn next_backoff(schedule: &str, start: Nanos, close: Nanos) -> Option<Nanos> {
    let schedule = Schedule::parse(schedule)?;
    let next = if close < start { start } else { schedule.first_not_before(start, close)? };
    let gap = next - close;
    // Through a float as Temporal does it, so that gaps of many years round alike.
    let seconds = ((gap / SECOND) as f64 + (gap % SECOND) as f64 / 1e9).ceil();
    Some(seconds as i64 * SECOND)
}

#[derive(Debug)]
enum Schedule {
    Every { seconds: i64 },
    Fields(Fields),
}

/// One bit for each value at which a field matches.
#[derive(Debug)]
struct Fields {
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    zone: TimeZone,
}

impl Schedule {
    fn parse(spec: &str) -> Option<Schedule> {
        let (zone, spec) = match spec.strip_prefix("CRON_TZ=").or_else(|| spec.strip_prefix("TZ=")) {
            Some(rest) => {
                let (name, spec) = rest.split_once(' ')?;
                (zone(name)?, spec.trim())
            }
            None => (TimeZone::UTC, spec),
        };
        if let Some(duration) = spec.strip_prefix("@every ") {
            // Whole seconds, and never less than one.
            return Some(Schedule::Every { seconds: (go_duration(duration)? / SECOND).max(1) });
        }
        let spec = match spec {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            spec => spec,
        };
        let fields: Vec<&str> = spec.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return None };
        Some(Schedule::Fields(Fields {
            minute: field(minute, 0, 59, &[])?,
            hour: field(hour, 0, 23, &[])?,
            day: field(day, 1, 31, &[])?,
            month: field(month, 1, 12, &MONTHS)?,
            weekday: field(weekday, 0, 6, &WEEKDAYS)?,
            zone,
        }))
    }

    /// The first firing after a moment, both in seconds since the epoch.
    fn next(&self, after: i64) -> Option<i64> {
        match self {
            Schedule::Every { seconds } => after.checked_add(*seconds),
            Schedule::Fields(fields) => fields.next(after),
        }
    }

    /// The first firing after `start` that is not before `close`.
    fn first_not_before(&self, start: Nanos, close: Nanos) -> Option<Nanos> {
        // Firings lie on whole seconds, so the part of a second in `start` never matters.
        let mut at = start.div_euclid(SECOND);
        let behind = close.div_euclid(SECOND) - at;
        match self {
            Schedule::Every { seconds } => at += (behind / seconds - 1).max(0) * seconds,
            Schedule::Fields(_) => at += (behind - CATCH_UP_SECONDS).max(0),
        }
        loop {
            at = self.next(at)?;
            let nanos = at.checked_mul(SECOND)?;
            if nanos >= close {
                return Some(nanos);
            }
        }
    }
}

impl Fields {
    /// Walks from the month down to the minute; when a unit rolls over, the coarser ones are looked at again.
    fn next(&self, after: i64) -> Option<i64> {
        // A field of commas alone parses and matches nothing; walking five years of minutes would find that out.
        if self.month == 0 || self.hour == 0 || self.minute == 0 {
            return None;
        }
        // Seconds match only at zero.
        let mut at = after.checked_add(1)?;
        let last_year = self.local(at)?.year() + 5;
        // Until something had to be moved, the finer units still hold what `after` had.
        let mut moved = false;
        'wrap: loop {
            if self.local(at)?.year() > last_year {
                return None;
            }
            while !has(self.month, self.local(at)?.month()) {
                let mut local = self.local(at)?;
                if !moved {
                    moved = true;
                    local = local.date().first_of_month().at(0, 0, 0, 0);
                    at = self.instant(local)?;
                    local = self.local(at)?;
                }
                at = self.instant(local.checked_add(1.month()).ok()?)?;
                if self.local(at)?.month() == 1 {
                    continue 'wrap;
                }
            }
            while !self.day_matches(self.local(at)?) {
                let mut local = self.local(at)?;
                if !moved {
                    moved = true;
                    at = self.instant(local.date().at(0, 0, 0, 0))?;
                    local = self.local(at)?;
                }
                at = self.instant(local.checked_add(1.day()).ok()?)?;
                // A clock change at midnight may leave us an hour to either side.
                let hour = i64::from(self.local(at)?.hour());
                at += if hour > 12 { 24 - hour } else { -hour } * 3600;
                if self.local(at)?.day() == 1 {
                    continue 'wrap;
                }
            }
            while !has(self.hour, self.local(at)?.hour()) {
                if !moved {
                    moved = true;
                    let local = self.local(at)?;
                    at = self.instant(local.date().at(local.hour(), 0, 0, 0))?;
                }
                at += 3600;
                if self.local(at)?.hour() == 0 {
                    continue 'wrap;
                }
            }
            while !has(self.minute, self.local(at)?.minute()) {
                if !moved {
                    moved = true;
                    at -= at.rem_euclid(60);
                }
                at += 60;
                if self.local(at)?.minute() == 0 {
                    continue 'wrap;
                }
            }
            let second = i64::from(self.local(at)?.second());
            if second == 0 {
                return Some(at);
            }
            moved = true;
            at += 60 - second;
        }
    }

    fn day_matches(&self, local: DateTime) -> bool {
        let day = has(self.day, local.day());
        let weekday = has(self.weekday, local.weekday().to_sunday_zero_offset());
        if (self.day | self.weekday) & STAR != 0 { day && weekday } else { day || weekday }
    }

    fn offset(&self, at: i64) -> Option<i64> {
        Some(self.zone.to_offset(Timestamp::from_second(at).ok()?).seconds().into())
    }

    /// The time on the zone's clocks.
    fn local(&self, at: i64) -> Option<DateTime> {
        Timestamp::from_second(at + self.offset(at)?).ok().map(|shifted| Offset::UTC.to_datetime(shifted))
    }

    /// When the zone's clocks show this. Around a clock change it picks what Go's `time.Date` picks.
    fn instant(&self, local: DateTime) -> Option<i64> {
        let naive = Offset::UTC.to_timestamp(local).ok()?.as_second();
        let guess = self.offset(naive)?;
        Some(naive - if guess == 0 { 0 } else { self.offset(naive - guess)? })
    }
}

const MONTHS: [(&str, u32); 12] = [
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const WEEKDAYS: [(&str, u32); 7] = [("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}

fn zone(name: &str) -> Option<TimeZone> {
    static BUNDLED: OnceLock<TimeZoneDatabase> = OnceLock::new();
    match name {
        // `Local` is the server's zone, and a server has none other than UTC.
        "" | "UTC" | "Local" => Some(TimeZone::UTC),
        // A zone that stands for none.
        "Etc/Unknown" => None,
        name => BUNDLED.get_or_init(TimeZoneDatabase::bundled).get(name).ok(),
    }
}

/// The bits of one field: a list of ranges.
fn field(text: &str, min: u32, max: u32, names: &[(&str, u32)]) -> Option<u64> {
    text.split(',').filter(|part| !part.is_empty()).try_fold(0, |bits, part| Some(bits | range(part, min, max, names)?))
}

/// `*`, `n`, `n-m`, each perhaps with `/step`; `n/step` runs to the end.
fn range(text: &str, min: u32, max: u32, names: &[(&str, u32)]) -> Option<u64> {
    let parts: Vec<&str> = text.split('/').collect();
    let (span, step) = match parts[..] {
        [span] => (span, None),
        [span, step] => (span, Some(number(step)?)),
        _ => return None,
    };
    let ends: Vec<&str> = span.split('-').collect();
    let (low, mut high, mut star) = match ends[..] {
        ["*" | "?", ..] => (min, max, STAR),
        [only] => (value(only, names)?, value(only, names)?, 0),
        [low, high] => (value(low, names)?, value(high, names)?, 0),
        _ => return None,
    };
    if step.is_some() && ends.len() == 1 {
        high = max;
    }
    let step = step.unwrap_or(1);
    if step > 1 {
        star = 0;
    }
    if low < min || high > max || low > high || step == 0 {
        return None;
    }
    Some((low..=high).step_by(step as usize).fold(star, |bits, value| bits | 1 << value))
}

fn value(text: &str, names: &[(&str, u32)]) -> Option<u32> {
    match names.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        Some((_, value)) => Some(*value),
        None => number(text),
    }
}

fn number(text: &str) -> Option<u32> {
    // Like Go's Atoi this takes a plus sign, and what does not fit is out of any range anyway.
    text.parse().ok()
}

/// Go's `time.ParseDuration`: `1h30m`, `1.5s`, `-2ms`. In nanoseconds.
pub fn go_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit: i64 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        };
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?.checked_add((fraction * unit as f64) as i64)?;
        rest = tail;
    }
    Some(sign * total)
}

#[cfg(test)]
mod tests;
