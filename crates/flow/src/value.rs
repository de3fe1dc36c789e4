//! Values of scripts.
//!
//! Lists and objects are values: assigning copies. The copy shares its content until one of the two is changed
//! ([`Rc::make_mut`]).
//!
//! Each list and object knows two sizes of its content: bytes as JSON, which the language limits, and bytes of memory,
//! which are up to fifty times as many (`[{},{}]`). Both count shared parts as often as they occur, so they are never too
//! low, and both are kept up to date, so that looking at them costs nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::fields::Fields;
use crate::interface::{Failure, Payload};

/// How deep lists and objects may be nested in each other. Keeps recursion over a value within the stack.
pub const DEPTH_MAX: u32 = 500;

/// Bytes of memory that one value may take, for each byte of JSON that it may have. Most data take 10 to 25.
pub const MEMORY_PER_BYTE: usize = 32;

/// Memory of an element in its list, with the room that a growing list keeps.
pub(crate) const ITEM_BYTES: usize = 32;
/// Memory of a text besides its characters.
pub(crate) const TEXT_BYTES: usize = 32;
/// Memory of a list besides its elements.
pub(crate) const LIST_BYTES: usize = 72;
/// Memory of an object besides its fields.
pub(crate) const OBJECT_BYTES: usize = 144;
/// Memory of a field besides its key and value: the entry and its place in the index.
pub(crate) const FIELD_BYTES: usize = 80;
/// Memory of a promise's reference.
const PROMISE_BYTES: usize = 48;
/// Memory of a payload besides its bytes.
const PAYLOAD_BYTES: usize = 96;

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
    /// A promise of an operation that will end.
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
    released: Option<ReleasedPromises>,
}

/// Numbers of promises whose last reference disappeared, in that order.
pub type ReleasedPromises = Rc<RefCell<Vec<u32>>>;

impl PromiseRef {
    /// A reference that is not watched.
    #[must_use]
    pub const fn new(number: u32, id: Arc<str>) -> Self {
        Self { number, id, released: None }
    }

    /// A reference that notes its number here when it disappears.
    #[must_use]
    pub const fn watched(number: u32, id: Arc<str>, released: ReleasedPromises) -> Self {
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
    /// Bytes as JSON.
    size: usize,
    /// Bytes of memory.
    memory: usize,
    depth: u32,
}

/// The fields of an object, in order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Object {
    fields: Fields,
    size: usize,
    memory: usize,
    depth: u32,
    /// The failure from which an error object was made. Leaves with it if the error is thrown on unchanged; a change of a
    /// field drops it.
    origin: Option<Origin>,
}

/// A failure and its bytes.
#[derive(Clone, Debug)]
struct Origin {
    failure: Rc<Failure>,
    bytes: usize,
}

/// An error that the language or its library raises. The machine makes an error object of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanguageError {
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

impl LanguageError {
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
            Self::Payload(payload) => payload.size() + 32,
        }
    }

    /// About how many bytes of memory it takes besides its own place.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => 0,
            Self::Str(text) => text.len() + TEXT_BYTES,
            Self::List(list) => list.memory + LIST_BYTES,
            Self::Object(object) => {
                object.memory + object.origin.as_ref().map_or(0, |origin| origin.bytes) + OBJECT_BYTES
            }
            Self::Promise(_) => PROMISE_BYTES,
            Self::Payload(payload) => payload.size() + PAYLOAD_BYTES,
        }
    }

    /// Whether it has at most this many bytes as JSON, takes no more memory than such a value may, and is not nested too
    /// deeply.
    #[must_use]
    pub fn is_within(&self, bytes: usize) -> bool {
        self.size() <= bytes && self.memory() <= bytes.saturating_mul(MEMORY_PER_BYTE) && self.depth() <= DEPTH_MAX
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
        let mut list = Self { items: Vec::new(), ..Self::default() };
        items.iter().for_each(|item| list.count(item));
        list.items = items;
        list
    }

    /// An empty list with room for this many elements.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self { items: Vec::with_capacity(count), ..Self::default() }
    }

    /// The same elements in another order.
    #[must_use]
    pub fn reordered(&self, items: Vec<Value>) -> Self {
        debug_assert_eq!(items.len(), self.items.len(), "no element is lost");
        Self { items, size: self.size, memory: self.memory, depth: self.depth }
    }

    /// Adds the elements of another list at the end.
    pub fn extend(&mut self, other: &Self) {
        self.items.extend_from_slice(&other.items);
        self.size += other.size;
        self.memory += other.memory;
        self.depth = self.depth.max(other.depth);
    }

    /// The elements.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    fn count(&mut self, value: &Value) {
        self.size += value.size() + 1;
        self.memory += value.memory() + ITEM_BYTES;
        self.depth = self.depth.max(value.depth());
    }

    fn discount(&mut self, value: &Value) {
        self.size -= value.size() + 1;
        self.memory -= value.memory() + ITEM_BYTES;
    }

    /// Adds an element at the end.
    pub fn push(&mut self, value: Value) {
        self.count(&value);
        self.items.push(value);
    }

    /// Takes the last element off.
    pub fn pop(&mut self) -> Option<Value> {
        let value = self.items.pop()?;
        self.discount(&value);
        Some(value)
    }

    /// Puts an element into this place; those from there on move up.
    pub fn insert(&mut self, index: usize, value: Value) {
        self.count(&value);
        self.items.insert(index, value);
    }

    /// Takes the element of this place out.
    pub fn remove(&mut self, index: usize) -> Value {
        let value = self.items.remove(index);
        self.discount(&value);
        value
    }

    /// Changes one element in place and keeps the counts of bytes right.
    pub fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut Value) -> T) -> Option<T> {
        let item = self.items.get_mut(index)?;
        let (size, memory) = (item.size(), item.memory());
        let result = change(item);
        self.size = self.size - size + item.size();
        self.memory = self.memory - memory + item.memory();
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

    /// The failure from which an error object was made.
    #[must_use]
    pub fn origin(&self) -> Option<&Rc<Failure>> {
        self.origin.as_ref().map(|origin| &origin.failure)
    }

    /// Says from which failure an error object was made, or that it is a new object.
    pub fn set_origin(&mut self, failure: Option<Rc<Failure>>) {
        self.origin = failure.map(|failure| Origin { bytes: failure.size(), failure });
    }

    /// Sets a field; one that exists keeps its place.
    pub fn insert(&mut self, key: Arc<str>, value: Value) {
        self.origin = None;
        let key_len = key.len();
        self.size += value.size() + key_len + 4;
        self.memory += value.memory() + key_len + FIELD_BYTES;
        self.depth = self.depth.max(value.depth());
        if let Some(old) = self.fields.insert(key, value) {
            self.discount(&old, key_len);
        }
    }

    fn discount(&mut self, value: &Value, key_len: usize) {
        self.size -= value.size() + key_len + 4;
        self.memory -= value.memory() + key_len + FIELD_BYTES;
    }

    /// Removes a field; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let value = self.fields.remove(key)?;
        self.origin = None;
        self.discount(&value, key.len());
        Some(value)
    }

    /// Changes one field in place and keeps the counts of bytes right.
    pub fn change<T>(&mut self, key: &str, change: impl FnOnce(&mut Value) -> T) -> Option<T> {
        let item = self.fields.get_mut(key)?;
        self.origin = None;
        let (size, memory) = (item.size(), item.memory());
        let result = change(item);
        self.size = self.size - size + item.size();
        self.memory = self.memory - memory + item.memory();
        self.depth = self.depth.max(item.depth());
        Some(result)
    }
}
