//! Exit codes, after sysexits.h, so that scripts can tell what went wrong.

use std::process::ExitCode;

use segno_server::ServeError;
use segno_store_sqlite::OpenError;

/// What is stored cannot be used: damaged, of another program or of a newer version.
const DATA: u8 = 65;
/// A port is taken.
const UNAVAILABLE: u8 = 69;
/// The disk does not work.
const IO: u8 = 74;
/// Another server has the data; trying later may help.
const TEMPORARY: u8 = 75;
/// Not allowed.
const PERMISSION: u8 = 77;

/// The exit code of an error.
pub fn code(error: &anyhow::Error) -> ExitCode {
    let code = match (error.downcast_ref::<OpenError>(), error.downcast_ref::<ServeError>()) {
        (Some(OpenError::InUse { .. }), _) => TEMPORARY,
        (Some(OpenError::Unusable { source, .. }), _) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            PERMISSION
        }
        (Some(OpenError::Unusable { .. }), _) => IO,
        (Some(_), _) => DATA,
        (_, Some(ServeError::Bind { error, .. })) if error.kind() == std::io::ErrorKind::PermissionDenied => PERMISSION,
        (_, Some(ServeError::Bind { .. })) => UNAVAILABLE,
        _ => 1,
    };
    ExitCode::from(code)
}
