//! Combinations: `Task.all`, `any`, `race`, `settle`, `map` and `timeout`.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use crate::library::{DECIDE, Function, MAP};
use crate::pure;
use crate::value::{Kind, LanguageError, MEMORY_PER_BYTE, PromiseRef, Value};

use super::frame::{Caller, Closure, Fault, FaultKind, Fiber};
use super::promise::{Outcome, Promise, PromiseKind};
use super::{Counter, Machine, ReadyStep, error_type};

/// Memory of what `Task.settle` says about an item.
const SETTLED_ITEM_BYTES: usize = 450;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    All,
    Any,
    Race,
    Settle,
    Map,
    Timeout,
}

/// A combination that is not decided.
pub(super) struct Combination {
    pub kind: Combine,
    pub items: Vec<Item>,
    /// Items that have not ended. An item that is there twice counts twice.
    pub missing: u32,
    /// Whether the others are canceled when it is decided.
    pub cancel: bool,
    /// The form with an object.
    pub is_keyed: bool,
    /// The timer of `Task.timeout`.
    pub timer: Option<u32>,
    /// The duration of `Task.timeout`.
    pub timeout: i64,
    pub map: Option<Mapping>,
}

/// One item.
pub(super) struct Item {
    pub key: Option<Arc<str>>,
    pub value: ItemValue,
}

pub(super) enum ItemValue {
    Promise(Rc<PromiseRef>),
    /// What a function given to `Task.map` returned, if it is no promise.
    Value(Value),
}

/// What `Task.map` still has to start.
pub(super) struct Mapping {
    pub closure: Closure,
    pub list: Value,
    pub next: u32,
    pub concurrency: u32,
    /// Whether it is in the queue of code that can go on.
    pub is_ready: bool,
}

impl Combination {
    /// Whether its end has other effects than waking the code that waits for it.
    pub fn has_effect(&self) -> bool {
        self.cancel || matches!(self.kind, Combine::Map | Combine::Timeout)
    }

    pub fn is_all_started(&self) -> bool {
        self.map.as_ref().is_none_or(|map| match &map.list {
            Value::List(list) => map.next as usize >= list.items().len(),
            _ => true,
        })
    }
}

impl Machine<'_> {
    /// `Task.all`, `any`, `race` and `settle`.
    pub(super) fn combine(&mut self, function: Function, arguments: &[Value]) -> Result<Value, Fault> {
        let name = function.signature().name;
        let (kind, counter) = match function {
            Function::TaskAny => (Combine::Any, Counter::Any),
            Function::TaskRace => (Combine::Race, Counter::Race),
            Function::TaskSettle => (Combine::Settle, Counter::Settle),
            _ => (Combine::All, Counter::All),
        };
        let given = arguments.first().unwrap_or(&Value::Null);
        let items = self.items(name, given)?;
        if kind == Combine::Race && items.is_empty() {
            return Err(LanguageError::argument(format!("{name}: nothing to wait for")).into());
        }
        let mut cancel = false;
        for (option, value) in pure::options::check(name, arguments.get(1).unwrap_or(&Value::Null), DECIDE)? {
            cancel = option == "cancel" && matches!(value, Value::Bool(true));
        }
        let combination = Combination {
            kind,
            items,
            missing: 0,
            cancel,
            is_keyed: matches!(given, Value::Object(_)),
            timer: None,
            timeout: 0,
            map: None,
        };
        Ok(self.begin(counter, combination))
    }

    fn items(&mut self, name: &str, given: &Value) -> Result<Vec<Item>, LanguageError> {
        let mut cost = pure::Cost::default();
        let items = match given {
            Value::List(list) => list
                .items()
                .iter()
                .map(|value| match value {
                    Value::Promise(promise) => Ok(Item { key: None, value: ItemValue::Promise(Rc::clone(promise)) }),
                    other => Err(LanguageError::argument(format!(
                        "{name}: an item is a {}, not a promise",
                        other.type_name()
                    ))),
                })
                .collect(),
            Value::Object(object) => object
                .iter()
                .map(|(key, value)| match value {
                    Value::Promise(promise) => {
                        Ok(Item { key: Some(key.clone()), value: ItemValue::Promise(Rc::clone(promise)) })
                    }
                    other => Err(LanguageError::argument(format!(
                        "{name}: item \"{key}\" is a {}, not a promise",
                        other.type_name()
                    ))),
                })
                .collect(),
            other => {
                let message =
                    format!("{name}: the items must be a list or an object of promises, not {}", other.type_name());
                Err(LanguageError::argument(message))
            }
        };
        let items: Vec<Item> = items?;
        cost.touch(items.len() * 16);
        self.charge(cost);
        Ok(items)
    }

    /// Puts a combination into the table; items that have ended count in the order of their ends.
    fn begin(&mut self, counter: Counter, combination: Combination) -> Value {
        let mut ended = Vec::new();
        let mut missing = 0;
        let id = self.next_id(counter);
        let number = self.next_promise;
        for item in &combination.items {
            let ItemValue::Promise(promise) = &item.value else { continue };
            let Some(entry) = self.promises.get_mut(&promise.number) else { continue };
            entry.heard = true;
            match &entry.end {
                Some(end) => ended.push((end.sequence, promise.number)),
                None => self.add_parent(promise.number, number),
            }
            missing += 1;
        }
        ended.sort_unstable();
        let is_empty = combination.items.is_empty();
        let combination = Combination { missing, ..combination };
        let reference = self.promise(id, PromiseKind::Combination(Box::new(combination)));
        for (_, item) in ended {
            self.item_ended(number, item);
        }
        if is_empty {
            self.decide(number, None);
        }
        self.settle_work();
        Value::Promise(reference)
    }

    /// An item of a combination has ended. (Once for each place where the item is.)
    pub(super) fn item_ended(&mut self, number: u32, item: u32) {
        let outcome_is_ok = match self.promises.get(&item).and_then(|promise| promise.end.as_ref()) {
            Some(end) => end.outcome.is_ok(),
            None => return,
        };
        let Some(Promise { kind: PromiseKind::Combination(combination), end: None, .. }) =
            self.promises.get_mut(&number)
        else {
            return;
        };
        combination.missing = combination.missing.saturating_sub(1);
        let is_last = combination.missing == 0 && combination.is_all_started();
        let mut map_goes_on = false;
        let decides = match combination.kind {
            Combine::All => is_last || !outcome_is_ok,
            Combine::Map => {
                map_goes_on = outcome_is_ok && !combination.is_all_started();
                is_last || !outcome_is_ok
            }
            Combine::Any => is_last || outcome_is_ok,
            Combine::Race | Combine::Timeout => true,
            Combine::Settle => is_last,
        };
        if decides {
            self.decide(number, Some(item));
        } else if map_goes_on
            && let Some(map) = &mut combination.map
            && !map.is_ready
        {
            map.is_ready = true;
            self.ready.push_back(ReadyStep::Map(number));
        }
    }

    /// Ends a combination. `item` is the one that decided.
    fn decide(&mut self, number: u32, item: Option<u32>) {
        let Some(Promise { kind: PromiseKind::Combination(combination), end: None, .. }) =
            self.promises.get_mut(&number)
        else {
            return;
        };
        let items = std::mem::take(&mut combination.items);
        let (kind, cancel, is_keyed) = (combination.kind, combination.cancel, combination.is_keyed);
        let timer = combination.timer.take();
        combination.map = None;
        // `settle` makes an object for each item.
        let made = if kind == Combine::Settle { items.len().saturating_mul(SETTLED_ITEM_BYTES) } else { 0 };
        let memory_max = self.limits.value_bytes.saturating_mul(MEMORY_PER_BYTE);
        if made > memory_max {
            self.broken = Some(pure::MemoryLimit::ValueMemory(memory_max).error());
            self.end_later(number, Ok(Value::Null));
            return;
        }
        let mut outcome = self.outcome(kind, &items, is_keyed, item);
        if let Ok(value) | Err(value) = &outcome
            && let Err(raised) = self.check_value(value)
        {
            // Combinations of combinations can nest deeper than values may.
            self.broken = Some(raised);
            outcome = Ok(Value::Null);
        }
        if let Some(timer) = timer {
            self.withdraw(timer);
        }
        let mut others = Vec::new();
        if cancel {
            let mut seen = BTreeSet::new();
            for other in &items {
                if let ItemValue::Promise(promise) = &other.value
                    && Some(promise.number) != item
                    && seen.insert(promise.number)
                    && self.promises.get(&promise.number).is_some_and(|entry| entry.end.is_none())
                {
                    others.push(promise.number);
                }
            }
        }
        self.end_later(number, outcome);
        for other in others {
            self.cancel_later(other);
        }
        drop(items);
    }

    fn outcome(&self, kind: Combine, items: &[Item], is_keyed: bool, decided: Option<u32>) -> Outcome {
        let end_of = |number: u32| self.promises.get(&number).and_then(|promise| promise.end.as_ref());
        let decided_end = decided.and_then(end_of).map(|end| &end.outcome);
        let id_of = |item: &Item| match (&item.key, &item.value) {
            (Some(key), _) => Value::Str(key.clone()),
            (None, ItemValue::Promise(promise)) => Value::Str(promise.id.clone()),
            (None, ItemValue::Value(_)) => Value::Null,
        };
        let is_decided =
            |item: &&Item| matches!(&item.value, ItemValue::Promise(promise) if Some(promise.number) == decided);
        let item_id = items.iter().find(is_decided).map_or(Value::Null, id_of);
        match (kind, decided_end) {
            (Combine::All | Combine::Map, Some(Err(error))) => Err(error.clone()),
            (Combine::Timeout, Some(outcome)) => outcome.clone(),
            (Combine::Timeout, None) => Ok(Value::Null),
            (Combine::Any, Some(Ok(value))) => Ok(Value::object([("item_id", item_id), ("result", value.clone())])),
            (Combine::Any, _) => Err(self.aggregate(items)),
            (Combine::Race, outcome) => Ok(settled(item_id, outcome)),
            (Combine::All | Combine::Map | Combine::Settle, _) => {
                let mut results = Vec::with_capacity(items.len());
                for item in items {
                    let outcome = match &item.value {
                        ItemValue::Promise(promise) => end_of(promise.number).map(|end| &end.outcome),
                        ItemValue::Value(value) => {
                            results.push(value.clone());
                            continue;
                        }
                    };
                    results.push(match (kind, outcome) {
                        (Combine::Settle, outcome) => settled(id_of(item), outcome),
                        (_, Some(Ok(value) | Err(value))) => value.clone(),
                        (_, None) => Value::Null,
                    });
                }
                Ok(if is_keyed {
                    let keys = items.iter().filter_map(|item| item.key.clone());
                    Value::object(keys.zip(results))
                } else {
                    Value::list(results)
                })
            }
        }
    }

    /// The error of `Task.any` when all have failed.
    fn aggregate(&self, items: &[Item]) -> Value {
        let errors: Vec<Value> = items
            .iter()
            .filter_map(|item| match &item.value {
                ItemValue::Promise(promise) => match &self.promises.get(&promise.number)?.end.as_ref()?.outcome {
                    Err(error) => Some(error.clone()),
                    Ok(_) => None,
                },
                ItemValue::Value(_) => None,
            })
            .collect();
        let is_canceled = !errors.is_empty() && errors.iter().all(|error| error_type(error) == Some("Canceled"));
        let (kind, message) = if is_canceled {
            (Kind::Canceled, "canceled".to_owned())
        } else {
            (Kind::Aggregate, format!("all of {} failed", items.len()))
        };
        pure::error::make(kind.name(), &message, Value::list(errors), kind.retryable(), Value::Null, Value::Null, "")
    }

    /// Notes that a promise is an item of a combination.
    fn add_parent(&mut self, item: u32, combination: u32) {
        let Some(entry) = self.promises.get_mut(&item) else { return };
        entry.parents.push(combination);
        // Now and then those that are decided are forgotten.
        if entry.parents.len() >= 16 && entry.parents.len().is_power_of_two() {
            let mut parents = std::mem::take(&mut entry.parents);
            parents.retain(|parent| *parent == combination || self.is_undecided(*parent));
            if let Some(entry) = self.promises.get_mut(&item) {
                entry.parents = parents;
            }
        }
    }

    /// Whether this is a combination that has not ended.
    pub(super) fn is_undecided(&self, number: u32) -> bool {
        matches!(self.promises.get(&number), Some(Promise { end: None, kind: PromiseKind::Combination(_), .. }))
    }

    /// `Task.timeout`.
    pub(super) fn timeout(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let name = "Task.timeout";
        let Some(Value::Promise(promise)) = arguments.first() else {
            return Err(LanguageError::argument(format!("{name}: the first argument must be a promise")).into());
        };
        let timeout = pure::duration::parse(arguments.get(1).unwrap_or(&Value::Null), name)?;
        let is_pending = self.promises.get(&promise.number).is_some_and(|entry| entry.end.is_none());
        let combination = Combination {
            kind: Combine::Timeout,
            items: vec![Item { key: None, value: ItemValue::Promise(Rc::clone(promise)) }],
            missing: 0,
            cancel: false,
            is_keyed: false,
            timer: None,
            timeout,
            map: None,
        };
        if is_pending {
            self.room_for_timer()?;
        }
        let number = self.next_promise;
        let value = self.begin(Counter::Timeout, combination);
        if is_pending {
            let timer = self.start_timer_of(number, timeout);
            if let Some(Promise { kind: PromiseKind::Combination(combination), .. }) = self.promises.get_mut(&number) {
                combination.timer = Some(timer);
            }
        }
        Ok(value)
    }

    /// `Task.map`.
    pub(super) fn task_map(
        &mut self,
        fiber: &mut Fiber,
        arguments: &[Value],
        closure: Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let name = "Task.map";
        let Some(list @ Value::List(_)) = arguments.first() else {
            return Err(LanguageError::argument(format!("{name}: the first argument must be a list")).into());
        };
        let mut concurrency = 100;
        for (_, value) in pure::options::check(name, arguments.get(1).unwrap_or(&Value::Null), MAP)? {
            if let Value::Int(given) = value {
                concurrency = u32::try_from(given).unwrap_or(u32::MAX);
            }
        }
        let combination = Combination {
            kind: Combine::Map,
            items: Vec::new(),
            missing: 0,
            cancel: false,
            is_keyed: false,
            timer: None,
            timeout: 0,
            map: Some(Mapping { closure, list: list.clone(), next: 0, concurrency, is_ready: false }),
        };
        let id = self.next_id(Counter::Map);
        let reference = self.promise(id, PromiseKind::Combination(Box::new(combination)));
        self.map_on(fiber, reference.number, up)?;
        Ok(Value::Promise(reference))
    }

    /// Starts elements of `Task.map` as long as there is room.
    pub(super) fn map_on(&mut self, fiber: &mut Fiber, number: u32, up: Option<&Caller<'_>>) -> Result<(), Fault> {
        loop {
            let Some(combination) = self.mapping(number) else { return Ok(()) };
            let missing = combination.missing;
            let Some(map) = &mut combination.map else { return Ok(()) };
            map.is_ready = false;
            let next = map.next;
            let element = match &map.list {
                Value::List(list) => list.items().get(next as usize).cloned(),
                _ => None,
            };
            let Some(element) = element else {
                if missing == 0 {
                    self.decide(number, None);
                    self.settle_work();
                }
                return Ok(());
            };
            if missing >= map.concurrency {
                return Ok(());
            }
            map.next += 1;
            let closure = map.closure.clone();
            let arguments = [element, Value::Int(next.into())];
            let is_async = self.code.function(closure.function).is_some_and(|info| info.is_async);
            let result = if is_async {
                self.start_call(fiber, &closure, &arguments, up)
            } else {
                self.call_back(fiber, &closure, &arguments, up)
            };
            let value = match result {
                Ok(value) => value,
                Err(fault) => {
                    // The function itself failed: so does the combination.
                    let error = match *fault {
                        FaultKind::Throw(error) => error,
                        FaultKind::LanguageError(raised) => self.error_object(&raised, fiber, up)?,
                        FaultKind::Fatal(fatal) => return Err(fatal.into()),
                    };
                    if let Some(combination) = self.mapping(number) {
                        let items = std::mem::take(&mut combination.items);
                        combination.map = None;
                        drop(items);
                        self.end_later(number, Err(error));
                        self.settle_work();
                    }
                    return Ok(());
                }
            };
            self.add_mapped(number, value);
            self.settle_work();
        }
    }

    fn mapping(&mut self, number: u32) -> Option<&mut Combination> {
        match self.promises.get_mut(&number) {
            Some(Promise { kind: PromiseKind::Combination(combination), end: None, .. }) => Some(combination),
            _ => None,
        }
    }

    /// Adds what the function of `Task.map` gave for the next element.
    fn add_mapped(&mut self, number: u32, value: Value) {
        let Value::Promise(promise) = value else {
            if let Some(combination) = self.mapping(number) {
                combination.items.push(Item { key: None, value: ItemValue::Value(value) });
            }
            return;
        };
        let item = promise.number;
        let mut has_ended = true;
        if let Some(entry) = self.promises.get_mut(&item) {
            entry.heard = true;
            has_ended = entry.end.is_some();
        }
        if !has_ended {
            self.add_parent(item, number);
        }
        let Some(combination) = self.mapping(number) else { return };
        combination.items.push(Item { key: None, value: ItemValue::Promise(promise) });
        combination.missing += 1;
        if has_ended {
            // The loop that starts elements is under way.
            if let Some(map) = &mut combination.map {
                map.is_ready = true;
            }
            self.item_ended(number, item);
        }
    }
}

/// What `Task.race` gives for an item.
fn settled(item_id: Value, outcome: Option<&Outcome>) -> Value {
    match outcome {
        Some(Err(error)) => {
            Value::object([("item_id", item_id), ("status", Value::text("failed")), ("error", error.clone())])
        }
        outcome => {
            let value = outcome.and_then(|outcome| outcome.clone().ok()).unwrap_or(Value::Null);
            Value::object([("item_id", item_id), ("status", Value::text("completed")), ("result", value)])
        }
    }
}
