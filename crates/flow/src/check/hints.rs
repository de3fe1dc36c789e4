//! Hints in diagnostics: words of other languages.

use super::Checker;
use super::scope::Binding;
use crate::library::{Function, Method};
use crate::similar::{did_you_mean, similar};
use crate::syntax::token::Span;

/// The hint for a function of another language.
pub(super) fn foreign_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "Promise.all" => "write Task.all",
        "Promise.race" => "write Task.race",
        "Promise.any" => "write Task.any",
        "Promise.allSettled" | "Task.allSettled" => "write Task.settle",
        "Timer.delay" | "setTimeout" | "sleep" | "setInterval" | "Workflow.sleep" | "Task.sleep" | "Workflow.delay" => {
            "write Task.delay"
        }
        "Workflow.condition" | "Workflow.waitUntil" | "Task.waitUntil" => "write wait_until",
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
