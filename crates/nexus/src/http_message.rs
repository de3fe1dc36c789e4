//! Requests and answers of HTTP without a connection: to handlers at a URL, and to those who wait for the end of an operation.

use std::collections::BTreeMap;

use bytes::Bytes;
use segno_proto::{
    enums::NexusHandlerErrorRetryBehavior,
    failure::{Failure, NexusHandlerFailureInfo, failure::FailureInfo},
    nexus,
};

use crate::{
    content::{CONTENT_PREFIX, Content, media_type},
    failure_json::failure_from_json,
    failures::{HANDLER_ERROR, TYPE, from_nexus},
    statuses::error_type_of,
};

/// The name of the server in its requests.
pub const USER_AGENT: &str = "temporalio/server";
/// Headers of connections: they are those of one connection alone, so no user sets them.
const OF_CONNECTIONS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
];

/// A POST request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpRequest {
    /// The whole URL.
    pub url: String,
    /// Its headers; names are in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Bytes,
}

impl HttpRequest {
    /// A request with the headers of a user, as far as users may set them.
    pub(crate) fn new(url: String, headers: &BTreeMap<String, String>) -> Self {
        let may_set = |name: &str| {
            !OF_CONNECTIONS.contains(&name) && !name.starts_with(CONTENT_PREFIX) && !name.starts_with("xdc-redirection")
        };
        let headers = headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
        let mut request =
            Self { url, headers: headers.filter(|(name, _)| may_set(name)).collect(), body: Bytes::default() };
        request.set("user-agent", USER_AGENT);
        request
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.headers.insert(name.to_owned(), value.into());
    }

    pub(crate) fn set_content(&mut self, content: Content) {
        let headers = content.headers.into_iter().map(|(name, value)| (format!("{CONTENT_PREFIX}{name}"), value));
        self.headers.extend(headers);
        self.body = content.body;
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// The name of its status.
    pub reason: String,
    /// Its headers; names are in lower case, repeated ones joined by commas.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Bytes,
}

impl HttpAnswer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Its body and the headers that describe it.
    pub(crate) fn content(&self) -> Content {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Content::new(headers, self.body.clone())
    }

    pub(crate) fn is_json(&self) -> bool {
        media_type(self.header("content-type")).is_some_and(|(kind, _)| kind == "application/json")
    }

    /// The failure that is its body, if it is one.
    pub(crate) fn failure(&self) -> Option<nexus::Failure> {
        if self.is_json() { failure_from_json(&self.body).ok() } else { None }
    }

    /// The error of a handler that it reports, by its status and its body; `None` if its status stands for none.
    pub(crate) fn handler_error(&self) -> Option<(Failure, NexusHandlerFailureInfo)> {
        let r#type = error_type_of(self.status)?.to_owned();
        let failure = self.failure();
        if let Some(own) =
            failure.as_ref().filter(|failure| failure.metadata.get(TYPE).is_some_and(|t| t == HANDLER_ERROR))
        {
            let read = from_nexus(own);
            if let Some(FailureInfo::NexusHandlerFailureInfo(info)) = read.failure_info.clone() {
                return Some((read, info));
            }
        }
        let retry_behavior = match self.header("nexus-request-retryable") {
            "true" => NexusHandlerErrorRetryBehavior::Retryable,
            "false" => NexusHandlerErrorRetryBehavior::NonRetryable,
            _ => NexusHandlerErrorRetryBehavior::Unspecified,
        };
        let info = NexusHandlerFailureInfo { r#type, retry_behavior: retry_behavior as i32 };
        let failure = Failure {
            cause: failure.map(|cause| Box::new(from_nexus(&cause))),
            failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info.clone())),
            ..Default::default()
        };
        Some((failure, info))
    }

    /// What is wrong with an answer that means nothing in Nexus.
    pub(crate) fn unexpected(&self) -> String {
        self.with_message(format!("unexpected response status: \"{} {}\"", self.status, self.reason))
    }

    /// A text about the answer, with the message of the failure that is its body.
    pub(crate) fn with_message(&self, text: String) -> String {
        match self.failure().map(|failure| failure.message).filter(|message| !message.is_empty()) {
            Some(message) => format!("{text}: {message}"),
            None => text,
        }
    }
}
