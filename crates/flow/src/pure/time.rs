//! Times: texts of the form `YYYY-MM-DDTHH:MM:SS.mmmZ`, in milliseconds since 1970 inside, and functions of `Time`.
//!
//! Zones come from the database in the binary, never from the machine.

use std::sync::OnceLock;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Span, Timestamp};

use crate::library::Function;
use crate::value::{LanguageError, Object, Value};

use super::arguments::{get, must_be, object, string};
use super::duration;
use super::json::quote;

/// 0000-01-01T00:00:00.000Z
const TIME_MIN: i64 = -62_167_219_200_000;
/// 9999-12-31T23:59:59.999Z
const TIME_MAX: i64 = 253_402_300_799_999;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The text of a time in milliseconds since 1970. Times outside of the years 0 to 9999 are clipped.
#[must_use]
pub fn show(milliseconds: i64) -> String {
    let moment = moment(milliseconds.clamp(TIME_MIN, TIME_MAX)).unwrap_or_default();
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        moment.year(),
        moment.month(),
        moment.day(),
        moment.hour(),
        moment.minute(),
        moment.second(),
        moment.millisecond()
    )
}

/// A time in milliseconds since 1970. `function` begins the message of an error.
pub fn parse(value: &Value, function: &str) -> Result<i64, LanguageError> {
    let text = string(function, "the time", value)?;
    parse_text(text).ok_or_else(|| LanguageError::argument(format!("{function}: {} is not a time", quote(text))))
}

/// Whether this is the name of a time zone.
#[must_use]
pub fn is_zone(name: &str) -> bool {
    find_zone(name).is_some()
}

fn find_zone(name: &str) -> Option<TimeZone> {
    static BUNDLED: OnceLock<TimeZoneDatabase> = OnceLock::new();
    match name {
        "UTC" => Some(TimeZone::UTC),
        // A zone that stands for none.
        "Etc/Unknown" => None,
        name => BUNDLED.get_or_init(TimeZoneDatabase::bundled).get(name).ok(),
    }
}

fn zone(function: &str, value: &Value) -> Result<TimeZone, LanguageError> {
    match value {
        Value::Null => Ok(TimeZone::UTC),
        value => {
            let name = string(function, "the zone", value)?;
            find_zone(name).ok_or_else(|| LanguageError::argument(format!("{function}: unknown zone {}", quote(name))))
        }
    }
}

/// What a clock in UTC shows. Not by way of a timestamp of jiff: those end a day before the year 9999 does.
fn moment(milliseconds: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_millis(milliseconds)).ok()
}

/// The reverse.
fn milliseconds(moment: DateTime) -> i64 {
    let since = moment.duration_since(EPOCH);
    since.as_secs() * 1_000 + i64::from(since.subsec_millis())
}

/// How many seconds the clock of a zone is ahead of UTC then.
fn offset_at(zone: &TimeZone, milliseconds: i64) -> i64 {
    let latest = Timestamp::MAX.as_millisecond();
    Timestamp::from_millisecond(milliseconds.min(latest)).map_or(0, |time| zone.to_offset(time).seconds().into())
}

/// What a clock of the zone shows.
fn local(zone: &TimeZone, milliseconds: i64) -> Option<DateTime> {
    moment(milliseconds + offset_at(zone, milliseconds) * 1_000)
}

/// When a clock of the zone shows this.
fn from_local(zone: &TimeZone, local: DateTime) -> i64 {
    let known = zone.to_ambiguous_timestamp(local).compatible().map(Timestamp::as_millisecond);
    // After the last timestamp of jiff no clock is changed.
    known.unwrap_or_else(|_| milliseconds(local) - offset_at(zone, TIME_MAX) * 1_000)
}

/// Reads RFC 3339; what is finer than a millisecond is cut off.
#[must_use]
pub fn parse_text(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = |from: usize, count: usize| -> Option<i64> {
        bytes
            .get(from..from + count)?
            .iter()
            .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
    };
    let is_at = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    if !(is_at(4, b"-") && is_at(7, b"-") && is_at(10, b"Tt ") && is_at(13, b":") && is_at(16, b":")) {
        return None;
    }
    let date = Date::new(digits(0, 4)? as i16, digits(5, 2)? as i8, digits(8, 2)? as i8).ok()?;
    // A leap second counts as the second before it.
    let second = digits(17, 2)?;
    let second = if second == 60 { 59 } else { second };
    let time = Time::new(digits(11, 2)? as i8, digits(14, 2)? as i8, second as i8, 0).ok()?;
    let mut at = 19;
    let mut milliseconds = 0;
    if is_at(at, b".") {
        let count = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        milliseconds = digits(at + 1, count.min(3))? * [1, 100, 10, 1][count.min(3)];
        at += 1 + count;
    }
    let offset = match bytes.get(at)? {
        b'Z' | b'z' if bytes.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == at + 6 && is_at(at + 3, b":") => {
            let (hours, minutes) = (digits(at + 1, 2)?, digits(at + 4, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = (hours * 60 + minutes) * 60_000;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let local = self::milliseconds(date.to_datetime(time));
    Some(local + milliseconds - offset).filter(|time| (TIME_MIN..=TIME_MAX).contains(time))
}

pub(super) fn call(function: Function, arguments: &[Value]) -> Result<Value, LanguageError> {
    let name = function.signature().name;
    let first = get(arguments, 0);
    match function {
        Function::TimeParse => Ok(Value::text(show(parse(first, name)?))),
        Function::TimeAdd => {
            let zone = zone(name, get(arguments, 2))?;
            let begin = parse(first, name)?;
            let end = match get(arguments, 1) {
                Value::Object(parts) => add_parts(name, begin, parts, zone)?,
                span => Some(begin + duration::parse_signed(span, name)?),
            };
            time(name, end)
        }
        Function::TimeDiff => Ok(seconds(parse(first, name)? - parse(get(arguments, 1), name)?)),
        Function::TimeParts => parts(name, parse(first, name)?, &zone(name, get(arguments, 1))?),
        Function::TimeFrom => {
            let parts = object(name, "the first argument", first)?;
            from_parts(name, parts, &zone(name, get(arguments, 1))?)
        }
        Function::TimeSeconds => Ok(seconds(parse(first, name)?)),
        _ => match first {
            Value::Int(seconds) => time(name, seconds.checked_mul(1_000)),
            Value::Float(seconds) => time(name, in_milliseconds(*seconds)),
            _ => Err(must_be(name, "the argument", "a number")),
        },
    }
}

fn time(function: &str, milliseconds: Option<i64>) -> Result<Value, LanguageError> {
    match milliseconds {
        Some(time) if (TIME_MIN..=TIME_MAX).contains(&time) => Ok(Value::text(show(time))),
        _ => Err(LanguageError::argument(format!("{function}: the time is outside of the years 0 to 9999"))),
    }
}

fn seconds(milliseconds: i64) -> Value {
    if milliseconds % 1_000 == 0 {
        Value::Int(milliseconds / 1_000)
    } else {
        Value::float(milliseconds as f64 / 1_000.0).unwrap_or(Value::Null)
    }
}

fn in_milliseconds(seconds: f64) -> Option<i64> {
    let milliseconds = (seconds * 1_000.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "less than 10^15")]
    (milliseconds.abs() < 1e15).then_some(milliseconds as i64)
}

/// Adds calendar units first, on the clock of the zone, and what is shorter than a day then, as time that passes.
fn add_parts(function: &str, begin: i64, parts: &Object, zone: TimeZone) -> Result<Option<i64>, LanguageError> {
    let (mut months, mut days, mut milliseconds) = (0_i64, 0_i64, 0_i64);
    for (key, value) in parts.iter() {
        let amount = match value {
            Value::Null => continue,
            Value::Int(amount) if amount.abs() < 1_000_000_000_000 => *amount,
            Value::Float(amount) if &**key == "seconds" && amount.abs() < 1e12 => {
                milliseconds += in_milliseconds(*amount).unwrap_or(0);
                continue;
            }
            Value::Int(_) | Value::Float(_) if matches!(value, Value::Int(_)) || &**key == "seconds" => {
                return Ok(None);
            }
            _ => return Err(must_be(function, key, "a whole number")),
        };
        match &**key {
            "years" => months += amount * 12,
            "months" => months += amount,
            "weeks" => days += amount * 7,
            "days" => days += amount,
            "hours" => milliseconds += amount * 3_600_000,
            "minutes" => milliseconds += amount * 60_000,
            "seconds" => milliseconds += amount * 1_000,
            other => return Err(LanguageError::argument(format!("{function}: unknown unit {}", quote(other)))),
        }
    }
    if months == 0 && days == 0 {
        return Ok(begin.checked_add(milliseconds));
    }
    let calendar = || -> Option<i64> {
        let local = local(&zone, begin)?;
        let local = local.checked_add(Span::new().try_months(months).ok()?).ok()?;
        let local = local.checked_add(Span::new().try_days(days).ok()?).ok()?;
        Some(from_local(&zone, local))
    };
    Ok(calendar().and_then(|time| time.checked_add(milliseconds)))
}

fn parts(function: &str, milliseconds: i64, zone: &TimeZone) -> Result<Value, LanguageError> {
    let Some(local) = local(zone, milliseconds) else { return time(function, None) };
    let number = |number: i64| Value::Int(number);
    Ok(Value::object([
        ("year", number(local.year().into())),
        ("month", number(local.month().into())),
        ("day", number(local.day().into())),
        ("hour", number(local.hour().into())),
        ("minute", number(local.minute().into())),
        ("second", number(local.second().into())),
        ("millisecond", number(local.millisecond().into())),
        ("weekday", number(local.weekday().to_monday_one_offset().into())),
        ("offset", number(offset_at(zone, milliseconds))),
    ]))
}

fn from_parts(function: &str, parts: &Object, zone: &TimeZone) -> Result<Value, LanguageError> {
    // Year, month, day, hour, minute, second, millisecond, each with its least and greatest value.
    const FIELDS: [(&str, i64, i64); 7] = [
        ("year", 0, 9999),
        ("month", 1, 12),
        ("day", 1, 31),
        ("hour", 0, 23),
        ("minute", 0, 59),
        ("second", 0, 59),
        ("millisecond", 0, 999),
    ];
    for (key, _) in parts.iter() {
        // What `Time.parts` gives besides follows from the rest.
        let is_known = FIELDS.iter().any(|(name, ..)| *name == &**key) || matches!(&**key, "weekday" | "offset");
        if !is_known {
            return Err(LanguageError::argument(format!("{function}: unknown part {}", quote(key))));
        }
    }
    let mut values = [0_i64; 7];
    for (value, (name, least, most)) in values.iter_mut().zip(FIELDS) {
        *value = match parts.get(name) {
            None | Some(Value::Null) if name == "year" => {
                return Err(LanguageError::argument(format!("{function}: the year is missing")));
            }
            None | Some(Value::Null) => least,
            Some(Value::Int(given)) if (least..=most).contains(given) => *given,
            Some(_) => return Err(must_be(function, name, &format!("a whole number from {least} to {most}"))),
        };
    }
    let [year, month, day, hour, minute, second, millisecond] = values;
    let date = Date::new(year as i16, month as i8, day as i8)
        .map_err(|_| LanguageError::argument(format!("{function}: there is no day {year:04}-{month:02}-{day:02}")))?;
    let moment = Time::new(hour as i8, minute as i8, second as i8, millisecond as i32 * 1_000_000)
        .ok()
        .map(|clock| from_local(zone, date.to_datetime(clock)));
    time(function, moment)
}
