//! Events: their effects on promises and code, and the end of a turn.

use std::rc::Rc;
use std::sync::Arc;

use crate::hir::FunctionKind;
use crate::interface::{
    Command, ContinueAsNew, End, Event, EventKind, NotSent, OperationKind, Payload, TurnError, TurnResult,
};
use crate::pure;
use crate::value::{Kind, LanguageError, Value};

use super::frame::{Closure, Fatal, FaultKind};
use super::library::NewLog;
use super::promise::{Outcome, PromiseKind, Role};
use super::schedule::fatal;
use super::{Machine, PendingSignal, RunOutcome, error_type};

impl Machine<'_> {
    /// Takes one event and lets everything go on that can.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), TurnError> {
        if self.is_closed {
            // Signals that came before the run closed and that it did not see belong to the next one.
            if let EventKind::Signaled { name, input } = &event.kind
                && let Some(Some(Command::ContinueAsNew(next))) = self.commands.last_mut()
            {
                next.signals.push((name.clone(), input.clone()));
            }
            return Ok(());
        }
        self.now = event.time;
        self.count_steps();
        (self.fuel, self.window, self.spent, self.steps_max) = (0, 0, 0, self.limits.steps);
        // Its payloads are read, or kept.
        let mut cost = pure::Cost::default();
        cost.add(event.size());
        self.charge(cost);
        let result = self.handle(&event.kind).and_then(|()| if self.closing.is_some() { Ok(()) } else { self.go_on() });
        self.count_steps();
        match result {
            Ok(()) => {}
            Err(fatal) => self.fail(*fatal)?,
        }
        self.close();
        Ok(())
    }

    /// Ends the run because of a limit or an error that no code handles.
    fn fail(&mut self, fatal: Fatal) -> Result<(), TurnError> {
        self.closing = Some(match fatal {
            Fatal::Limit(raised, stack) => RunOutcome::Failed(pure::error::from_raised(&raised, &stack)),
            Fatal::Failed(error) => RunOutcome::Failed(error),
            Fatal::GivenUp => return Err(TurnError::GivenUp),
            Fatal::Defect(what) => return Err(TurnError::Defect(what)),
        });
        Ok(())
    }

    fn handle(&mut self, event: &EventKind) -> Result<(), Box<Fatal>> {
        match event {
            EventKind::Started(start) => {
                if self.is_started {
                    return Err(Box::new(Fatal::Defect("the run has started already".to_owned())));
                }
                let Some(function) = self.code.workflow else {
                    return Err(Box::new(Fatal::Defect("there is no workflow".to_owned())));
                };
                self.is_started = true;
                self.start = start.as_ref().clone();
                let input = std::mem::take(&mut self.start.input);
                self.start_code(Role::Main, &Closure { function, captures: None }, &arguments(&input))
            }
            _ if !self.is_started => Err(Box::new(Fatal::Defect("the run has not started".to_owned()))),
            EventKind::Signaled { name, input } => self.signaled(name, input),
            EventKind::CancelRequested { reason } => {
                self.request_cancel(reason);
                Ok(())
            }
            EventKind::Reset { run_id } => {
                self.start.run_id.clone_from(run_id);
                Ok(())
            }
            EventKind::Update { id, name, input } => self.update(id, name, input),
            EventKind::TaskEnded { id, end } => self.task_ended(id, end),
            EventKind::NexusEnded { id, end } => {
                self.nexus_ended(id, end);
                Ok(())
            }
            EventKind::TimerFired { id } => {
                if let Some(number) = self.operation(OperationKind::Timer, id) {
                    self.timer_fired(number);
                }
                Ok(())
            }
            EventKind::ChildStarted { workflow_id, run_id } => {
                self.child_started(workflow_id, run_id);
                Ok(())
            }
            EventKind::ChildNotStarted { workflow_id, reason } => {
                self.child_not_started(workflow_id, reason);
                Ok(())
            }
            EventKind::ChildEnded { workflow_id, end } => self.child_ended(workflow_id, end),
            EventKind::SendEnded { id, failed } => {
                self.send_ended(id, failed.as_ref());
                Ok(())
            }
            EventKind::Migrated => {
                // What conditions call may be different now.
                self.has_changed = true;
                self.handle_waiting()
            }
        }
    }

    /// The pending operation with this id. A request to cancel what has ended meanwhile is dropped.
    pub(super) fn operation(&mut self, kind: OperationKind, id: &str) -> Option<u32> {
        let key = (kind, Arc::from(id));
        self.lingering.remove(&key);
        if let Some(command) = self.cancels.remove(&key).and_then(|place| self.commands.get_mut(place)) {
            *command = None;
        }
        self.operations.get(&key).copied()
    }

    fn signaled(&mut self, name: &str, input: &[Payload]) -> Result<(), Box<Fatal>> {
        if let Some(handler) = self.code.handler(FunctionKind::Signal, name) {
            if self.signals.contains_key(name) {
                // They waited when the run moved to this version.
                self.keep_signal(name, input);
                return self.handle_waiting();
            }
            let closure = self.handler(handler.closure).map_err(fatal)?;
            return self.start_code(Role::Signal, &closure, &arguments(input));
        }
        match self.signal_waits.get(name).and_then(|waits| waits.first().copied()) {
            Some(number) => self.end(number, Ok(pure::payload::values(input))),
            None => self.keep_signal(name, input),
        }
        Ok(())
    }

    /// Keeps a signal until the code takes it.
    fn keep_signal(&mut self, name: &str, input: &[Payload]) {
        let sequence = self.signals_seen;
        self.signals_seen += 1;
        self.signals.entry(name.into()).or_default().push_back(PendingSignal { sequence, input: input.to_vec() });
    }

    /// Signals that waited when the run moved to a version with a handler for them go to it, in order.
    fn handle_waiting(&mut self) -> Result<(), Box<Fatal>> {
        loop {
            let handled = self.signals.iter().filter_map(|(name, queue)| {
                let handler = self.code.handler(FunctionKind::Signal, name)?;
                Some((queue.front()?.sequence, name.clone(), handler.closure))
            });
            let Some((_, name, closure)) = handled.min_by_key(|(sequence, ..)| *sequence) else { return Ok(()) };
            let closure = self.handler(closure).map_err(fatal)?;
            let Some(signal) = self.take_waiting(&name) else { return Ok(()) };
            self.start_code(Role::Signal, &closure, &arguments(&signal.input))?;
            if self.closing.is_none() {
                self.go_on()?;
            }
            if self.closing.is_some() {
                return Ok(());
            }
        }
    }

    /// The first signal of a name that waits.
    pub(super) fn take_waiting(&mut self, name: &str) -> Option<PendingSignal> {
        let queue = self.signals.get_mut(name)?;
        let taken = queue.pop_front();
        if queue.is_empty() {
            self.signals.remove(name);
        }
        taken
    }

    fn update(&mut self, id: &str, name: &str, input: &[Payload]) -> Result<(), Box<Fatal>> {
        let Some(handler) = self.code.handler(FunctionKind::Update, name) else {
            if let Some(called) = self.call_mock(id, name, input) {
                return called;
            }
            let known: Vec<&str> = self.code.handlers(FunctionKind::Update).collect();
            let message = format!("unknown update \"{name}\"; known: {}", known.join(", "));
            let error = pure::error::make("UnknownUpdate", &message, Value::Null, false, Value::Null, Value::Null, "");
            self.reject(id, &error);
            return Ok(());
        };
        let arguments = arguments(input);
        if let Some(validate) = handler.validate {
            let closure = self.handler(validate).map_err(fatal)?;
            match self.evaluate(&closure, &arguments, None) {
                Ok(_) => {}
                Err(fault) => {
                    let error = match *fault {
                        FaultKind::Throw(error) => error,
                        other => match *fatal(Box::new(other)) {
                            Fatal::Limit(raised, stack) => pure::error::from_raised(&raised, &stack),
                            other => return Err(Box::new(other)),
                        },
                    };
                    self.reject(id, &error);
                    return Ok(());
                }
            }
        }
        let closure = self.handler(handler.closure).map_err(fatal)?;
        self.command(Command::AcceptUpdate { id: id.to_owned() })?;
        self.start_code(Role::Update(id.into()), &closure, &arguments)
    }

    fn reject(&mut self, id: &str, error: &Value) {
        let failure = pure::error::to_failure(error);
        self.push_command(Command::RejectUpdate { id: id.to_owned(), failure });
    }

    fn task_ended(&mut self, id: &str, end: &End) -> Result<(), Box<Fatal>> {
        if self.host_ended(id, end) {
            return Ok(());
        }
        let Some(number) = self.operation(OperationKind::Task, id) else { return Ok(()) };
        let outcome = match self.promises.get(&number).map(|promise| &promise.kind) {
            Some(PromiseKind::Task { name, .. }) => outcome(end, Some(("task", name, id))),
            Some(PromiseKind::Host) => outcome(end, None),
            _ => return Ok(()),
        };
        self.end(number, outcome);
        Ok(())
    }

    /// A timer has fired: one of the script, or the time-out of something.
    fn timer_fired(&mut self, number: u32) {
        let Some(PromiseKind::Timer { owner, .. }) = self.promises.get(&number).map(|promise| &promise.kind) else {
            return;
        };
        let Some(owner) = *owner else { return self.end(number, Ok(Value::Null)) };
        // It is over: its owner must not withdraw it.
        self.end(number, Ok(Value::Null));
        let Some(promise) = self.promises.get_mut(&owner) else { return };
        match &mut promise.kind {
            PromiseKind::Signal { name, timeout, timer } => {
                *timer = None;
                let message = format!("no signal \"{name}\" within {}", pure::duration::show(*timeout));
                let error = pure::error::from_raised(&LanguageError::new(Kind::Timeout, message), "");
                self.end(owner, Err(error));
            }
            PromiseKind::Condition { timer, .. } => {
                *timer = None;
                self.end(owner, Ok(Value::Bool(false)));
            }
            PromiseKind::Combination(combination) => {
                combination.timer = None;
                let message = format!("timed out after {}", pure::duration::show(combination.timeout));
                let items = std::mem::take(&mut combination.items);
                let error = pure::error::from_raised(&LanguageError::new(Kind::Timeout, message), "");
                self.end(owner, Err(error));
                for item in &items {
                    if let super::combine::ItemValue::Promise(promise) = &item.value {
                        self.cancel(promise.number, "".into());
                    }
                }
            }
            _ => {}
        }
    }

    fn child_started(&mut self, workflow_id: &str, run_id: &str) {
        let key = (OperationKind::Child, Arc::from(workflow_id));
        let Some(&number) = self.operations.get(&key) else { return };
        let Some(PromiseKind::Child { start_only: true, .. }) = self.promises.get(&number).map(|promise| &promise.kind)
        else {
            return;
        };
        let value = Value::object([("workflow_id", Value::text(workflow_id)), ("run_id", Value::text(run_id))]);
        self.end(number, Ok(value));
    }

    fn child_not_started(&mut self, workflow_id: &str, reason: &NotSent) {
        let Some(number) = self.operation(OperationKind::Child, workflow_id) else { return };
        let Some(PromiseKind::Child { name, .. }) = self.promises.get(&number).map(|promise| &promise.kind) else {
            return;
        };
        let error = match reason {
            NotSent::AlreadyStarted => already_started(name, workflow_id),
            _ => not_sent(reason, ("workflow", name, workflow_id)),
        };
        self.end(number, Err(error));
    }

    fn child_ended(&mut self, workflow_id: &str, end: &End) -> Result<(), Box<Fatal>> {
        let Some(number) = self.operation(OperationKind::Child, workflow_id) else { return Ok(()) };
        let Some(PromiseKind::Child { name, .. }) = self.promises.get(&number).map(|promise| &promise.kind) else {
            return Ok(());
        };
        let outcome = outcome(end, Some(("workflow", name, workflow_id)));
        self.end(number, outcome);
        Ok(())
    }

    fn send_ended(&mut self, id: &str, failed: Option<&NotSent>) {
        let Some(number) = self.operation(OperationKind::Send, id) else { return };
        let Some(PromiseKind::Send { name }) = self.promises.get(&number).map(|promise| &promise.kind) else { return };
        let outcome = match failed {
            None => Ok(Value::Null),
            Some(reason) => Err(not_sent(reason, ("send", name, id))),
        };
        self.end(number, outcome);
    }

    /// Adds a command in its place.
    pub(super) fn command(&mut self, command: Command) -> Result<usize, Box<Fatal>> {
        self.sweep()?;
        Ok(self.push_command(command))
    }

    /// Adds a command and counts its memory; gives back its place.
    pub(super) fn push_command(&mut self, command: Command) -> usize {
        let bytes = command.size();
        self.command_bytes += bytes;
        let mut cost = pure::Cost::default();
        cost.add(bytes);
        self.charge(cost);
        self.commands.push(Some(command));
        self.commands.len() - 1
    }

    /// Ends the run if its body has ended or failed.
    fn close(&mut self) {
        let Some(closing) = self.closing.take() else { return };
        self.is_closed = true;
        let command = match closing {
            RunOutcome::Returned(payload) => Command::Complete { result: vec![payload] },
            RunOutcome::New(value) => Command::ContinueAsNew(Box::new(self.continue_as_new(&value))),
            RunOutcome::Failed(error) => {
                if self.cancel_requested.is_some() && error_type(&error) == Some("Canceled") {
                    let details = match &error {
                        Value::Object(object) => object.get("details").cloned().unwrap_or(Value::Null),
                        _ => Value::Null,
                    };
                    let details = match details {
                        Value::Null => Vec::new(),
                        details => pure::payload::write(&details).into_iter().collect(),
                    };
                    Command::Cancel { details }
                } else {
                    Command::Fail { failure: pure::error::to_failure(&error) }
                }
            }
        };
        self.commands.push(Some(command));
        // Nothing goes on in a closed run.
        self.promises.clear();
        self.operations.clear();
        self.signal_waits.clear();
        self.conditions.clear();
        self.ready.clear();
        self.lingering.clear();
        if let Ok(mut released) = self.released.try_borrow_mut() {
            released.clear();
        }
    }

    fn continue_as_new(&mut self, value: &Value) -> ContinueAsNew {
        let mut command = super::workflow::continue_from(value);
        let mut signals = Vec::new();
        for (name, queue) in std::mem::take(&mut self.signals) {
            signals.extend(queue.into_iter().map(|signal| (signal.sequence, name.to_string(), signal.input)));
        }
        signals.sort_by_key(|(sequence, ..)| *sequence);
        command.signals = signals.into_iter().map(|(_, name, input)| (name, input)).collect();
        command
    }

    /// What the turn gives.
    pub(super) fn finish(mut self) -> Result<TurnResult, TurnError> {
        if !self.is_started {
            return Err(TurnError::Defect("the run has not started".to_owned()));
        }
        let bytes_max = self.limits.state_bytes;
        let mut state = self.save(bytes_max);
        if state.len() > bytes_max && !self.is_closed {
            let message = format!("state limit of {} bytes reached", self.limits.state_bytes);
            self.closing =
                Some(RunOutcome::Failed(pure::error::from_raised(&LanguageError::new(Kind::Limit, message), "")));
            self.close();
            state = self.save(bytes_max);
        }
        if state.len() > bytes_max {
            // Queries of such a run see null.
            for cell in &self.root {
                let _ = super::frame::set(cell, Value::Null);
            }
            self.signals.clear();
            self.task_defaults = Rc::default();
            state = self.save(usize::MAX);
        }
        let details = if self.new_details { self.details.as_ref().map(ToString::to_string) } else { None };
        let wake = self.wake_set();
        let commands = self.commands.into_iter().flatten().collect();
        let NewLog { lines: log, dropped: log_dropped, .. } = self.new_log;
        Ok(TurnResult { state, commands, log, log_dropped, wake, steps: self.turn_steps, details })
    }
}

/// The values of payloads that are matched to parameters.
pub(super) fn arguments(input: &[Payload]) -> Vec<Value> {
    input.iter().cloned().map(pure::payload::argument).collect()
}

/// The outcome of a task, Nexus operation or child: kind, name and id.
pub(super) fn outcome(end: &End, source: Option<(&str, &str, &str)>) -> Outcome {
    match end {
        Ok(payloads) => pure::payload::result(payloads).map_err(|why| {
            let name = source.map_or("", |(_, name, _)| name);
            let message = format!("the result of \"{name}\" cannot be read: {why}");
            let raised = LanguageError::new(Kind::Payload, message);
            pure::error::from_raised(&raised, "")
        }),
        Err(failure) => Err(pure::error::from_failure(failure, source)),
    }
}

/// The error of a child whose id is taken.
pub(super) fn already_started(name: &str, workflow_id: &str) -> Value {
    let message = format!("workflow \"{workflow_id}\" has already started");
    sent_error(Kind::AlreadyStarted.name(), &message, ("workflow", name, workflow_id))
}

fn not_sent(reason: &NotSent, source: (&str, &str, &str)) -> Value {
    match reason {
        NotSent::NotFound(message) => sent_error(Kind::NotFound.name(), message, source),
        NotSent::AlreadyStarted => sent_error(Kind::AlreadyStarted.name(), "it has already started", source),
        NotSent::Other(message) => sent_error("Error", message, source),
    }
}

fn sent_error(kind: &str, message: &str, (source, name, id): (&str, &str, &str)) -> Value {
    let source =
        Value::object([("kind", Value::text(source)), ("name", Value::text(name)), ("item_id", Value::text(id))]);
    pure::error::make(kind, message, Value::Null, true, Value::Null, source, "")
}
