//! The part of the language and its library that needs neither the run nor a callback: numbers, strings, lists,
//! objects, times, JSON, payloads, and error objects.
//!
//! Everything here is a function of its arguments. Operations whose time depends on the size of values report it to
//! [`Cost`], which the interpreter counts against the step limit. Operations that could make a large value from small
//! ones check [`VALUE_BYTES_MAX`] before they allocate.

pub mod access;
mod arguments;
mod base64;
mod call;
pub mod compare;
pub mod duration;
pub mod error;
pub mod json;
mod limit;
mod list;
mod math;
pub mod number;
mod object;
pub mod options;
pub mod payload;
pub mod random;
mod string;
pub mod time;

pub use access::{access_units, field, index, key_units};
pub use call::{call, change, method, name, no_method};
pub use compare::{condition, equal};
pub use limit::MemoryLimit;
pub use number::{binary, negate};
pub use string::text;

use crate::value::{LanguageError, MEMORY_PER_BYTE, Value};

/// Bytes that one value may have as JSON.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// Bytes of memory that one value may take.
const VALUE_MEMORY_MAX: usize = VALUE_BYTES_MAX * MEMORY_PER_BYTE;

/// Elements or bytes for which one step is counted. All prices are multiples of it; the example `prices` measures that
/// no function is much cheaper for its time than another.
const UNITS_PER_STEP: usize = 16;

/// Bytes that an instruction may copy in the time of one step.
const COPIED_PER_STEP: usize = 256;

/// Units of a field that is looked up, set or copied: its key is hashed and compared.
pub const FIELD: usize = UNITS_PER_STEP;

/// Units of a text, list or object that is made besides the result itself: it has memory of its own.
pub const VALUE_UNITS: usize = UNITS_PER_STEP;

/// Units of a double that is written as text: its shortest digits are searched.
pub const DOUBLE_TEXT: usize = 6 * UNITS_PER_STEP;

/// What the library adds to the count of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Steps so far.
    pub steps: u64,
}

impl Cost {
    /// Counts a function that touched this many elements or bytes: one step, and one per 16 of them.
    pub fn touch(&mut self, units: usize) {
        self.add(units);
        self.steps = self.steps.saturating_add(1);
    }

    /// Counts elements or bytes that are touched besides.
    pub fn add(&mut self, units: usize) {
        self.steps = self.steps.saturating_add((units / UNITS_PER_STEP) as u64);
    }

    /// Counts bytes that an instruction only copies.
    pub fn copy(&mut self, bytes: usize) {
        self.steps = self.steps.saturating_add((bytes / COPIED_PER_STEP) as u64);
    }
}

/// Refuses a value that has more than these bytes as JSON, takes too much memory, or is nested too deeply.
pub fn within(value: &Value, bytes: usize) -> Result<(), LanguageError> {
    if value.is_within(bytes) { Ok(()) } else { Err(MemoryLimit::of(value, bytes).error()) }
}

/// Refuses a value that is too large or nested too deeply.
fn limited(value: Value) -> Result<Value, LanguageError> {
    within(&value, VALUE_BYTES_MAX).map(|()| value)
}

/// Refuses to make a value that would have this many bytes.
fn room_for(bytes: usize) -> Result<(), LanguageError> {
    if bytes > VALUE_BYTES_MAX { Err(MemoryLimit::Value(VALUE_BYTES_MAX).error()) } else { Ok(()) }
}
