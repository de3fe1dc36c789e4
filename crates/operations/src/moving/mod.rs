//! Export and import: an export is a file with all stored data, an import fills an empty store from it.
//!
//! Run keys, run ids and the keys of tokens are kept, so that open tasks, tokens and page tokens stay valid. Searchable
//! facts are not part of the file; they are derived again. Versions of runs begin anew: they count commits within one
//! store.
//!
//! The file is a line that names its format, then records: a kind, a length, a message, its checksum. The last one has
//! the counts and the digest of everything before it; a file without it is incomplete.

mod export;
mod import;

use std::hash::Hasher;

use bytes::Bytes;
use segno_store::{CommitError, ReadError};
use siphasher::sip::SipHasher24;

pub use export::export;
pub use import::import;

/// The first line of a file.
const MAGIC: &[u8] = b"segno export 1\n";
/// The largest record: a state of 8 MiB, a batch of history, messages.
const RECORD_BYTES_MAX: usize = 128 << 20;
/// History in one record.
const HISTORY_BYTES: usize = 4 << 20;
/// A run has this many script states at most.
const SCRIPT_SLOTS: u8 = 4;
/// How often long work says how far it is, in runs.
const PROGRESS: u64 = 10_000;

/// How much an export or an import contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Namespaces.
    pub namespaces: u64,
    /// Runs.
    pub runs: u64,
    /// Batches of history.
    pub batches: u64,
    /// Messages on their way.
    pub messages: u64,
    /// Documents: scripts, batch jobs, configurations.
    pub documents: u64,
}

/// Why an export or an import failed.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The file could not be read or written.
    #[error("the file could not be read or written: {0}")]
    File(#[from] std::io::Error),
    /// The file is not a whole export.
    #[error("this is not a whole export: {0}")]
    Damaged(String),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] CommitError),
    /// The store is not empty.
    #[error("the store is not empty; an import needs an empty one")]
    NotEmpty,
}

/// Kinds of records.
const NAMESPACE: u8 = 1;
const RUN: u8 = 2;
const HISTORY: u8 = 3;
const DOCUMENT: u8 = 4;
const END: u8 = 5;

#[derive(Clone, PartialEq, prost::Message)]
struct NamespaceRow {
    #[prost(uint32, tag = "1")]
    key: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(bytes = "bytes", tag = "3")]
    detail: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct BatchRow {
    #[prost(int64, tag = "1")]
    first: i64,
    #[prost(int64, tag = "2")]
    last: i64,
    #[prost(bytes = "bytes", tag = "3")]
    events: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct NumberedRow {
    #[prost(uint32, tag = "1")]
    number: u32,
    #[prost(bytes = "bytes", tag = "2")]
    content: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RunRow {
    #[prost(uint64, tag = "1")]
    key: u64,
    #[prost(bytes = "bytes", tag = "2")]
    state: Bytes,
    #[prost(bool, tag = "3")]
    open: bool,
    #[prost(int64, optional, tag = "4")]
    wake_at: Option<i64>,
    #[prost(bool, tag = "5")]
    dispatchable: bool,
    /// Whether its workflow id leads to it.
    #[prost(bool, tag = "6")]
    current: bool,
    #[prost(message, repeated, tag = "7")]
    scripts: Vec<NumberedRow>,
    #[prost(message, repeated, tag = "8")]
    messages: Vec<NumberedRow>,
}

/// Batches of the run before it.
#[derive(Clone, PartialEq, prost::Message)]
struct HistoryRow {
    #[prost(uint64, tag = "1")]
    key: u64,
    #[prost(message, repeated, tag = "2")]
    batches: Vec<BatchRow>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DocumentRow {
    #[prost(uint32, tag = "1")]
    namespace: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(bytes = "bytes", tag = "3")]
    content: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EndRow {
    #[prost(uint64, tag = "1")]
    namespaces: u64,
    #[prost(uint64, tag = "2")]
    runs: u64,
    #[prost(uint64, tag = "3")]
    batches: u64,
    #[prost(uint64, tag = "4")]
    messages: u64,
    #[prost(uint64, tag = "5")]
    documents: u64,
    #[prost(fixed64, tag = "6")]
    digest: u64,
}

fn checksum(kind: u8, message: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write_u8(kind);
    hasher.write(message);
    hasher.finish()
}
