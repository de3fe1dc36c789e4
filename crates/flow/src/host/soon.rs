//! Stands in for functions of the machine that are being written.

use crate::Code;
use crate::interface::{Limits, Payload};

pub(super) fn query(_: &Code, _: &[u8], _: &str, _: &[Payload], _: i64, _: &Limits) -> Result<Vec<Payload>, String> {
    Err("not written yet".to_owned())
}

pub(super) fn inspect(_: &Code, _: &[u8]) -> Result<String, String> {
    Err("not written yet".to_owned())
}

pub(super) fn version(_: &[u8]) -> String {
    String::new()
}
