//! When a schedule acts: a specification in its canonical form, and the times that follow from it.
//!
//! The canonical form has structured calendars and intervals only. It is what is stored and what callers see.

use std::hash::Hasher;

use segno_proto::{
    Nanos, duration_nanos,
    schedule::{IntervalSpec, Range, ScheduleSpec, StructuredCalendarSpec},
    timestamp_nanos,
};
use siphasher::sip::SipHasher24;

use crate::parts::schedule::{
    calendar::{Calendar, YEAR_MAX, YEAR_MIN},
    parse::{self, Cron},
    zone::{self, Zone},
};

const SECOND: Nanos = 1_000_000_000;
const MILLISECOND: Nanos = 1_000_000;
const COMMENT_BYTES_MAX: usize = 200;
/// Most excluded times in a row (of those that are excluded by the hour, hours) before the search for one that is not
/// excluded is given up. Temporal has no such limit by default and may search for minutes.
const EXCLUDED_MAX: usize = 50_000;
/// Calendars, intervals and exclusions that are looked at in a row for one time: a specification may have thousands of them.
const CHECKS_MAX: usize = 1_000_000;
/// The first second of the year after the last.
const END: i64 = 4_133_980_800;

/// A specification ready to be evaluated.
#[derive(Clone, Debug)]
pub struct Spec {
    zone: Zone,
    calendars: Vec<Calendar>,
    exclusions: Vec<Calendar>,
    /// Interval and phase in seconds.
    intervals: Vec<(i64, i64)>,
    start: Nanos,
    end: Option<Nanos>,
    jitter: Nanos,
}

/// A time at which a schedule acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionTime {
    /// The time that the specification names.
    pub nominal: Nanos,
    /// The time with jitter: when it happens.
    pub actual: Nanos,
}

/// Checks a specification and writes it in its canonical form; texts of errors are Temporal's.
pub fn canonical(spec: &ScheduleSpec) -> Result<ScheduleSpec, String> {
    let mut spec = spec.clone();
    for calendar in std::mem::take(&mut spec.calendar) {
        spec.structured_calendar.push(parse::calendar(&calendar)?);
    }
    for calendar in std::mem::take(&mut spec.exclude_calendar) {
        spec.exclude_structured_calendar.push(parse::calendar(&calendar)?);
    }
    cron_strings(&mut spec)?;
    spec.structured_calendar.iter().try_for_each(check_calendar)?;
    spec.interval.iter().try_for_each(check_interval)?;
    zone::find(&spec.timezone_name, &spec.timezone_data)?;
    Ok(spec)
}

/// Cron strings become calendars and intervals. All of them must name the same zone, or none.
fn cron_strings(spec: &mut ScheduleSpec) -> Result<(), String> {
    let conflicting = || "conflicting timezone names".to_owned();
    let mut named: Option<String> = None;
    for text in std::mem::take(&mut spec.cron_string) {
        let zone = match parse::cron(&text)? {
            Cron::Calendar(calendar, zone) => {
                spec.structured_calendar.push(calendar);
                zone
            }
            Cron::Interval(interval) => {
                spec.interval.push(interval);
                String::new()
            }
        };
        if named.as_ref().is_some_and(|named| *named != zone) {
            return Err(conflicting());
        }
        named = Some(zone);
    }
    let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(()) };
    if !spec.timezone_name.is_empty() && spec.timezone_name != named || !spec.timezone_data.is_empty() {
        return Err(conflicting());
    }
    spec.timezone_name = named;
    Ok(())
}

fn check_calendar(calendar: &StructuredCalendarSpec) -> Result<(), String> {
    let mut errors = Vec::new();
    let fields = [
        (&calendar.second, "Second", 0, 59),
        (&calendar.minute, "Minute", 0, 59),
        (&calendar.hour, "Hour", 0, 23),
        (&calendar.day_of_month, "DayOfMonth", 1, 31),
        (&calendar.month, "Month", 1, 12),
        (&calendar.year, "Year", YEAR_MIN, YEAR_MAX),
        (&calendar.day_of_week, "DayOfWeek", 0, 6),
    ];
    for (ranges, name, min, max) in fields {
        for range in ranges {
            if range.start < min || range.start > max {
                errors.push(format!("{name} Start is not in range [{min}-{max}]"));
            }
            if range.end != 0 && (range.end < range.start || range.end > max) {
                errors.push(format!("{name} End is before Start or not in range [{min}-{max}]"));
            }
            if range.step < 0 {
                errors.push(format!("{name} has invalid Step"));
            }
        }
    }
    if calendar.comment.len() > COMMENT_BYTES_MAX {
        errors.push("comment is too long".to_owned());
    }
    if errors.is_empty() { Ok(()) } else { Err(format!("invalid calendar spec: {}", errors.join(", "))) }
}

fn check_interval(spec: &IntervalSpec) -> Result<(), String> {
    let interval = duration_nanos(spec.interval.as_ref());
    let phase = duration_nanos(spec.phase.as_ref());
    match () {
        () if interval < SECOND => Err("interval is too small".to_owned()),
        () if phase < 0 => Err("phase is negative".to_owned()),
        () if phase >= interval => Err("phase cannot be greater than Interval".to_owned()),
        () => Ok(()),
    }
}

/// Fills in what ranges leave out, as callers are shown them.
pub fn fill_ranges(spec: &mut ScheduleSpec) {
    let fill = |range: &mut Range| {
        range.end = range.end.max(range.start);
        if range.step == 0 {
            range.step = 1;
        }
    };
    for calendar in spec.structured_calendar.iter_mut().chain(&mut spec.exclude_structured_calendar) {
        let fields = [
            &mut calendar.second,
            &mut calendar.minute,
            &mut calendar.hour,
            &mut calendar.day_of_month,
            &mut calendar.month,
            &mut calendar.year,
            &mut calendar.day_of_week,
        ];
        fields.into_iter().flatten().for_each(fill);
    }
}

impl Spec {
    /// Takes a specification in canonical form.
    pub fn new(spec: &ScheduleSpec) -> Result<Self, String> {
        Ok(Self {
            zone: zone::find(&spec.timezone_name, &spec.timezone_data)?,
            calendars: spec.structured_calendar.iter().map(Calendar::new).collect(),
            exclusions: spec.exclude_structured_calendar.iter().map(Calendar::new).collect(),
            intervals: spec.interval.iter().map(in_seconds).collect(),
            start: spec.start_time.as_ref().map_or(0, timestamp_nanos),
            end: spec.end_time.as_ref().map(timestamp_nanos),
            jitter: duration_nanos(spec.jitter.as_ref()).max(0),
        })
    }

    /// The first time after another one. `seed` tells schedules with the same specification apart: each has its own jitter.
    pub fn next(&self, seed: &str, after: Nanos) -> Option<ActionTime> {
        // The first second of the allowed time may match too.
        let mut at = after.max(self.start.saturating_sub(SECOND)).div_euclid(SECOND);
        let looked_at = self.calendars.len() + self.intervals.len() + self.exclusions.len();
        for _ in 0..(CHECKS_MAX / looked_at.max(1)).clamp(1, EXCLUDED_MAX) {
            at = self.raw_next(at)?;
            if at >= END || self.end.is_some_and(|end| at > end.div_euclid(SECOND)) {
                return None;
            }
            match self.exclusions.iter().find(|excluded| excluded.matches(at, &self.zone)) {
                None => return Some(self.with_jitter(seed, at)),
                Some(excluded) => at = excluded.matches_until(at, &self.zone),
            }
        }
        None
    }

    /// All times of a span, which excludes its start and includes its end.
    pub fn between(&self, seed: &str, start: Nanos, end: Nanos) -> impl Iterator<Item = ActionTime> {
        let mut after = start;
        std::iter::from_fn(move || {
            let next = self.next(seed, after).filter(|next| next.actual <= end)?;
            after = next.actual;
            Some(next)
        })
    }

    fn raw_next(&self, after: i64) -> Option<i64> {
        let calendars = self.calendars.iter().filter_map(|calendar| calendar.next(after, &self.zone));
        let intervals = self.intervals.iter().map(|(every, phase)| ((after - phase) / every + 1) * every + phase);
        calendars.chain(intervals).min()
    }

    fn with_jitter(&self, seed: &str, at: i64) -> ActionTime {
        let nominal = at * SECOND;
        let mut span = self.jitter;
        if span == 0 {
            return ActionTime { nominal, actual: nominal };
        }
        // It must not reach beyond the next time.
        if let Some(following) = self.raw_next(at) {
            span = span.min(following.saturating_sub(at).saturating_mul(SECOND));
        }
        let mut hasher = SipHasher24::new();
        hasher.write_i64(at);
        hasher.write(seed.as_bytes());
        let fraction = u128::from(hasher.finish() >> 32);
        let milliseconds = (fraction * (span / MILLISECOND) as u128) >> 32;
        ActionTime { nominal, actual: nominal + milliseconds as Nanos * MILLISECOND }
    }
}

fn in_seconds(spec: &IntervalSpec) -> (i64, i64) {
    let seconds = |nanos: Nanos| nanos / SECOND;
    (seconds(duration_nanos(spec.interval.as_ref())).max(1), seconds(duration_nanos(spec.phase.as_ref())).max(0))
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
