//! The general way: requests and answers of any service as tonic has them, streams included.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use segno_http2::Block;
use tokio::{sync::mpsc, task::AbortHandle};
use tonic::{Status, body::Body};
use tower::Service;

use super::{Services, WORKFLOW_SERVICE, incoming::Incoming, line::Turn, packing::ENCODING};
use crate::{
    delivery::{OneCall, Receipt},
    unbuilt,
};

/// The body of a request, piece by piece.
struct Arriving(mpsc::Receiver<Bytes>);

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Answers a request, in a task of its own.
pub(super) fn answer(
    services: Arc<Services>,
    mut turn: Turn,
    request: &mut Incoming,
    arriving: mpsc::Receiver<Bytes>,
    call: OneCall,
) -> AbortHandle {
    let request = request.take(Body::new(Arriving(arriving)));
    let task = tokio::spawn(async move {
        turn.begin();
        let response = match request {
            Some(request) => unbuilt::as_temporal_says(respond(&services, request).await),
            None => Status::unimplemented("malformed method name").into_http(),
        };
        deliver(turn, response, call).await;
    });
    task.abort_handle()
}

async fn respond(services: &Services, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    if let Some(refusal) = unbuilt::refusal(path) {
        return refusal;
    }
    let answered = if !is_for_workflows(path) {
        services.others.clone().call(request).await
    } else if request.headers().get(ENCODING).is_some_and(|encoding| encoding == "gzip") {
        services.compressing.clone().call(request).await
    } else {
        services.workflows.clone().call(request).await
    };
    let Ok(response) = answered;
    response
}

async fn deliver(turn: Turn, response: Response<Body>, call: OneCall) {
    let (mut parts, mut body) = response.into_parts();
    let receipt = Receipt::of(&mut parts.extensions, call);
    let head = block(Block::status(parts.status.as_u16()), &parts.headers);
    if body.is_end_stream() {
        return turn.finish(|connection, stream| connection.refuse(stream, &head, receipt));
    }
    turn.say(|connection, stream| connection.head(stream, &head));
    while let Some(frame) = body.frame().await {
        // Without an answer's end the stream is reset.
        let Ok(frame) = frame else { return };
        match frame.into_data() {
            Ok(data) => turn.say(|connection, stream| connection.data(stream, data)),
            Err(frame) => {
                let trailers = frame.into_trailers().map(|trailers| block(Block::default(), &trailers));
                return turn.finish(|connection, stream| connection.end(stream, trailers.as_ref().ok(), receipt));
            }
        }
    }
    turn.finish(|connection, stream| connection.end(stream, None, receipt));
}

/// Headers, after those that are there.
pub(super) fn block(mut block: Block, headers: &HeaderMap) -> Block {
    headers.iter().for_each(|(name, value)| block.push(name.as_str().as_bytes(), value.as_bytes()));
    block
}

/// Whether a path names a call of one message, which is worth waiting for.
pub(super) fn wants_one_message(path: &str) -> bool {
    is_for_workflows(path) && path.rsplit('/').next().is_some_and(unbuilt::is_built)
}

fn is_for_workflows(path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|rest| rest.strip_prefix(WORKFLOW_SERVICE))
        .is_some_and(|call| call.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        assert!(is_for_workflows("/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo"));
        assert!(!is_for_workflows("/temporal.api.workflowservice.v1.WorkflowServiceTwo/GetSystemInfo"));
        assert!(!is_for_workflows("/temporal.api.operatorservice.v1.OperatorService/ListClusters"));
        assert!(!is_for_workflows("/"));
    }
}
