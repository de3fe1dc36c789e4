//! Moves a run to another version of its script.
//!
//! A frame that waits has its place in the new version if the same function has exactly one statement with the same
//! text in the same chain of enclosing statements. Text is compared after formatting and without comments, so neither
//! layout nor the rest of the file matters.

pub(crate) mod outline;

use crate::diagnostic::Position;
use crate::syntax::decode;
use crate::syntax::parser::{FileKind, parse};
use outline::Outline;

/// A frame of a run that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingFrame {
    /// The function, as stacks show it.
    pub function: String,
    /// Where it waits: the beginning of an expression or statement of the old version.
    pub position: Position,
}

/// Finds the place of each frame in the new version: the position that corresponds to the one where it waits. If some have
/// none, a line for each of them. `version` is that of the new source, as messages show it.
pub fn places(old: &[u8], new: &[u8], version: &str, frames: &[WaitingFrame]) -> Result<Vec<Position>, Vec<String>> {
    let (old, new) = (outline(old), outline(new));
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for frame in frames {
        let place = old.as_ref().zip(new.as_ref()).and_then(|(old, new)| old.corresponding(frame.position, new));
        match place {
            Some(place) => found.push(place.position),
            None => missing.push(no_place(&frame.function, frame.position, version)),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(missing) }
}

/// What is said about a frame without a place.
pub(crate) fn no_place(function: &str, position: Position, version: &str) -> String {
    format!("{function} (line {}): the waiting statement is not in version {version}", position.line)
}

/// The outline of a source without syntax errors.
pub(crate) fn outline(source: &[u8]) -> Option<Outline> {
    let source = decode(source).ok()?;
    let parsed = parse(&source, FileKind::Script);
    parsed.diagnostics.is_empty().then(|| Outline::of(&source, &parsed))
}
