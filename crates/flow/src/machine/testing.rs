//! Support of test programs, see [`crate::host::hook`]: functions that only test files have, promises that the host
//! ends, and mocks. A test program is kept in memory as long as its test goes on; it has no stored state.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compile::Code;
use crate::host::hook::{Answer, TestHost, mock_key};
use crate::interface::{Command, End, Event, Limits, Pace, Payload, TurnError};
use crate::library::Function;
use crate::pure;
use crate::value::Value;

use super::Machine;
use super::event::arguments;
use super::frame::{Caller, Closure, Fatal, Fault, Fiber, throw};
use super::promise::{PromiseKind, Role};

/// The host of a test, and what it has in the machine.
pub(super) struct Testing<'a> {
    host: &'a mut dyn TestHost,
    /// Functions given to `mock`, `mockNexus` and `mockWorkflow`, by [`mock_key`].
    mocks: BTreeMap<String, Closure>,
    /// Pending promises that the host ends, by id.
    promises: BTreeMap<String, u32>,
}

impl Machine<'_> {
    /// Calls a function that only test files have.
    pub(super) fn test_function(
        &mut self,
        fiber: &Fiber,
        function: Function,
        arguments: &[Value],
        closure: Option<Closure>,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let Some(testing) = &mut self.testing else {
            let name = function.signature().name;
            return Err(crate::value::LanguageError::type_error(format!("{name} is for tests")).into());
        };
        match testing.host.call(function, arguments) {
            Ok(Answer::Value(value)) => {
                if let (Some(closure), Some(Value::Str(name))) = (closure, arguments.first()) {
                    testing.mocks.insert(mock_key(function, name), closure);
                }
                Ok(value)
            }
            Ok(Answer::Promise(id)) => {
                let promise = self.promise(Arc::from(id.as_str()), PromiseKind::Host);
                if let Some(testing) = &mut self.testing {
                    testing.promises.insert(id, promise.number);
                }
                Ok(Value::Promise(promise))
            }
            Err(error) => Err(throw(pure::error::with_stack(error, &self.stack_text(fiber, up)))),
        }
    }

    /// Calls a mock. `None` if there is none of this name.
    pub(super) fn call_mock(&mut self, id: &str, name: &str, input: &[Payload]) -> Option<Result<(), Box<Fatal>>> {
        let closure = self.testing.as_ref()?.mocks.get(name)?.clone();
        Some(self.start_code(Role::Update(id.into()), &closure, &arguments(input)))
    }

    /// Ends a promise of the host. `false` if there is none with this id.
    pub(super) fn host_ended(&mut self, id: &str, end: &End) -> bool {
        let Some(number) = self.testing.as_mut().and_then(|testing| testing.promises.remove(id)) else { return false };
        let outcome = match end {
            Ok(payloads) => Ok(pure::payload::values(payloads)),
            Err(failure) => Err(pure::error::from_failure(failure, None)),
        };
        self.end(number, outcome);
        true
    }
}

/// A test program under way.
pub(crate) struct TestProgram<'a> {
    machine: Machine<'a>,
}

impl<'a> TestProgram<'a> {
    /// A program that has not begun.
    pub(crate) fn new(code: &'a Code, limits: &'a Limits, pace: &'a mut dyn Pace, host: &'a mut dyn TestHost) -> Self {
        let mut machine = Machine::new(code, limits, pace);
        machine.testing = Some(Testing { host, mocks: BTreeMap::new(), promises: BTreeMap::new() });
        Self { machine }
    }

    /// Takes an event; gives what the host must do.
    pub(crate) fn take(&mut self, event: &Event) -> Result<Vec<Command>, TurnError> {
        self.machine.take(event)?;
        self.machine.timers_started.clear();
        self.machine.cancels.clear();
        self.machine.new_log = super::library::NewLog::default();
        Ok(std::mem::take(&mut self.machine.commands).into_iter().flatten().collect())
    }

    /// Where its code waits.
    pub(crate) fn stack(&self) -> String {
        let coroutines = self.machine.promises.values().filter_map(|promise| promise.coroutine());
        let main = coroutines.filter(|coroutine| coroutine.role == Role::Main).find_map(|main| main.fiber.as_ref());
        main.map(|fiber| self.machine.waiting_stack(fiber)).unwrap_or_default()
    }
}
