//! What names a script: its version, its queue and its search attribute.

use bytes::Bytes;
use segno_proto::common::{Header, Payload};

use crate::{
    payload,
    state::{
        run::Run,
        script::{Script, Version},
    },
};

/// The queue of workflow tasks that the server executes itself.
pub const QUEUE: &str = "segno-flow";
/// The identity of the executor of scripts, as events name it.
pub const IDENTITY: &str = "segno-flow";
/// The search attribute with the version of a script.
pub const VERSION_ATTRIBUTE: &str = "SegnoFlowVersion";

/// The field of the header of a start by which the starter says that a script is to execute the run.
pub const EXECUTOR_HEADER: &str = "segno-executor";

/// Whether the header of a start says that a script is to execute the run.
pub fn is_asked_for(header: Option<&Header>) -> bool {
    header.and_then(|header| header.fields.get(EXECUTOR_HEADER)).is_some_and(|payload| payload.data == "\"script\"")
}

/// A script of this version, as a run begins.
pub fn new(version: Version) -> Script {
    Script { version: Bytes::copy_from_slice(&version), ..Default::default() }
}

/// The version of a run, if it is a script.
pub fn version(run: &Run) -> Option<Version> {
    run.state.script.as_ref().and_then(|script| script.version.as_ref().try_into().ok())
}

/// Who executes a run if it is a script, in words.
pub fn executor(run: &Run) -> Option<String> {
    run.state.script.as_ref().map(|_| format!("script {}", run.info.workflow_type))
}

/// A version in hexadecimal digits.
pub fn hex(version: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = version.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let mut text = String::with_capacity(2 * version.len());
    text.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
    text
}

/// The search attribute that names a version.
pub(crate) fn attribute(version: &[u8]) -> Payload {
    payload::keyword(&hex(version))
}
