//! Scripts: the lines that wait, and for what.

use segno_proto::segno_workflow::Reason;
use serde_json::Value;

use super::{SHOWN_MAX, Seen, reason, words};

/// Where a script stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptSeen {
    /// The state as `DescribeRun` shows it, see docs/flow.md.
    pub(crate) state: Value,
    /// The name of the file.
    pub(crate) file_name: String,
    /// The source.
    pub(crate) source: String,
}

impl ScriptSeen {
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
pub(super) fn add(seen: &Seen<'_>, found: &mut Vec<Reason>) {
    let Some(script) = &seen.script else { return };
    let list = |name: &str| script.state[name].as_array().cloned().unwrap_or_default();
    let pending = list("pending");
    for code in list("code").iter().take(SHOWN_MAX) {
        let frame = &code["frames"][0];
        let line = frame["line"].as_u64().unwrap_or(0);
        let waiting: Vec<Value> = code["waiting_for"].as_array().cloned().unwrap_or_default();
        let items = waiting.iter().filter_map(|id| pending.iter().find(|item| item["item_id"] == *id));
        let items: Vec<String> = items.map(describe).collect();
        let (kind, for_what) = match items.is_empty() {
            true => ("SCRIPT_WAITS", "a condition".to_owned()),
            false => {
                let signal = items.iter().any(|item| item.starts_with("signal "));
                (if signal { "WAITS_FOR_SIGNAL" } else { "SCRIPT_WAITS" }, items.join(", "))
            }
        };
        let function = frame["function"].as_str().unwrap_or_default();
        let text = format!("{function} waits at line {line} of {} for {for_what}.", words::text(&script.file_name));
        let details = script.line(line).map(|source| format!("{line}: {source}")).into_iter().collect();
        let hint = match kind {
            "WAITS_FOR_SIGNAL" => {
                format!(
                    "`segno workflow signal -w {} --name NAME` sends one.",
                    words::quoted(&seen.run.info.workflow_id)
                )
            }
            _ => String::new(),
        };
        found.push(Reason { details, hint, ..reason(kind, text) });
    }
}

/// One thing that is waited for: `signal "approve" since 2026-11-17T06:00:00Z`.
fn describe(item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let mut told = text("kind");
    if !text("name").is_empty() {
        told.push_str(&format!(" {}", words::quoted(&text("name"))));
    }
    if !text("since").is_empty() {
        told.push_str(&format!(" since {}", text("since")));
    }
    if !text("due").is_empty() {
        told.push_str(&format!(", until {}", text("due")));
    }
    told
}
