//! Formats times, counts and texts for sentences.

use segno_engine::state::PauseInfo;
use segno_proto::{Nanos, nanos_timestamp};

const MILLISECOND: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MILLISECOND;
const MINUTE: Nanos = 60 * SECOND;
const HOUR: Nanos = 60 * MINUTE;
const DAY: Nanos = 24 * HOUR;

/// Characters of a text from outside within a sentence.
const TEXT_CHARS_MAX: usize = 500;

/// A length of time in at most two units.
pub(super) fn span(nanos: Nanos) -> String {
    let nanos = nanos.max(0);
    let two = |large: Nanos, large_name: &str, small: Nanos, small_name: &str| match nanos % large / small {
        0 => format!("{} {large_name}", nanos / large),
        rest => format!("{} {large_name} {rest} {small_name}", nanos / large),
    };
    match nanos {
        0..SECOND => format!("{} ms", nanos / MILLISECOND),
        SECOND..MINUTE => format!("{} s", nanos / SECOND),
        MINUTE..HOUR => two(MINUTE, "min", SECOND, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "min"),
        _ => two(DAY, "d", HOUR, "h"),
    }
}

/// A time, to the second.
pub(super) fn clock(nanos: Nanos) -> String {
    nanos_timestamp(nanos / SECOND * SECOND).to_string()
}

/// A moment with its distance: `at 2026-11-17T06:00:00Z (in 12 s)`.
pub(super) fn moment(at: Nanos, now: Nanos) -> String {
    if at > now {
        format!("at {} (in {})", clock(at), span(at - now))
    } else {
        format!("at {} ({} ago)", clock(at), span(now - at))
    }
}

/// How long a state has lasted: `since 2026-11-17T06:00:00Z (for 12 s)`.
pub(super) fn since(at: Nanos, now: Nanos) -> String {
    format!("since {} (for {})", clock(at), span(now - at))
}

/// A number of things.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// A text from outside, on one line and of bounded length.
pub(super) fn text(text: &str) -> String {
    let mut short: String = text.chars().take(TEXT_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name in quotation marks.
pub(super) fn quoted(name: &str) -> String {
    format!("{:?}", text(name))
}

/// Who paused an activity or a workflow, why and since when.
pub(super) fn paused_by(pause: &PauseInfo, now: Nanos) -> String {
    if !pause.rule_id.is_empty() {
        return format!("the workflow rule {} {}", text(&pause.rule_id), since(pause.time, now));
    }
    let who = if pause.identity.is_empty() { "an unnamed client" } else { &pause.identity };
    let why = match pause.reason.as_str() {
        "" => String::new(),
        reason => format!(" ({})", text(reason)),
    };
    format!("{}{why} {}", text(who), since(pause.time, now))
}
