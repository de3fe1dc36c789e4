//! What `segno flow test` prints.

use std::fmt::Write as _;

use crate::interface::Failure;
use crate::pure::{self, Cost, json};
use crate::value::Value;

/// How one test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// Why it failed: one or more lines, the first one with the position if there is one. `None` if it passed.
    pub failure: Option<String>,
    /// Whether Segno itself is at fault.
    pub is_defect: bool,
}

/// How the tests of a file ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The tests that were run, in order.
    pub tests: Vec<TestResult>,
    /// Errors of the test file and its scripts, as text. If there are any, no test was run.
    pub errors: Vec<String>,
}

impl Report {
    /// Whether nothing failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.errors.is_empty() && self.tests.iter().all(|test| test.failure.is_none())
    }

    /// The report as text: a line per test, and what failed below it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for error in &self.errors {
            let _ = writeln!(text, "{error}");
        }
        for test in &self.tests {
            match &test.failure {
                None => {
                    let _ = writeln!(text, "ok    {}", test.name);
                }
                Some(failure) => {
                    let _ = writeln!(text, "FAIL  {}", test.name);
                    for line in failure.lines() {
                        let _ = writeln!(text, "      {line}");
                    }
                }
            }
        }
        text
    }
}

/// A failure of the test program, with the position of its own code.
pub(super) fn of_failure(failure: &Failure) -> String {
    let kind = match &failure.info {
        crate::interface::FailureInfo::Application { kind, .. } if kind != super::ASSERTION && kind != "Error" => {
            format!("{kind}: ")
        }
        _ => String::new(),
    };
    let message = innermost(failure);
    match position(&failure.stack_trace) {
        Some(position) => format!("{position}: {kind}{message}"),
        None => format!("{kind}{message}"),
    }
}

/// The message that says most: wrappers say only that something failed.
fn innermost(failure: &Failure) -> &str {
    use crate::interface::FailureInfo::{Activity, Child, Nexus};
    match (&failure.info, &failure.cause) {
        (Activity { .. } | Child { .. } | Nexus { .. }, Some(cause)) => innermost(cause),
        _ => &failure.message,
    }
}

/// `file:line:column` of the innermost frame that the author of the test wrote.
pub(super) fn position(stack: &str) -> Option<&str> {
    let frames = stack.lines().filter_map(|line| line.strip_prefix("at ")?.strip_suffix(')')?.rsplit_once(" ("));
    frames.filter(|(function, _)| *function != super::prepare::ASSERT_FAILS).map(|(_, position)| position).next()
}

/// Text of a value for people: JSON where there is any.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::List(list) => {
            let items: Vec<String> = list.items().iter().map(show).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(object) => {
            let fields: Vec<String> =
                object.iter().map(|(key, value)| format!("{}:{}", json::quote(key), show(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Promise(promise) => format!("<promise {}>", promise.id),
        Value::Payload(payload) => {
            let encoding = String::from_utf8_lossy(pure::payload::encoding(payload)).into_owned();
            format!("<payload {encoding}, {} bytes>", payload.data.len())
        }
        value => json::write(value, &mut Cost::default()).unwrap_or_default(),
    }
}

/// How two values differ: both, and the places inside if they are lists or objects.
pub(super) fn difference(actual: &Value, expected: &Value) -> String {
    let mut text = format!("values differ\nexpected: {}\nactual:   {}", show(expected), show(actual));
    let mut places = Vec::new();
    collect(actual, expected, "", &mut places);
    if places.iter().any(|place| !place.starts_with(": ")) {
        for place in &places {
            let _ = write!(text, "\n  {place}");
        }
    }
    text
}

/// Places shown at most.
const PLACES_MAX: usize = 10;

fn collect(actual: &Value, expected: &Value, path: &str, places: &mut Vec<String>) {
    if places.len() >= PLACES_MAX || pure::equal(actual, expected, &mut Cost::default()) {
        return;
    }
    match (actual, expected) {
        (Value::List(actual), Value::List(expected)) => {
            let (actual, expected) = (actual.items(), expected.items());
            for index in 0..actual.len().max(expected.len()) {
                part(actual.get(index), expected.get(index), &format!("{path}[{index}]"), places);
            }
        }
        (Value::Object(actual), Value::Object(expected)) => {
            let added = actual.iter().filter(|(key, _)| expected.get(key).is_none());
            for (key, _) in expected.iter().chain(added) {
                part(actual.get(key), expected.get(key), &format!("{path}.{key}"), places);
            }
        }
        (actual, expected) => places.push(format!("{path}: expected {}, actual {}", show(expected), show(actual))),
    }
}

fn part(actual: Option<&Value>, expected: Option<&Value>, path: &str, places: &mut Vec<String>) {
    match (actual, expected) {
        (Some(actual), Some(expected)) => collect(actual, expected, path, places),
        (Some(actual), None) if places.len() < PLACES_MAX => {
            places.push(format!("{path}: not expected, actual {}", show(actual)));
        }
        (None, Some(expected)) if places.len() < PLACES_MAX => {
            places.push(format!("{path}: expected {}, missing", show(expected)));
        }
        _ => {}
    }
}
