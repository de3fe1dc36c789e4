//! The language server of scripts, for editors: diagnostics, hover, definitions, completion and formatting.
//!
//! [`run`] speaks the Language Server Protocol over a [`Connection`], which its caller makes; it does no other input or
//! output, and reads no files: editors send the text. What it says about a script is what `segno flow check` and
//! `segno flow fmt` say.
//!
//! `text` converts positions; `document` has a checked script; `diagnostics`, `hover` and `completion` answer from it;
//! `server` is the conversation.

mod completion;
mod diagnostics;
mod document;
mod hover;
mod server;
mod text;

pub use lsp_server::Connection;
pub use server::{Ending, run};
