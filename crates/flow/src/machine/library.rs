//! Functions of the library that need the run.

use crate::interface::LogLine;
use crate::library::{Effect, Function};
use crate::pure;
use crate::pure::random::Random;
use crate::value::{LanguageError, Value};

use super::Machine;
use super::frame::{Caller, Fault, Fiber, defect};

/// Lines of the log that are kept with the run, and their bytes.
const LOG_LINES_MAX: usize = 20;
const LOG_BYTES_MAX: usize = 4_096;

/// Bytes of lines that one turn gives to the server's log. Further ones are only counted.
const NEW_LOG_BYTES_MAX: usize = 1 << 20;

/// Lines that were logged in this turn.
#[derive(Default)]
pub(super) struct NewLog {
    pub lines: Vec<LogLine>,
    bytes: usize,
    /// Lines that are missing.
    pub dropped: u64,
}

impl NewLog {
    fn push(&mut self, line: LogLine) {
        let bytes = self.bytes + size(&line) + size_of::<LogLine>();
        if bytes > NEW_LOG_BYTES_MAX {
            self.dropped += 1;
        } else {
            self.bytes = bytes;
            self.lines.push(line);
        }
    }
}

/// The bytes of a line.
fn size(line: &LogLine) -> usize {
    line.message.len() + line.data.as_ref().map_or(0, String::len)
}

impl Machine<'_> {
    #[inline(never)]
    pub(super) fn library(
        &mut self,
        fiber: &mut Fiber,
        function: Function,
        arguments: u32,
        up: Option<&Caller<'_>>,
    ) -> Result<(), Fault> {
        let arguments = fiber.take(arguments as usize)?;
        let signature = function.signature();
        let value = if signature.test_only {
            self.test_function(fiber, function, &arguments, None, up)?
        } else if signature.effect == Effect::Effect {
            if self.is_pure {
                return Err(LanguageError::type_error("no effects allowed here").into());
            }
            self.sweep()?;
            let value = self.effect(fiber, function, &arguments, up)?;
            if let Some(raised) = self.broken.take() {
                return Err(raised.into());
            }
            value
        } else {
            match function {
                Function::TimeNow => Value::text(pure::time::show(self.now)),
                Function::WorkflowInfo => self.info(),
                Function::WorkflowCancelRequested => Value::Bool(self.cancel_requested.is_some()),
                Function::Error => {
                    let stack = self.stack_text(fiber, up);
                    self.charge_units(stack.len());
                    pure::error::from_options(&arguments, &stack)?
                }
                function => {
                    let mut cost = pure::Cost::default();
                    let value = pure::call(function, &arguments, &mut cost);
                    self.charge(cost);
                    value?
                }
            }
        };
        self.check_value(&value)?;
        fiber.push(value);
        Ok(())
    }

    #[inline(never)]
    fn effect(
        &mut self,
        fiber: &mut Fiber,
        function: Function,
        arguments: &[Value],
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let _ = up;
        match function {
            Function::TaskRun => self.task_run(arguments),
            Function::TaskDefaults => self.set_task_defaults(arguments),
            Function::TaskDelay => self.delay(arguments),
            Function::TaskDelayUntil => self.delay_until(arguments),
            Function::TaskCancel => self.task_cancel(arguments),
            Function::TaskTimeout => self.timeout(arguments),
            Function::TaskAll | Function::TaskAny | Function::TaskRace | Function::TaskSettle => {
                self.combine(function, arguments)
            }
            Function::WaitForSignal => self.wait_for_signal(arguments),
            Function::NexusCall => self.nexus_call(arguments),
            Function::WorkflowRun | Function::WorkflowStart => self.child(function, arguments),
            Function::WorkflowSignal => self.send_signal(arguments),
            Function::WorkflowCancel => self.send_cancel(arguments),
            Function::WorkflowContinueAsNew => self.prepare_new(arguments),
            Function::WorkflowSetMemo => self.set_memo(arguments),
            Function::WorkflowSetSearchAttributes => self.set_attributes(arguments),
            Function::WorkflowSetDetails => self.set_details(arguments),
            Function::MathRandom => {
                let number = self.random().next_double();
                Value::float(number).ok_or_else(|| defect("a random number is no number"))
            }
            Function::Uuid => {
                let uuid = self.random().uuid();
                Ok(Value::text(uuid))
            }
            Function::Log => {
                let line = self.line(fiber);
                self.write_log(line, arguments)
            }
            _ => Err(LanguageError::type_error(format!("{} is for tests", function.signature().name)).into()),
        }
    }

    #[inline(never)]
    pub(super) fn library_with(
        &mut self,
        fiber: &mut Fiber,
        function: Function,
        arguments: u32,
        closure: u32,
        up: Option<&Caller<'_>>,
    ) -> Result<(), Fault> {
        if self.is_pure {
            return Err(LanguageError::type_error("no effects allowed here").into());
        }
        let closure = self.closure(fiber, closure)?;
        let arguments = fiber.take(arguments as usize)?;
        self.sweep()?;
        let value = match function {
            Function::TaskMap => self.task_map(fiber, &arguments, closure, up)?,
            Function::WaitUntil => self.wait_until(fiber, &arguments, closure, up)?,
            _ => self.test_function(fiber, function, &arguments, Some(closure), up)?,
        };
        fiber.push(value);
        Ok(())
    }

    fn random(&mut self) -> &mut Random {
        let run_id = &self.start.run_id;
        self.random.get_or_insert_with(|| Random::seeded(run_id))
    }

    fn write_log(&mut self, line: u32, arguments: &[Value]) -> Result<Value, Fault> {
        let mut cost = pure::Cost::default();
        let message = pure::text(arguments.first().unwrap_or(&Value::Null), &mut cost)?.to_string();
        let data = match arguments.get(1) {
            Some(value) => Some(pure::json::write(value, &mut cost)?),
            None => None,
        };
        self.charge(cost);
        let line = LogLine { time: self.now, line, message, data };
        let message = shortened(&line.message, LOG_BYTES_MAX).to_owned();
        let data = line.data.as_ref().filter(|data| data.len() + message.len() <= LOG_BYTES_MAX).cloned();
        let kept = LogLine { time: line.time, line: line.line, message, data };
        self.new_log.push(line);
        self.log.push_back(kept);
        let mut bytes: usize = self.log.iter().map(size).sum();
        while self.log.len() > LOG_LINES_MAX || bytes > LOG_BYTES_MAX {
            let Some(first) = self.log.pop_front() else { break };
            bytes -= size(&first);
        }
        Ok(Value::Null)
    }

    fn set_details(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let Some(Value::Str(text)) = arguments.first() else {
            return Err(LanguageError::argument("Workflow.setDetails: the text must be a string").into());
        };
        self.details = Some(text.clone());
        self.new_details = true;
        Ok(Value::Null)
    }
}

/// The beginning of a text, at most this many bytes, up to the boundary of a character.
fn shortened(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
