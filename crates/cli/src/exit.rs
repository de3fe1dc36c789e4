//! Exit codes, after sysexits.h, so that shell scripts can distinguish errors. docs/reference/cli.md and
//! docs/reference/errors.md list them.

use std::{io, process::ExitCode};

use segno_node::CallError;
use segno_server::ServeError;
use segno_store_postgres::OpenError as DatabaseError;
use segno_store_sqlite::{BackupError, CloseError, OpenError};
use tonic::Code;

use crate::{
    client::{ClientError, is_not_grpc, is_too_large},
    running::{DataDirRemoved, FileLimitTooLow, ServerFailure, WriteAccessLost},
};

/// It did not work, or the workflow did not complete.
pub const FAILED: u8 = 1;
/// What was asked for makes no sense.
const USAGE: u8 = 64;
/// What is stored cannot be used: damaged, of another program or of a newer version.
pub const DATA: u8 = 65;
/// What was named is not there.
const NOT_THERE: u8 = 66;
/// A port is taken; a server is not there, or cannot do what was asked.
const UNAVAILABLE: u8 = 69;
/// This program or the other side has a defect.
const SOFTWARE: u8 = 70;
/// The operating system refuses a basic operation.
const SYSTEM: u8 = 71;
/// The disk does not work.
const IO: u8 = 74;
/// Trying later may help: another server has the data, or the time was too short.
const TEMPORARY: u8 = 75;
/// Not allowed.
const PERMISSION: u8 = 77;

/// Flags, variables or settings that are read but make no sense. A command line that cannot be read is clap's, with exit 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// What to tell the user. Errors that say everything in one sentence are not followed by their causes.
pub fn text(error: &anyhow::Error) -> String {
    let complete = error.is::<OpenError>()
        || error.is::<BackupError>()
        || error.is::<DatabaseError>()
        || error.is::<ServeError>()
        || error.is::<ClientError>();
    let text = if complete { error.to_string() } else { format!("{error:#}") };
    match error.downcast_ref::<ClientError>().and_then(ClientError::hint) {
        Some(hint) => format!("{text}\n{hint}"),
        None => text,
    }
}

/// Whether the reader of our output is gone, as in `segno workflow list | head`: nothing is wrong then.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The exit code of an error.
pub fn code(error: &anyhow::Error) -> ExitCode {
    let code = if let Some(error) = error.downcast_ref() {
        of_store(error)
    } else if let Some(error) = error.downcast_ref() {
        of_server(error)
    } else if let Some(error) = error.downcast_ref() {
        of_client(error)
    } else if let Some(error) = error.downcast_ref() {
        of_backup(error)
    } else if error.is::<Usage>() {
        USAGE
    } else if error.is::<ServerFailure>() {
        SOFTWARE
    } else if let Some(CallError::DataLoss(_)) = error.downcast_ref() {
        DATA
    } else if error.is::<FileLimitTooLow>() {
        SYSTEM
    } else if let Some(error) = error.downcast_ref() {
        of_database(error)
    } else if error.is::<WriteAccessLost>() {
        TEMPORARY
    } else if error.is::<CloseError>() || error.is::<DataDirRemoved>() {
        IO
    } else {
        FAILED
    };
    ExitCode::from(code)
}

fn of_store(error: &OpenError) -> u8 {
    match error {
        OpenError::InUse { .. } => TEMPORARY,
        OpenError::NotADirectory { .. } => USAGE,
        OpenError::Unusable { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => PERMISSION,
        OpenError::NoThread { .. } | OpenError::TooManyFiles { .. } => SYSTEM,
        OpenError::Unusable { .. }
        | OpenError::NotDurable { .. }
        | OpenError::Full { .. }
        | OpenError::Failed { .. } => IO,
        _ => DATA,
    }
}

fn of_backup(error: &BackupError) -> u8 {
    match error {
        BackupError::Open(error) => of_store(error),
        BackupError::Nothing(_) => NOT_THERE,
        BackupError::Exists(_) => USAGE,
        BackupError::Damaged { .. } | BackupError::NotACopy(_) => DATA,
        BackupError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => PERMISSION,
        BackupError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_THERE,
        BackupError::Io { .. } => IO,
    }
}

fn of_database(error: &DatabaseError) -> u8 {
    match error {
        DatabaseError::Url(_) | DatabaseError::Tls(_) => USAGE,
        DatabaseError::OtherNode { .. } => TEMPORARY,
        DatabaseError::Unreachable(_)
        | DatabaseError::Starting(_)
        | DatabaseError::InRecovery
        | DatabaseError::Setting { .. }
        | DatabaseError::Pooler => IO,
        _ => DATA,
    }
}

fn of_server(error: &ServeError) -> u8 {
    match error {
        ServeError::Bind { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => PERMISSION,
        ServeError::Bind { .. } => UNAVAILABLE,
        _ => FAILED,
    }
}

fn of_client(error: &ClientError) -> u8 {
    match error {
        ClientError::Connect { .. } => UNAVAILABLE,
        ClientError::Address { .. } | ClientError::NotConfirmed(_) | ClientError::Profile(_) => USAGE,
        ClientError::OutOfTime(_) | ClientError::NotEverywhere(_) => TEMPORARY,
        ClientError::Outcome(_) => FAILED,
        ClientError::Status { status, .. } => match status.code() {
            Code::InvalidArgument | Code::OutOfRange => USAGE,
            // The same request is refused again.
            Code::ResourceExhausted if is_too_large(status.message()) => USAGE,
            Code::NotFound => NOT_THERE,
            Code::Unavailable | Code::Unimplemented => UNAVAILABLE,
            _ if is_not_grpc(status) => UNAVAILABLE,
            Code::Internal | Code::Unknown | Code::DataLoss => SOFTWARE,
            Code::DeadlineExceeded | Code::Cancelled | Code::ResourceExhausted | Code::Aborted => TEMPORARY,
            Code::PermissionDenied | Code::Unauthenticated => PERMISSION,
            _ => FAILED,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_started_again_while_the_database_is_away() {
        let unit = include_str!("../../../deploy/systemd/segno.service");
        let never = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).expect("it has some");
        let away = [
            DatabaseError::Unreachable(String::new()),
            DatabaseError::Starting(String::new()),
            DatabaseError::InRecovery,
            DatabaseError::OtherNode { name: String::new() },
        ];
        for error in away {
            let code = of_database(&error).to_string();
            assert!(never.split(' ').all(|status| status != code), "{error}");
        }
    }
}
