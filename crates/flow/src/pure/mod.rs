//! The part of the language and its library that needs neither the run nor a callback: numbers, texts, lists, objects,
//! times, JSON, payloads, and error objects.
//!
//! Everything here is a function of its arguments. What takes longer for longer values says so to [`Cost`], which the
//! machine counts against the step limit. What could give a large value from small ones refuses to
//! ([`VALUE_BYTES_MAX`]) before it allocates.

pub mod access;
mod arguments;
mod base64;
mod call;
pub mod compare;
pub mod cron;
pub mod duration;
pub mod error;
pub mod json;
mod list;
mod math;
pub mod number;
mod object;
pub mod options;
pub mod payload;
pub mod random;
mod string;
pub mod time;

pub use access::{access_units, field, index};
pub use call::{call, change, method, name, no_method};
pub use compare::{condition, equal};
pub use number::{binary, negate};
pub use string::text;

use crate::value::{DEPTH_MAX, Kind, Raised, Value};

/// Bytes that one value may have as JSON.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// What the library adds to the count of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Steps so far.
    pub steps: u64,
}

impl Cost {
    /// Counts a function that touched this many elements or bytes: one step, and one per 16 of them.
    pub fn touch(&mut self, units: usize) {
        self.steps = self.steps.saturating_add(1 + (units / 16) as u64);
    }

    /// Counts bytes that an instruction only copies, which takes a step's time for each 1,024.
    pub fn copy(&mut self, bytes: usize) {
        self.steps = self.steps.saturating_add((bytes / 1_024) as u64);
    }
}

/// The error of a value that is too large or too deep.
#[must_use]
pub fn memory_limit() -> Raised {
    Raised::new(Kind::Limit, "memory limit reached")
}

/// Refuses a value that is too large or nested too deeply.
fn limited(value: Value) -> Result<Value, Raised> {
    if value.size() > VALUE_BYTES_MAX || value.depth() > DEPTH_MAX { Err(memory_limit()) } else { Ok(value) }
}

/// Refuses to make a value that would have this many bytes.
fn room_for(bytes: usize) -> Result<(), Raised> {
    if bytes > VALUE_BYTES_MAX { Err(memory_limit()) } else { Ok(()) }
}
