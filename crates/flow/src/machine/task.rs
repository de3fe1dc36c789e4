//! Tasks, timers, signals and conditions: `Task.run`, `Task.delay`, `wait_for_signal`, `wait_until`.

use std::rc::Rc;
use std::sync::Arc;

use crate::interface::{Command, OperationKind, Payload, RetryPolicy, ScheduleTask};
use crate::library::{RETRY, SIGNAL_WAIT, TASK, TASK_DEFAULTS};
use crate::pure;
use crate::value::{Kind, LanguageError, Value};

use super::frame::{Caller, Closure, Fault, Fiber};
use super::promise::{OnCancel, Promise, PromiseKind};
use super::{Counter, Machine};

/// `start_to_close` of a task that says nothing: ten minutes.
const START_TO_CLOSE: i64 = 600_000;

impl Machine<'_> {
    /// Refuses one more pending operation than allowed.
    pub(super) fn room_for(&self, kind: OperationKind) -> Result<(), LanguageError> {
        if self.pending[kind as usize] < self.limits.pending {
            return Ok(());
        }
        let words = match kind {
            OperationKind::Task => "tasks",
            OperationKind::Timer => "timers",
            OperationKind::Child => "children",
            OperationKind::Send => "sends",
            OperationKind::Nexus => "Nexus operations",
        };
        Err(LanguageError::new(Kind::Limit, format!("limit of {} pending {words} reached", self.limits.pending)))
    }

    pub(super) fn room_for_timer(&self) -> Result<(), LanguageError> {
        self.room_for(OperationKind::Timer)
    }

    /// Refuses an id that something pending has.
    pub(super) fn free_id(&self, function: &str, id: &Arc<str>) -> Result<(), LanguageError> {
        use OperationKind::{Child, Nexus, Send, Task, Timer};
        let is_taken = [Task, Timer, Child, Send, Nexus].into_iter().any(|kind| {
            let key = (kind, id.clone());
            self.operations.contains_key(&key) || self.lingering.contains(&key)
        });
        if is_taken {
            Err(LanguageError::argument(format!("{function}: id \"{id}\" is pending already")))
        } else {
            Ok(())
        }
    }

    /// The payload of a value, with what it costs.
    pub(super) fn payload(&mut self, value: &Value) -> Result<Payload, LanguageError> {
        let mut cost = pure::Cost::default();
        let payload = pure::payload::write_counting(value, &mut cost);
        self.charge(cost);
        payload
    }

    /// The arguments of a task or child: `input` if it was given, or the option `args`.
    pub(super) fn input(
        &mut self,
        name: &str,
        input: Option<&Value>,
        args: Option<&Value>,
    ) -> Result<Vec<Payload>, LanguageError> {
        let payloads = match (args, input) {
            (Some(Value::List(list)), None | Some(Value::Null)) => {
                list.items().iter().map(|value| self.payload(value)).collect::<Result<_, _>>()?
            }
            (Some(_), _) => return Err(LanguageError::argument(format!("{name}: with args the input must be null"))),
            (None, Some(input)) => vec![self.payload(input)?],
            (None, None) => Vec::new(),
        };
        pure::payload::check_total(payloads.iter())?;
        Ok(payloads)
    }

    pub(super) fn task_run(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let function = "Task.run";
        let name = pure::name(function, "the name", arguments.first().unwrap_or(&Value::Null))?;
        let given = pure::options::check(function, arguments.get(2).unwrap_or(&Value::Null), TASK)?;
        let defaults = Value::Object(Rc::clone(&self.task_defaults));
        let mut task =
            ScheduleTask { name: name.to_string(), start_to_close: START_TO_CLOSE, ..ScheduleTask::default() };
        let (mut id, mut args, mut on_cancel) = (None, None, OnCancel::Try);
        let defaults = pure::options::check(function, &defaults, TASK)?;
        // What is given replaces what is the default.
        for (option, value) in defaults.into_iter().chain(given) {
            match (option, &value) {
                ("args", value) => args = Some(value.clone()),
                ("id", Value::Str(text)) => id = Some(text.clone()),
                ("queue", Value::Str(text)) => task.queue = text.to_string(),
                ("start_to_close", value) => task.start_to_close = pure::duration::parse(value, function)?,
                ("schedule_to_close", value) => task.schedule_to_close = pure::duration::parse(value, function)?,
                ("schedule_to_start", value) => task.schedule_to_start = pure::duration::parse(value, function)?,
                ("heartbeat", value) => task.heartbeat = pure::duration::parse(value, function)?,
                ("retry", value) => task.retry = Some(retry_policy(function, value)?),
                ("priority", Value::Int(number)) => task.priority = i32::try_from(*number).unwrap_or(0),
                ("on_cancel", Value::Str(text)) => on_cancel = OnCancel::named(text),
                ("summary", Value::Str(text)) => task.summary = text.to_string(),
                _ => {}
            }
        }
        if id.as_deref() == Some("") {
            return Err(LanguageError::argument("Task.run: id must not be empty").into());
        }
        task.input = self.input(function, arguments.get(1), args.as_ref())?;
        self.room_for(OperationKind::Task)?;
        let number = self.counters[Counter::Task as usize] + 1;
        let id = id.unwrap_or_else(|| format!("task-{number}").into());
        self.free_id(function, &id)?;
        self.count(Counter::Task);
        task.id = id.to_string();
        self.command(Command::ScheduleTask(Box::new(task)))?;
        let reference = self.promise(id, PromiseKind::Task { name, on_cancel, is_asked: false });
        Ok(Value::Promise(reference))
    }

    pub(super) fn set_task_defaults(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let given = arguments.first().unwrap_or(&Value::Null);
        let options = pure::options::check("Task.defaults", given, TASK_DEFAULTS)?;
        let defaults = Rc::make_mut(&mut self.task_defaults);
        for (option, value) in options {
            defaults.insert(option.into(), value);
        }
        Ok(Value::Null)
    }

    pub(super) fn delay(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let duration = pure::duration::parse(arguments.first().unwrap_or(&Value::Null), "Task.delay")?;
        self.timer(duration)
    }

    pub(super) fn delay_until(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let due = pure::time::parse(arguments.first().unwrap_or(&Value::Null), "Task.delayUntil")?;
        self.timer(due.saturating_sub(self.now).max(0))
    }

    fn timer(&mut self, duration: i64) -> Result<Value, Fault> {
        self.room_for_timer()?;
        let id = self.next_id(Counter::Timer);
        let place = self.command(Command::StartTimer { id: id.to_string(), duration })?;
        let due = self.now.saturating_add(duration);
        let reference = self.promise(id, PromiseKind::Timer { due, owner: None });
        self.timers_started.insert(reference.number, place);
        Ok(Value::Promise(reference))
    }

    /// Starts the time-out of a wait or combination.
    pub(super) fn start_timer_of(&mut self, owner: u32, duration: i64) -> u32 {
        let id = self.next_id(Counter::Timer);
        let place = self.push_command(Command::StartTimer { id: id.to_string(), duration });
        let due = self.now.saturating_add(duration);
        let number = self.hidden(id, PromiseKind::Timer { due, owner: Some(owner) });
        self.timers_started.insert(number, place);
        number
    }

    pub(super) fn task_cancel(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let Some(Value::Promise(promise)) = arguments.first() else {
            return Err(LanguageError::argument("Task.cancel: the first argument must be a promise").into());
        };
        let reason: Arc<str> = match arguments.get(1) {
            None | Some(Value::Null) => "".into(),
            Some(Value::Str(reason)) => reason.clone(),
            Some(_) => return Err(LanguageError::argument("Task.cancel: the reason must be a string").into()),
        };
        if let Some(entry) = self.promises.get_mut(&promise.number) {
            entry.heard = true;
        }
        self.cancel(promise.number, reason);
        Ok(Value::Null)
    }

    pub(super) fn wait_for_signal(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let function = "wait_for_signal";
        let name = pure::name(function, "the name", arguments.first().unwrap_or(&Value::Null))?;
        let mut timeout = None;
        for (_, value) in pure::options::check(function, arguments.get(1).unwrap_or(&Value::Null), SIGNAL_WAIT)? {
            timeout = Some(pure::duration::parse(&value, function)?);
        }
        let mut cost = pure::Cost::default();
        cost.touch(self.code.handlers.len());
        self.charge(cost);
        if self.code.handler(crate::hir::FunctionKind::Signal, &name).is_some() {
            return Err(LanguageError::argument(format!("{function}: signal \"{name}\" has a handler")).into());
        }
        let taken = self.take_waiting(&name);
        if taken.is_none() && timeout.is_some_and(|timeout| timeout > 0) {
            self.room_for_timer()?;
        }
        let id = self.next_id(Counter::Signal);
        let duration = timeout.unwrap_or(0);
        let reference = self.promise(id, PromiseKind::Signal { name: name.clone(), timer: None, timeout: duration });
        match (taken, timeout) {
            (Some(signal), _) => self.end(reference.number, Ok(pure::payload::values(&signal.input))),
            (None, Some(0)) => {
                let message = format!("no signal \"{name}\" within {}", pure::duration::show(0));
                let error = pure::error::from_raised(&LanguageError::new(Kind::Timeout, message), "");
                self.end(reference.number, Err(error));
            }
            (None, Some(timeout)) => self.set_timer(reference.number, timeout),
            (None, None) => {}
        }
        Ok(Value::Promise(reference))
    }

    /// Gives a wait its time-out.
    fn set_timer(&mut self, number: u32, timeout: i64) {
        let started = self.start_timer_of(number, timeout);
        if let Some(Promise {
            kind: PromiseKind::Signal { timer, .. } | PromiseKind::Condition { timer, .. }, ..
        }) = self.promises.get_mut(&number)
        {
            *timer = Some(started);
        }
    }

    pub(super) fn wait_until(
        &mut self,
        fiber: &Fiber,
        arguments: &[Value],
        closure: Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let function = "wait_until";
        let timeout = match arguments.first() {
            None | Some(Value::Null) => None,
            Some(value) => Some(pure::duration::parse(value, function)?),
        };
        let caller = Caller { fiber, up };
        let seen = self.check_condition(&closure, Some(&caller))?;
        if seen.is_none() && timeout.is_some() {
            self.room_for_timer()?;
        }
        let id = self.next_id(Counter::Until);
        let reference = self.promise(id, PromiseKind::Condition { closure, timer: None });
        match (seen, timeout) {
            (Some(outcome), _) => self.end(reference.number, outcome),
            (None, Some(0)) => self.end(reference.number, Ok(Value::Bool(false))),
            (None, Some(timeout)) => self.set_timer(reference.number, timeout),
            (None, None) => {}
        }
        Ok(Value::Promise(reference))
    }
}

/// The option `retry`.
pub(super) fn retry_policy(function: &str, value: &Value) -> Result<RetryPolicy, LanguageError> {
    let mut policy = RetryPolicy::default();
    match value {
        Value::Bool(_) => policy.max_attempts = 1,
        Value::Int(attempts) => policy.max_attempts = i32::try_from(*attempts).unwrap_or(i32::MAX),
        value => {
            for (option, value) in pure::options::check(function, value, RETRY)? {
                match (option, &value) {
                    ("initial_interval", value) => policy.initial_interval = pure::duration::parse(value, function)?,
                    ("max_interval", value) => policy.max_interval = pure::duration::parse(value, function)?,
                    ("backoff", value) => policy.backoff = pure::number::double(value).unwrap_or(0.0),
                    ("max_attempts", Value::Int(attempts)) => {
                        policy.max_attempts = i32::try_from(*attempts).unwrap_or(i32::MAX);
                    }
                    ("non_retryable", Value::List(types)) => {
                        let texts = types.items().iter().filter_map(|item| match item {
                            Value::Str(text) => Some(text.to_string()),
                            _ => None,
                        });
                        policy.non_retryable = texts.collect();
                    }
                    _ => {}
                }
            }
            if policy.max_interval == 0 && policy.initial_interval > pure::duration::MAX / 100 {
                // The server's own default, a hundred times the first interval, would be longer than any duration.
                policy.max_interval = pure::duration::MAX;
            }
        }
    }
    Ok(policy)
}
