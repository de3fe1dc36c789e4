//! Calls that the HTTP port makes in this process, for the web pages and the HTTP API.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use segno_calls::{CallFuture, Service};
use segno_runtime::with_request_bytes;
use tonic::{Code, Extensions, Status, body::Body};

use crate::{
    connections::{Services, call_if_admitted, call_service},
    security::{Admission, Credentials, Shown, Standing},
    unbuilt,
};

/// In front of each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Makes calls for a caller that was let in already.
pub(crate) struct InProcess(pub(crate) Arc<Services>);

impl Service for InProcess {
    fn call<'a>(&'a self, path: &'a str, message: Bytes, extensions: Extensions) -> CallFuture<'a> {
        Box::pin(async move {
            let request = grpc_request(path, &message, extensions)?;
            response(call_service(&self.0, request).await).await
        })
    }
}

/// Makes calls for a caller that has to be let in with each.
pub(crate) struct Admitting<'s> {
    pub(crate) services: &'s Services,
    pub(crate) credentials: Credentials,
}

impl Service for Admitting<'_> {
    fn call<'a>(&'a self, path: &'a str, message: Bytes, extensions: Extensions) -> CallFuture<'a> {
        Box::pin(with_request_bytes(message.len(), async move {
            let request = grpc_request(path, &message, extensions)?;
            let security = self.services.security.clone();
            let made = match security.is_on() {
                false => call_service(self.services, request).await,
                true => {
                    let shown = Shown::Credentials(Box::new(self.credentials.clone()));
                    let admission = Admission { security, shown, standing: Standing::default() };
                    call_if_admitted(self.services, request, &admission).await
                }
            };
            response(unbuilt::as_temporal_says(made)).await
        }))
    }
}

/// The call as gRPC has it.
fn grpc_request(path: &str, message: &[u8], extensions: Extensions) -> Result<Request<Body>, Status> {
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len()).map_err(|_| Status::resource_exhausted("the call is too large"))?);
    body.put_slice(message);
    let mut request = Request::post(path)
        .body(Body::new(Full::new(body.freeze())))
        .map_err(|_| Status::unimplemented("malformed method name"))?;
    *request.extensions_mut() = extensions;
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
    Ok(request)
}

/// The message of a gRPC response, or its status.
async fn response(response: Response<Body>) -> Result<Bytes, Status> {
    let (parts, body) = response.into_parts();
    let collected = body.collect().await.map_err(|error| Status::internal(format!("the answer broke off: {error}")))?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let message = collected.to_bytes();
    // Without a message the status is in the headers.
    let fields = if trailers.contains_key("grpc-status") { &trailers } else { &parts.headers };
    match Status::from_header_map(fields) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ if message.len() >= PREFIX_BYTES => Ok(message.slice(PREFIX_BYTES..)),
        _ => Ok(Bytes::new()),
    }
}
