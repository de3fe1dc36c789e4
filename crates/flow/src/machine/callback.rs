//! Functions of the library that call back into the script: `map`, `filter`, `sort` and so on.

use std::rc::Rc;

use crate::library::Method;
use crate::pure;
use crate::value::{ITEM_BYTES, LanguageError, List, Value};

use super::Machine;
use super::frame::{Caller, Closure, Fault, Fiber, defect};
use super::run::Exit;

impl Machine<'_> {
    /// Calls a function that is not async and waits for its value. Arguments that it does not take are dropped.
    pub(super) fn call_back(
        &mut self,
        fiber: &mut Fiber,
        closure: &Closure,
        arguments: &[Value],
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let params = self.code.function(closure.function).ok_or_else(|| defect("no such function"))?.params as usize;
        for place in 0..params {
            fiber.push(arguments.get(place).cloned().unwrap_or(Value::Null));
        }
        self.enter(fiber, closure.clone())?;
        let result = self.run(fiber, fiber.callers.len(), up);
        self.depth = self.depth.saturating_sub(1);
        match result? {
            Exit::Returned(value) => Ok(value),
            Exit::New(_) | Exit::Waits => Err(defect("code that may not wait waits")),
        }
    }

    #[inline(never)]
    pub(super) fn method(&mut self, fiber: &mut Fiber, method: Method, arguments: u32) -> Result<(), Fault> {
        let arguments = fiber.take(arguments as usize)?;
        let receiver = fiber.top()?;
        let mut cost = pure::Cost::default();
        let result = pure::method(method, receiver, &arguments, &mut cost);
        self.charge(cost);
        let value = result?;
        self.check_value(&value)?;
        *receiver = value;
        Ok(())
    }

    #[inline(never)]
    pub(super) fn method_with(
        &mut self,
        fiber: &mut Fiber,
        method: Method,
        arguments: u32,
        closure: u32,
        up: Option<&Caller<'_>>,
    ) -> Result<(), Fault> {
        let closure = self.closure(fiber, closure)?;
        let start = fiber.take(arguments as usize)?.into_iter().next();
        let receiver = fiber.pop()?;
        let Value::List(list) = receiver else { return Err(pure::no_method(method, &receiver).into()) };
        let mut cost = pure::Cost::default();
        cost.touch(list.items().len());
        self.charge(cost);
        let before = self.under_way;
        self.under_way += Value::List(Rc::clone(&list)).memory();
        let value = match method {
            Method::Map => self.map(fiber, &list, &closure, up),
            Method::FlatMap => self.flat_map(fiber, &list, &closure, up),
            Method::Filter => self.filter(fiber, &list, &closure, up),
            Method::Find | Method::FindIndex | Method::Some | Method::Every => {
                self.search(fiber, method, &list, &closure, up)
            }
            Method::Reduce => self.reduce(fiber, &list, &closure, start.unwrap_or(Value::Null), up),
            Method::Sort => self.sort(fiber, &list, &closure, up),
            _ => Err(defect("this method takes no function")),
        };
        self.under_way = before;
        let value = value?;
        self.check_value(&value)?;
        fiber.push(value);
        Ok(())
    }

    /// Calls `fn(element, index)`; an async one gives its promise.
    #[inline(never)]
    fn element_call(
        &mut self,
        fiber: &mut Fiber,
        closure: &Closure,
        (index, item): (usize, &Value),
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let arguments = [item.clone(), Value::Int(i64::try_from(index).unwrap_or(i64::MAX))];
        if self.code.function(closure.function).is_some_and(|info| info.is_async) {
            self.start_call(fiber, closure, &arguments, up)
        } else {
            self.call_back(fiber, closure, &arguments, up)
        }
    }

    /// Refuses a list under way that is too large already.
    fn room(&mut self, size: &mut usize, value: &Value) -> Result<(), LanguageError> {
        *size += value.size() + 1;
        self.under_way += value.memory() + ITEM_BYTES;
        let limit = self.limits.value_bytes;
        if *size > limit { Err(pure::MemoryLimit::Value(limit).error()) } else { Ok(()) }
    }

    #[inline(never)]
    fn map(
        &mut self,
        fiber: &mut Fiber,
        list: &List,
        closure: &Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let mut results = Vec::with_capacity(list.items().len());
        let mut size = 0;
        for item in list.items().iter().enumerate() {
            let value = self.element_call(fiber, closure, item, up)?;
            self.room(&mut size, &value)?;
            results.push(value);
        }
        Ok(Value::list(results))
    }

    #[inline(never)]
    fn flat_map(
        &mut self,
        fiber: &mut Fiber,
        list: &List,
        closure: &Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let mut results = Vec::new();
        let mut size = 0;
        for item in list.items().iter().enumerate() {
            let value = self.element_call(fiber, closure, item, up)?;
            self.room(&mut size, &value)?;
            match value {
                Value::List(inner) => results.extend(inner.items().iter().cloned()),
                value => results.push(value),
            }
        }
        Ok(Value::list(results))
    }

    #[inline(never)]
    fn filter(
        &mut self,
        fiber: &mut Fiber,
        list: &List,
        closure: &Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let mut results = Vec::new();
        for item in list.items().iter().enumerate() {
            let value = self.element_call(fiber, closure, item, up)?;
            if pure::condition(&value)? {
                results.push(item.1.clone());
            }
        }
        Ok(Value::list(results))
    }

    #[inline(never)]
    fn search(
        &mut self,
        fiber: &mut Fiber,
        method: Method,
        list: &List,
        closure: &Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let stop_at = method != Method::Every;
        for item in list.items().iter().enumerate() {
            let value = self.element_call(fiber, closure, item, up)?;
            if pure::condition(&value)? == stop_at {
                return Ok(match method {
                    Method::Find => item.1.clone(),
                    Method::FindIndex => Value::Int(i64::try_from(item.0).unwrap_or(i64::MAX)),
                    _ => Value::Bool(stop_at),
                });
            }
        }
        Ok(match method {
            Method::Find => Value::Null,
            Method::FindIndex => Value::Int(-1),
            _ => Value::Bool(!stop_at),
        })
    }

    #[inline(never)]
    fn reduce(
        &mut self,
        fiber: &mut Fiber,
        list: &List,
        closure: &Closure,
        start: Value,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        let mut sum = start;
        for (index, item) in list.items().iter().enumerate() {
            let arguments = [sum, item.clone(), Value::Int(i64::try_from(index).unwrap_or(i64::MAX))];
            sum = self.call_back(fiber, closure, &arguments, up)?;
        }
        Ok(sum)
    }

    /// Merge sort: stable, and any answers of the comparator give some order. (That of the standard library may panic.)
    #[inline(never)]
    fn sort(
        &mut self,
        fiber: &mut Fiber,
        list: &List,
        closure: &Closure,
        up: Option<&Caller<'_>>,
    ) -> Result<Value, Fault> {
        self.under_way += 2 * list.items().len() * size_of::<Value>();
        let mut items = list.items().to_vec();
        let mut merged = Vec::with_capacity(items.len());
        let mut width = 1;
        while width < items.len() {
            for chunk in items.chunks(2 * width) {
                let (mut left, mut right) = chunk.split_at(width.min(chunk.len()));
                while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
                    let order = self.call_back(fiber, closure, &[first.clone(), second.clone()], up)?;
                    let is_after = match &order {
                        Value::Int(order) => *order > 0,
                        Value::Float(order) => *order > 0.0,
                        other => {
                            let message = format!("sort: the function must give a number, not {}", other.type_name());
                            return Err(LanguageError::type_error(message).into());
                        }
                    };
                    if is_after {
                        merged.push(second.clone());
                        right = right_rest;
                    } else {
                        merged.push(first.clone());
                        left = left_rest;
                    }
                }
                merged.extend(left.iter().chain(right).cloned());
            }
            std::mem::swap(&mut items, &mut merged);
            merged.clear();
            width *= 2;
        }
        Ok(Value::List(Rc::new(List::new(items))))
    }
}
