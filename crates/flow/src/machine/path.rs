//! Changes of variables along a path: `order.items[0].count = 2`.

use std::rc::Rc;
use std::sync::Arc;

use crate::compile::code::{Place, StepInfo};
use crate::hir::Access;
use crate::library::Method;
use crate::pure;
use crate::value::{LanguageError, List, Value};

use super::Machine;
use super::build::copied_object;
use super::frame::{Cell, Fault, Fiber, Slot, defect};

/// A path: its steps, and the indexes among them in order.
#[derive(Clone, Copy)]
struct Path<'p> {
    steps: &'p [StepInfo],
    indexes: &'p [Value],
    strings: &'p [Arc<str>],
}

/// A step with its index.
#[derive(Clone, Copy)]
enum Step<'p> {
    Field(&'p Arc<str>),
    Index(&'p Value),
}

impl<'p> Path<'p> {
    /// The first step and the path behind it.
    fn split(self) -> Result<Option<(Step<'p>, Self)>, LanguageError> {
        let missing = || LanguageError::type_error("a path has no such step");
        Ok(match self.steps.split_first() {
            None => None,
            Some((StepInfo::Field(key), steps)) => {
                let key = self.strings.get(*key as usize).ok_or_else(missing)?;
                Some((Step::Field(key), Self { steps, ..self }))
            }
            Some((StepInfo::Index, steps)) => {
                let (index, indexes) = self.indexes.split_first().ok_or_else(missing)?;
                Some((Step::Index(index), Self { steps, indexes, ..self }))
            }
        })
    }
}

/// What to do with the value that a path leads to.
type Last<'l> = &'l mut dyn FnMut(&mut Value) -> Result<Value, LanguageError>;

/// What to do with the container and the last step of a path.
type PathWrite<'l> = &'l mut dyn FnMut(&mut Value, Option<Step<'_>>, &mut pure::Cost) -> Result<Value, LanguageError>;

impl<'a> Machine<'a> {
    /// The place and steps of a target; takes the indexes from the operand stack.
    fn target(&self, fiber: &mut Fiber, number: u32) -> Result<(Place, &'a [StepInfo], Vec<Value>), Fault> {
        let info = self.code.targets.get(number as usize).ok_or_else(|| defect("no such target"))?;
        let count = info.steps.iter().filter(|step| matches!(step, StepInfo::Index)).count();
        let indexes = if count == 0 { Vec::new() } else { fiber.take(count)? };
        Ok((info.place, &info.steps, indexes))
    }

    /// Changes a variable in place.
    fn with(&mut self, fiber: &mut Fiber, place: Place, change: Last<'_>) -> Result<Value, Fault> {
        let limit = self.limits.value_bytes;
        let mut checked = |value: &mut Value| {
            let result = change(value)?;
            pure::within(value, limit).map(|()| result)
        };
        let in_cell = |cell: &Cell, checked: Last<'_>| -> Result<Value, Fault> {
            let mut value = cell.try_borrow_mut().map_err(|_| defect("a cell is in use"))?;
            Ok(checked(&mut value)?)
        };
        match place {
            Place::Slot(slot) => match fiber.slot_mut(slot)? {
                Slot::Value(value) => Ok(checked(value)?),
                Slot::Cell(_) => Err(defect("a slot holds a cell")),
            },
            Place::Cell(slot) => in_cell(fiber.cell(slot)?, &mut checked),
            Place::Capture(number) => in_cell(fiber.capture(number)?, &mut checked),
        }
    }

    /// Changes what a path leads to: `last` gets the container and the last step, or with `whole` the value itself.
    fn along(&mut self, fiber: &mut Fiber, target: u32, whole: bool, last: PathWrite<'_>) -> Result<Value, Fault> {
        let (place, steps, indexes) = self.target(fiber, target)?;
        let strings = &self.code.strings;
        let mut cost = pure::Cost::default();
        let result = self.with(fiber, place, &mut |root| {
            descend(root, Path { steps, indexes: &indexes, strings }, whole, last, &mut cost)
        });
        self.charge(cost);
        result
    }

    #[inline(never)]
    pub(super) fn assign(&mut self, fiber: &mut Fiber, target: u32) -> Result<(), Fault> {
        let mut value = Some(fiber.pop()?);
        let result = self.along(fiber, target, false, &mut |base, step, cost| {
            put(base, step, value.take().unwrap_or(Value::Null), cost)
        });
        result.map(drop)
    }

    #[inline(never)]
    pub(super) fn delete(&mut self, fiber: &mut Fiber, target: u32) -> Result<(), Fault> {
        self.along(fiber, target, false, &mut remove).map(drop)
    }

    #[inline(never)]
    pub(super) fn change(
        &mut self,
        fiber: &mut Fiber,
        target: u32,
        method: Method,
        arguments: u32,
    ) -> Result<(), Fault> {
        let mut arguments = fiber.take(arguments as usize)?;
        let value = self.along(fiber, target, true, &mut |value, _, cost| {
            pure::change(method, value, std::mem::take(&mut arguments), cost)
        })?;
        fiber.push(value);
        Ok(())
    }

    /// Pushes the value of a target and leaves its indexes where they are.
    #[inline(never)]
    pub(super) fn read(&mut self, fiber: &mut Fiber, target: u32, access: Access) -> Result<(), Fault> {
        let (place, steps, indexes) = self.target(fiber, target)?;
        let mut value = match place {
            Place::Slot(slot) => match fiber.slot(slot)? {
                Slot::Value(value) => value.clone(),
                Slot::Cell(_) => return Err(defect("a slot holds a cell")),
            },
            Place::Cell(slot) => super::frame::get(fiber.cell(slot)?)?,
            Place::Capture(number) => super::frame::get(fiber.capture(number)?)?,
        };
        let mut cost = pure::Cost::default();
        let mut path = Path { steps, indexes: &indexes, strings: &self.code.strings };
        while let Some((step, rest)) = path.split()? {
            let access = if rest.steps.is_empty() { access } else { Access::Plain };
            cost.touch(match step {
                Step::Field(key) => pure::access_units(&value, &Value::Str(Arc::clone(key))),
                Step::Index(index) => pure::access_units(&value, index),
            });
            value = get(&value, &step, access)?;
            path = rest;
        }
        indexes.into_iter().for_each(|index| fiber.push(index));
        fiber.push(value);
        self.charge(cost);
        Ok(())
    }
}

fn get(base: &Value, step: &Step<'_>, access: Access) -> Result<Value, LanguageError> {
    let value = match step {
        Step::Field(key) => pure::field(base, key, access)?,
        Step::Index(index) => pure::index(base, index, access)?,
    };
    Ok(value.unwrap_or(Value::Null))
}

/// Follows a path whose steps must exist. The recursion is as deep as values are nested.
fn descend(
    value: &mut Value,
    path: Path<'_>,
    whole: bool,
    last: PathWrite<'_>,
    cost: &mut pure::Cost,
) -> Result<Value, LanguageError> {
    let Some((step, rest)) = path.split()? else { return last(value, None, cost) };
    if rest.steps.is_empty() && !whole {
        return last(value, Some(step), cost);
    }
    let found = match (&mut *value, step) {
        (Value::List(list), Step::Index(Value::Int(index))) => {
            let index = usize::try_from(*index).unwrap_or(usize::MAX);
            if index < list.items().len() {
                copied_list(list, cost).change(index, |item| descend(item, rest, whole, last, cost))
            } else {
                None
            }
        }
        (Value::Object(object), Step::Field(key) | Step::Index(Value::Str(key))) => {
            if Rc::strong_count(object) > 1 && object.get(key).is_none() {
                None
            } else {
                cost.add(pure::key_units(object, key));
                copied_object(object, cost).change(key, |item| descend(item, rest, whole, last, cost))
            }
        }
        _ => None,
    };
    match found {
        Some(result) => result,
        None => {
            // Raises the error of a step that does not exist.
            get(value, &step, Access::Plain)?;
            // Characters of a string, the id of a promise.
            Err(LanguageError::type_error(format!("a {} cannot be changed", value.type_name())))
        }
    }
}

/// A list to change: copied first, and counted, if it has other references.
fn copied_list<'l>(list: &'l mut Rc<List>, cost: &mut pure::Cost) -> &'l mut List {
    if Rc::strong_count(list) > 1 {
        cost.add(list.items().len());
    }
    Rc::make_mut(list)
}

/// Sets the last step of a path: a new field is created, a new element is not.
fn put(base: &mut Value, step: Option<Step<'_>>, value: Value, cost: &mut pure::Cost) -> Result<Value, LanguageError> {
    let Some(step) = step else {
        *base = value;
        return Ok(Value::Null);
    };
    match (&mut *base, step) {
        (Value::Object(object), Step::Field(key) | Step::Index(Value::Str(key))) => {
            cost.add(pure::key_units(object, key));
            copied_object(object, cost).insert(key.clone(), value);
            return Ok(Value::Null);
        }
        (Value::List(list), Step::Index(Value::Int(number))) => {
            let place = usize::try_from(*number).unwrap_or(usize::MAX);
            if place < list.items().len() {
                copied_list(list, cost).change(place, |item| *item = value);
                return Ok(Value::Null);
            }
        }
        _ => {}
    }
    get(base, &step, Access::Plain)?;
    Err(LanguageError::type_error(format!("a {} cannot be changed", base.type_name())))
}

fn remove(base: &mut Value, step: Option<Step<'_>>, cost: &mut pure::Cost) -> Result<Value, LanguageError> {
    let Some(step) = step else { return Err(LanguageError::type_error("delete takes fields of objects")) };
    match (&mut *base, step) {
        (Value::Object(object), Step::Field(key) | Step::Index(Value::Str(key))) => {
            cost.add(pure::key_units(object, key));
            if object.get(key).is_some() {
                // Places of fields behind it change.
                cost.touch(2 * object.len());
                copied_object(object, cost).remove(key);
            }
            Ok(Value::Null)
        }
        (Value::List(_), _) => Err(LanguageError::type_error("delete takes fields of objects, not elements of lists")),
        (base, step) => {
            get(base, &step, Access::Plain)?;
            Err(LanguageError::type_error(format!("a {} cannot be changed", base.type_name())))
        }
    }
}
