//! Functions of `Object`.

use std::sync::Arc;

use crate::library::Function;
use crate::value::{LanguageError, Value};

use super::arguments::{get, list, must_be, object};
use super::{Cost, FIELD, VALUE_UNITS, limited};

/// Units of a field of an object, or a key, of which some are chosen: it is looked for among the keys, and set.
const SELECTION_COST: usize = 3 * FIELD;

pub(super) fn call(function: Function, arguments: &[Value], cost: &mut Cost) -> Result<Value, LanguageError> {
    let name = function.signature().name;
    let first = get(arguments, 0);
    if function == Function::ObjectFromEntries {
        return from_entries(name, first, cost);
    }
    let fields = object(name, "the argument", first)?;
    // Keys are shared with the object.
    cost.touch(FIELD / 4 * fields.len());
    match function {
        Function::ObjectKeys => Ok(Value::list(fields.iter().map(|(key, _)| Value::Str(Arc::clone(key))).collect())),
        Function::ObjectValues => Ok(Value::list(fields.iter().map(|(_, value)| value.clone()).collect())),
        Function::ObjectEntries => {
            let entry =
                |(key, value): (&Arc<str>, &Value)| Value::list(vec![Value::Str(Arc::clone(key)), value.clone()]);
            // Two for each: the list and its elements.
            cost.add(2 * VALUE_UNITS * fields.len());
            limited(Value::list(fields.iter().map(entry).collect()))
        }
        Function::ObjectPick => {
            let keys = keys(name, get(arguments, 1))?;
            cost.touch(SELECTION_COST * (keys.len() + fields.len()));
            let wanted: std::collections::BTreeSet<&str> = keys.iter().map(|key| &**key).collect();
            let picked = fields.iter().filter(|(key, _)| wanted.contains(&***key));
            Ok(Value::object(picked.map(|(key, value)| (Arc::clone(key), value.clone()))))
        }
        _ => {
            let keys = keys(name, get(arguments, 1))?;
            cost.touch(SELECTION_COST * (keys.len() + fields.len()));
            let left_out: std::collections::BTreeSet<&str> = keys.iter().map(|key| &**key).collect();
            let kept = fields.iter().filter(|(key, _)| !left_out.contains(&***key));
            Ok(Value::object(kept.map(|(key, value)| (Arc::clone(key), value.clone()))))
        }
    }
}

fn keys(name: &str, value: &Value) -> Result<Vec<Arc<str>>, LanguageError> {
    let wrong = || must_be(name, "the keys", "a list of strings");
    let Value::List(items) = value else { return Err(wrong()) };
    items
        .items()
        .iter()
        .map(|item| match item {
            Value::Str(key) => Ok(Arc::clone(key)),
            _ => Err(wrong()),
        })
        .collect()
}

fn from_entries(name: &str, value: &Value, cost: &mut Cost) -> Result<Value, LanguageError> {
    let entries = list(name, "the argument", value)?;
    cost.touch(2 * FIELD * entries.items().len());
    let fields: Result<Vec<(Arc<str>, Value)>, LanguageError> = entries
        .items()
        .iter()
        .map(|entry| match entry {
            Value::List(pair) => match pair.items() {
                [Value::Str(key), value] => Ok((Arc::clone(key), value.clone())),
                _ => Err(must_be(name, "each entry", "a list of a string and a value")),
            },
            _ => Err(must_be(name, "each entry", "a list of a string and a value")),
        })
        .collect();
    limited(Value::object(fields?))
}
