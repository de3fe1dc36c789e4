//! What happened in a world, line by line, and a hash of it: equal hashes mean equal lives.

use std::cell::{Cell, RefCell};

use crate::Millis;

/// The lines of a world.
#[derive(Debug, Default)]
pub struct Trace {
    hash: Cell<u64>,
    count: Cell<u64>,
    /// `None` if only the hash is wanted.
    lines: Option<RefCell<Vec<String>>>,
}

impl Trace {
    /// A trace that keeps its lines, or only their hash.
    pub fn new(keeps_lines: bool) -> Self {
        Self { hash: Cell::new(0xcbf2_9ce4_8422_2325), count: Cell::new(0), lines: keeps_lines.then(RefCell::default) }
    }

    /// Adds a line.
    pub fn line(&self, at: Millis, text: &str) {
        self.bytes(&at.to_le_bytes());
        self.bytes(text.as_bytes());
        self.count.set(self.count.get() + 1);
        if let Some(lines) = &self.lines {
            lines.borrow_mut().push(format!("{:>3}.{:03} {text}", at / 1000, at % 1000));
        }
    }

    /// Adds bytes to the hash alone (FNV-1a).
    pub fn bytes(&self, bytes: &[u8]) {
        let hash =
            bytes.iter().fold(self.hash.get(), |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        self.hash.set(hash);
    }

    /// The hash so far.
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// How many lines there were.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The lines, if they were kept.
    pub fn lines(&self) -> Vec<String> {
        self.lines.as_ref().map(|lines| lines.borrow().clone()).unwrap_or_default()
    }
}
