//! Calendars of schedules: which moments match, and which of them is next.
//!
//! The rules are those of Temporal's schedules, clock changes included: a moment that clocks skip does not match, and one
//! that they show twice matches once or twice depending on which of the two Go's `time.Date` answers
//! ([`super::zone::instant`]).

use segno_proto::schedule::{Range, StructuredCalendarSpec};

use crate::parts::schedule::zone::{self, Civil, Zone};

/// The last year in which anything matches.
pub(super) const YEAR_MAX: i32 = 2100;
/// The first year that a calendar may name.
pub(super) const YEAR_MIN: i32 = 2000;

const HOUR: i64 = 3600;

/// A calendar as it is evaluated: one bit for each value at which a field matches.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    second: u64,
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    /// Years that match; empty is all.
    years: Vec<i32>,
}

impl Calendar {
    /// The calendar that a checked specification describes.
    pub(super) fn new(spec: &StructuredCalendarSpec) -> Self {
        Self {
            second: bits(&spec.second),
            minute: bits(&spec.minute),
            hour: bits(&spec.hour),
            day: bits(&spec.day_of_month),
            month: bits(&spec.month),
            weekday: bits(&spec.day_of_week),
            years: spec.year.iter().flat_map(|range| values(range, YEAR_MAX)).collect(),
        }
    }

    fn year_matches(&self, year: i32) -> bool {
        self.years.is_empty() || self.years.contains(&year)
    }

    /// Whether a moment (seconds since the epoch) matches.
    pub(super) fn matches(&self, at: i64, zone: &Zone) -> bool {
        let Some(local) = zone::local(zone, at) else { return false };
        self.year_matches(local.year)
            && has(self.month, local.month)
            && has(self.day, local.day)
            && has(self.weekday, zone::weekday(&local))
            && has(self.hour, local.hour)
            && has(self.minute, local.minute)
            && has(self.second, local.second)
    }

    /// The last moment of the minute or hour of a matching moment, if all of it matches.
    pub(super) fn matches_until(&self, at: i64, zone: &Zone) -> i64 {
        const SIXTY: u64 = (1 << 60) - 1;
        let Some(local) = zone::local(zone, at) else { return at };
        let until = match (self.minute & SIXTY == SIXTY, self.second & SIXTY == SIXTY) {
            (true, true) => at + i64::from(3599 - local.minute * 60 - local.second),
            (false, true) => at + i64::from(59 - local.second),
            _ => at,
        };
        let same_hour = zone::local(zone, until).is_some_and(|end| end.hour == local.hour && end.day == local.day);
        // A clock change in between would make this wrong.
        if same_hour && zone::same_offset(zone, at, until) { until } else { at }
    }

    /// The first matching moment after another one.
    pub(super) fn next(&self, after: i64, zone: &Zone) -> Option<i64> {
        // A field that matches nothing would be searched for until the last year, minute by minute.
        let fields = [self.second, self.minute, self.hour, self.day, self.month, self.weekday];
        if fields.contains(&0) {
            return None;
        }
        let mut at = zone::local(zone, after)?;
        // Set while the search is in the second pass over an hour that the clocks show twice.
        let mut second_pass = if zone::local(zone, after - HOUR)?.hour == at.hour { HOUR } else { 0 };
        at.second += 1;
        loop {
            self.carry(&mut at, &mut second_pass, zone)?;
            if at.year > YEAR_MAX {
                return None;
            }
            if !self.advance(&mut at, &mut second_pass, zone)? {
                continue;
            }
            let found = zone::instant(zone, &at)?;
            // A time that the clocks skip is shown as another hour.
            if zone::local(zone, found)?.hour != at.hour {
                (at.hour, at.minute, at.second) = (at.hour + 1, 0, 0);
                continue;
            }
            return Some(found + second_pass);
        }
    }

    /// Carries overflows into the next larger unit.
    fn carry(&self, at: &mut Civil, second_pass: &mut i64, zone: &Zone) -> Option<()> {
        if at.second >= 60 {
            (at.minute, at.second) = (at.minute + 1, 0);
        }
        if at.minute >= 60 {
            let this_hour = zone::instant(zone, &Civil { minute: 0, second: 0, ..*at })?;
            let next_hour = zone::instant(zone, &Civil { hour: at.hour + 1, minute: 0, second: 0, ..*at })?;
            at.minute = 0;
            if *second_pass == 0 && next_hour - this_hour > HOUR {
                // The next hour begins two hours later: this hour is shown a second time before.
                *second_pass = HOUR;
            } else {
                at.hour += 1;
                *second_pass = 0;
            }
        }
        if at.hour >= 24 {
            (at.day, at.hour) = (at.day + 1, 0);
        }
        if at.day > zone::days_in_month(at.year, at.month) {
            (at.month, at.day) = (at.month + 1, 1);
        }
        if at.month > 12 {
            (at.year, at.month) = (at.year + 1, 1);
        }
        Some(())
    }

    /// Moves forward to the next match of each field, from the year to the second. False if a unit overflowed.
    fn advance(&self, at: &mut Civil, second_pass: &mut i64, zone: &Zone) -> Option<bool> {
        if !self.year_matches(at.year) {
            *at = Civil { year: at.year + 1, month: 1, day: 1, hour: 0, minute: 0, second: 0 };
            *second_pass = 0;
            return Some(false);
        }
        while !has(self.month, at.month) {
            *at = Civil { year: at.year, month: at.month + 1, day: 1, hour: 0, minute: 0, second: 0 };
            *second_pass = 0;
            if at.month > 12 {
                return Some(false);
            }
        }
        while !has(self.day, at.day) || !has(self.weekday, zone::weekday(&zone::shown(zone, at)?)) {
            *at = Civil { day: at.day + 1, hour: 0, minute: 0, second: 0, ..*at };
            *second_pass = 0;
            if at.day > zone::days_in_month(at.year, at.month) {
                return Some(false);
            }
        }
        while !has(self.hour, at.hour) {
            (at.hour, at.minute, at.second) = (at.hour + 1, 0, 0);
            *second_pass = 0;
            if at.hour >= 24 {
                return Some(false);
            }
        }
        while !has(self.minute, at.minute) {
            (at.minute, at.second) = (at.minute + 1, 0);
            if at.minute >= 60 {
                return Some(false);
            }
        }
        while !has(self.second, at.second) {
            at.second += 1;
            if at.second >= 60 {
                return Some(false);
            }
        }
        Some(true)
    }
}

fn has(bits: u64, value: i32) -> bool {
    bits & (1 << value) != 0
}

fn bits(ranges: &[Range]) -> u64 {
    ranges.iter().flat_map(|range| values(range, 63)).fold(0, |bits, value| bits | 1 << value)
}

/// The values of a range up to `max`; a step or an end that is missing is filled in. Ranges of exclusions are not checked
/// when a schedule is created, as in Temporal: what lies outside matches nothing.
fn values(range: &Range, max: i32) -> impl Iterator<Item = i32> + use<> {
    (range.start.max(0)..=range.end.max(range.start).min(max)).step_by(range.step.max(1) as usize)
}
