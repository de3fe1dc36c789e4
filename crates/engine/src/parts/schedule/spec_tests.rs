//! Known cases, most of them observed on Temporal's server.

use jiff::Timestamp as Time;
use segno_proto::{
    nanos_duration, nanos_timestamp,
    schedule::{CalendarSpec, IntervalSpec, ScheduleSpec},
};

use super::*;

fn nanos(time: &str) -> Nanos {
    time.parse::<Time>().unwrap().as_nanosecond() as i64
}

fn rfc3339(nanos: Nanos) -> String {
    Time::from_nanosecond(nanos.into()).unwrap().to_string()
}

fn cron(text: &str) -> ScheduleSpec {
    ScheduleSpec { cron_string: vec![text.to_owned()], ..Default::default() }
}

fn times(spec: &ScheduleSpec, start: &str, end: &str) -> Vec<String> {
    let spec = Spec::new(&canonical(spec).unwrap()).unwrap();
    spec.between("seed", nanos(start), nanos(end)).map(|time| rfc3339(time.actual)).collect()
}

fn refusal(spec: &ScheduleSpec) -> String {
    canonical(spec).unwrap_err()
}

#[test]
fn intervals_begin_at_their_phase() {
    let interval = |interval: i64, phase: i64| IntervalSpec {
        interval: Some(nanos_duration(interval * SECOND)),
        phase: Some(nanos_duration(phase * SECOND)),
    };
    let spec = ScheduleSpec { interval: vec![interval(3600, 600), interval(7200, 0)], ..Default::default() };
    let expected = ["2024-01-01T00:10:00Z", "2024-01-01T01:10:00Z", "2024-01-01T02:00:00Z"];
    assert_eq!(times(&spec, "2024-01-01T00:00:00Z", "2024-01-01T02:00:00Z"), expected);
    let refuse = |spec| refusal(&ScheduleSpec { interval: vec![spec], ..Default::default() });
    assert_eq!(refuse(IntervalSpec::default()), "interval is too small");
    assert_eq!(refuse(interval(5, -1)), "phase is negative");
    assert_eq!(refuse(interval(5, 5)), "phase cannot be greater than Interval");
}

#[test]
fn spans_exclude_their_start_and_include_their_end() {
    let expected = ["2024-01-01T01:00:00Z", "2024-01-01T02:00:00Z"];
    assert_eq!(times(&cron("@hourly"), "2024-01-01T00:00:00Z", "2024-01-01T02:00:00Z"), expected);
}

#[test]
fn calendars_are_written_as_ranges() {
    let spec = canonical(&ScheduleSpec {
        calendar: vec![CalendarSpec {
            minute: "*/15".into(),
            hour: "1-5/2,8".into(),
            day_of_week: "5-7".into(),
            month: "feb-APRIL".into(),
            comment: "x".into(),
            ..Default::default()
        }],
        ..Default::default()
    });
    let calendar = spec.unwrap().structured_calendar.remove(0);
    let range = |start, end, step| Range { start, end, step };
    assert_eq!(calendar.second, [range(0, 0, 0)]);
    assert_eq!(calendar.minute, [range(0, 59, 15)]);
    assert_eq!(calendar.hour, [range(1, 5, 2), range(8, 0, 0)]);
    assert_eq!(calendar.day_of_week, [range(0, 0, 0), range(5, 6, 0)]);
    assert_eq!(calendar.month, [range(2, 4, 0)]);
    assert_eq!(calendar.year, []);
    assert_eq!(calendar.comment, "x");
}

#[test]
fn cron_strings_have_zones_and_comments() {
    let spec = canonical(&cron("CRON_TZ=Europe/Berlin 0 12 * * MON-FRI # lunch")).unwrap();
    assert_eq!(spec.timezone_name, "Europe/Berlin");
    assert_eq!(spec.structured_calendar[0].comment, "lunch");
    let expected = ["2024-01-05T11:00:00Z", "2024-01-08T11:00:00Z"];
    assert_eq!(times(&spec, "2024-01-05T00:00:00Z", "2024-01-09T00:00:00Z"), expected);
    let spec = canonical(&cron("@every 1h30m/2m")).unwrap();
    assert_eq!(spec.interval[0].interval, Some(nanos_duration(5400 * SECOND)));
    assert_eq!(spec.interval[0].phase, Some(nanos_duration(120 * SECOND)));
    assert_eq!(canonical(&cron("@every 2d")).unwrap().interval[0].interval, Some(nanos_duration(172_800 * SECOND)));
    assert_eq!(
        times(&cron("30 0 12 1 1 * 2030"), "2024-01-05T00:00:00Z", "2040-01-01T00:00:00Z"),
        ["2030-01-01T12:00:30Z"]
    );
}

#[test]
fn refusals_have_the_texts_of_temporal() {
    let calendar = |calendar| refusal(&ScheduleSpec { calendar: vec![calendar], ..Default::default() });
    assert_eq!(refusal(&cron("1 2 3")), "CronString does not have 5-7 fields");
    assert_eq!(refusal(&cron("TZ=UTC")), "CronString has time zone but missing fields");
    assert_eq!(refusal(&cron("@every")), "CronString does not have interval after @every");
    assert_eq!(refusal(&cron("CRON_TZ=Nowhere/Here 1 2 3 4 5")), "unknown time zone Nowhere/Here");
    assert_eq!(refusal(&cron("CRON_TZ=europe/berlin 1 2 3 4 5")), "unknown time zone europe/berlin");
    assert_eq!(refusal(&cron("@every x")), "time: invalid duration \"x\"");
    assert_eq!(refusal(&cron("@every 1h1x")), "time: unknown unit \"x\" in duration \"1h1x\"");
    assert_eq!(refusal(&cron("@every 5")), "time: missing unit in duration \"5\"");
    assert_eq!(refusal(&cron("61 * * * *")), "Minute is not in range [0-59]");
    assert_eq!(refusal(&cron("5-1 * * * *")), "Minute End is before Start or not in range [0-59]");
    assert_eq!(refusal(&cron("1/2/3 * * * *")), "Minute has too many slashes");
    assert_eq!(refusal(&cron("1/ * * * *")), "Minute missing step value");
    assert_eq!(refusal(&cron("1/0 * * * *")), "Minute has invalid Step");
    assert_eq!(
        calendar(CalendarSpec { second: "x".into(), hour: "1-2-3".into(), ..Default::default() }),
        "Second is not in range [0-59], Hour has too many dashes"
    );
    let two = ScheduleSpec { cron_string: vec!["TZ=UTC 1 * * * *".into(), "1 * * * *".into()], ..Default::default() };
    assert_eq!(refusal(&two), "conflicting timezone names");
    let structured = StructuredCalendarSpec {
        second: vec![Range { start: 60, end: 0, step: 0 }],
        hour: vec![Range { start: 5, end: 3, step: -1 }],
        comment: "x".repeat(201),
        ..Default::default()
    };
    assert_eq!(
        refusal(&ScheduleSpec { structured_calendar: vec![structured], ..Default::default() }),
        "invalid calendar spec: Second Start is not in range [0-59], Hour End is before Start or not in range [0-23], \
         Hour has invalid Step, comment is too long"
    );
}

#[test]
fn an_empty_field_of_a_structured_calendar_matches_nothing() {
    let structured = StructuredCalendarSpec { second: vec![Range::default()], ..Default::default() };
    let spec = ScheduleSpec { structured_calendar: vec![structured], ..Default::default() };
    assert_eq!(times(&spec, "2024-01-01T00:00:00Z", "2034-01-01T00:00:00Z"), [] as [&str; 0]);
}

#[test]
fn clock_changes() {
    // 2:30 does not exist in New York on 2024-03-10; 1:30 exists twice on 2024-11-03.
    let spec = cron("TZ=America/New_York 30 1,2 * * *");
    assert_eq!(times(&spec, "2024-03-10T00:00:00Z", "2024-03-11T00:00:00Z"), ["2024-03-10T06:30:00Z"]);
    assert_eq!(
        times(&spec, "2024-11-03T04:00:00Z", "2024-11-03T12:00:00Z"),
        ["2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z", "2024-11-03T07:30:00Z"]
    );
    // 2:30 exists twice in Berlin on 2024-10-27.
    let spec = cron("TZ=Europe/Berlin 30 2 * * *");
    assert_eq!(times(&spec, "2024-10-26T12:00:00Z", "2024-10-27T12:00:00Z"), ["2024-10-27T01:30:00Z"]);
}

#[test]
fn start_end_and_exclusions() {
    let mut spec = cron("0 * * * *");
    spec.start_time = Some(nanos_timestamp(nanos("2024-01-01T03:00:00Z")));
    spec.end_time = Some(nanos_timestamp(nanos("2024-01-01T07:00:00Z")));
    spec.exclude_calendar = vec![CalendarSpec { hour: "4-5".into(), minute: "*".into(), ..Default::default() }];
    let expected = ["2024-01-01T03:00:00Z", "2024-01-01T06:00:00Z", "2024-01-01T07:00:00Z"];
    assert_eq!(times(&spec, "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"), expected);
    // A second of each minute of December is excluded by the hour.
    let mut spec = cron("@every 1s");
    let all = || "*".to_owned();
    spec.exclude_calendar =
        vec![CalendarSpec { second: all(), minute: all(), hour: all(), month: "12".into(), ..Default::default() }];
    let spec = Spec::new(&canonical(&spec).unwrap()).unwrap();
    let next = spec.next("", nanos("2024-12-01T00:00:00Z")).unwrap();
    assert_eq!(rfc3339(next.nominal), "2025-01-01T00:00:00Z");
}

#[test]
fn jitter_is_the_same_each_time_and_stays_before_the_next_time() {
    let mut spec = cron("@every 10s");
    spec.jitter = Some(nanos_duration(3600 * SECOND));
    let spec = Spec::new(&canonical(&spec).unwrap()).unwrap();
    let mut spread = std::collections::BTreeSet::new();
    let mut after = 0;
    for _ in 0..1000 {
        let next = spec.next("a", after).unwrap();
        assert_eq!(spec.next("a", after), Some(next));
        let jitter = next.actual - next.nominal;
        assert!((0..10 * SECOND).contains(&jitter));
        spread.insert(jitter / SECOND);
        after = next.actual;
    }
    assert_eq!(spread.len(), 10);
    assert_ne!(spec.next("a", 0), spec.next("b", 0));
}

#[test]
fn thousands_of_calendars_that_are_all_excluded_are_given_up() {
    let calendar = CalendarSpec::default();
    let spec = ScheduleSpec {
        calendar: vec![calendar.clone(); 2_000],
        exclude_calendar: vec![calendar; 2_000],
        ..Default::default()
    };
    let spec = Spec::new(&canonical(&spec).unwrap()).unwrap();
    // 250 nights are looked at, not 50,000, each of which takes thousands of looks.
    assert_eq!(spec.next("seed", nanos("2024-01-01T00:00:00Z")), None);
}
