//! Times of schedules against an implementation that tries every moment, over random specifications, zones and clock
//! changes.
//!
//! The zones have changes of a whole hour that are not at midnight: elsewhere Temporal's own answers, which are the
//! standard, leave out times near a change. When clocks are set back, Temporal's own answers for the hour that is shown
//! twice and the one after it depend on the zone and on the calendar (transcript `schedules.times_of_calendars`): there,
//! nothing is compared. Everything else must agree exactly.

// Exclusions as calendars are written in a field that its authors have replaced and that clients still send.
#![allow(deprecated)]

use std::collections::BTreeSet;

use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};
use segno_engine::schedule::spec::{Spec, canonical};
use segno_proto::{
    nanos_duration, nanos_timestamp,
    schedule::{CalendarSpec, IntervalSpec, Range, ScheduleSpec, StructuredCalendarSpec},
};

const SECOND: i64 = 1_000_000_000;
const CASES: u64 = 600;
const ZONES: [&str; 12] = [
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "Europe/Berlin",
    "Europe/London",
    "Australia/Sydney",
    "Pacific/Auckland",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Africa/Lagos",
    "UTC",
];

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a moment of this century")
}

/// Numbers below a bound, the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound) as i32
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    /// The text of a field: everything, a value, a range, a step, or several of them.
    fn field(&mut self, min: i32, max: i32) -> String {
        let span = (max - min + 1) as u64;
        match self.below(6) {
            0 | 1 => "*".to_owned(),
            2 => (min + self.below(span)).to_string(),
            3 => {
                let start = min + self.below(span);
                format!("{start}-{}", start + self.below((max - start + 1) as u64))
            }
            4 => format!("{}/{}", min + self.below(span), 1 + self.below(7)),
            _ => format!("{},{},{}", min + self.below(span), min + self.below(span), min + self.below(span)),
        }
    }

    fn calendar(&mut self, seconds: bool) -> CalendarSpec {
        CalendarSpec {
            second: if seconds { self.field(0, 59) } else { String::new() },
            minute: self.field(0, 59),
            hour: self.field(0, 23),
            day_of_month: if self.one_in(3) { self.field(1, 31) } else { String::new() },
            month: if self.one_in(4) { self.field(1, 12) } else { String::new() },
            day_of_week: if self.one_in(3) { self.field(0, 7) } else { String::new() },
            ..Default::default()
        }
    }
}

/// The times of a span, found by trying each moment of it: those that must be there, and those near a fold.
struct ExhaustiveSearch<'a> {
    spec: &'a ScheduleSpec,
    zone: &'a TimeZone,
}

impl ExhaustiveSearch<'_> {
    fn has(ranges: &[Range], value: i32, empty: bool) -> bool {
        let in_range = |range: &Range| {
            let end = range.end.max(range.start);
            value >= range.start && value <= end && (value - range.start) % range.step.max(1) == 0
        };
        if ranges.is_empty() { empty } else { ranges.iter().any(in_range) }
    }

    fn matches(&self, calendar: &StructuredCalendarSpec, at: i64) -> bool {
        let local = self.zone.to_datetime(time(at));
        Self::has(&calendar.second, local.second().into(), false)
            && Self::has(&calendar.minute, local.minute().into(), false)
            && Self::has(&calendar.hour, local.hour().into(), false)
            && Self::has(&calendar.day_of_month, local.day().into(), false)
            && Self::has(&calendar.month, local.month().into(), false)
            && Self::has(&calendar.year, local.year().into(), true)
            && Self::has(&calendar.day_of_week, local.weekday().to_sunday_zero_offset().into(), false)
    }

    /// Whether clocks show this moment, or the one an hour before it, twice.
    fn near_fold(&self, at: i64) -> bool {
        let twice = |at: i64| {
            let local = self.zone.to_datetime(time(at));
            self.zone.to_ambiguous_timestamp(local).is_ambiguous()
        };
        twice(at) || twice(at - 3600)
    }

    fn times(&self, start: i64, end: i64, step: i64) -> (BTreeSet<i64>, BTreeSet<i64>) {
        let (mut certain, mut uncertain) = (BTreeSet::new(), BTreeSet::new());
        let earliest = self.spec.start_time.as_ref().map_or(i64::MIN, |time| time.seconds);
        let latest = self.spec.end_time.as_ref().map_or(i64::MAX, |time| time.seconds);
        for at in (start + step..=end).step_by(step as usize).filter(|at| (earliest..=latest).contains(at)) {
            if self.spec.exclude_structured_calendar.iter().any(|calendar| self.matches(calendar, at)) {
                continue;
            }
            let seconds = |duration: &Option<prost_types::Duration>| duration.as_ref().map_or(0, |d| d.seconds);
            let of_interval =
                |interval: &IntervalSpec| (at - seconds(&interval.phase)).rem_euclid(seconds(&interval.interval)) == 0;
            if self.spec.interval.iter().any(of_interval) {
                certain.insert(at);
            } else if self.spec.structured_calendar.iter().any(|calendar| self.matches(calendar, at)) {
                if self.near_fold(at) {
                    uncertain.insert(at)
                } else {
                    certain.insert(at)
                };
            }
        }
        (certain, uncertain)
    }
}

/// A moment near the next clock change after a random one, or any moment where clocks do not change.
fn moment(random: &mut Random, zone: &TimeZone) -> i64 {
    // Between 2015 and 2035.
    let any = 1_420_070_400 + i64::from(random.below(631_000_000)) / 60 * 60;
    if random.one_in(4) {
        return any;
    }
    let from = time(any);
    let change = zone.following(from).next().map(|change| change.timestamp().as_second());
    change.filter(|change| *change < 2_200_000_000).unwrap_or(any) / 60 * 60 - i64::from(random.below(36 * 60)) * 60
}

#[test]
fn times_are_those_found_by_trying_every_moment() {
    let database = TimeZoneDatabase::bundled();
    let (mut found, mut near_folds) = (0, 0);
    for seed in 0..CASES {
        let mut random = Random(seed);
        let name = ZONES[random.below(ZONES.len() as u64) as usize];
        let zone = database.get(name).expect("a zone");
        let by_second = random.one_in(4);
        // Moments are tried one by one, so the span is short where seconds count.
        let (step, span) = if by_second { (1, 4 * 3600) } else { (60, 60 * 3600) };
        let start = moment(&mut random, &zone);
        let end = start + span;
        let start = if by_second { start + span / 2 + i64::from(random.below(3600)) } else { start };
        let mut spec = ScheduleSpec { timezone_name: name.to_owned(), ..Default::default() };
        for _ in 0..random.below(3) + i32::from(!by_second) {
            spec.calendar.push(random.calendar(by_second));
        }
        if random.one_in(3) || spec.calendar.is_empty() {
            let interval = if by_second { 1 + random.below(500) } else { 60 * (1 + random.below(500)) };
            let phase = if by_second { random.below(interval as u64) } else { random.below(interval as u64) / 60 * 60 };
            spec.interval.push(IntervalSpec {
                interval: Some(nanos_duration(i64::from(interval) * SECOND)),
                phase: Some(nanos_duration(i64::from(phase) * SECOND)),
            });
        }
        if random.one_in(3) {
            let mut excluded = random.calendar(by_second);
            if !by_second {
                excluded.second = "*".to_owned();
            }
            spec.exclude_calendar.push(excluded);
        }
        if random.one_in(5) {
            spec.start_time = Some(nanos_timestamp((start + i64::from(random.below(span as u64))) / 60 * 60 * SECOND));
        }
        if random.one_in(5) {
            spec.end_time = Some(nanos_timestamp((start + i64::from(random.below(span as u64))) / 60 * 60 * SECOND));
        }
        let spec = canonical(&spec).expect("a valid specification");
        let naive = ExhaustiveSearch { spec: &spec, zone: &zone };
        let (certain, uncertain) = naive.times(start, end, step);
        let compiled = Spec::new(&spec).expect("a valid specification");
        let times: Vec<i64> =
            compiled.between("", start * SECOND, end * SECOND).map(|time| time.nominal / SECOND).collect();
        assert!(times.is_sorted(), "case {seed}");
        let times = BTreeSet::from_iter(times);
        let told = |at: i64| format!("case {seed}: {} in {name} of {spec:?}", time(at));
        for at in &certain {
            assert!(times.contains(at), "missing, {}", told(*at));
        }
        for at in &times {
            assert!(certain.contains(at) || naive.near_fold(*at), "not a time, {}", told(*at));
        }
        found += times.len();
        near_folds += uncertain.len();
    }
    assert!(found > 1000 && near_folds > 20, "the cases say little: {found} times, {near_folds} near a fold");
}
