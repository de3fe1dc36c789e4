//! How Go prints the values that appear inside error texts: enums, task queues, values of unknown type.
//!
//! Users and test suites compare these texts, so they are reproduced to the letter. One liberty is taken: Go's protobuf
//! library puts one or two spaces between fields, by the hash of its own binary; here it is always one.

use segno_proto::{enums, taskqueue};

/// `COMMAND_TYPE_START_TIMER` without its prefix and in camel case: `StartTimer`.
pub fn short_name(full: &str, prefix: &str) -> String {
    let words = full.strip_prefix(prefix).unwrap_or(full).split('_').filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase()).collect()
}

/// A command type; one this server does not know is printed as its number.
pub fn command_type(value: i32) -> String {
    match enums::CommandType::try_from(value) {
        Ok(known) => short_name(known.as_str_name(), "COMMAND_TYPE_"),
        Err(_) => value.to_string(),
    }
}

/// The type of a search attribute, such as `KeywordList`.
pub fn indexed_value_type(value: enums::IndexedValueType) -> String {
    short_name(value.as_str_name(), "INDEXED_VALUE_TYPE_")
}

/// The status of a workflow run, such as `TimedOut`.
pub fn execution_status(value: enums::WorkflowExecutionStatus) -> String {
    short_name(value.as_str_name(), "WORKFLOW_EXECUTION_STATUS_")
}

/// A timeout type from its short or its full name.
pub fn timeout_type(text: &str) -> Option<enums::TimeoutType> {
    use enums::TimeoutType::{Heartbeat, ScheduleToClose, ScheduleToStart, StartToClose, Unspecified};
    let all = [Unspecified, StartToClose, ScheduleToStart, ScheduleToClose, Heartbeat];
    all.into_iter().find(|kind| {
        let full = kind.as_str_name();
        full == text || short_name(full, "TIMEOUT_TYPE_") == text
    })
}

/// A task queue in protobuf's text format, on one line.
pub fn task_queue(queue: &taskqueue::TaskQueue) -> String {
    let mut fields = Vec::new();
    if !queue.name.is_empty() {
        fields.push(format!("name:{}", quoted(&queue.name)));
    }
    match enums::TaskQueueKind::try_from(queue.kind) {
        Ok(enums::TaskQueueKind::Unspecified) => {}
        Ok(kind) => fields.push(format!("kind:{}", kind.as_str_name())),
        Err(_) => fields.push(format!("kind:{}", queue.kind)),
    }
    if !queue.normal_name.is_empty() {
        fields.push(format!("normal_name:{}", quoted(&queue.normal_name)));
    }
    // Go varies the spacing from one build of a program to the next; this is what the server released as 1.32.0 prints.
    fields.join("  ")
}

/// A string as protobuf's text format quotes it.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..'\u{20}' | '\u{7f}' => out += &format!("\\x{:02x}", u32::from(c)),
            '\u{80}'..='\u{9f}' => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Bytes as protobuf's text format quotes them.
pub fn quoted_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => quoted(text),
        Err(_) => {
            let mut out = String::from("\"");
            for chunk in bytes.utf8_chunks() {
                let valid = quoted(chunk.valid());
                out.push_str(&valid[1..valid.len() - 1]);
                for byte in chunk.invalid() {
                    out += &format!("\\x{byte:02x}");
                }
            }
            out.push('"');
            out
        }
    }
}

/// A float as Go's `%v` prints it: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
