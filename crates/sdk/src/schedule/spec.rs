//! When a schedule acts.

use std::time::{Duration, SystemTime};

use segno_proto::schedule as wire;

use crate::options::wire_duration;

/// When a schedule acts: at all times that any part of it says, without those of [`skip`](Self::skip).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleSpec {
    /// Every so often.
    pub intervals: Vec<Interval>,
    /// At times of the calendar.
    pub calendars: Vec<Calendar>,
    /// At times of the calendar, in cron's notation.
    pub crons: Vec<String>,
    /// Not at these times of the calendar.
    pub skip: Vec<Calendar>,
    /// Not before.
    pub start: Option<SystemTime>,
    /// Not after.
    pub end: Option<SystemTime>,
    /// Each action comes up to so much later, at random.
    pub jitter: Option<Duration>,
    /// The time zone of the calendar, such as `Europe/Berlin`; UTC if empty.
    pub time_zone: String,
}

/// Every so often, counted from the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// How often.
    pub every: Duration,
    /// So much later than the multiples of [`every`](Self::every).
    pub offset: Duration,
}

/// Times of the calendar. Each field is a list such as `1,5-7,*/10`, or names for months and days of the week; an empty one
/// is `0` for seconds, minutes and hours, and `*` for the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    /// 0 to 59.
    pub second: String,
    /// 0 to 59.
    pub minute: String,
    /// 0 to 23.
    pub hour: String,
    /// 1 to 31.
    pub day_of_month: String,
    /// 1 to 12, or names.
    pub month: String,
    /// Such as 2026.
    pub year: String,
    /// 0 (Sunday) to 6, or names.
    pub day_of_week: String,
    /// For people.
    pub comment: String,
}

impl ScheduleSpec {
    /// Every so often.
    pub fn every(every: Duration) -> Self {
        Self { intervals: vec![Interval { every, offset: Duration::ZERO }], ..Self::default() }
    }

    /// At times in cron's notation.
    pub fn cron(text: impl Into<String>) -> Self {
        Self { crons: vec![text.into()], ..Self::default() }
    }

    /// At times of the calendar.
    pub fn calendar(calendar: Calendar) -> Self {
        Self { calendars: vec![calendar], ..Self::default() }
    }

    /// Only when it is triggered.
    pub fn never() -> Self {
        Self::default()
    }

    #[allow(deprecated)] // Times to skip have no other form that takes text.
    pub(super) fn to_wire(&self) -> wire::ScheduleSpec {
        wire::ScheduleSpec {
            interval: self
                .intervals
                .iter()
                .map(|interval| wire::IntervalSpec {
                    interval: wire_duration(interval.every),
                    phase: wire_duration(interval.offset),
                })
                .collect(),
            calendar: self.calendars.iter().map(Calendar::to_wire).collect(),
            cron_string: self.crons.clone(),
            exclude_calendar: self.skip.iter().map(Calendar::to_wire).collect(),
            start_time: self.start.map(Into::into),
            end_time: self.end.map(Into::into),
            jitter: self.jitter.and_then(wire_duration),
            timezone_name: self.time_zone.clone(),
            ..Default::default()
        }
    }
}

impl Calendar {
    fn to_wire(&self) -> wire::CalendarSpec {
        wire::CalendarSpec {
            second: self.second.clone(),
            minute: self.minute.clone(),
            hour: self.hour.clone(),
            day_of_month: self.day_of_month.clone(),
            month: self.month.clone(),
            year: self.year.clone(),
            day_of_week: self.day_of_week.clone(),
            comment: self.comment.clone(),
        }
    }
}
