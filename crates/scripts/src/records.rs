//! Stored documents of scripts: for each name one with its versions and activations, for each version one with its
//! source and code.

use bytes::Bytes;
use prost::Message;
use segno_engine::script::{Version, hex};

use super::error::ScriptError;

/// Digits of a version that are shown.
pub(super) const SHOWN_DIGITS: usize = 12;
/// The prefix of the documents of names.
pub(super) const NAME_PREFIX: &str = "flow/";

/// A deployed name, as it is stored.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScriptRecord {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub versions: Vec<VersionRecord>,
    #[prost(message, repeated, tag = "3")]
    pub activations: Vec<Activation>,
    /// Whether the name was deleted: it has no current version.
    #[prost(bool, tag = "4")]
    pub deleted: bool,
    /// Whether some version has a schedule, so that there may be a run of it.
    #[prost(bool, tag = "5")]
    pub scheduled: bool,
    /// Whether starts on queues of workers are left to these. Not so of names that take over, and of those that were
    /// deployed before there was a choice.
    #[prost(bool, tag = "6")]
    pub leaves_queues: bool,
}

/// A version of a script.
#[derive(Clone, PartialEq, Message)]
pub struct VersionRecord {
    /// SHA-256 of its source.
    #[prost(bytes = "bytes", tag = "1")]
    pub version: Bytes,
    /// When it was stored, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub created: i64,
    /// Who deployed it.
    #[prost(string, tag = "3")]
    pub identity: String,
    /// The name of its file.
    #[prost(string, tag = "4")]
    pub file_name: String,
}

/// A version became the current one.
#[derive(Clone, PartialEq, Message)]
pub struct Activation {
    /// Which.
    #[prost(bytes = "bytes", tag = "1")]
    pub version: Bytes,
    /// When, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub time: i64,
    /// Who did it.
    #[prost(string, tag = "3")]
    pub identity: String,
}

/// Source and code of a version, as they are stored.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionContent {
    #[prost(bytes = "bytes", tag = "1")]
    pub source: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub code: Bytes,
    #[prost(string, tag = "3")]
    pub file_name: String,
}

impl ScriptRecord {
    /// The current version.
    pub fn current(&self) -> Option<Version> {
        if self.deleted {
            return None;
        }
        self.activations.last()?.version.as_ref().try_into().ok()
    }

    pub fn has(&self, version: &[u8]) -> bool {
        self.versions.iter().any(|known| known.version == version)
    }

    /// The version that some digits name.
    pub fn find(&self, digits: &str) -> Result<Version, ScriptError> {
        let wanted = digits.to_ascii_lowercase();
        let mut found = self.versions.iter().filter(|known| hex(&known.version).starts_with(&wanted));
        let unknown = || ScriptError::NotFound(format!("there is no version {digits} of \"{}\"", self.name));
        let first = found.next().filter(|_| !digits.is_empty()).ok_or_else(unknown)?;
        if found.next().is_some() {
            let text = format!("version {digits} of \"{}\" is ambiguous; give more digits", self.name);
            return Err(ScriptError::Argument(text));
        }
        first.version.as_ref().try_into().map_err(|_| unknown())
    }
}

/// The document of a name.
pub(super) fn name_document(name: &str) -> String {
    format!("{NAME_PREFIX}{name}")
}

/// The document of a version.
pub(super) fn version_document(name: &str, version: &[u8]) -> String {
    format!("flow-version/{}/{name}", hex(version))
}

/// The version that has all of these digits.
pub(super) fn parse_digits(digits: &str) -> Option<Version> {
    let mut version = [0; 32];
    for (place, byte) in version.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(version)
}
