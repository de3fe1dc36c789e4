//! Changes of variables along a path: `order.items[0].count = 2`.

use std::rc::Rc;
use std::sync::Arc;

use crate::compile::code::{Place, StepInfo};
use crate::hir::Access;
use crate::library::Method;
use crate::pure;
use crate::value::{Raised, Value};

use super::Machine;
use super::frame::{Cell, Fault, Fiber, Slot, defect};

/// A step with its index.
enum Step {
    Field(Arc<str>),
    Index(Value),
}

/// What to do with the value that a path leads to.
type Last<'l> = &'l mut dyn FnMut(&mut Value) -> Result<Value, Raised>;

impl Machine<'_> {
    /// The place and steps of a target; takes the indexes from the operand stack.
    fn target(&self, fiber: &mut Fiber, number: u32) -> Result<(Place, Vec<Step>), Fault> {
        let info = self.code.targets.get(number as usize).ok_or_else(|| defect("no such target"))?;
        let count = info.steps.iter().filter(|step| matches!(step, StepInfo::Index)).count();
        let mut indexes = fiber.take(count)?.into_iter();
        let mut steps = Vec::with_capacity(info.steps.len());
        for step in &info.steps {
            steps.push(match step {
                StepInfo::Field(key) => {
                    Step::Field(self.code.strings.get(*key as usize).ok_or_else(|| defect("no such string"))?.clone())
                }
                StepInfo::Index => Step::Index(indexes.next().ok_or_else(|| defect("an index is missing"))?),
            });
        }
        Ok((info.place, steps))
    }

    /// Changes a variable in place.
    fn with(&mut self, fiber: &mut Fiber, place: Place, change: Last<'_>) -> Result<Value, Fault> {
        let limit = self.limits.value_bytes;
        let mut checked = |value: &mut Value| {
            let result = change(value)?;
            if value.size() > limit || value.depth() > crate::value::DEPTH_MAX {
                return Err(pure::memory_limit());
            }
            Ok(result)
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

    #[inline(never)]
    pub(super) fn assign(&mut self, fiber: &mut Fiber, target: u32) -> Result<(), Fault> {
        let mut value = Some(fiber.pop()?);
        let (place, steps) = self.target(fiber, target)?;
        let mut cost = pure::Cost::default();
        let result = self.with(fiber, place, &mut |root| {
            let Some((last, path)) = steps.split_last() else { return Err(Raised::type_error("no path")) };
            let mut put = |base: &mut Value, cost: &mut pure::Cost| put(base, last, value.take().unwrap_or(Value::Null), cost);
            descend(root, path, &mut put, &mut cost)
        });
        self.charge(cost);
        result.map(drop)
    }

    #[inline(never)]
    pub(super) fn delete(&mut self, fiber: &mut Fiber, target: u32) -> Result<(), Fault> {
        let (place, steps) = self.target(fiber, target)?;
        let mut cost = pure::Cost::default();
        let result = self.with(fiber, place, &mut |root| {
            let Some((last, path)) = steps.split_last() else { return Err(Raised::type_error("no path")) };
            descend(root, path, &mut |base, cost| remove(base, last, cost), &mut cost)
        });
        self.charge(cost);
        result.map(drop)
    }

    #[inline(never)]
    pub(super) fn change(&mut self, fiber: &mut Fiber, target: u32, method: Method, arguments: u32) -> Result<(), Fault> {
        let mut arguments = fiber.take(arguments as usize)?;
        let (place, steps) = self.target(fiber, target)?;
        let mut cost = pure::Cost::default();
        let result = self.with(fiber, place, &mut |root| {
            let arguments = std::mem::take(&mut arguments);
            let mut arguments = Some(arguments);
            let mut call =
                |value: &mut Value, cost: &mut pure::Cost| pure::change(method, value, arguments.take().unwrap_or_default(), cost);
            descend(root, &steps, &mut call, &mut cost)
        });
        self.charge(cost);
        fiber.push(result?);
        Ok(())
    }

    /// Pushes the value of a target and leaves its indexes where they are.
    #[inline(never)]
    pub(super) fn read(&mut self, fiber: &mut Fiber, target: u32, access: Access) -> Result<(), Fault> {
        let (place, steps) = self.target(fiber, target)?;
        let mut value = match place {
            Place::Slot(slot) => match fiber.slot(slot)? {
                Slot::Value(value) => value.clone(),
                Slot::Cell(_) => return Err(defect("a slot holds a cell")),
            },
            Place::Cell(slot) => super::frame::get(fiber.cell(slot)?)?,
            Place::Capture(number) => super::frame::get(fiber.capture(number)?)?,
        };
        let mut cost = pure::Cost::default();
        let count = steps.len();
        for (number, step) in steps.into_iter().enumerate() {
            let access = if number + 1 == count { access } else { Access::Plain };
            cost.touch(pure::access_units(&value));
            value = get(&value, &step, access)?;
            if let Step::Index(index) = step {
                fiber.push(index);
            }
        }
        fiber.push(value);
        self.charge(cost);
        Ok(())
    }
}

fn get(base: &Value, step: &Step, access: Access) -> Result<Value, Raised> {
    let value = match step {
        Step::Field(key) => pure::field(base, key, access)?,
        Step::Index(index) => pure::index(base, index, access)?,
    };
    Ok(value.unwrap_or(Value::Null))
}

/// Follows a path whose steps must exist. The recursion is as deep as values are nested.
fn descend(
    value: &mut Value,
    path: &[Step],
    last: &mut dyn FnMut(&mut Value, &mut pure::Cost) -> Result<Value, Raised>,
    cost: &mut pure::Cost,
) -> Result<Value, Raised> {
    let Some((step, rest)) = path.split_first() else { return last(value, cost) };
    // Raises the error of a step that does not exist.
    get(value, step, Access::Plain)?;
    let found = match (value, step) {
        (Value::List(list), Step::Index(Value::Int(index))) => {
            cost.touch(if Rc::strong_count(list) > 1 { list.items().len() } else { 0 });
            let index = usize::try_from(*index).unwrap_or(usize::MAX);
            Rc::make_mut(list).change(index, |item| descend(item, rest, last, cost))
        }
        (Value::Object(object), Step::Field(key) | Step::Index(Value::Str(key))) => {
            cost.touch(if Rc::strong_count(object) > 1 { object.len() } else { 0 });
            Rc::make_mut(object).change(key, |item| descend(item, rest, last, cost))
        }
        // Characters of a string, the id of a promise.
        (other, _) => return Err(Raised::type_error(format!("a {} cannot be changed", other.type_name()))),
    };
    found.unwrap_or_else(|| Err(Raised::type_error("no such place")))
}

/// Sets the last step of a path: a new field is created, a new element is not.
fn put(base: &mut Value, step: &Step, value: Value, cost: &mut pure::Cost) -> Result<Value, Raised> {
    match (&mut *base, step) {
        (Value::Object(object), Step::Field(key) | Step::Index(Value::Str(key))) => {
            cost.touch(if Rc::strong_count(object) > 1 { object.len() } else { 0 });
            Rc::make_mut(object).insert(key.clone(), value);
        }
        (Value::List(list), Step::Index(index @ Value::Int(number))) => {
            pure::index(&Value::List(Rc::clone(list)), index, Access::Plain)?;
            cost.touch(if Rc::strong_count(list) > 1 { list.items().len() } else { 0 });
            let number = usize::try_from(*number).unwrap_or(usize::MAX);
            Rc::make_mut(list).change(number, |item| *item = value);
        }
        (base, step) => {
            get(base, step, Access::Plain)?;
            return Err(Raised::type_error(format!("a {} cannot be changed", base.type_name())));
        }
    }
    Ok(Value::Null)
}

fn remove(base: &mut Value, step: &Step, cost: &mut pure::Cost) -> Result<Value, Raised> {
    match (&mut *base, step) {
        (Value::Object(object), Step::Field(key) | Step::Index(Value::Str(key))) => {
            if object.get(key).is_some() {
                cost.touch(object.len());
                Rc::make_mut(object).remove(key);
            }
            Ok(Value::Null)
        }
        (Value::List(_), _) => Err(Raised::type_error("delete takes fields of objects, not elements of lists")),
        (base, step) => {
            get(base, step, Access::Plain)?;
            Err(Raised::type_error(format!("a {} cannot be changed", base.type_name())))
        }
    }
}
