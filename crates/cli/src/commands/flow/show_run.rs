//! Shows a run of a script: the source with the lines at which it waits, variables, what it waits for.
//!
//! ```text
//! order-7  suspended  order 3f2a9c41d07b
//!
//!    12 |     const payment = await pay(inputs)
//!  ▶ 13 |     const approval = await Task.race({
//!       |     main waits for race-1
//! ```

use std::{collections::BTreeMap, fmt::Write};

use jiff::Timestamp;
use segno_proto::segno_flow::DescribeRunResponse;
use serde_json::Value;

use super::short;
use crate::output::{plain, style::Style, time};

/// Longest value of a variable in one line.
const VALUE_CHARACTERS_MAX: usize = 100;

/// Draws a run: as it is, or as it was when the event `at` was its last.
pub fn text(workflow_id: &str, seen: &DescribeRunResponse, at: i64, colors: bool) -> Result<String, String> {
    let state: Value = serde_json::from_str(&seen.state_json).map_err(|error| error.to_string())?;
    let now = Timestamp::now();
    let mut text = String::new();
    // Code of a run that has ended stands nowhere.
    let stands = matches!(seen.status.as_str(), "RUNNING" | "PAUSED") || at > 0;
    let (status, style) = match seen.status.as_str() {
        "RUNNING" => ("suspended", Style::Blue),
        "PAUSED" => ("paused", Style::Yellow),
        "COMPLETED" => ("completed", Style::Green),
        "FAILED" | "TIMED_OUT" | "TERMINATED" => (seen.status.as_str(), Style::Red),
        other => (other, Style::Yellow),
    };
    let _ = writeln!(
        text,
        "{}  {}  {} {}  {}",
        Style::Bold.paint(&plain(workflow_id), colors),
        style.paint(&status.to_lowercase(), colors),
        plain(string(&state, "name")),
        short(string(&state, "version")),
        plain(&seen.file_name),
    );
    let code = list(&state, "code");
    source(&mut text, seen, code, stands, colors);
    variables(&mut text, code, colors);
    pending(&mut text, list(&state, "pending"), now, colors);
    signals(&mut text, state.get("signals"), colors);
    log(&mut text, list(&state, "log"), colors);
    if let Some(bytes) = state.get("state_bytes").and_then(Value::as_u64) {
        let _ = writeln!(text, "\n{bytes} bytes of state");
    }
    Ok(text)
}

fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn line_of(frame: &Value) -> usize {
    frame.get("line").and_then(Value::as_u64).unwrap_or(0).try_into().unwrap_or(0)
}

/// The whole source, with a mark at the lines on which code stands.
fn source(text: &mut String, seen: &DescribeRunResponse, code: &[Value], stands: bool, colors: bool) {
    let source = String::from_utf8_lossy(&seen.source).into_owned();
    let lines: Vec<&str> = source.lines().collect();
    // What stands on each line, the innermost frames only as waiting.
    let mut marks: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for piece in code {
        let waits: Vec<_> =
            list(piece, "waiting_for").iter().filter_map(Value::as_str).map(|id| plain(id).into_owned()).collect();
        for (place, frame) in list(piece, "frames").iter().enumerate() {
            let note = match place {
                0 if waits.is_empty() => format!("{} stands here", plain(string(piece, "id"))),
                0 => format!("{} waits for {}", plain(string(piece, "id")), waits.join(", ")),
                _ => format!("{} called from here", plain(string(piece, "id"))),
            };
            marks.entry(line_of(frame)).or_default().push(note);
        }
    }
    if !stands {
        marks.clear();
    }
    let width = lines.len().to_string().len();
    text.push('\n');
    for (place, line) in lines.iter().enumerate() {
        let number = place + 1;
        match marks.get(&number) {
            None => {
                let _ = writeln!(text, "   {number:>width$} │ {}", plain(line));
            }
            Some(notes) => {
                let marked = format!(" ▶ {number:>width$} │ {}", plain(line));
                let _ = writeln!(text, "{}", Style::Bold.paint(&marked, colors));
                let indent: String = line.chars().take_while(|c| *c == ' ').collect();
                for note in notes {
                    let noted = format!("   {:>width$} │ {indent}└ {note}", "");
                    let _ = writeln!(text, "{}", Style::Blue.paint(&noted, colors));
                }
            }
        }
    }
}

fn heading(text: &mut String, title: &str, colors: bool) {
    let _ = writeln!(text, "\n{}", Style::Bold.paint(title, colors));
}

fn variables(text: &mut String, code: &[Value], colors: bool) {
    let mut rows = Vec::new();
    for piece in code {
        for frame in list(piece, "frames") {
            let Some(variables) = frame.get("variables").and_then(Value::as_object) else { continue };
            let place = match string(piece, "id") {
                "main" => String::new(),
                other => format!("  ({})", plain(other)),
            };
            for (name, value) in variables {
                let row = (plain(name).into_owned(), shortened(value), place.clone());
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    heading(text, "Variables", colors);
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    for (name, value, place) in rows {
        let _ = writeln!(text, "  {name:<width$}  {value}{place}");
    }
}

fn shortened(value: &Value) -> String {
    let whole = value.to_string();
    let whole = plain(&whole);
    if whole.chars().count() <= VALUE_CHARACTERS_MAX {
        return whole.into_owned();
    }
    let begun: String = whole.chars().take(VALUE_CHARACTERS_MAX - 1).collect();
    format!("{begun}…")
}

fn pending(text: &mut String, pending: &[Value], now: Timestamp, colors: bool) {
    if pending.is_empty() {
        return;
    }
    heading(text, "Pending", colors);
    let width = pending.iter().map(|one| string(one, "item_id").chars().count()).max().unwrap_or(0);
    for one in pending {
        let mut line = format!("  {:<width$}  {}", plain(string(one, "item_id")), plain(string(one, "kind")));
        if !string(one, "name").is_empty() {
            let _ = write!(line, " {}", plain(string(one, "name")));
        }
        if let Some(since) = when(one, "since", now) {
            let _ = write!(line, ", since {since}");
        }
        if let Some(due) = when(one, "due", now) {
            let _ = write!(line, ", due {due}");
        }
        let _ = writeln!(text, "{line}");
    }
}

/// A time as people say it.
fn when(value: &Value, name: &str, now: Timestamp) -> Option<String> {
    let at: Timestamp = string(value, name).parse().ok()?;
    let at = prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() };
    Some(time::both(Some(&at), now))
}

fn signals(text: &mut String, signals: Option<&Value>, colors: bool) {
    let Some(waiting) = signals.and_then(Value::as_object).filter(|waiting| !waiting.is_empty()) else { return };
    heading(text, "Signals that wait", colors);
    for (name, count) in waiting {
        let _ = writeln!(text, "  {}  {count}", plain(name));
    }
}

fn log(text: &mut String, lines: &[Value], colors: bool) {
    if lines.is_empty() {
        return;
    }
    heading(text, "Log", colors);
    for line in lines {
        let data = line.get("data").filter(|data| !data.is_null()).map(shortened).unwrap_or_default();
        let number = line_of(line);
        let message = plain(string(line, "message")).into_owned();
        let _ = writeln!(text, "  {}  line {number}  {message} {data}", plain(string(line, "time")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_drawn() {
        let state = serde_json::json!({
            "name": "order", "version": "3f2a9c41d07b00", "code": [{
                "id": "main", "waiting_for": ["timer-1"],
                "frames": [{ "function": "order", "line": 2, "column": 3, "variables": { "n": 1, "a": 2 } }],
            }],
            "pending": [{ "item_id": "timer-1", "kind": "timer", "since": "x" }],
            "signals": { "go": 2 }, "log": [], "state_bytes": 120,
        });
        let seen = DescribeRunResponse {
            state_json: state.to_string(),
            status: "RUNNING".to_owned(),
            source: "workflow order() {\n  await Task.delay(5)\n}\n".into(),
            file_name: "order.flow".to_owned(),
            ..Default::default()
        };
        let drawn = text("order-7", &seen, 0, false).expect("it can be read");
        let expected = "\
order-7  suspended  order 3f2a9c41d07b  order.flow

   1 │ workflow order() {
 ▶ 2 │   await Task.delay(5)
     │   └ main waits for timer-1
   3 │ }

Variables
  n  1
  a  2

Pending
  timer-1  timer

Signals that wait
  go  2

120 bytes of state
";
        assert_eq!(drawn, expected);
        let paused = DescribeRunResponse { status: "PAUSED".to_owned(), ..seen.clone() };
        let paused = text("order-7", &paused, 0, false).expect("it can be read");
        assert_eq!(paused, expected.replace("suspended", "paused"), "it stands where it stood");
        let closed = DescribeRunResponse { status: "COMPLETED".to_owned(), ..seen };
        let now = text("order-7", &closed, 0, false).expect("it can be read");
        let before = text("order-7", &closed, 9, false).expect("it can be read");
        assert!(!now.contains('▶') && before.contains("▶ 2 │   await"), "{before}");
    }
}
