//! Local time in a zone, without reading anything of the machine: zones come from the bundled database.
//!
//! Where a local time exists twice or not at all, [`instant`] answers what Go's `time.Date` answers, because times of
//! schedules in Temporal depend on it.

use std::sync::OnceLock;

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone, TimeZoneDatabase},
};

/// A time zone.
pub(super) type Zone = TimeZone;

/// A time on clocks. Fields may lie outside their range, as they do while a search counts up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub year: i32,
    /// From 1.
    pub month: i32,
    /// From 1.
    pub day: i32,
    pub hour: i32,
    pub minute: i32,
    pub second: i32,
}

const DAY: i64 = 24 * 3600;

/// The zone of a name, or with the rules that come with it. Fails with the texts of Go's `time` package.
pub(super) fn find(name: &str, data: &[u8]) -> Result<Zone, String> {
    static BUNDLED: OnceLock<TimeZoneDatabase> = OnceLock::new();
    if !data.is_empty() {
        return TimeZone::tzif(name, data).map_err(|_| "malformed time zone information".to_owned());
    }
    if matches!(name, "" | "UTC" | "Local") {
        // `Local` is the server's zone, and a server has none other than UTC.
        return Ok(TimeZone::UTC);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    let zone = BUNDLED.get_or_init(TimeZoneDatabase::bundled).get(name).ok();
    // Go finds zones by file name, so upper and lower case differ.
    let zone = zone.filter(|zone| zone.iana_name() == Some(name));
    zone.ok_or_else(|| format!("unknown time zone {name}"))
}

fn offset(zone: &Zone, at: i64) -> Option<i64> {
    Some(zone.to_offset(Timestamp::from_second(at).ok()?).seconds().into())
}

/// Whether clocks are as far from UTC at one moment as at another.
pub(super) fn same_offset(zone: &Zone, one: i64, other: i64) -> bool {
    offset(zone, one) == offset(zone, other)
}

/// The time on the zone's clocks at a moment (seconds since the epoch).
pub(super) fn local(zone: &Zone, at: i64) -> Option<Civil> {
    let shifted = Timestamp::from_second(at + offset(zone, at)?).ok()?;
    let shown: DateTime = Offset::UTC.to_datetime(shifted);
    Some(Civil {
        year: shown.year().into(),
        month: shown.month().into(),
        day: shown.day().into(),
        hour: shown.hour().into(),
        minute: shown.minute().into(),
        second: shown.second().into(),
    })
}

/// When the zone's clocks show this.
pub(super) fn instant(zone: &Zone, at: &Civil) -> Option<i64> {
    let clock = i64::from(at.hour) * 3600 + i64::from(at.minute) * 60 + i64::from(at.second);
    let as_utc = days_since_epoch(at.year, at.month, at.day) * DAY + clock;
    let guess = offset(zone, as_utc)?;
    Some(as_utc - offset(zone, as_utc - guess)?)
}

/// The time on the clocks at [`instant`].
pub(super) fn shown(zone: &Zone, at: &Civil) -> Option<Civil> {
    local(zone, instant(zone, at)?)
}

/// From 0, which is Sunday.
pub(super) fn weekday(at: &Civil) -> i32 {
    // The epoch was a Thursday.
    (days_since_epoch(at.year, at.month, at.day) + 4).rem_euclid(7) as i32
}

/// How many days a month has.
pub(super) fn days_in_month(year: i32, month: i32) -> i32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_epoch(year: i32, month: i32, day: i32) -> i64 {
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month <= 2 { (i64::from(year) - 1, month + 9) } else { (i64::from(year), month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let in_year = (153 * i64::from(month) + 2) / 5;
    year * 365 + leap_days + in_year + i64::from(day) - 1 - 719_468
}
