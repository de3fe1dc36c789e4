//! `Workflow.*`: children, messages to other workflows, information about the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::interface::{Command, ContinueAsNew, IdReuse, OperationKind, ParentClose, Payload, StartChild};
use crate::library::{CHILD, CONTINUE, Function, SEND_CANCEL, SEND_SIGNAL};
use crate::pure;
use crate::value::{LanguageError, Value};

use super::event::already_started;
use super::frame::Fault;
use super::promise::{OnCancel, PromiseKind};
use super::task::retry_policy;
use super::{Counter, Machine};

impl Machine<'_> {
    pub(super) fn child(&mut self, function: Function, arguments: &[Value]) -> Result<Value, Fault> {
        let start_only = function == Function::WorkflowStart;
        let function = function.signature().name;
        let name = pure::name(function, "the name", arguments.first().unwrap_or(&Value::Null))?;
        let mut child = StartChild { name: name.to_string(), ..StartChild::default() };
        if start_only {
            child.parent_close = ParentClose::Abandon;
        }
        let (mut id, mut args, mut on_cancel) = (None, None, OnCancel::Try);
        for (option, value) in pure::options::check(function, arguments.get(2).unwrap_or(&Value::Null), CHILD)? {
            match (option, &value) {
                ("id", Value::Str(text)) => id = Some(text.clone()),
                ("args", value) => args = Some(value.clone()),
                ("queue", Value::Str(text)) => child.queue = text.to_string(),
                ("execution_timeout", value) => child.execution_timeout = pure::duration::parse(value, function)?,
                ("run_timeout", value) => child.run_timeout = pure::duration::parse(value, function)?,
                ("retry", value) => child.retry = Some(retry_policy(function, value)?),
                ("parent_close", Value::Str(text)) => {
                    child.parent_close = match &**text {
                        "abandon" => ParentClose::Abandon,
                        "cancel" => ParentClose::Cancel,
                        _ => ParentClose::Terminate,
                    };
                }
                ("id_reuse", Value::Str(text)) => {
                    child.id_reuse = match &**text {
                        "allow_failed" => IdReuse::AllowFailed,
                        "reject" => IdReuse::Reject,
                        _ => IdReuse::Allow,
                    };
                }
                ("cron", Value::Str(text)) => child.cron = text.to_string(),
                ("memo", Value::Object(_)) => child.memo = self.payloads(&value)?,
                ("search_attributes", Value::Object(_)) => {
                    self.check_attributes(function, &value)?;
                    child.search_attributes = self.payloads(&value)?;
                }
                ("priority", Value::Int(number)) => child.priority = i32::try_from(*number).unwrap_or(0),
                ("on_cancel", Value::Str(text)) => on_cancel = OnCancel::named(text),
                ("summary", Value::Str(text)) => child.summary = text.to_string(),
                _ => {}
            }
        }
        if id.as_deref() == Some("") {
            return Err(LanguageError::argument(format!("{function}: id must not be empty")).into());
        }
        child.input = self.input(function, arguments.get(1), args.as_ref())?;
        self.room_for(OperationKind::Child)?;
        let number = self.counters[Counter::Child as usize] + 1;
        let id: Arc<str> = id.unwrap_or_else(|| format!("{}/child-{number}", self.start.run_id).into());
        let key = (OperationKind::Child, id.clone());
        if self.operations.contains_key(&key) || self.lingering.contains(&key) {
            // The server would say so, too, but here two things would have one id until then.
            self.count(Counter::Child);
            let error = already_started(&name, &id);
            let reference = self.promise(id, PromiseKind::Host);
            self.end(reference.number, Err(error));
            return Ok(Value::Promise(reference));
        }
        self.free_id(function, &id)?;
        self.count(Counter::Child);
        child.workflow_id = id.to_string();
        self.command(Command::StartChild(Box::new(child)))?;
        let kind = PromiseKind::Child { name, on_cancel, start_only, is_asked: false };
        Ok(Value::Promise(self.promise(id, kind)))
    }

    /// The payloads of an object's fields; null ones are left out.
    fn payloads(&mut self, value: &Value) -> Result<Vec<(String, Payload)>, LanguageError> {
        let Value::Object(object) = value else { return Ok(Vec::new()) };
        let mut payloads = Vec::new();
        for (key, value) in object.iter().filter(|(_, value)| !matches!(value, Value::Null)) {
            payloads.push((key.to_string(), self.payload(value)?));
        }
        pure::payload::check_total(payloads.iter().map(|(_, payload)| payload))?;
        Ok(payloads)
    }

    pub(super) fn send_signal(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let function = "Workflow.signal";
        let workflow_id = pure::name(function, "the workflow id", arguments.first().unwrap_or(&Value::Null))?;
        let name = pure::name(function, "the name", arguments.get(1).unwrap_or(&Value::Null))?;
        let mut run_id = String::new();
        for (_, value) in pure::options::check(function, arguments.get(3).unwrap_or(&Value::Null), SEND_SIGNAL)? {
            if let Value::Str(text) = value {
                run_id = text.to_string();
            }
        }
        let input = self.input(function, arguments.get(2), None)?;
        self.room_for(OperationKind::Send)?;
        let id = self.next_id(Counter::Send);
        self.command(Command::Signal {
            id: id.to_string(),
            workflow_id: workflow_id.to_string(),
            run_id,
            name: name.to_string(),
            input,
        })?;
        Ok(Value::Promise(self.promise(id, PromiseKind::Send { name })))
    }

    pub(super) fn send_cancel(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let function = "Workflow.cancel";
        let workflow_id = pure::name(function, "the workflow id", arguments.first().unwrap_or(&Value::Null))?;
        let (mut run_id, mut reason) = (String::new(), String::new());
        for (option, value) in pure::options::check(function, arguments.get(1).unwrap_or(&Value::Null), SEND_CANCEL)? {
            match (option, value) {
                ("run_id", Value::Str(text)) => run_id = text.to_string(),
                ("reason", Value::Str(text)) => reason = text.to_string(),
                _ => {}
            }
        }
        self.room_for(OperationKind::Send)?;
        let id = self.next_id(Counter::Send);
        let command =
            Command::CancelWorkflow { id: id.to_string(), workflow_id: workflow_id.to_string(), run_id, reason };
        self.command(command)?;
        Ok(Value::Promise(self.promise(id, PromiseKind::Send { name: "cancel".into() })))
    }

    /// `Workflow.continueAsNew`: checks the arguments and keeps them until the body has ended.
    pub(super) fn prepare_new(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let function = "Workflow.continueAsNew";
        let (mut args, mut queue, mut run_timeout, mut same) = (None, Value::Null, 0, false);
        for (option, value) in pure::options::check(function, arguments.get(1).unwrap_or(&Value::Null), CONTINUE)? {
            match (option, value) {
                ("args", value) => args = Some(value),
                ("queue", value) => queue = value,
                ("run_timeout", value) => run_timeout = pure::duration::parse(&value, function)?,
                ("version", Value::Str(text)) => same = &*text == "same",
                _ => {}
            }
        }
        // What cannot be sent is found here, where it is written.
        self.input(function, arguments.first(), args.as_ref())?;
        let input = match (args, arguments.first()) {
            (Some(args), _) => args,
            (None, Some(input)) => Value::list(vec![input.clone()]),
            (None, None) => Value::list(Vec::new()),
        };
        Ok(Value::list(vec![input, queue, Value::Int(run_timeout), Value::Bool(same)]))
    }

    pub(super) fn info(&mut self) -> Value {
        let start = &self.start;
        let or_null = |text: &str| if text.is_empty() { Value::Null } else { Value::text(text) };
        let values = |fields: &[(String, Payload)]| {
            Value::object(fields.iter().map(|(key, payload)| (key.as_str(), pure::payload::argument(payload.clone()))))
        };
        let parent = start.parent.as_ref().map_or(Value::Null, |(workflow_id, run_id)| {
            Value::object([
                ("workflow_id", Value::text(workflow_id.as_str())),
                ("run_id", Value::text(run_id.as_str())),
            ])
        });
        let value = Value::object([
            ("workflow_id", Value::text(start.workflow_id.as_str())),
            ("run_id", Value::text(start.run_id.as_str())),
            ("name", Value::text(start.name.as_str())),
            ("version", Value::text(start.version.as_str())),
            ("namespace", Value::text(start.namespace.as_str())),
            ("task_queue", Value::text(start.task_queue.as_str())),
            ("attempt", Value::Int(start.attempt.into())),
            ("started_at", Value::text(pure::time::show(start.started_at))),
            ("parent", parent),
            ("continued_from", or_null(&start.continued_from)),
            ("cron", or_null(&start.cron)),
            ("memo", values(&start.memo)),
            ("search_attributes", values(&start.search_attributes)),
        ]);
        let mut cost = pure::Cost::default();
        cost.touch(value.size());
        self.charge(cost);
        value
    }

    pub(super) fn set_memo(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let changes = self.changes("Workflow.setMemo", arguments)?;
        if changes.is_empty() {
            return Ok(Value::Null);
        }
        let replaced: BTreeSet<&str> = changes.iter().map(|(key, _)| key.as_str()).collect();
        let kept = self.start.memo.iter().filter(|(key, _)| !replaced.contains(key.as_str()));
        let new = changes.iter().filter_map(|(_, payload)| payload.as_ref());
        pure::payload::check_total(kept.map(|(_, payload)| payload).chain(new))?;
        merge(&mut self.start.memo, &changes);
        match self.memo_command.and_then(|place| self.commands.get_mut(place)) {
            Some(Some(Command::SetMemo(known))) => merge_changes(known, changes),
            _ => self.memo_command = Some(self.command(Command::SetMemo(changes))?),
        }
        Ok(Value::Null)
    }

    pub(super) fn set_attributes(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let function = "Workflow.setSearchAttributes";
        self.check_attributes(function, arguments.first().unwrap_or(&Value::Null))?;
        let changes = self.changes(function, arguments)?;
        if changes.is_empty() {
            return Ok(Value::Null);
        }
        merge(&mut self.start.search_attributes, &changes);
        match self.attributes_command.and_then(|place| self.commands.get_mut(place)) {
            Some(Some(Command::SetSearchAttributes(known))) => merge_changes(known, changes),
            _ => self.attributes_command = Some(self.command(Command::SetSearchAttributes(changes))?),
        }
        Ok(Value::Null)
    }

    fn changes(&mut self, function: &str, arguments: &[Value]) -> Result<Changes, LanguageError> {
        let Some(Value::Object(object)) = arguments.first() else {
            return Err(LanguageError::argument(format!("{function}: the argument must be an object")));
        };
        let mut changes = Vec::new();
        for (key, value) in object.iter() {
            let payload = match value {
                Value::Null => None,
                value => Some(self.payload(value)?),
            };
            changes.push((key.to_string(), payload));
        }
        Ok(changes)
    }

    /// Refuses search attributes that the namespace does not have or that have another type.
    fn check_attributes(&self, function: &str, value: &Value) -> Result<(), LanguageError> {
        let Value::Object(object) = value else {
            return Err(LanguageError::argument(format!("{function}: the argument must be an object")));
        };
        for (key, value) in object.iter() {
            let known = self.start.attribute_types.iter().find(|(name, _)| **name == **key);
            let Some((_, wanted)) = known else {
                return Err(LanguageError::argument(format!("{function}: unknown search attribute \"{key}\"")));
            };
            let is_text = |value: &Value| matches!(value, Value::Str(_));
            let is_right = match (wanted.as_str(), value) {
                (_, Value::Null) => true,
                ("Keyword" | "Text", value) => is_text(value),
                ("Int", value) => matches!(value, Value::Int(_)),
                ("Double", value) => matches!(value, Value::Int(_) | Value::Float(_)),
                ("Bool", value) => matches!(value, Value::Bool(_)),
                ("Datetime", Value::Str(text)) => pure::time::parse_text(text).is_some(),
                ("KeywordList", Value::List(list)) => list.items().iter().all(is_text),
                _ => false,
            };
            if !is_right {
                let message =
                    format!("{function}: search attribute \"{key}\" is of type {wanted}, not {}", value.type_name());
                return Err(LanguageError::argument(message));
            }
        }
        Ok(())
    }
}

/// Changes with different keys.
type Changes = Vec<(String, Option<Payload>)>;

fn merge(fields: &mut Vec<(String, Payload)>, changes: &Changes) {
    let mut known = std::mem::take(fields).into_iter().map(|(key, payload)| (key, Some(payload))).collect();
    merge_changes(&mut known, changes.clone());
    fields.extend(known.into_iter().filter_map(|(key, payload)| Some((key, payload?))));
}

fn merge_changes(known: &mut Changes, changes: Changes) {
    let places: BTreeMap<String, usize> =
        known.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect();
    for (key, change) in changes {
        match places.get(&key).and_then(|place| known.get_mut(*place)) {
            Some((_, payload)) => *payload = change,
            None => known.push((key, change)),
        }
    }
}

/// The command for what [`Machine::prepare_new`] kept.
pub(super) fn continue_from(value: &Value) -> ContinueAsNew {
    let mut command = ContinueAsNew::default();
    let Value::List(parts) = value else { return command };
    if let [Value::List(input), queue, Value::Int(run_timeout), Value::Bool(same_version)] = parts.items() {
        command.input = input.items().iter().filter_map(|value| pure::payload::write(value).ok()).collect();
        if let Value::Str(queue) = queue {
            command.queue = queue.to_string();
        }
        command.run_timeout = *run_timeout;
        command.same_version = *same_version;
    }
    command
}
