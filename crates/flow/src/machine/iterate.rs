//! `for … of`: goes over the elements of a list or the characters of a string.

use crate::value::{LanguageError, Value};

use super::frame::{Fault, Fiber, Slot, defect};

#[inline(never)]
pub(super) fn iter_start(fiber: &mut Fiber, slot: u32) -> Result<(), Fault> {
    let value = fiber.pop()?;
    match &value {
        Value::List(_) | Value::Str(_) => {}
        Value::Object(_) => {
            let message = "for … of takes a list or a string, not object; use Object.entries";
            return Err(LanguageError::type_error(message).into());
        }
        other => {
            let message = format!("for … of takes a list or a string, not {}", other.type_name());
            return Err(LanguageError::type_error(message).into());
        }
    }
    *fiber.slot_mut(slot)? = Slot::Value(value);
    *fiber.slot_mut(slot + 1)? = Slot::Value(Value::Int(0));
    Ok(())
}

/// Pushes the next element. The second slot counts elements of a list, or bytes of a string.
#[inline(never)]
pub(super) fn iter_next(fiber: &mut Fiber, slot: u32, end: u32) -> Result<(), Fault> {
    let at = match fiber.slot(slot + 1)? {
        Slot::Value(Value::Int(at)) => usize::try_from(*at).map_err(|_| defect("a loop has no place"))?,
        _ => return Err(defect("a loop has no place")),
    };
    let (value, next) = match fiber.slot(slot)? {
        Slot::Value(Value::List(list)) => (list.items().get(at).cloned(), at + 1),
        Slot::Value(Value::Str(text)) => match text.get(at..).and_then(|rest| rest.chars().next()) {
            Some(next) => {
                let mut buffer = [0; 4];
                (Some(Value::text(&*next.encode_utf8(&mut buffer))), at + next.len_utf8())
            }
            None => (None, at),
        },
        _ => return Err(defect("a loop goes over nothing")),
    };
    match value {
        Some(value) => {
            *fiber.slot_mut(slot + 1)? = Slot::Value(Value::Int(i64::try_from(next).unwrap_or(i64::MAX)));
            fiber.push(value);
        }
        None => fiber.pc = end,
    }
    Ok(())
}
