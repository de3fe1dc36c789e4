//! The text of scripts: tokens, syntax tree, parser and formatter. Names are resolved later, in `check`.

mod format;
pub(crate) mod lexer;
pub(crate) mod parser;
mod source;
pub(crate) mod token;
pub(crate) mod tree;

pub use format::format;
pub(crate) use source::decode;
pub use source::{SOURCE_BYTES_MAX, normalize};
