//! Calls that the HTTP port makes in this process, for the web pages and the HTTP API.

use std::sync::Arc;

use bytes::Bytes;
use segno_calls::{CallFuture, MESSAGE_BYTES_MAX, Service};
use segno_node::with_request_bytes;
use tonic::{Extensions, Status};

use crate::{
    calls::{self, Handlers, Method},
    connections::Services,
    reply::message_of,
    security::{AdmittedCall, Credentials},
    unbuilt,
};

/// Makes calls for a caller that was let in already.
pub(crate) struct InProcess(pub(crate) Arc<Handlers>);

impl Service for InProcess {
    fn call<'a>(&'a self, path: &'a str, message: Bytes, extensions: Extensions) -> CallFuture<'a> {
        Box::pin(async move {
            let reply = calls::call(&self.0, method(path)?, message, extensions).await?;
            Ok(message_of(reply.into_inner()))
        })
    }
}

/// Makes calls for a caller that has to be let in with each.
pub(crate) struct InProcessCaller<'s> {
    pub(crate) services: &'s Services,
    pub(crate) credentials: Credentials,
}

impl Service for InProcessCaller<'_> {
    fn call<'a>(&'a self, path: &'a str, message: Bytes, mut extensions: Extensions) -> CallFuture<'a> {
        Box::pin(with_request_bytes(message.len(), async move {
            if message.len() > MESSAGE_BYTES_MAX {
                return Err(Status::resource_exhausted("grpc: received message larger than max (4194304 bytes)"));
            }
            let Services { handlers, security, .. } = self.services;
            let admitted = match security.is_on() {
                true => security.admit(path, &message, &self.credentials).await?,
                false => AdmittedCall::default(),
            };
            if let Some(caller) = &admitted.caller {
                extensions.insert(caller.clone());
            }
            let outcome = match method(path) {
                Ok(method) => calls::call(handlers, method, message, extensions).await,
                Err(status) => Err(status),
            };
            Ok(message_of(admitted.outcome(outcome)?.into_inner()))
        }))
    }
}

fn method(path: &str) -> Result<&'static Method, Status> {
    calls::find(path.as_bytes()).ok_or_else(|| unbuilt::status(path))
}
