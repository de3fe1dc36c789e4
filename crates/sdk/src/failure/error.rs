//! [`Error`]: what bodies of workflows and tasks return. `?` converts any error into it.

use std::{error::Error as StdError, fmt};

use super::{Failure, FailureBuilder};
use crate::{
    client::error::ClientError,
    nexus::{HandlerError, OperationError},
    workflow::continue_as_new::ContinueAsNew,
};

/// The result of a workflow or task, or of anything that they do.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of the body of a workflow or task. Anything that is an error becomes one by `?`.
///
/// It is not `std::error::Error` itself, as otherwise it could not be made from all that are.
pub struct Error(Box<ErrorKind>);

enum ErrorKind {
    Failure(Failure),
    /// The end of a Nexus operation, in a handler of one.
    Operation(Failure),
    /// Not a failure: the workflow wants to begin again.
    ContinueAsNew(ContinueAsNew),
}

impl Error {
    /// The failure in it. Asking to continue as new is none; it shows as one of kind `ContinueAsNew`.
    pub fn failure(&self) -> Failure {
        match &*self.0 {
            ErrorKind::Failure(failure) | ErrorKind::Operation(failure) => failure.clone(),
            ErrorKind::ContinueAsNew(_) => {
                Failure::application("ContinueAsNew", "the workflow asked to continue as new").into()
            }
        }
    }

    /// The failure that a handler of a Nexus operation said that the operation has ended with.
    pub(crate) fn operation_failure(&self) -> Option<&Failure> {
        match &*self.0 {
            ErrorKind::Operation(failure) => Some(failure),
            _ => None,
        }
    }

    pub(crate) fn continue_as_new(continued: ContinueAsNew) -> Self {
        Self(Box::new(ErrorKind::ContinueAsNew(continued)))
    }

    pub(crate) fn into_outcome(self) -> std::result::Result<ContinueAsNew, Failure> {
        match *self.0 {
            ErrorKind::ContinueAsNew(continued) => Ok(continued),
            ErrorKind::Failure(failure) | ErrorKind::Operation(failure) => Err(failure),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure().fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure().fmt(f)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        let name = std::any::type_name::<E>();
        let boxed = match error.into().downcast::<Failure>() {
            Ok(failure) => return Self(Box::new(ErrorKind::Failure(*failure))),
            Err(boxed) => boxed,
        };
        let boxed = match boxed.downcast::<FailureBuilder>() {
            Ok(builder) => return Self(Box::new(ErrorKind::Failure((*builder).into()))),
            Err(boxed) => boxed,
        };
        if let Some(error) = boxed.downcast_ref::<HandlerError>() {
            return Self(Box::new(ErrorKind::Failure(error.failure().clone())));
        }
        if let Some(error) = boxed.downcast_ref::<OperationError>() {
            return Self(Box::new(ErrorKind::Operation(error.failure().clone())));
        }
        if let Some(failure) = boxed.downcast_ref::<ClientError>().and_then(ClientError::failure) {
            return Self(Box::new(ErrorKind::Failure(failure.clone())));
        }
        let mut failure = Failure::application(kind_of_type(name), boxed.to_string());
        if let Some(source) = boxed.source() {
            failure = failure.caused_by(from_source(source));
        }
        Self(Box::new(ErrorKind::Failure(failure.into())))
    }
}

fn from_source(source: &(dyn StdError + 'static)) -> Failure {
    if let Some(failure) = source.downcast_ref::<Failure>() {
        return failure.clone();
    }
    let failure = Failure::new(source.to_string());
    match source.source() {
        Some(deeper) => failure.caused_by(from_source(deeper)).into(),
        None => failure.into(),
    }
}

/// The last segment of a type's path, without its parameters; `Error` for texts and boxes, which say nothing.
fn kind_of_type(name: &str) -> &str {
    let plain = name.split('<').next().unwrap_or(name);
    match plain.rsplit("::").next().unwrap_or(plain) {
        "String" | "&str" | "str" | "Box" | "&alloc" | "Cow" => "Error",
        kind if kind.starts_with('&') => "Error",
        kind => kind,
    }
}
