//! Specifications of schedules: each has times or an error, and a time comes after the one before it.

use prost::Message;
use segno_engine::schedule::spec::{Spec, canonical};
use segno_proto::schedule::{CalendarSpec, IntervalSpec, Range, ScheduleSpec, StructuredCalendarSpec};

/// How many times are asked for.
const TIMES: usize = 5;
/// 2024-02-28T12:00:00Z: before a leap day.
const BEGIN: i64 = 1_709_121_600_000_000_000;

/// A specification as the wire has it, or, if the first byte is 0, a cron string.
pub(crate) fn run(input: &[u8]) {
    let spec = match input.split_first() {
        Some((0, text)) => {
            let Ok(text) = String::from_utf8(text.to_vec()) else { return };
            ScheduleSpec { cron_string: vec![text], ..ScheduleSpec::default() }
        }
        _ => {
            let Ok(spec) = ScheduleSpec::decode(input) else { return };
            spec
        }
    };
    let Ok(canonical) = canonical(&spec) else { return };
    let Ok(spec) = Spec::new(&canonical) else { return };
    let mut after = BEGIN;
    for _ in 0..TIMES {
        let Some(next) = spec.next("seed", after) else { return };
        assert!(next.actual > after && next.nominal <= next.actual, "{next:?} after {after}");
        after = next.actual;
    }
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let range = |start, end, step| vec![Range { start, end, step }];
    let specs = [
        ScheduleSpec {
            interval: vec![IntervalSpec { interval: Some(seconds(3600)), phase: Some(seconds(7)) }],
            jitter: Some(seconds(10)),
            ..ScheduleSpec::default()
        },
        ScheduleSpec {
            calendar: vec![CalendarSpec {
                hour: "1-5/2,9".to_owned(),
                day_of_month: "L".to_owned(),
                month: "feb".to_owned(),
                day_of_week: "mon-fri".to_owned(),
                ..CalendarSpec::default()
            }],
            timezone_name: "Europe/Berlin".to_owned(),
            ..ScheduleSpec::default()
        },
        ScheduleSpec {
            structured_calendar: vec![StructuredCalendarSpec {
                second: range(0, 59, 30),
                minute: range(0, 0, 1),
                hour: range(2, 2, 1),
                day_of_month: range(29, 29, 1),
                month: range(2, 2, 1),
                ..StructuredCalendarSpec::default()
            }],
            exclude_structured_calendar: vec![StructuredCalendarSpec {
                year: range(2028, 2100, 4),
                ..StructuredCalendarSpec::default()
            }],
            timezone_name: "America/New_York".to_owned(),
            ..ScheduleSpec::default()
        },
    ];
    let crons =
        ["*/5 1-3 * feb mon", "CRON_TZ=Asia/Tokyo 0 0 29 2 * 2024-2100/4", "@every 1h30m/5m", "@monthly # comment"];
    let texts = crons.iter().map(|text| [&[0], text.as_bytes()].concat());
    let all = specs.iter().map(Message::encode_to_vec).chain(texts);
    all.enumerate().map(|(number, bytes)| (number.to_string(), bytes)).collect()
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}
