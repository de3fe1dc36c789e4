//! Errors of commands, each with a hint about what to do.

use std::{error::Error, time::Duration};

use tonic::{Code, Status};

use crate::output::plain;

/// Why a command did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server answers.
    #[error("cannot connect to {address}: {detail}")]
    Connect {
        /// The server.
        address: String,
        /// What the system said, and what to do.
        detail: String,
    },
    /// The address makes no sense.
    #[error("{address:?} is not an address of a server: {detail}. Try 127.0.0.1:7233")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The profile makes no sense.
    #[error("the settings cannot be used: {0}")]
    Profile(String),
    /// The server answered with an error status.
    #[error("cannot {what}: {}", words(address, status, *answered))]
    Status {
        /// What was tried.
        what: String,
        /// The server.
        address: String,
        /// Its answer.
        status: Box<Status>,
        /// Whether it had answered another call before.
        answered: bool,
    },
    /// The user's patience is over.
    #[error("nothing came of it within {0:?} (--command-timeout)")]
    OutOfTime(Duration),
    /// The workflow ended, but not well.
    #[error("{0}")]
    Outcome(String),
    /// A change is stored; some nodes may not have it.
    #[error(
        "the change is stored, but these nodes are of an older version and did not say that they have it: {0}. Restart them, or \
         repeat the command when they can be reached"
    )]
    NotEverywhere(String),
    /// The user did not agree.
    #[error("{0}")]
    NotConfirmed(&'static str),
}

impl ClientError {
    /// A connection that was not made.
    pub fn connect(address: &str, error: &tonic::transport::Error) -> Self {
        // The innermost cause says it best: "Connection refused".
        let mut cause: &dyn Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let detail = match cause.to_string() {
            // What rustls makes of the first bytes of HTTP/2.
            detail if detail.contains("InvalidContentType") => {
                "it does not speak TLS. Leave out --tls and https://, or start it with --tls-cert and --tls-key"
                    .to_owned()
            }
            detail if detail.contains("UnknownIssuer") || detail.contains("BadSignature") => {
                "the authority that issued its certificate is not known here. Give its root certificate with --tls-ca-path FILE \
                 (SEGNO_TLS_CA)"
                    .to_owned()
            }
            detail if detail.contains("not valid for name") || detail.contains("NotValidForName") => format!(
                "its certificate is for another name ({detail}). Connect by a name that is in it, or say which with \
                 --tls-server-name NAME (SEGNO_TLS_SERVER_NAME)"
            ),
            detail if detail.contains("certificate expired") => {
                format!("its certificate has expired ({detail}), or the clock of this machine is wrong")
            }
            detail if detail.contains("CertificateRequired") => NO_CERTIFICATE.to_owned(),
            detail => format!(
                "{detail}. Start a server with `segno serve` (or `segno server start-dev`), or say where it is with --address \
                 or SEGNO_ADDRESS"
            ),
        };
        Self::Connect { address: address.to_owned(), detail }
    }

    /// What to try next, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        let Self::Status { what, status, answered, .. } = self else { return None };
        let message = status.message().to_ascii_lowercase();
        if !answered && let Some(hint) = tls_hint(status) {
            return Some(hint);
        }
        match status.code() {
            Code::InvalidArgument if message.contains("retention period") => {
                Some("A retention is at least 1h, for example --retention 72h")
            }
            Code::InvalidArgument
                if message.contains("search attribute") && message.contains("not defined")
                    || message.contains("no mapping defined for search attribute")
                    || message.contains("is not a search attribute of this namespace") =>
            {
                Some(
                    "`segno search-attribute create --name NAME --type TYPE` adds one, `segno search-attribute list` shows them",
                )
            }
            Code::InvalidArgument if message.contains("blob data size exceeds limit") => Some(
                "An input, a result, a signal or a detail may have 2 MiB (`limit.blobSize.error`). Store large data elsewhere \
                 and pass its address",
            ),
            Code::ResourceExhausted if is_too_large(&message) => {
                Some("A request may have 4 MiB. Store large data elsewhere and pass its address")
            }
            Code::DeadlineExceeded | Code::Cancelled
                if what.starts_with("query") || what.starts_with("ask for the stack") =>
            {
                Some("A worker has to answer: `segno workflow why` says whether one is there")
            }
            _ if is_not_grpc(status) && !answered => Some(
                "Is this the HTTP port of the server? gRPC is on another one, by default 7233. If it is encrypted, say --tls. Or something \
                 else than a server of the protocol listens there",
            ),
            Code::NotFound if message.starts_with("there is no script") => Some(
                "`segno flow list` shows the scripts there are, `segno flow deploy FILE` adds one; is the --namespace right?",
            ),
            Code::FailedPrecondition if what == "deploy" && is_type_of_workers(&message) => Some(
                "Give the script another name, or take the type over with `segno flow deploy --take-over`: the script then executes \
                 what is started from now on, on every task queue, and open runs stay with their workers",
            ),
            Code::Unimplemented if message.contains("workflow pause is not enabled") => {
                Some("Start the server with `segno serve --workflow-pause` (SEGNO_WORKFLOW_PAUSE=true)")
            }
            code if what.ends_with("deployment") || what.ends_with("version") => deployment_hint(code, &message),
            Code::NotFound if message.contains("namespace") => {
                Some("`segno namespace list` shows the namespaces there are, `segno namespace create NAME` makes one")
            }
            Code::NotFound if what.ends_with("batch job") => {
                Some("`segno batch list` shows the batch jobs there are; is the --namespace right?")
            }
            Code::NotFound if what.contains("schedule") => {
                Some("`segno schedule list` shows the schedules there are; is the --namespace right?")
            }
            Code::NotFound if message.contains("activity not found") => Some(
                "`segno activity list` shows those without a workflow, `segno workflow describe` the pending ones of one",
            ),
            Code::NotFound if what.ends_with("the worker") => {
                Some("`segno worker list` shows the workers there are, by the ids in its first column")
            }
            Code::NotFound if message.contains("workflow not found") => {
                Some("`segno workflow list` shows the workflows there are; is the --namespace right?")
            }
            Code::AlreadyExists if what.contains("schedule") => {
                Some("`segno schedule update` changes one; use another --schedule-id for a new one")
            }
            Code::AlreadyExists if message.contains("running") => {
                Some("Use another --workflow-id, or --id-conflict-policy UseExisting or TerminateExisting")
            }
            Code::AlreadyExists if message.contains("finished") => {
                Some("Use another --workflow-id, or --id-reuse-policy AllowDuplicate")
            }
            _ => None,
        }
    }
}

const NO_CERTIFICATE: &str =
    "it wants a certificate of the client: give one with --tls-cert-path FILE and --tls-key-path FILE";

/// What to try if one side uses TLS and the other one does not, or a certificate is missing.
fn tls_hint(status: &Status) -> Option<&'static str> {
    let text = causes(status);
    if text.contains("inadequate security") || text.contains("this port is encrypted") {
        return Some(
            "The server speaks TLS there: say --tls, or --tls-ca-path FILE if its certificate is not of a public authority",
        );
    }
    text.contains("certificaterequired").then_some(
        "The server wants a certificate of the client: give one with --tls-cert-path FILE and --tls-key-path FILE",
    )
}

/// A status and what caused it, in small letters.
fn causes(status: &Status) -> String {
    let mut source = status.source();
    let mut text = status.message().to_ascii_lowercase();
    while let Some(error) = source {
        text.push(' ');
        text.push_str(&error.to_string().to_ascii_lowercase());
        source = error.source();
    }
    text
}

/// What to try next after a refused call about a worker deployment.
fn deployment_hint(code: Code, message: &str) -> Option<&'static str> {
    match code {
        Code::NotFound if message.contains("namespace ") => {
            Some("`segno namespace list` shows the namespaces there are, `segno namespace create NAME` makes one")
        }
        Code::NotFound if message.contains("no worker deployment found") => Some(
            "`segno deployment list` shows the deployments there are; one appears when a worker with a deployment version \
             polls. Is the --namespace right?",
        ),
        Code::NotFound => Some(
            "`segno deployment describe` shows the versions there are. A version appears when a worker with its build id polls: \
             start one first",
        ),
        _ if message.contains("conflict token mismatch") => Some(
            "Another client changed the deployment meanwhile: look at it with `segno deployment describe` and repeat the command",
        ),
        _ if message.contains("is missing active task queues") => Some(
            "Start workers of the new version on all task queues that `segno deployment describe-version` shows for the current \
             one, or say --ignore-missing-task-queues",
        ),
        _ if message.contains("manageridentity") => Some(
            "`segno deployment set-manager NAME --self` takes the deployment over, `--unset` frees it; or pass the --identity of \
             the manager",
        ),
        _ if message.contains("since it is current or ramping") => Some(
            "Make another version current with `segno deployment set-current`, or end the ramp with `segno deployment \
             set-ramping NAME --delete`",
        ),
        _ if message.contains("since it is draining") => Some(
            "Workflows are pinned to it, or it stopped being current a moment ago: `segno deployment describe` shows how many. Wait \
             for them, move them, or say --skip-drainage",
        ),
        _ if message.contains("has active pollers") => Some("Stop the workers of the version first"),
        _ if message.contains("deployment has versions") => {
            Some("Delete its versions first, with `segno deployment delete-version`")
        }
        _ => None,
    }
}

/// Whether a request was refused for its size: trying again does not help.
pub fn is_too_large(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("larger than max") || message.contains("too large")
}

/// Whether a deployment was refused because workers execute the type.
fn is_type_of_workers(message: &str) -> bool {
    message.ends_with("are not scripts") || message.starts_with("workers have run ")
}

/// Whether the other side speaks no gRPC.
pub fn is_not_grpc(status: &Status) -> bool {
    let text = causes(status);
    ["http2 error", "h2 protocol error", "frame with invalid size", "transport error"]
        .iter()
        .any(|sign| text.contains(sign))
        && matches!(status.code(), Code::Internal | Code::Unknown | Code::Unavailable)
}

/// Whether a call came to nothing because the connection broke or the server cannot answer now: it may be back soon.
pub fn is_interruption(status: &Status) -> bool {
    status.code() == Code::Unavailable || is_not_grpc(status)
}

/// Whether the time of a call ran out, on this side or on the other one.
pub fn is_out_of_time(status: &Status) -> bool {
    matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled)
}

/// A status in a sentence.
fn words(address: &str, status: &Status, answered: bool) -> String {
    if answered && is_not_grpc(status) {
        return format!("the connection to the server at {address} broke. Is it still running?");
    }
    let message = match status.message() {
        "" => format!("{:?}", status.code()),
        message => plain(message).into_owned(),
    };
    match status.code() {
        Code::InvalidArgument => format!("the server does not accept this: {message}"),
        Code::Unimplemented => format!("the server at {address} is not able to: {message}"),
        Code::DeadlineExceeded | Code::Cancelled => format!("no answer in time ({message})"),
        Code::Unavailable => format!("the server at {address} is not available: {message}"),
        Code::PermissionDenied | Code::Unauthenticated => format!("not allowed: {message}"),
        Code::ResourceExhausted => format!("the server has reached a limit: {message}"),
        Code::Internal | Code::Unknown | Code::DataLoss => format!("the server failed: {message}"),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: Status) -> ClientError {
        let (what, address) = ("x".to_owned(), "here:1".to_owned());
        ClientError::Status { what, address, status: Box::new(status), answered: false }
    }

    #[test]
    fn refusals_are_sentences() {
        let error = refused(Status::not_found("workflow not found for ID: w"));
        assert_eq!(error.to_string(), "cannot x: workflow not found for ID: w");
        assert!(error.hint().expect("a hint").contains("segno workflow list"));
        let error = refused(Status::not_found("there is no script \"x\" in namespace \"default\""));
        assert!(error.hint().expect("a hint").contains("segno flow list"));
        let error = refused(Status::unimplemented("ListSchedules is not built yet in Segno"));
        assert!(error.to_string().contains("here:1 is not able to"), "{error}");
        assert_eq!(error.hint(), None);
    }

    /// The HTTP port answers no call at all; a server that did has gone away.
    #[test]
    fn a_broken_connection_is_no_wrong_port() {
        let broken = Status::unknown("transport error");
        assert!(is_interruption(&broken) && is_interruption(&Status::unavailable("tcp connect error")));
        assert!(!is_interruption(&Status::internal("stored data")));
        assert!(refused(broken.clone()).hint().expect("a hint").contains("HTTP port"));
        let (what, address) = ("x".to_owned(), "here:1".to_owned());
        let error = ClientError::Status { what, address, status: Box::new(broken), answered: true };
        assert_eq!(error.hint(), None);
        assert_eq!(error.to_string(), "cannot x: the connection to the server at here:1 broke. Is it still running?");
    }
}
