//! Values of scripts.
//!
//! Lists and objects are values: assigning copies. The copy shares its content until one of the two is changed
//! ([`Rc::make_mut`]).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::fields::Fields;
use crate::interface::{Failure, Payload};

/// How deep lists and objects may be nested in each other. Keeps recursion over a value within the stack.
pub const DEPTH_MAX: u32 = 500;

/// Whole doubles up to this magnitude are integers.
pub const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An exact integer.
    Int(i64),
    /// A finite double that is not a whole number of at most 2^53 in magnitude ([`Value::float`] sees to it).
    Float(f64),
    /// A sequence of Unicode scalar values. Atomically counted, because compiled code, which threads share, holds texts.
    Str(Arc<str>),
    /// A list.
    List(Rc<List>),
    /// An object.
    Object(Rc<Object>),
    /// Something that will end.
    Promise(Rc<PromiseRef>),
    /// A payload in an encoding that the server does not read.
    Payload(Arc<Payload>),
}

/// A reference to a promise. The number of references says whether a script can still reach it.
#[derive(Debug)]
pub struct PromiseRef {
    /// The number of the promise in its run.
    pub number: u32,
    /// Its id as scripts see it (`task-1`).
    pub id: Arc<str>,
    /// Where the number is noted when the last reference disappears.
    released: Option<Released>,
}

/// Numbers of promises whose last reference disappeared, in that order.
pub type Released = Rc<RefCell<Vec<u32>>>;

impl PromiseRef {
    /// A reference that nobody watches.
    #[must_use]
    pub const fn new(number: u32, id: Arc<str>) -> Self {
        Self { number, id, released: None }
    }

    /// A reference that notes its number here when it disappears.
    #[must_use]
    pub const fn watched(number: u32, id: Arc<str>, released: Released) -> Self {
        Self { number, id, released: Some(released) }
    }
}

impl Drop for PromiseRef {
    fn drop(&mut self) {
        if let Some(Ok(mut released)) = self.released.as_ref().map(|released| released.try_borrow_mut()) {
            released.push(self.number);
        }
    }
}

/// The elements of a list.
#[derive(Clone, Debug, Default)]
pub struct List {
    items: Vec<Value>,
    /// Bytes as JSON, shared parts counted as often as they occur.
    size: usize,
    depth: u32,
}

/// The fields of an object, in order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Object {
    fields: Fields,
    size: usize,
    depth: u32,
    /// The failure from which an error object was made. Leaves with it if the error is thrown on unchanged; a change of a
    /// field drops it.
    pub origin: Option<Rc<Failure>>,
}

/// An error that the language or its library raises. The machine makes an error object of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    /// `TypeError` and so on.
    pub kind: Kind,
    /// The message, without the type.
    pub message: String,
}

/// The types of errors that the language raises itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Type,
    Field,
    Index,
    Number,
    Argument,
    Payload,
    /// Cannot be caught.
    Limit,
    Aggregate,
    Timeout,
    Canceled,
    NotFound,
    AlreadyStarted,
}

impl Kind {
    /// The field `type` of the error object.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Type => "TypeError",
            Self::Field => "FieldError",
            Self::Index => "IndexError",
            Self::Number => "NumberError",
            Self::Argument => "ArgumentError",
            Self::Payload => "PayloadError",
            Self::Limit => "LimitError",
            Self::Aggregate => "AggregateError",
            Self::Timeout => "Timeout",
            Self::Canceled => "Canceled",
            Self::NotFound => "NotFound",
            Self::AlreadyStarted => "AlreadyStarted",
        }
    }

    /// The field `retryable` of the error object.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Aggregate | Self::Timeout | Self::Canceled | Self::NotFound | Self::AlreadyStarted)
    }
}

impl Raised {
    /// An error of this type.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A `TypeError`.
    pub fn type_error(message: impl Into<String>) -> Self {
        Self::new(Kind::Type, message)
    }

    /// An `ArgumentError`. The message begins with the name of the function.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Kind::Argument, message)
    }
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Str(text.into())
    }

    /// The number that this double is: an integer if it is a whole number of at most 2^53 in magnitude. `None` for NaN and
    /// infinities.
    #[must_use]
    pub fn float(number: f64) -> Option<Self> {
        if !number.is_finite() {
            None
        } else if number.trunc() == number && number.abs() <= EXACT_MAX {
            #[expect(clippy::cast_possible_truncation, reason = "whole and at most 2^53")]
            Some(Self::Int(number as i64))
        } else {
            Some(Self::Float(number))
        }
    }

    /// A list of these elements.
    #[must_use]
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(List::new(items)))
    }

    /// An object of these fields; of two with the same key the last one counts.
    pub fn object<K: Into<Arc<str>>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        let mut object = Object::default();
        for (key, value) in fields {
            object.insert(key.into(), value);
        }
        Self::Object(Rc::new(object))
    }

    /// What `typeof` gives.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Int(_) | Self::Float(_) => "number",
            Self::Str(_) => "string",
            Self::List(_) => "list",
            Self::Object(_) => "object",
            Self::Promise(_) => "promise",
            Self::Payload(_) => "payload",
        }
    }

    /// About how many bytes it has as JSON.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 4,
            Self::Int(number) => number.checked_ilog10().unwrap_or(1) as usize + 2,
            Self::Float(_) => 18,
            Self::Str(text) => text.len() + 2,
            Self::List(list) => list.size + 2,
            Self::Object(object) => object.size + 2,
            Self::Promise(promise) => promise.id.len() + 2,
            Self::Payload(payload) => payload.data.len() + 32,
        }
    }

    /// How deep lists and objects are nested in it; 0 if it is neither. Never too low.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match self {
            Self::List(list) => list.depth + 1,
            Self::Object(object) => object.depth + 1,
            _ => 0,
        }
    }
}

impl List {
    /// A list of these elements.
    #[must_use]
    pub fn new(items: Vec<Value>) -> Self {
        let size = items.iter().map(|item| item.size() + 1).sum();
        let depth = items.iter().map(Value::depth).max().unwrap_or(0);
        Self { items, size, depth }
    }

    /// The elements.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// The elements, given away.
    #[must_use]
    pub fn into_items(self) -> Vec<Value> {
        self.items
    }

    /// Changes the elements, then counts again what changed: `change` says by how many bytes and how deep the new parts are.
    pub fn push(&mut self, value: Value) {
        self.size += value.size() + 1;
        self.depth = self.depth.max(value.depth());
        self.items.push(value);
    }

    /// Takes the last element off.
    pub fn pop(&mut self) -> Option<Value> {
        let value = self.items.pop()?;
        self.size -= value.size() + 1;
        Some(value)
    }

    /// Puts an element into this place; those from there on move up.
    pub fn insert(&mut self, index: usize, value: Value) {
        self.size += value.size() + 1;
        self.depth = self.depth.max(value.depth());
        self.items.insert(index, value);
    }

    /// Takes the element of this place out.
    pub fn remove(&mut self, index: usize) -> Value {
        let value = self.items.remove(index);
        self.size -= value.size() + 1;
        value
    }

    /// Changes one element in place and keeps the count of bytes right.
    pub fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut Value) -> T) -> Option<T> {
        let item = self.items.get_mut(index)?;
        let before = item.size();
        let result = change(item);
        self.size = self.size - before + item.size();
        self.depth = self.depth.max(item.depth());
        Some(result)
    }
}

impl Object {
    /// An object without fields, with room for this many.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self { fields: Fields::with_capacity(count), ..Self::default() }
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.fields.iter()
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.len() == 0
    }

    /// A field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key)
    }

    /// Sets a field; one that exists keeps its place.
    pub fn insert(&mut self, key: Arc<str>, value: Value) {
        self.origin = None;
        let added = value.size() + key.len() + 4;
        self.depth = self.depth.max(value.depth());
        let key_len = key.len();
        let old = self.fields.insert(key, value);
        self.size = self.size + added - old.map_or(0, |old| old.size() + key_len + 4);
    }

    /// Removes a field; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let value = self.fields.remove(key)?;
        self.origin = None;
        self.size -= value.size() + key.len() + 4;
        Some(value)
    }

    /// Changes one field in place and keeps the count of bytes right.
    pub fn change<T>(&mut self, key: &str, change: impl FnOnce(&mut Value) -> T) -> Option<T> {
        let item = self.fields.get_mut(key)?;
        self.origin = None;
        let before = item.size();
        let result = change(item);
        self.size = self.size - before + item.size();
        self.depth = self.depth.max(item.depth());
        Some(result)
    }
}
