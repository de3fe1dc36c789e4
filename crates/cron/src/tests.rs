//! Known cases: Temporal's own table, robfig/cron's, and clock changes.

use super::*;

fn nanos(time: &str) -> Nanos {
    time.parse::<Timestamp>().unwrap().as_nanosecond() as i64
}

fn next(schedule: &str, after: &str) -> Option<String> {
    let after = nanos(after).div_euclid(SECOND);
    Schedule::parse(schedule)?.next(after).map(|at| Timestamp::from_second(at).unwrap().to_string())
}

#[test]
fn backoff_as_temporal_computes_it() {
    let cases = [
        ("0 10 * * *", "2018-12-17T00:00:00-08:00", "2018-12-17T00:00:00-08:00", Some(2 * 3600)),
        ("0 10 * * *", "2018-12-18T02:00:00-08:00", "2018-12-18T02:00:00-08:00", Some(24 * 3600)),
        ("0 * * * *", "2018-12-17T00:08:00Z", "2018-12-17T00:08:00Z", Some(52 * 60)),
        ("0 * * * *", "2018-12-17T00:08:00Z", "2018-12-17T01:08:00Z", Some(52 * 60)),
        ("* * * * *", "2018-12-17T00:08:18Z", "2018-12-17T00:08:18Z", Some(42)),
        ("0 * * * *", "2018-12-17T00:09:00Z", "2018-12-17T00:08:00Z", Some(60)),
        ("@every 5h", "2018-12-17T00:08:00Z", "2018-12-17T03:08:00Z", Some(2 * 3600)),
        ("@every 5h", "2018-12-17T00:00:00Z", "2018-12-17T05:00:00Z", Some(0)),
        ("@every 5h", "2018-12-17T00:00:00Z", "2018-12-27T00:00:01Z", Some(5 * 3600 - 1)),
        ("@every 1s", "2018-12-17T00:00:00.4Z", "2018-12-17T00:00:00.5Z", Some(1)),
        ("* * * * *", "2018-12-17T00:00:00.4Z", "2018-12-17T00:00:59.5Z", Some(1)),
        ("0 0 1 1 *", "1990-06-01T00:00:00Z", "2026-12-31T23:59:00Z", Some(60)),
        ("0 3 * * 0-6", "2018-12-17T00:08:00-08:00", "2018-12-17T00:08:00-08:00", Some((18 * 60 + 52) * 60)),
        ("", "2018-12-17T00:00:00Z", "2018-12-17T00:00:00Z", None),
        ("invalid-cron-spec", "2018-12-17T00:00:00Z", "2018-12-17T00:00:00Z", None),
    ];
    for (schedule, start, close, want) in cases {
        let got = next_backoff(schedule, nanos(start), nanos(close));
        assert_eq!(got, want.map(|s: i64| s * SECOND), "{schedule} {start} {close}");
    }
}

#[test]
fn firings_as_robfig_computes_them() {
    let cases = [
        ("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z"),
        ("20-35/15 * * * *", "2012-07-09T23:35:51Z", "2012-07-10T00:20:00Z"),
        ("0 0 9 apr-oct ?", "2012-07-09T23:35:00Z", "2012-08-09T00:00:00Z"),
        ("0 0 */5 apr,aug,Oct Mon", "2012-07-09T23:35:00Z", "2012-08-01T00:00:00Z"),
        ("0 0 */5 Oct MON", "2012-07-09T23:35:00Z", "2012-10-01T00:00:00Z"),
        ("0 0 29 2 ?", "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z"),
        ("@monthly", "2024-01-31T12:00:00Z", "2024-02-01T00:00:00Z"),
        ("@weekly", "2024-01-31T12:00:00Z", "2024-02-04T00:00:00Z"),
        // Spring forward: New York has no 02:30 on March 11th.
        ("TZ=America/New_York 30 2 11 Mar ?", "2012-03-11T00:00:00-05:00", "2013-03-11T06:30:00Z"),
        ("CRON_TZ=America/New_York 0 * * * *", "2012-03-11T01:00:00-05:00", "2012-03-11T07:00:00Z"),
        ("TZ=America/New_York 0 3 * * *", "2012-03-11T00:00:00-05:00", "2012-03-11T07:00:00Z"),
        // Fall back: 01:30 comes twice on November 4th.
        ("TZ=America/New_York 30 1 04 Nov ?", "2012-11-04T00:00:00-04:00", "2012-11-04T05:30:00Z"),
        ("TZ=America/New_York 30 1 04 Nov ?", "2012-11-04T01:45:00-04:00", "2012-11-04T06:30:00Z"),
        // No midnight: Sao Paulo jumped from 00:00 to 01:00 on 2018-11-04.
        ("TZ=America/Sao_Paulo 0 9 10 Nov ?", "2018-10-29T05:00:00-04:00", "2018-11-10T11:00:00Z"),
        ("CRON_TZ=Asia/Tokyo  @daily", "2024-01-31T12:00:00Z", "2024-01-31T15:00:00Z"),
    ];
    for (schedule, after, want) in cases {
        assert_eq!(next(schedule, after).as_deref(), Some(want), "{schedule} {after}");
    }
    assert_eq!(next("0 0 30 Feb ?", "2012-07-09T23:35:00Z"), None);
}

#[test]
fn what_is_refused() {
    let bad = ["xyz", "* * * *", "* * * * * *", "60 * * * *", "5-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *"];
    let worse = ["* * * * 7", "*/0 * * * *", "@nightly", "@every", "@every x", "TZ=Nowhere/Town * * * * *", "TZ=UTC"];
    for schedule in bad.into_iter().chain(worse) {
        assert_eq!(validate(schedule), Err("invalid CronSchedule.".into()), "{schedule}");
    }
    let never = "invalid CronSchedule, no time can be found to satisfy the schedule";
    for schedule in ["0 0 31 2 *", ", * * * *", "* * , * ,"] {
        assert_eq!(validate(schedule), Err(never.into()), "{schedule}");
    }
    for schedule in ["", "@every 1h30m", "@every 1.5s", "@every -1s", "0 0 * * MON-FRI", "TZ=Europe/Berlin 0 9 * * 1"] {
        assert_eq!(validate(schedule), Ok(()), "{schedule}");
    }
}

#[test]
fn durations_as_go_reads_them() {
    assert_eq!(go_duration("1h30m"), Some(5400 * SECOND));
    assert_eq!(go_duration("1.5s"), Some(SECOND * 3 / 2));
    assert_eq!(go_duration("-.5m"), Some(-30 * SECOND));
    assert_eq!(go_duration("3µs"), Some(3000));
    for bad in ["", "3", "s", ".s", "1.2.3s", "1d", "-", "9999999999h"] {
        assert_eq!(go_duration(bad), None, "{bad}");
    }
}
