//! Functions of lists that take no function, and `List.range`.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::library::Method;
use crate::value::{LanguageError, List, Value};

use super::arguments::{get, list, string_or, whole, whole_or};
use super::string::append_text;
use super::{Cost, DOUBLE_TEXT, MemoryLimit, VALUE_UNITS, compare, limited, number, room_for};

/// A method of a list that does not change it; `None` if lists have no such method.
pub(super) fn method(
    method: Method,
    receiver: &Rc<List>,
    arguments: &[Value],
    cost: &mut Cost,
) -> Option<Result<Value, LanguageError>> {
    let items = receiver.items();
    let name = method.signature().name;
    let first = get(arguments, 0);
    Some(match method {
        Method::At => whole(name, "the index", first).map(|at| {
            cost.touch(0);
            place(at, items.len()).and_then(|at| items.get(at)).cloned().unwrap_or(Value::Null)
        }),
        Method::Concat => list(name, "the argument", first).and_then(|other| {
            cost.touch(items.len() + other.items().len());
            room_for(Value::List(Rc::clone(receiver)).size() + first.size())?;
            let mut both = List::with_capacity(items.len() + other.items().len());
            both.extend(receiver);
            both.extend(other);
            limited(Value::List(Rc::new(both)))
        }),
        Method::Slice => range(name, arguments, items.len()).map(|(from, to)| {
            cost.touch(to - from);
            Value::list(items[from..to].to_vec())
        }),
        Method::Includes => Ok(Value::Bool(position(items, first, cost).is_some())),
        Method::IndexOf => Ok(Value::Int(position(items, first, cost).map_or(-1, |at| at as i64))),
        Method::Join => join(name, items, first, cost),
        Method::Reverse => {
            cost.touch(items.len());
            Ok(Value::List(Rc::new(receiver.reordered(items.iter().rev().cloned().collect()))))
        }
        Method::Flat => whole_or(name, "the depth", first, 1).and_then(|depth| {
            let mut flat = FlatList::default();
            let result = flat.add(items, depth);
            cost.touch(flat.visited);
            result.and_then(|()| limited(Value::list(flat.items)))
        }),
        Method::Sort => sort(receiver, cost),
        _ => return None,
    })
}

/// `push`, `unshift`, `pop`, `shift`.
pub(super) fn change(
    method: Method,
    target: &mut Rc<List>,
    arguments: Vec<Value>,
    cost: &mut Cost,
) -> Result<Value, LanguageError> {
    let count = target.items().len();
    // A list with other references is copied first.
    cost.touch(if Rc::strong_count(target) > 1 { count } else { 0 } + arguments.len());
    if matches!(method, Method::Pop | Method::Shift) && count == 0 {
        return Ok(Value::Null);
    }
    if arguments.iter().any(|value| value.depth() >= crate::value::DEPTH_MAX) {
        return Err(MemoryLimit::Depth(crate::value::DEPTH_MAX).error());
    }
    let added: usize = arguments.iter().map(Value::size).sum();
    room_for(Value::List(Rc::clone(target)).size() + added)?;
    let list = Rc::make_mut(target);
    match method {
        Method::Push => arguments.into_iter().for_each(|value| list.push(value)),
        Method::Unshift => {
            cost.touch(count.saturating_mul(arguments.len()));
            arguments.into_iter().enumerate().for_each(|(place, value)| list.insert(place, value));
        }
        Method::Shift => {
            cost.touch(count);
            return Ok(list.remove(0));
        }
        _ => return Ok(list.pop().unwrap_or(Value::Null)),
    }
    Ok(Value::Int(list.items().len() as i64))
}

/// `List.range(n)`, `List.range(from, to)`.
pub(super) fn range_of(arguments: &[Value], cost: &mut Cost) -> Result<Value, LanguageError> {
    let name = "List.range";
    let (from, to) = match arguments {
        [to] => (0, whole(name, "the argument", to)?),
        arguments => {
            (whole(name, "the first number", get(arguments, 0))?, whole(name, "the last number", get(arguments, 1))?)
        }
    };
    let count = usize::try_from(i128::from(to) - i128::from(from)).unwrap_or(0);
    room_for(count.saturating_mul(2))?;
    cost.touch(count);
    limited(Value::list((from..to).map(Value::Int).collect()))
}

/// The place of an index that counts from the end if it is negative; `None` before the beginning.
pub(super) fn place(index: i64, count: usize) -> Option<usize> {
    if index < 0 { count.checked_sub(usize::try_from(index.unsigned_abs()).ok()?) } else { usize::try_from(index).ok() }
}

/// The arguments of `slice`, negative ones from the end, clipped.
pub(super) fn range(name: &str, arguments: &[Value], count: usize) -> Result<(usize, usize), LanguageError> {
    let clip = |index: i64| place(index, count).unwrap_or(0).min(count);
    let from = clip(whole_or(name, "the beginning", get(arguments, 0), 0)?);
    let to = match get(arguments, 1) {
        Value::Null => count,
        to => clip(whole(name, "the end", to)?),
    };
    Ok((from, to.max(from)))
}

fn position(items: &[Value], wanted: &Value, cost: &mut Cost) -> Option<usize> {
    cost.touch(items.len());
    items.iter().position(|item| {
        // Counted once for all; what an element has inside is counted besides.
        let mut inner = Cost::default();
        let is_equal = compare::equal(item, wanted, &mut inner);
        cost.steps += inner.steps - 1;
        is_equal
    })
}

fn join(name: &str, items: &[Value], separator: &Value, cost: &mut Cost) -> Result<Value, LanguageError> {
    let separator = string_or(name, "the separator", separator, ",")?;
    let mut text = String::new();
    let mut units = 0;
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            text.push_str(separator);
        }
        match item {
            Value::Str(_) => units += 1,
            Value::Int(_) | Value::Bool(_) => units += VALUE_UNITS,
            Value::Float(_) => units += DOUBLE_TEXT,
            other => return Err(LanguageError::type_error(format!("cannot join a {}", other.type_name()))),
        }
        append_text(item, &mut text)?;
        room_for(text.len())?;
    }
    cost.touch(units + text.len());
    limited(Value::text(text))
}

/// A list that is made of lists in lists.
#[derive(Default)]
struct FlatList {
    items: Vec<Value>,
    size: usize,
    /// Elements that were looked at, at any depth.
    visited: usize,
}

impl FlatList {
    fn add(&mut self, items: &[Value], depth: i64) -> Result<(), LanguageError> {
        self.visited += items.len();
        for item in items {
            match item {
                Value::List(inner) if depth > 0 => self.add(inner.items(), depth - 1)?,
                item => {
                    self.size += item.size();
                    room_for(self.size)?;
                    self.items.push(item.clone());
                }
            }
        }
        Ok(())
    }
}

/// Units of a comparison while sorting, besides the bytes of texts.
const COMPARISON_COST: usize = 4;

fn sort(list: &List, cost: &mut Cost) -> Result<Value, LanguageError> {
    let items = list.items();
    let mut sorted = items.to_vec();
    if let Some(first) = items.first() {
        // Found before sorting, so that the message does not depend on how it is sorted.
        for item in items {
            compare::order(first, item, &mut Cost::default())?;
        }
        let mut compared = 0;
        sorted.sort_by(|a, b| match (a, b) {
            (Value::Str(a), Value::Str(b)) => {
                compared += a.len().min(b.len()) + COMPARISON_COST;
                a.cmp(b)
            }
            (a, b) => {
                compared += COMPARISON_COST;
                number::order(a, b).unwrap_or(Ordering::Equal)
            }
        });
        cost.touch(items.len() + compared);
    }
    Ok(Value::List(Rc::new(list.reordered(sorted))))
}
