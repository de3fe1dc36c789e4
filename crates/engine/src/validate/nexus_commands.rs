//! Checks of the command that schedules a Nexus operation.

use std::collections::BTreeMap;

use segno_proto::{
    Nanos, command::ScheduleNexusOperationCommandAttributes, duration_nanos, enums::WorkflowTaskFailedCause as Cause,
    nanos_duration,
};

use super::{
    ID_LENGTH_MAX,
    commands::{CheckResult, refuse},
    duration,
};
use crate::state::nexus::SYSTEM_ENDPOINT;

const CAUSE: Cause = Cause::BadScheduleNexusOperationAttributes;
const COMMAND: &str = "ScheduleNexusOperationCommandAttributes";
/// Most bytes of headers, keys and values together.
pub const HEADER_BYTES_MAX: usize = 8192;
/// Headers that the server itself sets or interprets.
pub const RESERVED_HEADERS: [&str; 9] = [
    "request-timeout",
    "xdc-redirection-api",
    "xdc-redirection-source-cell",
    "xdc-redirection",
    "caller-name",
    "caller-type",
    "call-initiation",
    "temporal-principal-type",
    "temporal-principal-name",
];

/// An operation to schedule: names and time-outs. Cuts the time-outs to that of the run, and to each other.
pub fn schedule(
    attributes: Option<&mut ScheduleNexusOperationCommandAttributes>,
    endpoint_is_known: bool,
    run_timeout: Nanos,
) -> CheckResult {
    let Some(attributes) = attributes else { return refuse(CAUSE, format!("empty {COMMAND}")) };
    if !endpoint_is_known {
        return refuse(CAUSE, format!("endpoint {:?} not found", attributes.endpoint));
    }
    for (what, name) in [("Service", &attributes.service), ("Operation", &attributes.operation)] {
        if name.len() > ID_LENGTH_MAX {
            return refuse(CAUSE, format!("{COMMAND}.{what} exceeds length limit of {ID_LENGTH_MAX}"));
        }
    }
    let timeouts = [
        ("ScheduleToCloseTimeout", &mut attributes.schedule_to_close_timeout),
        ("ScheduleToStartTimeout", &mut attributes.schedule_to_start_timeout),
        ("StartToCloseTimeout", &mut attributes.start_to_close_timeout),
    ];
    for (what, timeout) in timeouts {
        if let Err(why) = duration(timeout.as_mut()) {
            return refuse(CAUSE, format!("{COMMAND}.{what} is invalid: {why}"));
        }
    }
    fit_timeouts(attributes, run_timeout);
    Ok(())
}

/// Cuts the time-out of the whole to that of its run, if the run has one, and those of its parts to the whole.
pub fn fit_timeouts(attributes: &mut ScheduleNexusOperationCommandAttributes, run_timeout: Nanos) {
    let mut whole = duration_nanos(attributes.schedule_to_close_timeout.as_ref());
    if run_timeout > 0 && (whole == 0 || whole > run_timeout) {
        whole = run_timeout;
        attributes.schedule_to_close_timeout = Some(nanos_duration(whole));
    }
    for part in [&mut attributes.schedule_to_start_timeout, &mut attributes.start_to_close_timeout] {
        if whole > 0 && duration_nanos(part.as_ref()) > whole {
            *part = Some(nanos_duration(whole));
        }
    }
}

/// The first header that users may not set.
pub fn reserved_header(headers: &BTreeMap<String, String>) -> Option<&str> {
    let mut keys = headers.keys().map(String::as_str);
    keys.find(|key| RESERVED_HEADERS.contains(&key.to_lowercase().as_str()))
}

/// Whether headers are larger together than an operation may carry.
pub fn are_too_large(headers: &BTreeMap<String, String>) -> bool {
    headers.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > HEADER_BYTES_MAX
}

/// The server's own operations have no headers.
pub fn no_headers(headers: &BTreeMap<String, String>) -> CheckResult {
    match headers.is_empty() {
        true => Ok(()),
        false => refuse(CAUSE, format!("{COMMAND}.NexusHeader must be empty when using {SYSTEM_ENDPOINT} endpoint")),
    }
}

/// The headers of an operation.
pub fn headers(headers: &BTreeMap<String, String>) -> CheckResult {
    if let Some(key) = reserved_header(headers) {
        return refuse(CAUSE, format!("{COMMAND}.NexusHeader contains a disallowed header key: {key:?}"));
    }
    if are_too_large(headers) {
        return refuse(CAUSE, format!("{COMMAND}.NexusHeader exceeds size limit"));
    }
    Ok(())
}
