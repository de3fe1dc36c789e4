//! Lines that scripts write to the log of the server.
//!
//! A line of a script is one line of the log: control characters are escaped, so that a script cannot forge another
//! line. Each run may write [`BYTES_PER_SECOND`], and [`BURST_BYTES`] at once; further lines are dropped and counted.

use std::{fmt::Write as _, sync::Mutex, time::Duration};

use segno_engine::state::RunInfo;
use segno_environment::{
    hash::HashMap,
    lock::lock,
    metrics::{Metrics, add},
};
use segno_flow::interface::LogLine;
use segno_store::RunKey;
use tokio::time::Instant;

/// Bytes that a run may write to the log in a second, over time.
const BYTES_PER_SECOND: u64 = 10 * 1024;
/// Bytes that a run may write at once after it was quiet.
const BURST_BYTES: u64 = 64 * 1024;
/// Bytes of the message, and of the data, of one line.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// Bytes that a line counts for besides its message and data.
const LINE_BYTES: u64 = 128;
/// How often the log reports dropped lines of a run.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Runs of which it is known how much they wrote. Beyond that, those that were quiet are forgotten.
const RUNS_MAX: usize = 10_000;

/// The lines that scripts logged in one commit.
#[derive(Default)]
pub(super) struct ScriptLines {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Lines that are missing because there were too many in one turn.
    pub dropped: u64,
}

impl ScriptLines {
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0
    }

    /// Adds what a later turn logged.
    pub fn extend(&mut self, later: Self) {
        self.lines.extend(later.lines);
        self.dropped += later.dropped;
    }
}

/// The bytes that runs may still write.
#[derive(Default)]
pub(super) struct LogAllowances(Mutex<HashMap<RunKey, Allowance>>);

/// Lines that are written, and what is said about the others.
struct AdmittedLines {
    /// Those that are written: the line of the source, message and data.
    lines: Vec<(u32, String, String)>,
    /// How many are not.
    dropped: u64,
    /// How many dropped ones the log reports now.
    reported: Option<u64>,
}

/// The bytes that a run may still write: a token bucket.
struct Allowance {
    bytes: u64,
    filled: Instant,
    /// Lines that were dropped and not reported yet.
    dropped: u64,
    reported_at: Option<Instant>,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { bytes: BURST_BYTES, filled: now, dropped: 0, reported_at: None }
    }

    fn fill(&mut self, now: Instant) {
        let millis = u64::try_from(now.saturating_duration_since(self.filled).as_millis()).unwrap_or(u64::MAX);
        let more = millis.saturating_mul(BYTES_PER_SECOND) / 1_000;
        if more > 0 {
            self.bytes = self.bytes.saturating_add(more).min(BURST_BYTES);
            self.filled = now;
        }
    }

    /// Whether a line of this many bytes may be written.
    fn take(&mut self, bytes: u64) -> bool {
        let rest = self.bytes.checked_sub(bytes);
        self.bytes = rest.unwrap_or(self.bytes);
        rest.is_some()
    }

    /// How many dropped lines the log reports now, if that is due.
    fn report(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.reported_at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if self.dropped == 0 || !is_due {
            return None;
        }
        self.reported_at = Some(now);
        Some(std::mem::take(&mut self.dropped))
    }
}

impl LogAllowances {
    /// Writes what the script of a run logged to the log of the server.
    pub fn write(&self, metrics: &Metrics, info: &RunInfo, lines: ScriptLines) {
        if lines.is_empty() {
            return;
        }
        let AdmittedLines { lines, dropped, reported } = self.admit(RunKey(info.run_key), lines, Instant::now());
        for (line, message, data) in lines {
            tracing::info!(
                target: "segno::flow",
                namespace = info.namespace,
                workflow = info.workflow_id,
                run = info.run_id,
                line,
                data,
                "{message}"
            );
        }
        add(&metrics.flow_log_dropped, dropped);
        if let Some(lines) = reported {
            tracing::warn!(
                target: "segno::flow",
                namespace = info.namespace,
                workflow = info.workflow_id,
                run = info.run_id,
                lines,
                "lines of a script were dropped: a run may log {BYTES_PER_SECOND} bytes a second"
            );
        }
    }

    /// Which lines may be written.
    fn admit(&self, run: RunKey, lines: ScriptLines, now: Instant) -> AdmittedLines {
        let mut runs = lock(&self.0);
        if runs.len() >= RUNS_MAX {
            runs.retain(|_, allowance| {
                allowance.fill(now);
                allowance.bytes < BURST_BYTES || allowance.dropped > 0
            });
        }
        let allowance = runs.entry(run).or_insert_with(|| Allowance::new(now));
        allowance.fill(now);
        let mut dropped = lines.dropped;
        let mut admitted = Vec::new();
        for line in lines.lines {
            let data = line.data.as_deref().unwrap_or_default();
            let bytes = line.message.len().min(LINE_BYTES_MAX) + data.len().min(LINE_BYTES_MAX);
            if bytes as u64 + LINE_BYTES > allowance.bytes {
                // Escaping makes it longer still; a script that logs without end must not cost that.
                dropped += 1;
                continue;
            }
            let (message, data) = (escaped(&line.message), escaped(data));
            if allowance.take((message.len() + data.len()) as u64 + LINE_BYTES) {
                admitted.push((line.line, message, data));
            } else {
                dropped += 1;
            }
        }
        allowance.dropped += dropped;
        AdmittedLines { lines: admitted, dropped, reported: allowance.report(now) }
    }
}

/// A text on one line, without characters that move the cursor or change the direction of what follows; a long one is cut.
fn escaped(text: &str) -> String {
    let end = (0..=LINE_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let mut line = String::with_capacity(end);
    for character in text[..end].chars() {
        match character {
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(character.escape_unicode());
            }
            character if character.is_control() => line.extend(character.escape_default()),
            character => line.push(character),
        }
    }
    if end < text.len() {
        let _ = write!(line, " … ({} bytes)", text.len());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize, message: &str) -> ScriptLines {
        let line = LogLine { time: 0, line: 3, message: message.to_owned(), data: None };
        ScriptLines { lines: vec![line; count], dropped: 0 }
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(
            escaped("a\nERROR forged\r\u{1b}[2Jb\u{9b}c\u{2028}d"),
            "a\\nERROR forged\\r\\u{1b}[2Jb\\u{9b}c\\u{2028}d"
        );
        assert_eq!(escaped("plain text, ü and 👍"), "plain text, ü and 👍");
        assert!(escaped(&"é".repeat(LINE_BYTES_MAX)).ends_with(" … (32768 bytes)"));
    }

    #[test]
    fn a_run_may_write_so_much_and_the_rest_is_counted() {
        let (log, begin) = (LogAllowances::default(), Instant::now());
        let bytes = 1_000 + LINE_BYTES;
        let first = log.admit(RunKey(1), lines(1_000, &"x".repeat(1_000)), begin);
        assert_eq!(first.lines.len() as u64, BURST_BYTES / bytes);
        assert_eq!((first.dropped, first.reported), (1_000 - BURST_BYTES / bytes, Some(1_000 - BURST_BYTES / bytes)));
        // Another run is not affected.
        assert_eq!(log.admit(RunKey(2), lines(3, "a"), begin).lines.len(), 3);
        // Nothing is left; what is dropped is reported later, in one line.
        let next = log.admit(RunKey(1), lines(5, &"x".repeat(1_000)), begin);
        assert_eq!((next.lines.len(), next.dropped, next.reported), (0, 5, None));
        let later = begin + Duration::from_secs(2);
        let written = log.admit(RunKey(1), lines(1_000, &"x".repeat(1_000)), later).lines.len() as u64;
        let left = BURST_BYTES % bytes + 2 * BYTES_PER_SECOND;
        assert_eq!(written, left / bytes);
        let last = log.admit(RunKey(1), lines(1, "a"), begin + REPORT_INTERVAL);
        assert_eq!(last.reported, Some(5 + 1_000 - left / bytes));
    }

    #[test]
    fn runs_that_are_quiet_are_forgotten() {
        let (log, begin) = (LogAllowances::default(), Instant::now());
        for run in 0..RUNS_MAX as u64 {
            log.admit(RunKey(run), lines(1, "a"), begin);
        }
        log.admit(RunKey(u64::MAX), lines(1, "a"), begin + Duration::from_secs(60));
        assert_eq!(lock(&log.0).len(), 1);
    }
}
