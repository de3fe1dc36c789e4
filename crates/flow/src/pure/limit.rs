//! Limits on the memory of values, and their errors.

use crate::value::{DEPTH_MAX, Kind, LanguageError, MEMORY_PER_BYTE, Value};

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Bytes of one value as JSON.
    Value(usize),
    /// Bytes of memory of one value.
    ValueMemory(usize),
    /// Lists and objects in each other.
    Depth(u32),
    /// Bytes of all values of a turn as JSON.
    Turn(usize),
    /// Bytes of memory of all values of a turn.
    TurnMemory(usize),
}

impl MemoryLimit {
    /// The limit that a value is beyond which may have this many bytes as JSON.
    #[must_use]
    pub fn of(value: &Value, bytes: usize) -> Self {
        if value.depth() > DEPTH_MAX {
            Self::Depth(DEPTH_MAX)
        } else if value.size() > bytes {
            Self::Value(bytes)
        } else {
            Self::ValueMemory(bytes.saturating_mul(MEMORY_PER_BYTE))
        }
    }

    /// The error of what is beyond it.
    #[must_use]
    pub fn error(self) -> LanguageError {
        let why = match self {
            Self::Value(bytes) => format!("one value may have {} as JSON", size(bytes)),
            Self::ValueMemory(bytes) => format!("one value may take {} of memory", size(bytes)),
            Self::Depth(depth) => format!("lists and objects may be nested {depth} deep"),
            Self::Turn(bytes) => format!("all values of a turn may have {} as JSON", size(bytes)),
            Self::TurnMemory(bytes) => format!("all values of a turn may take {} of memory", size(bytes)),
        };
        LanguageError::new(Kind::Limit, format!("memory limit reached: {why}"))
    }
}

fn size(bytes: usize) -> String {
    const MEBIBYTE: usize = 1 << 20;
    if bytes.is_multiple_of(MEBIBYTE) {
        format!("{bytes} bytes ({} MiB)", bytes / MEBIBYTE)
    } else {
        format!("{bytes} bytes")
    }
}
