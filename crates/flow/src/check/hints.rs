//! Hints in diagnostics: words of other languages, and similar names.

use super::Checker;
use super::scope::Binding;
use crate::library::{Function, Method};
use crate::syntax::token::Span;

/// The hint for a function of another language.
pub(super) fn foreign_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "Promise.all" => "write Task.all",
        "Promise.race" => "write Task.race",
        "Promise.any" => "write Task.any",
        "Promise.allSettled" => "write Task.settle",
        "Timer.delay" | "setTimeout" | "sleep" | "setInterval" => "write Task.delay",
        "Signal.next" => "write wait_for_signal",
        "console.log" | "console.info" | "console.warn" | "console.error" | "console.debug" | "print" => "write log",
        "Date" | "Date.now" => "write Time.now()",
        "Date.parse" => "write Time.parse",
        "fetch" => "write a task: scripts do no input or output themselves",
        "require" => "a file stands alone; what a library would do is a task",
        "Array.isArray" => "write typeof x == \"list\"",
        "parseInt" | "parseFloat" => "write Number",
        "Boolean" => "write a comparison",
        "structuredClone" => "assigning copies",
        _ => return None,
    })
}

/// The option that is meant by what SDKs and other languages call it.
pub(super) fn foreign_option(name: &str) -> Option<&'static str> {
    Some(match name {
        "timeout" | "startToCloseTimeout" | "start_to_close_timeout" => "start_to_close",
        "scheduleToCloseTimeout" | "schedule_to_close_timeout" => "schedule_to_close",
        "heartbeatTimeout" | "heartbeat_timeout" => "heartbeat",
        "taskQueue" | "task_queue" => "queue",
        "retryPolicy" | "retry_policy" | "retries" | "attempts" | "maxAttempts" | "maximumAttempts" => "retry",
        _ => return None,
    })
}

/// The hint for a name of another language.
pub(super) fn foreign_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "Date" => "write Time.now()",
        "Inputs" => "write the workflow's parameter",
        "Promise" => "write Task.all and its kin",
        "Timer" => "write Task.delay",
        "Signal" => "write wait_for_signal",
        "console" => "write log",
        "NaN" | "Infinity" => "there is no such number; it is a NumberError",
        "arguments" => "write parameters",
        _ => return None,
    })
}

/// The hint for a function of values in another language.
pub(super) fn foreign_method(name: &str) -> Option<&'static str> {
    Some(match name {
        "then" | "catch" | "finally" => "write await, and try",
        "forEach" => "write for … of",
        "substring" | "substr" => "write slice",
        "splice" => "write slice and concat",
        "lastIndexOf" | "findLast" => "write reverse first",
        "toString" => "write String(x)",
        "hasOwnProperty" => "write \"key\" in x",
        "match" | "test" | "search" => "there are no regular expressions; write includes, startsWith or split",
        "call" | "apply" | "bind" => "functions are not values",
        _ => return None,
    })
}

/// Names before a dot that other languages have, and that hold functions.
pub(super) fn is_foreign_namespace(name: &str) -> bool {
    matches!(
        name,
        "Promise" | "Timer" | "Signal" | "console" | "Date" | "Array" | "Boolean" | "Symbol" | "Reflect" | "process"
    )
}

/// The name among these that is most like this one, if one is.
pub(super) fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let most = match length {
        0..=1 => return None,
        2..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    let mut best: Option<(usize, &str)> = None;
    for candidate in names {
        let longer = candidate.chars().count().abs_diff(length);
        if candidate == name || longer > most.max(3) {
            continue;
        }
        let distance = if candidate.eq_ignore_ascii_case(name) {
            0
        } else if length > 2 && (candidate.starts_with(name) || name.starts_with(candidate)) {
            1
        } else {
            distance(name, candidate)
        };
        // Of names equally like it the first in alphabetical order, regardless of the order of the candidates.
        if distance <= most && best.is_none_or(|best| (distance, candidate) < best) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How many characters to insert, remove, replace or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut least = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean \"{name}\"?")
}

impl Checker<'_> {
    /// F0201, unless the name occurs in a statement that could not be parsed.
    pub fn unknown_name(&mut self, name: &str, span: Span) {
        if self.broken.contains(name) {
            return;
        }
        let hint = match foreign_name(name) {
            Some(hint) => Some(hint.to_owned()),
            None => {
                let visible = self.scopes.iter().flat_map(|scope| scope.names.iter());
                let values = visible.filter(|(_, binding)| !matches!(binding, Binding::Function(_)));
                let library = Function::ALL.iter().filter_map(|function| {
                    let (namespace, _) = function.signature().name.split_once('.')?;
                    (!function.signature().test_only).then_some(namespace)
                });
                similar(name, values.map(|(name, _)| &**name).chain(library)).map(did_you_mean)
            }
        };
        self.error_with("F0201", format!("unknown name \"{name}\""), span, hint);
    }

    /// F0207, likewise.
    pub fn unknown_function(&mut self, name: &str, span: Span) {
        if self.broken.contains(name.split('.').next().unwrap_or_default()) {
            return;
        }
        let hint = match foreign_function(name) {
            Some(hint) => Some(hint.to_owned()),
            None => {
                let visible = self.scopes.iter().flat_map(|scope| scope.names.iter());
                let functions = visible.filter(|(_, binding)| matches!(binding, Binding::Function(_)));
                let library = Function::ALL.iter().filter_map(|function| {
                    let signature = function.signature();
                    self.offers(*function).then_some(signature.name)
                });
                similar(name, functions.map(|(name, _)| &**name).chain(library)).map(did_you_mean)
            }
        };
        self.error_with("F0207", format!("unknown function \"{name}\""), span, hint);
    }

    /// F0207 for a function of a value.
    pub fn unknown_method(&mut self, name: &str, span: Span) {
        let hint = match foreign_method(name) {
            Some(hint) => Some(hint.to_owned()),
            None => similar(name, Method::ALL.iter().map(|method| method.signature().name)).map(did_you_mean),
        };
        self.error_with("F0207", format!("unknown function \"{name}\""), span, hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names() {
        let names = ["result", "results", "status", "id"];
        assert_eq!(similar("reslt", names.into_iter()), Some("result"));
        assert_eq!(similar("Status", names.into_iter()), Some("status"));
        assert_eq!(similar("stauts", names.into_iter()), Some("status"));
        assert_eq!(similar("x", names.into_iter()), None);
        assert_eq!(similar("payment", names.into_iter()), None);
    }
}
