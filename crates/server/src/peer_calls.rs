//! Calls that come from other nodes, made as if they came from a client.

use std::{pin::Pin, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use http::{Extensions, HeaderValue, Request, header};
use http_body_util::{BodyExt, Full};
use segno_runtime::{ClientCalls, Delivery, Forwarded, ForwardedCall};
use tonic::{Code, Status, body::Body};

use crate::{
    connections::{self, Services, call_service},
    delivery::Receipt,
    grpc::routing::Via,
    peers::{CallMetadata, ShortText},
    status,
};

/// In front of each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Makes calls of other nodes with the services of this one.
pub(crate) struct PeerCalls(pub(crate) Arc<Services>);

impl ClientCalls for PeerCalls {
    fn call(&self, call: ForwardedCall) -> Pin<Box<dyn Future<Output = Forwarded> + Send + '_>> {
        let extensions = extensions(&call);
        match connections::forwarded(&call.path) {
            Some(handle) => Box::pin(async move {
                match handle(self.0.direct.clone(), call.body, extensions).await {
                    Ok((body, mut extensions)) => succeeded(body, Receipt::delivery_of(&mut extensions)),
                    Err(status) => Forwarded { moved: status::is_moved(&status), ..refused(&status) },
                }
            }),
            None => Box::pin(async move {
                match request(call, extensions) {
                    Ok(request) => answer(call_service(&self.0, request).await).await,
                    Err(status) => refused(&status),
                }
            }),
        }
    }
}

/// What a client's connection would have told about the call, and that it was forwarded.
fn extensions(call: &ForwardedCall) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Via);
    extensions.insert(CallMetadata {
        connection: call.connection,
        timeout: call.timeout,
        is_tool: call.is_tool,
        client_name: ShortText::new(call.sdk.name.as_bytes()),
        client_version: ShortText::new(call.sdk.version.as_bytes()),
    });
    if let Some(task) = &call.task {
        extensions.insert(task.clone());
    }
    extensions
}

fn request(call: ForwardedCall, extensions: Extensions) -> Result<Request<Body>, Status> {
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + call.body.len());
    body.put_u8(0);
    body.put_u32(u32::try_from(call.body.len()).map_err(|_| Status::resource_exhausted("the call is too large"))?);
    body.put_slice(&call.body);
    let mut request = Request::post(call.path)
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"))
        .header(header::TE, HeaderValue::from_static("trailers"))
        .body(Body::new(Full::new(body.freeze())))
        .map_err(|_| Status::unimplemented("malformed method name"))?;
    *request.extensions_mut() = extensions;
    Ok(request)
}

async fn answer(response: http::Response<Body>) -> Forwarded {
    let (mut parts, body) = response.into_parts();
    let delivery = Receipt::delivery_of(&mut parts.extensions);
    let collected = match body.collect().await {
        Ok(collected) => collected,
        Err(error) => return refused(&Status::internal(format!("the answer broke off: {error}"))),
    };
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let message = collected.to_bytes();
    // Without a message the status is in the headers.
    let fields = if trailers.contains_key("grpc-status") { &trailers } else { &parts.headers };
    let status = Status::from_header_map(fields).unwrap_or_else(|| Status::ok(""));
    if status.code() != Code::Ok {
        return Forwarded { moved: status::says_moved(fields), ..refused(&status) };
    }
    let body = if message.len() >= PREFIX_BYTES { message.slice(PREFIX_BYTES..) } else { Bytes::new() };
    succeeded(body, delivery)
}

fn succeeded(body: Bytes, delivery: Option<Delivery>) -> Forwarded {
    Forwarded { code: 0, message: String::new(), details: Bytes::new(), body, delivery, moved: false }
}

fn refused(status: &Status) -> Forwarded {
    Forwarded {
        code: status.code() as i32,
        message: status.message().to_owned(),
        details: Bytes::copy_from_slice(status.details()),
        body: Bytes::new(),
        delivery: None,
        moved: false,
    }
}
