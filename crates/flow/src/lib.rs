//! Flow, the script language of Segno: a workflow as a small script that the server itself executes.
//!
//! The crate is pure: it does no input or output, reads no clock and draws no random number, and it uses no other crate of
//! Segno. The same inputs give the same bytes. Source text becomes a running script in these steps:
//!
//! ```text
//! source --lexer, parser--> syntax tree --checker--> hir --compiler--> Code --machine--> turns
//! ```
//!
//! - `syntax` has lexer, parser, syntax tree and formatter.
//! - `check` resolves names, reports every error that can be known before running, and lowers the tree to [`hir`].
//! - [`types`] infers types and reports what fails with every input. It is no part of the steps: scripts that were
//!   deployed before are compiled without it.
//! - `compile` turns the [`hir`] into instructions ([`Code`]).
//! - `machine` executes one turn: [`turn`] takes code, state and events, and gives state and commands.
//! - [`names`] says what the names in a source mean, for editors.
//! - [`library`] lists the functions of the standard library; `pure` has those without effects.
//! - `host` runs `*_test.flow` files without a server.

mod check;
mod compile;
pub mod diagnostic;
mod fields;
pub mod hir;
pub mod host;
pub mod interface;
pub mod library;
mod machine;
pub mod migrate;
pub mod names;
pub mod pure;
mod render;
mod similar;
mod syntax;
pub mod types;
pub mod value;

pub use check::{CheckOutput, check, check_test};
pub use compile::{CODE_BYTES_MAX, CODE_FORMAT, Code, Schedule, compile};
pub use machine::{
    FrameInfo, Inspection, Metadata, MigrateError, PendingItem, QueryError, ScriptVersion, WaitingCode, inspect,
    metadata, migrate, query, stack, turn, version,
};
pub use render::render;
pub use syntax::{SOURCE_BYTES_MAX, format, normalize};
