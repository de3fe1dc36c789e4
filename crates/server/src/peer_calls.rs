//! Calls that other nodes forward, handled like calls of clients.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::Extensions;
use segno_node::{ClientCalls, Delivery, ForwardedCall, ForwardedReply};
use tonic::Status;

use crate::{
    calls::{self, Handlers},
    delivery::Receipt,
    grpc::routing::PeerOrigin,
    peers::{CallMetadata, ShortText},
    reply::message_of,
    status,
};

/// Makes calls of other nodes with the services of this one.
pub(crate) struct PeerCalls(pub(crate) Arc<Handlers>);

impl ClientCalls for PeerCalls {
    fn call(&self, call: ForwardedCall) -> Pin<Box<dyn Future<Output = ForwardedReply> + Send + '_>> {
        let extensions = extensions(&call);
        Box::pin(async move {
            let Some(method) = calls::find(call.path.as_bytes()) else {
                return refused(&Status::unimplemented(format!("this node has no call {}", call.path)));
            };
            match calls::call(&self.0, method, call.body, extensions).await {
                Ok(reply) => {
                    let (_, data, mut extensions) = reply.into_parts();
                    succeeded(message_of(data), Receipt::delivery_of(&mut extensions))
                }
                Err(status) => ForwardedReply { moved: status::is_moved(&status), ..refused(&status) },
            }
        })
    }
}

/// The facts that a client's connection would have added to the call, and that it was forwarded.
fn extensions(call: &ForwardedCall) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(PeerOrigin);
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

fn succeeded(body: Bytes, delivery: Option<Delivery>) -> ForwardedReply {
    ForwardedReply { code: 0, message: String::new(), details: Bytes::new(), body, delivery, moved: false }
}

fn refused(status: &Status) -> ForwardedReply {
    ForwardedReply {
        code: status.code() as i32,
        message: status.message().to_owned(),
        details: Bytes::copy_from_slice(status.details()),
        body: Bytes::new(),
        delivery: None,
        moved: false,
    }
}
