//! Instructions that build values (lists, objects, strings) and that destructure them.

use std::rc::Rc;
use std::sync::Arc;

use crate::hir::Access;
use crate::pure;
use crate::value::{LanguageError, Object, Value};

use super::Machine;
use super::frame::{Fault, Fiber, defect};

impl Machine<'_> {
    #[inline(never)]
    pub(super) fn make_list(&mut self, fiber: &mut Fiber, count: u32) -> Result<(), Fault> {
        let items = fiber.take(count as usize)?;
        let value = Value::list(items);
        self.check_value(&value)?;
        fiber.push(value);
        Ok(())
    }

    #[inline(never)]
    pub(super) fn list_push(&mut self, fiber: &mut Fiber) -> Result<(), Fault> {
        let item = fiber.pop()?;
        let Value::List(list) = fiber.top()? else { return Err(defect("no list under way")) };
        Rc::make_mut(list).push(item);
        Ok(self.check_value(fiber.top()?)?)
    }

    #[inline(never)]
    pub(super) fn list_spread(&mut self, fiber: &mut Fiber) -> Result<(), Fault> {
        let item = fiber.pop()?;
        let Value::List(other) = &item else {
            return Err(LanguageError::type_error(format!("cannot spread {} into a list", item.type_name())).into());
        };
        let mut cost = pure::Cost::default();
        cost.touch(other.items().len());
        self.charge(cost);
        let (bytes, limit) = (fiber.top()?.size() + item.size(), self.limits.value_bytes);
        if bytes > limit {
            return Err(pure::MemoryLimit::Value(limit).error().into());
        }
        let Value::List(list) = fiber.top()? else { return Err(defect("no list under way")) };
        Rc::make_mut(list).extend(other);
        Ok(self.check_value(fiber.top()?)?)
    }

    #[inline(never)]
    pub(super) fn object_field(&mut self, fiber: &mut Fiber, key: u32) -> Result<(), Fault> {
        let key = self.code.strings.get(key as usize).ok_or_else(|| defect("no such string"))?.clone();
        let value = fiber.pop()?;
        self.insert_field(fiber, key, value)
    }

    /// Sets a field of the object under way. After a spread its fields may still be those of another object.
    fn insert_field(&mut self, fiber: &mut Fiber, key: Arc<str>, value: Value) -> Result<(), Fault> {
        let Value::Object(object) = fiber.top()? else { return Err(defect("no object under way")) };
        let mut cost = pure::Cost::default();
        cost.add(pure::key_units(object, &key));
        copied_object(object, &mut cost).insert(key, value);
        self.charge(cost);
        Ok(self.check_value(fiber.top()?)?)
    }

    #[inline(never)]
    pub(super) fn object_computed(&mut self, fiber: &mut Fiber) -> Result<(), Fault> {
        let value = fiber.pop()?;
        let key = match fiber.pop()? {
            Value::Str(key) => key,
            other => {
                return Err(
                    LanguageError::type_error(format!("a key must be a string, not {}", other.type_name())).into()
                );
            }
        };
        self.insert_field(fiber, key, value)
    }

    #[inline(never)]
    pub(super) fn object_spread(&mut self, fiber: &mut Fiber) -> Result<(), Fault> {
        let item = fiber.pop()?;
        let Value::Object(other) = &item else {
            return Err(LanguageError::type_error(format!("cannot spread {} into an object", item.type_name())).into());
        };
        let mut cost = pure::Cost::default();
        cost.touch(0);
        let Value::Object(object) = fiber.top()? else { return Err(defect("no object under way")) };
        if object.is_empty() {
            // The fields are shared until one of the two is changed. What was an error from outside is a new object now.
            let mut copy = Rc::clone(other);
            if copy.origin().is_some() {
                copied_object(&mut copy, &mut cost).set_origin(None);
            }
            *object = copy;
        } else {
            cost.add(pure::FIELD * other.len());
            let object = copied_object(object, &mut cost);
            other.iter().for_each(|(key, value)| object.insert(key.clone(), value.clone()));
        }
        self.charge(cost);
        Ok(self.check_value(fiber.top()?)?)
    }

    #[inline(never)]
    pub(super) fn concat(&mut self, fiber: &mut Fiber, count: u32) -> Result<(), Fault> {
        let mut text = String::new();
        let mut cost = pure::Cost::default();
        for value in fiber.take(count as usize)? {
            match &value {
                Value::Str(part) => text.push_str(part),
                value => text.push_str(&pure::text(value, &mut cost)?),
            }
            let limit = self.limits.value_bytes;
            if text.len() > limit {
                return Err(pure::MemoryLimit::Value(limit).error().into());
            }
        }
        cost.copy(text.len());
        self.charge(cost);
        fiber.push(Value::text(text));
        Ok(())
    }

    #[inline(never)]
    pub(super) fn element(&mut self, fiber: &mut Fiber, index: u32, access: Access) -> Result<(), Fault> {
        let top = fiber.top()?;
        let mut cost = pure::Cost::default();
        let index = Value::Int(index.into());
        cost.touch(pure::access_units(top, &index));
        let value = pure::index(top, &index, access)?.unwrap_or(Value::Null);
        fiber.push(value);
        self.charge(cost);
        Ok(())
    }

    #[inline(never)]
    pub(super) fn part(&mut self, fiber: &mut Fiber, key: u32, access: Access) -> Result<(), Fault> {
        let key = self.code.strings.get(key as usize).ok_or_else(|| defect("no such string"))?;
        self.charge_units(key.len());
        let value = pure::field(fiber.top()?, key, access)?.unwrap_or(Value::Null);
        fiber.push(value);
        Ok(())
    }

    #[inline(never)]
    pub(super) fn rest_list(&mut self, fiber: &mut Fiber, from: u32) -> Result<(), Fault> {
        let top = fiber.top()?;
        let Value::List(list) = &*top else {
            return Err(LanguageError::type_error(format!("cannot take {} apart as a list", top.type_name())).into());
        };
        let mut cost = pure::Cost::default();
        let rest = list.items().get(from as usize..).unwrap_or_default();
        cost.touch(rest.len());
        let rest = Value::list(rest.to_vec());
        *top = rest;
        self.charge(cost);
        Ok(())
    }

    #[inline(never)]
    pub(super) fn rest_object(&mut self, fiber: &mut Fiber, keys: u32) -> Result<(), Fault> {
        let keys = self.code.keys.get(keys as usize).ok_or_else(|| defect("no such keys"))?;
        let top = fiber.top()?;
        let Value::Object(object) = &*top else {
            return Err(LanguageError::type_error(format!("cannot take {} apart as an object", top.type_name())).into());
        };
        let mut cost = pure::Cost::default();
        cost.touch(pure::FIELD * object.len());
        let mut rest = Object::clone(object);
        rest.set_origin(None);
        for key in keys {
            if let Some(key) = self.code.strings.get(*key as usize) {
                cost.touch(rest.len());
                rest.remove(key);
            }
        }
        *top = Value::Object(Rc::new(rest));
        self.charge(cost);
        Ok(())
    }
}

/// An object to change: copied first, and counted, if it has other references.
pub(super) fn copied_object<'o>(object: &'o mut Rc<Object>, cost: &mut pure::Cost) -> &'o mut Object {
    if Rc::strong_count(object) > 1 {
        cost.add(pure::FIELD * object.len());
    }
    Rc::make_mut(object)
}
