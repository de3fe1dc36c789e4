//! The prepared statements of one transaction.
//!
//! The connection keeps statements prepared, but finds them by their text, which costs more than a short statement
//! itself. A group of commits executes the same few again and again: here each is looked up once.

use rusqlite::{CachedStatement, Connection};

/// See the module.
pub(crate) struct Statements<'c> {
    connection: &'c Connection,
    held: Vec<(&'static str, CachedStatement<'c>)>,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, held: Vec::with_capacity(16) }
    }

    /// The statement with this text.
    pub(crate) fn get(&mut self, text: &'static str) -> rusqlite::Result<&mut CachedStatement<'c>> {
        // Nearly always it is the very same text. If an equal one stands elsewhere in the program, the connection does
        // not have it either, because it is held here.
        let same = self.held.iter().position(|(held, _)| std::ptr::eq(*held, text));
        let found = same.or_else(|| self.held.iter().position(|(held, _)| *held == text));
        let place = match found {
            Some(place) => place,
            None => {
                self.held.push((text, self.connection.prepare_cached(text)?));
                self.held.len() - 1
            }
        };
        Ok(&mut self.held[place].1)
    }
}
