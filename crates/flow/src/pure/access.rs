//! Access to fields and elements.

use std::sync::Arc;

use crate::fields::INDEXED_FROM;
use crate::hir::Access;
use crate::value::{Kind, LanguageError, Object, Value};

use super::number;

/// How many bytes [`field`] and [`index`] look at: the length of a string has to be counted, a long key to be compared
/// with others. For [`super::Cost::touch`].
#[must_use]
pub fn access_units(base: &Value, index: &Value) -> usize {
    match (base, index) {
        (Value::Str(text), _) => text.len(),
        (Value::Object(object), Value::Str(key)) => key_units(object, key),
        _ => 0,
    }
}

/// How many bytes are looked at to find a key of an object.
#[must_use]
pub fn key_units(object: &Object, key: &str) -> usize {
    // A small object has no index: its keys are compared one after the other, as far as they have the same length.
    if key.len() < 2 * super::FIELD { 0 } else { key.len().saturating_mul(object.len().clamp(1, INDEXED_FROM)) }
}

/// `base.key`. `None`: the base is null and the rest of the chain is skipped.
pub fn field(base: &Value, key: &str, access: Access) -> Result<Option<Value>, LanguageError> {
    match base {
        Value::Object(object) => match (object.get(key), access) {
            (Some(value), _) => Ok(Some(value.clone())),
            (None, Access::Plain) => Err(no_field(key)),
            (None, Access::Optional | Access::Soft) => Ok(Some(Value::Null)),
        },
        Value::Null if access == Access::Optional => Ok(None),
        Value::Null => Err(LanguageError::type_error(format!("cannot read \"{key}\" of null"))),
        Value::List(list) if key == "length" => Ok(Some(length(list.items().len()))),
        Value::Str(text) if key == "length" => Ok(Some(length(text.chars().count()))),
        Value::Promise(promise) if key == "id" => Ok(Some(Value::Str(Arc::clone(&promise.id)))),
        Value::Promise(_) => Err(LanguageError::type_error("this is a promise; await it first")),
        other => Err(LanguageError::type_error(format!("a {} has no field \"{key}\"", other.type_name()))),
    }
}

/// `base[index]`. `None`: the base is null and the rest of the chain is skipped.
pub fn index(base: &Value, index: &Value, access: Access) -> Result<Option<Value>, LanguageError> {
    let outside = |kind: &str, at: i64, count: usize| match access {
        Access::Plain => Err(LanguageError::new(Kind::Index, format!("index {at} is outside of a {kind} of {count}"))),
        Access::Optional | Access::Soft => Ok(Some(Value::Null)),
    };
    match (base, index) {
        (Value::List(list), Value::Int(at)) => match usize::try_from(*at).ok().and_then(|at| list.items().get(at)) {
            Some(item) => Ok(Some(item.clone())),
            None => outside("list", *at, list.items().len()),
        },
        (Value::Str(text), Value::Int(at)) => match usize::try_from(*at).ok().and_then(|at| text.chars().nth(at)) {
            Some(character) => Ok(Some(Value::text(character.to_string()))),
            None => outside("string", *at, text.chars().count()),
        },
        (Value::List(_) | Value::Str(_), other) => Err(LanguageError::type_error(format!(
            "a {} index must be a whole number, not {}",
            base.type_name(),
            other.type_name()
        ))),
        (base, Value::Str(key)) => field(base, key, access),
        (Value::Object(_), other) => {
            Err(LanguageError::type_error(format!("a key must be a string, not {}", other.type_name())))
        }
        (base, Value::Int(_) | Value::Float(_)) => field(base, &number::text(index), access),
        (Value::Null, _) if access == Access::Optional => Ok(None),
        (base, other) => Err(LanguageError::type_error(format!(
            "cannot read an element of {}: a {} is no index",
            base.type_name(),
            other.type_name()
        ))),
    }
}

fn length(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The error of a field that is not there.
#[must_use]
pub fn no_field(key: &str) -> LanguageError {
    let mut characters = key.chars();
    let is_name =
        characters.next().is_some_and(|first| first == '_' || first == '$' || unicode_ident::is_xid_start(first))
            && characters.all(|next| next == '$' || unicode_ident::is_xid_continue(next));
    let access = if is_name { format!("?.{key}") } else { format!("?.[\"{key}\"]") };
    LanguageError::new(Kind::Field, format!("no field \"{key}\" (write {access} if it may be missing)"))
}
