//! Scripts: the lines that wait, and for what.

use jiff::Timestamp;
use segno_proto::{Nanos, segno_workflow::Reason};
use serde_json::Value;

use super::{RunSnapshot, SHOWN_MAX, command, reason, words};

/// Where a script stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptSnapshot {
    /// The state as `DescribeRun` shows it, see docs/reference/flow.md.
    pub(crate) state: Value,
    /// The name of the file.
    pub(crate) file_name: String,
    /// The source.
    pub(crate) source: String,
}

impl ScriptSnapshot {
    /// From the state as JSON.
    pub(crate) fn new(state: &str, file_name: String, source: &[u8]) -> Option<Self> {
        let state = serde_json::from_str(state).ok()?;
        Some(Self { state, file_name, source: String::from_utf8_lossy(source).into_owned() })
    }

    fn line(&self, number: u64) -> Option<&str> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.source.lines().nth(place).map(str::trim)
    }
}

/// Adds the lines of a script that wait.
pub(super) fn add(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    let Some(script) = &seen.script else { return };
    let list = |name: &str| script.state[name].as_array().cloned().unwrap_or_default();
    let (pending, codes) = (list("pending"), list("code"));
    for code in codes.iter().take(SHOWN_MAX) {
        let frame = &code["frames"][0];
        let line = frame["line"].as_u64().unwrap_or(0);
        let waiting: Vec<Value> = code["waiting_for"].as_array().cloned().unwrap_or_default();
        let items = waiting.iter().filter_map(|id| pending.iter().find(|item| item["item_id"] == *id));
        let items: Vec<&Value> = items.collect();
        let signal = items.iter().find(|item| item["kind"] == "signal").and_then(|item| item["name"].as_str());
        let function = frame["function"].as_str().unwrap_or_default();
        let mut text = format!("{function} waits at line {line} of {} for ", words::text(&script.file_name));
        match items.is_empty() {
            true => text.push_str("a condition"),
            false => {
                let told: Vec<String> = items.iter().map(|item| describe(item, &codes, seen.now)).collect();
                text.push_str(&told.join(", "));
            }
        }
        text.push('.');
        let details = script.line(line).map(|source| format!("{line}: {source}")).into_iter().collect();
        let found_one = match signal {
            None => Reason { details, ..reason("SCRIPT_WAITS", text) },
            Some(name) => {
                text.push_str(&other_signals(&script.state["signals"]));
                let send = command::of_workflow(&seen.run.info, "workflow signal", &[("--name", name)]);
                let hint = format!("{send} sends it.");
                Reason {
                    details,
                    hint,
                    brief: format!("signal {}", words::text(name)),
                    ..reason("WAITS_FOR_SIGNAL", text)
                }
            }
        };
        found.push(found_one);
    }
}

/// Says that workers execute the run although there is a script of that name.
pub(super) fn add_namesake(seen: &RunSnapshot<'_>, found: &mut Vec<Reason>) {
    if !seen.namesake || seen.run.state().script.is_some() {
        return;
    }
    let info = &seen.run.info;
    let (queue, name) = (words::quoted(&info.task_queue), words::text(&info.workflow_type));
    let text = format!(
        "Workers of task queue {queue} execute it, and not the script {name}: when it was started, workers polled this queue or had \
         executed this type there, or there was no such script."
    );
    let file = format!("{}.flow", info.workflow_type);
    let deploy = command::command(&info.namespace, "flow deploy --take-over", &[("", &file)]);
    let hint = format!("Deploy the script so that it executes what is started from now on: {deploy}.");
    found.push(Reason { hint, ..reason("NOT_THE_SCRIPT", text) });
}

/// One thing that is waited for: `signal "approve" since 2026-11-17T06:00:00Z (for 12 s)`.
fn describe(item: &Value, codes: &[Value], now: Nanos) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    let time =
        |name: &str| text(name).parse::<Timestamp>().ok().and_then(|at| Nanos::try_from(at.as_nanosecond()).ok());
    // A call of a function is code of its own, which waits for something else.
    let callee = codes.iter().find(|code| code["id"] == item["item_id"]).map(|code| &code["frames"]);
    let callee = callee.and_then(Value::as_array).and_then(|frames| frames.last()?["function"].as_str());
    let mut told = match (text("kind"), callee) {
        ("call", Some(function)) => format!("the end of {function}"),
        (kind, _) => kind.to_owned(),
    };
    if !text("name").is_empty() {
        told.push_str(&format!(" {}", words::quoted(text("name"))));
    }
    if let Some(since) = time("since") {
        told.push_str(&format!(" {}", words::since(since, now)));
    }
    if let Some(due) = time("due") {
        told.push_str(&format!(", until {}", words::moment(due, now).trim_start_matches("at ")));
    }
    told
}

/// Signals that came and that the script has not taken, as a sentence: perhaps their name is misspelt.
fn other_signals(signals: &Value) -> String {
    let names: Vec<String> = signals.as_object().into_iter().flatten().map(|(name, _)| words::quoted(name)).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" Other signals have come, which it does not wait for: {}.", names.join(", ")),
    }
}
