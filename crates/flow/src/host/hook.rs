//! The interface between the interpreter and the test host while a test program is executed.
//!
//! A test program is an ordinary run whose body is the test. Three things are added to the interpreter for it:
//!
//! - A function of the library that only test files have is a call of [`TestHost::call`].
//! - [`Answer::Promise`] makes a promise with that id, without a command. An event
//!   [`TaskEnded`](crate::interface::EventKind::TaskEnded) ends it; the error of a failure keeps its own `source`.
//! - `mock(name, fn)`, `mockNexus(name, fn)` and `mockWorkflow(name, fn)` keep the closure under [`mock_key`]. An event
//!   [`Update`](crate::interface::EventKind::Update) with that name calls it as async code of its own, as the handler of an
//!   update is called: its end is the command [`EndUpdate`](crate::interface::Command::EndUpdate).

use crate::library::Function;
use crate::value::Value;

/// What a call gives.
pub(crate) enum Answer {
    /// A value, at once.
    Value(Value),
    /// A promise with this id, which an event ends.
    Promise(String),
}

/// Carries out the functions that only test files have. For `mock` and its kin the arguments are without the
/// function.
pub(crate) trait TestHost {
    /// Calls a function. The error is an error object without a stack.
    fn call(&mut self, function: Function, arguments: &[Value]) -> Result<Answer, Value>;
}

/// The name under which the machine keeps a mock.
pub(crate) fn mock_key(function: Function, name: &str) -> String {
    match function {
        Function::MockNexus => format!("nexus {name}"),
        Function::MockWorkflow => format!("workflow {name}"),
        _ => format!("task {name}"),
    }
}
