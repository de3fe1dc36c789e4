//! What the functions of test files do: `Test.start`, `assertEqual` and so on.

use std::cell::RefCell;
use std::rc::Rc;

use crate::interface::{EventKind, Limits, Payload};
use crate::library::Function;
use crate::pure::{self, Cost, error, json, payload, time};
use crate::value::{LanguageError, Value};

use super::ASSERTION;
use super::hook::{Answer, TestHost};
use super::report::{difference, show};
use super::world::{WORKFLOW_ID, World};

/// The world as the test program sees it.
pub(super) struct Session {
    pub world: Rc<RefCell<World>>,
}

/// An error of a failed assertion.
fn assertion(message: impl AsRef<str>) -> Value {
    error::make(ASSERTION, message.as_ref(), Value::Null, false, Value::Null, Value::Null, "")
}

fn raised(raised: &LanguageError) -> Value {
    error::from_raised(raised, "")
}

fn argument(function: Function, why: &str) -> Value {
    raised(&LanguageError::argument(format!("{}: {why}", function.signature().name)))
}

impl TestHost for Session {
    fn call(&mut self, function: Function, arguments: &[Value]) -> Result<Answer, Value> {
        let mut world = self.world.try_borrow_mut().map_err(|_| argument(function, "the host is busy"))?;
        HostCall { world: &mut world }.call(function, arguments)
    }
}

/// A call under way.
struct HostCall<'a> {
    world: &'a mut World,
}

impl HostCall<'_> {
    fn call(&mut self, function: Function, arguments: &[Value]) -> Result<Answer, Value> {
        let first = arguments.first().unwrap_or(&Value::Null);
        let value = match function {
            Function::Mock | Function::MockNexus | Function::MockWorkflow => {
                let name = self.name(function, first)?;
                self.world.add_mock(function, &name);
                Value::Null
            }
            Function::TestStart => {
                let input = payloads(arguments)?;
                self.world.start(input).map_err(|why| argument(function, &why))?;
                Value::Null
            }
            Function::TestResult => {
                self.started(function)?;
                return Ok(Answer::Promise(self.world.result()));
            }
            Function::TestSignal => {
                self.started(function)?;
                let name = self.name(function, first)?;
                self.tell(function, EventKind::Signaled { name, input: rest(arguments)? })?
            }
            Function::TestCancel => {
                self.started(function)?;
                let reason = match first {
                    Value::Null => String::new(),
                    Value::Str(reason) => reason.to_string(),
                    _ => return Err(argument(function, "the reason must be a string")),
                };
                self.tell(function, EventKind::CancelRequested { reason })?
            }
            Function::TestTerminate => {
                self.started(function)?;
                self.world.terminate();
                Value::Null
            }
            Function::TestUpdate => {
                self.started(function)?;
                let name = self.name(function, first)?;
                return Ok(Answer::Promise(self.world.update(name, rest(arguments)?)));
            }
            Function::TestQuery => self.query(function, first, arguments)?,
            Function::TestStatus => {
                let run = self.started(function)?;
                Value::text(self.world.runs[run].status.name())
            }
            Function::TestCalls => {
                let name = self.name(function, first)?;
                Value::list(self.world.calls(&name).iter().map(|input| payload::values(input)).collect())
            }
            Function::TestTurns => {
                let turns: usize = self.world.chain().map(|run| run.turns.len()).sum();
                Value::Int(turns as i64)
            }
            Function::TestLog => Value::list(self.world.chain().flat_map(|run| &run.log).map(log_line).collect()),
            Function::TestState => {
                let run = self.started(function)?;
                self.state(run).map_err(|why| argument(function, &why))?
            }
            Function::Assert => {
                let is_true = pure::condition(first).map_err(|error| raised(&error))?;
                if !is_true {
                    return Err(match arguments.get(1) {
                        Some(Value::Str(message)) => assertion(message),
                        None | Some(Value::Null) => assertion("assertion failed"),
                        Some(other) => assertion(show(other)),
                    });
                }
                Value::Null
            }
            Function::AssertEqual => {
                let expected = arguments.get(1).unwrap_or(&Value::Null);
                if !pure::equal(first, expected, &mut Cost::default()) {
                    return Err(assertion(difference(first, expected)));
                }
                Value::Null
            }
            Function::AssertFails => failed(first, arguments.get(1).unwrap_or(&Value::Null))?,
            _ => return Err(argument(function, "not available in tests")),
        };
        Ok(Answer::Value(value))
    }

    fn name(&self, function: Function, value: &Value) -> Result<String, Value> {
        let name = pure::name(function.signature().name, "the name", value);
        name.map(|name| name.to_string()).map_err(|error| raised(&error))
    }

    /// The latest run under test.
    fn started(&self, function: Function) -> Result<usize, Value> {
        self.world.latest(WORKFLOW_ID).ok_or_else(|| argument(function, "the run has not been started"))
    }

    fn tell(&mut self, function: Function, event: EventKind) -> Result<Value, Value> {
        if self.world.tell(event) { Ok(Value::Null) } else { Err(argument(function, "the run has ended")) }
    }

    fn query(&mut self, function: Function, name: &Value, arguments: &[Value]) -> Result<Value, Value> {
        let run = self.started(function)?;
        let name = self.name(function, name)?;
        let input = rest(arguments)?;
        let (run, now) = (&self.world.runs[run], self.world.now);
        let script = run.script.and_then(|script| self.world.scripts.get(script));
        let (Some(script), Some(state)) = (script, &run.state) else {
            return Err(argument(function, "the run has no state"));
        };
        match crate::query(&script.code, state, &name, &input, now, &Limits::default()) {
            Ok(result) => payload::result(&result).map_err(|why| argument(function, &why)),
            Err(failed) => {
                let message = failed.to_string();
                Err(error::make("QueryFailed", &message, Value::Null, false, Value::Null, Value::Null, ""))
            }
        }
    }

    fn state(&self, run: usize) -> Result<Value, String> {
        let run = &self.world.runs[run];
        let script = run.script.and_then(|script| self.world.scripts.get(script));
        let (Some(script), Some(state)) = (script, &run.state) else { return Err("the run has no state".to_owned()) };
        let mut inspection = crate::inspect(&script.code, state)?;
        // Signals that no code waits for are recorded only; the next turn takes them.
        for event in &run.recorded {
            let EventKind::Signaled { name, .. } = &event.kind else { continue };
            match inspection.signals.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => inspection.signals.push((name.clone(), 1)),
            }
        }
        json::parse(inspection.to_json().as_bytes())
    }
}

/// `assertFails`: the outcome of a race with one item, and the type that its error must have.
fn failed(outcome: &Value, wanted: &Value) -> Result<Value, Value> {
    let field = |value: &Value, key: &str| match value {
        Value::Object(object) => object.get(key).cloned(),
        _ => None,
    };
    let Some(error) = field(outcome, "error") else {
        let result = field(outcome, "result").unwrap_or(Value::Null);
        return Err(assertion(format!("expected an error, got {}", show(&result))));
    };
    let (Value::Null | Value::Str(_)) = wanted else {
        return Err(raised(&LanguageError::argument("assertFails: the type must be a string")));
    };
    let kind = field(&error, "type").unwrap_or(Value::Null);
    if matches!(wanted, Value::Null) || pure::equal(&kind, wanted, &mut Cost::default()) {
        return Ok(error);
    }
    let message = field(&error, "message").unwrap_or(Value::Null);
    Err(assertion(format!("expected an error of type {}, got {}: {}", show(wanted), show(&kind), show(&message))))
}

fn payloads(values: &[Value]) -> Result<Vec<Payload>, Value> {
    values.iter().map(|value| payload::write(value).map_err(|error| raised(&error))).collect()
}

/// What stands after the name.
fn rest(arguments: &[Value]) -> Result<Vec<Payload>, Value> {
    payloads(arguments.get(1..).unwrap_or_default())
}

fn log_line(line: &crate::interface::LogLine) -> Value {
    let data = line.data.as_ref().and_then(|data| json::parse(data.as_bytes()).ok());
    Value::object([
        ("time", Value::text(time::show(line.time))),
        ("line", Value::Int(line.line.into())),
        ("message", Value::text(line.message.as_str())),
        ("data", data.unwrap_or(Value::Null)),
    ])
}
