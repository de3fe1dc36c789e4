//! The textual forms of calendars, as ranges: calendar fields and cron strings.
//!
//! Texts of errors are Temporal's.

use prost_types::Duration;
use segno_proto::{
    nanos_duration,
    schedule::{CalendarSpec, IntervalSpec, Range, StructuredCalendarSpec},
};

use crate::parts::schedule::calendar::{YEAR_MAX, YEAR_MIN};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The values that a field accepts besides numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Number,
    /// Every year is told by no range at all.
    Year,
    Month,
    Weekday,
}

/// A field of a calendar.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    default: &'static str,
    min: i32,
    max: i32,
    mode: Mode,
}

const SECOND: Field = Field { name: "Second", default: "0", min: 0, max: 59, mode: Mode::Number };
const MINUTE: Field = Field { name: "Minute", ..SECOND };
const HOUR: Field = Field { name: "Hour", max: 23, ..SECOND };
const WEEKDAY: Field = Field { name: "DayOfWeek", default: "*", min: 0, max: 7, mode: Mode::Weekday };
const DAY: Field = Field { name: "DayOfMonth", default: "*", min: 1, max: 31, mode: Mode::Number };
const MONTH: Field = Field { name: "Month", default: "*", min: 1, max: 12, mode: Mode::Month };
const YEAR: Field = Field { name: "Year", default: "*", min: YEAR_MIN, max: YEAR_MAX, mode: Mode::Year };

/// A calendar of texts as a calendar of ranges.
pub(super) fn calendar(spec: &CalendarSpec) -> Result<StructuredCalendarSpec, String> {
    let mut errors = Vec::new();
    let mut parse = |text: &str, field: Field| match ranges(text, field) {
        Ok(ranges) => ranges,
        Err(error) => {
            errors.push(error);
            Vec::new()
        }
    };
    let structured = StructuredCalendarSpec {
        second: parse(&spec.second, SECOND),
        minute: parse(&spec.minute, MINUTE),
        hour: parse(&spec.hour, HOUR),
        day_of_week: parse(&spec.day_of_week, WEEKDAY),
        day_of_month: parse(&spec.day_of_month, DAY),
        month: parse(&spec.month, MONTH),
        year: parse(&spec.year, YEAR),
        comment: spec.comment.clone(),
    };
    if errors.is_empty() { Ok(structured) } else { Err(errors.join(", ")) }
}

/// A cron string.
pub(super) enum Cron {
    /// A calendar, and the zone that the string names (empty if none).
    Calendar(StructuredCalendarSpec, String),
    /// `@every`; it has no zone.
    Interval(IntervalSpec),
}

/// Reads a cron string: five to seven fields, `@daily` and its kin, `@every 5h/2h`, a zone in front, a comment behind.
pub(super) fn cron(text: &str) -> Result<Cron, String> {
    let mut text = text.trim();
    let mut zone = "";
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (prefix, rest) = text.split_once(' ').ok_or("CronString has time zone but missing fields")?;
        zone = prefix.split_once('=').map_or("", |(_, name)| name);
        text = rest;
    }
    let (fields, comment) = text.split_once('#').unwrap_or((text, ""));
    let (fields, comment) = (fields.trim(), comment.trim());
    if fields.starts_with("@every") {
        return every(fields).map(Cron::Interval);
    }
    let fields = match fields {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => other,
    };
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let (second, minute, hour, day, month, weekday, year) = match fields[..] {
        [minute, hour, day, month, weekday] => ("", minute, hour, day, month, weekday, ""),
        [minute, hour, day, month, weekday, year] => ("", minute, hour, day, month, weekday, year),
        [second, minute, hour, day, month, weekday, year] => (second, minute, hour, day, month, weekday, year),
        _ => return Err("CronString does not have 5-7 fields".to_owned()),
    };
    let spec = CalendarSpec {
        second: second.to_owned(),
        minute: minute.to_owned(),
        hour: hour.to_owned(),
        day_of_month: day.to_owned(),
        month: month.to_owned(),
        year: year.to_owned(),
        day_of_week: weekday.to_owned(),
        comment: comment.to_owned(),
    };
    Ok(Cron::Calendar(calendar(&spec)?, zone.to_owned()))
}

fn every(text: &str) -> Result<IntervalSpec, String> {
    let (_, interval) = text.split_once(' ').ok_or("CronString does not have interval after @every")?;
    let (interval, phase) = interval.split_once('/').unwrap_or((interval, ""));
    let phase = if phase.is_empty() { None } else { Some(duration(phase)?) };
    Ok(IntervalSpec { interval: Some(duration(interval)?), phase })
}

/// A duration as Go writes it, with days besides.
fn duration(text: &str) -> Result<Duration, String> {
    let hours = days_as_hours(text);
    crate::cron::go_duration(&hours).map(nanos_duration).ok_or_else(|| bad_duration(text))
}

/// Go's error for a text that is no duration.
fn bad_duration(text: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text.trim_start_matches(['+', '-']);
    while rest.starts_with(is_number) {
        rest = rest.trim_start_matches(is_number);
        let unit = &rest[..rest.find(is_number).unwrap_or(rest.len())];
        match unit {
            "" => return format!("time: missing unit in duration {text:?}"),
            "ns" | "us" | "\u{b5}s" | "\u{3bc}s" | "ms" | "s" | "m" | "h" => rest = &rest[unit.len()..],
            unit => return format!("time: unknown unit {unit:?} in duration {text:?}"),
        }
    }
    format!("time: invalid duration {text:?}")
}

/// Writes `2d` as `48h`, wherever it stands.
fn days_as_hours(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 4);
    let mut number = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' | '.' => number.push(character),
            'd' => match number.parse::<f64>() {
                Ok(days) => {
                    written.push_str(&format!("{}h", days * 24.0));
                    number.clear();
                }
                Err(_) => written.push('d'),
            },
            other => {
                written.push_str(&std::mem::take(&mut number));
                written.push(other);
            }
        }
    }
    written + &number
}

/// `*`, `x`, `x-z`, each perhaps with `/step`, several of them with commas between.
fn ranges(text: &str, field: Field) -> Result<Vec<Range>, String> {
    let text = match text.trim() {
        "" => field.default,
        text => text,
    };
    if text == "*" && field.mode == Mode::Year {
        return Ok(Vec::new());
    }
    let mut ranges = Vec::new();
    for part in text.split(',') {
        range(part, field, &mut ranges)?;
    }
    Ok(ranges)
}

fn range(part: &str, field: Field, ranges: &mut Vec<Range>) -> Result<(), String> {
    let Field { name, min, max, .. } = field;
    if part.matches('/').count() > 1 {
        return Err(format!("{name} has too many slashes"));
    }
    let (span, step) = match part.split_once('/') {
        None => (part, None),
        Some((_, "")) => return Err(format!("{name} missing step value")),
        Some((span, step)) => {
            let number: i64 = step.parse().map_err(|_| format!("strconv.Atoi: parsing {step:?}: invalid syntax"))?;
            if number < 1 {
                return Err(format!("{name} has invalid Step"));
            }
            (span, Some(i32::try_from(number).unwrap_or(i32::MAX)))
        }
    };
    let (start, mut end) = match span.split_once('-') {
        None if span == "*" => (min, max),
        None => {
            let start = value(span, min, field).ok_or_else(|| format!("{name} is not in range [{min}-{max}]"))?;
            // With a step, a single value goes on to the end.
            (start, if step.is_some() { max } else { start })
        }
        Some((_, end)) if end.contains('-') => return Err(format!("{name} has too many dashes")),
        Some((start, end)) => {
            let start =
                value(start, min, field).ok_or_else(|| format!("{name} Start is not in range [{min}-{max}]"))?;
            let out = || format!("{name} End is before Start or not in range [{min}-{max}]");
            (start, value(end, start, field).ok_or_else(out)?)
        }
    };
    let step = step.unwrap_or(1);
    if field.mode == Mode::Weekday && end == 7 {
        // 7 is Sunday too, which is 0. Where 0 to 6 do not say the same, it gets a range of its own.
        if (7 - start) % step == 0 && (step > 1 || start > 1) {
            ranges.push(Range::default());
            if start == 7 {
                return Ok(());
            }
        }
        end = 6;
    }
    let end = if start == end { 0 } else { end };
    ranges.push(Range { start, end, step: if step == 1 { 0 } else { step } });
    Ok(())
}

/// A number or a name (its first letters suffice) that is at least `min`.
fn value(text: &str, min: i32, field: Field) -> Option<i32> {
    let lower = text.to_lowercase();
    let (names, letters, first): (&[&str], usize, i32) = match field.mode {
        Mode::Month => (&MONTHS, 3, 1),
        Mode::Weekday => (&WEEKDAYS, 2, 0),
        Mode::Number | Mode::Year => (&[], 0, 0),
    };
    let named = names.iter().position(|name| lower.len() >= letters && name.starts_with(&lower));
    let value = match named {
        Some(place) => place as i32 + first,
        None => lower.parse().ok()?,
    };
    (min..=field.max).contains(&value).then_some(value)
}
