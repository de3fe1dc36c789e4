//! Exit codes, after sysexits.h, so that scripts can tell what went wrong.

use std::process::ExitCode;

use segno_runtime::CallError;
use segno_server::ServeError;
use segno_store_sqlite::OpenError;

/// What is stored cannot be used: damaged, of another program or of a newer version.
const DATA: u8 = 65;
/// A port is taken.
const UNAVAILABLE: u8 = 69;
/// The operating system refuses something basic.
const SYSTEM: u8 = 71;
/// The disk does not work.
const IO: u8 = 74;
/// Another server has the data; trying later may help.
const TEMPORARY: u8 = 75;
/// Not allowed.
const PERMISSION: u8 = 77;

/// What to tell the user. Errors that say everything in one sentence are not followed by their causes.
pub fn text(error: &anyhow::Error) -> String {
    let complete = error.is::<OpenError>() || error.is::<ServeError>();
    if complete { error.to_string() } else { format!("{error:#}") }
}

/// The exit code of an error.
pub fn code(error: &anyhow::Error) -> ExitCode {
    let code = match (error.downcast_ref::<OpenError>(), error.downcast_ref::<ServeError>()) {
        (Some(OpenError::InUse { .. }), _) => TEMPORARY,
        (Some(OpenError::Unusable { source, .. }), _) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            PERMISSION
        }
        (Some(OpenError::NoThread { .. }), _) => SYSTEM,
        (
            Some(
                OpenError::Unusable { .. }
                | OpenError::NotDurable { .. }
                | OpenError::Full { .. }
                | OpenError::Failed { .. },
            ),
            _,
        ) => IO,
        (Some(_), _) => DATA,
        (_, Some(ServeError::Bind { error, .. })) if error.kind() == std::io::ErrorKind::PermissionDenied => PERMISSION,
        (_, Some(ServeError::Bind { .. })) => UNAVAILABLE,
        _ if matches!(error.downcast_ref::<CallError>(), Some(CallError::DataLoss(_))) => DATA,
        _ => 1,
    };
    ExitCode::from(code)
}
