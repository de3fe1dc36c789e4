//! Segno's own service for access keys.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use segno_node::{AccessKey, NewKeyError, Node};
use segno_proto::{
    Rpc,
    decode::decode,
    nanos_timestamp,
    segno_access::{
        CreateKeyRequest, CreateKeyResponse, Key, ListKeysRequest, ListKeysResponse, RevokeKeyRequest,
        RevokeKeyResponse, WhoAmIRequest, WhoAmIResponse,
    },
    timestamp_nanos,
};
use tonic::{Extensions, Request, Response, Status};

use super::{failed, routing::PeerOrigin};
use crate::security::{Caller, digest, new_secret, roles::Grants};

const NAME_BYTES_MAX: usize = 200;
const GRANTS_MAX: usize = 1000;

/// Segno's AccessService.
pub struct AccessCalls {
    node: Arc<Node>,
}

impl AccessCalls {
    /// The service on a node.
    pub fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    async fn create(&self, request: Request<CreateKeyRequest>) -> Result<Response<CreateKeyResponse>, Status> {
        let asked = request.into_inner().key.unwrap_or_default();
        let now = self.node.runs.now();
        let expires = asked.expire_time.as_ref().map_or(0, timestamp_nanos);
        check(&asked, expires, now)?;
        let secret = match asked.certificate.is_empty() {
            true => new_secret().ok_or_else(|| Status::internal("the system has no random numbers"))?,
            false => String::new(),
        };
        let key = AccessKey {
            name: asked.name,
            digest: if secret.is_empty() { Vec::new() } else { digest(secret.as_bytes()).to_vec() },
            certificate: asked.certificate,
            grants: asked.grants,
            queues: asked.task_queues,
            created: now,
            expires,
            created_by: asked.created_by,
            calls_per_second: asked.calls_per_second,
        };
        let shown = key_to_proto(&key);
        self.node.access_keys.create(key).await.map_err(|error| match error {
            NewKeyError::Exists(_) | NewKeyError::CertificateTaken(_) => Status::already_exists(error.to_string()),
            NewKeyError::TooMany => Status::resource_exhausted(error.to_string()),
            NewKeyError::Call(error) => failed(error),
        })?;
        Ok(Response::new(CreateKeyResponse { key: Some(shown), secret }))
    }

    /// Revokes a key.
    pub(crate) async fn revoke_key(
        &self,
        request: Request<RevokeKeyRequest>,
    ) -> Result<Response<RevokeKeyResponse>, Status> {
        let name = request.into_inner().name;
        match self.node.access_keys.revoke(&name).await.map_err(failed)? {
            true => Ok(Response::new(RevokeKeyResponse {})),
            false => Err(Status::not_found(format!("there is no key {name:?}; `segno key list` shows them"))),
        }
    }
}

impl AccessCalls {
    pub(crate) async fn create_key(
        &self,
        request: Request<CreateKeyRequest>,
    ) -> Result<Response<CreateKeyResponse>, Status> {
        let mut request = request;
        if request.extensions().get::<PeerOrigin>().is_none() {
            request.get_mut().key.get_or_insert_default().created_by = name_of_caller(request.extensions());
        }
        self.create(request).await
    }

    /// The request of a call before it goes to where it belongs: who creates a key is known here only.
    pub(crate) fn prepared(&self, path: &str, message: Bytes, extensions: &Extensions) -> Result<Bytes, Status> {
        if path != CreateKeyRequest::PATH || extensions.get::<PeerOrigin>().is_some() {
            return Ok(message);
        }
        let mut request: CreateKeyRequest = decode(message)?;
        request.key.get_or_insert_default().created_by = name_of_caller(extensions);
        Ok(request.encode_to_vec().into())
    }

    pub(crate) async fn list_keys(&self, _: Request<ListKeysRequest>) -> Result<Response<ListKeysResponse>, Status> {
        let keys = self.node.access_keys.all().iter().map(|key| key_to_proto(key)).collect();
        Ok(Response::new(ListKeysResponse { keys }))
    }

    pub(crate) async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> Result<Response<WhoAmIResponse>, Status> {
        let Some(caller) = caller(&request) else { return Ok(Response::new(WhoAmIResponse::default())) };
        Ok(Response::new(WhoAmIResponse {
            name: caller.name.clone(),
            proof: caller.proof.name().to_owned(),
            grants: caller.grants.texts(),
            task_queues: caller.grants.queues.clone(),
        }))
    }
}

/// The name of who calls; empty if callers need not be known.
fn name_of_caller(extensions: &Extensions) -> String {
    extensions.get::<Arc<Caller>>().map(|caller| caller.name.clone()).unwrap_or_default()
}

fn caller<T>(request: &Request<T>) -> Option<&Arc<Caller>> {
    request.extensions().get()
}

fn check(key: &Key, expires: i64, now: i64) -> Result<(), Status> {
    let wrong = |text: String| Err(Status::invalid_argument(text));
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    if key.name.is_empty() || key.name.len() > NAME_BYTES_MAX || !is_plain(&key.name) {
        return wrong(format!("a key needs a name of at most {NAME_BYTES_MAX} bytes without control characters"));
    }
    if key.certificate.len() > NAME_BYTES_MAX {
        return wrong(format!("the subject of a certificate has at most {NAME_BYTES_MAX} bytes"));
    }
    if key.grants.is_empty() {
        return wrong("a key without grants allows nothing: give at least one, such as default:write".to_owned());
    }
    if key.grants.len() + key.task_queues.len() > GRANTS_MAX {
        return wrong(format!("a key has at most {GRANTS_MAX} grants and queues"));
    }
    if let Err(error) = Grants::parse(key.grants.iter().map(String::as_str)) {
        return wrong(error.to_string());
    }
    if expires != 0 && expires <= now {
        return wrong("the key would have expired already".to_owned());
    }
    Ok(())
}

fn key_to_proto(key: &AccessKey) -> Key {
    Key {
        name: key.name.clone(),
        grants: key.grants.clone(),
        task_queues: key.queues.clone(),
        certificate: key.certificate.clone(),
        create_time: Some(nanos_timestamp(key.created)),
        expire_time: (key.expires != 0).then(|| nanos_timestamp(key.expires)),
        created_by: key.created_by.clone(),
        calls_per_second: key.calls_per_second,
    }
}
