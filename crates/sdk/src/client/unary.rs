//! The frequent calls of workers, directly on the [`Transport`]: the request is encoded once for all attempts to send
//! it, and the future of such a call is small. Other calls use the generated clients.

use std::{future::poll_fn, marker::PhantomData, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use http::{HeaderMap, HeaderValue, Method as HttpMethod, Request, StatusCode, Version, header};
use prost::Message;
use segno_proto::workflowservice as w;
use tonic::{Code, Status};

use super::transport::{Transport, status};

/// The largest message in either direction.
pub(super) const MESSAGE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// The prefix of each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// A method of a service, with the types of request and answer.
pub(crate) struct Method<Q, A> {
    path: &'static str,
    of: PhantomData<fn(Q) -> A>,
}

macro_rules! methods {
    ($($name:ident = $method:literal: $request:ident => $answer:ident;)*) => { $(
        pub(crate) const $name: Method<w::$request, w::$answer> = Method {
            path: concat!("/temporal.api.workflowservice.v1.WorkflowService/", $method),
            of: PhantomData,
        };
    )* };
}

methods! {
    POLL_WORKFLOW_TASK = "PollWorkflowTaskQueue": PollWorkflowTaskQueueRequest => PollWorkflowTaskQueueResponse;
    POLL_ACTIVITY_TASK = "PollActivityTaskQueue": PollActivityTaskQueueRequest => PollActivityTaskQueueResponse;
    POLL_NEXUS_TASK = "PollNexusTaskQueue": PollNexusTaskQueueRequest => PollNexusTaskQueueResponse;
    WORKFLOW_TASK_COMPLETED = "RespondWorkflowTaskCompleted":
        RespondWorkflowTaskCompletedRequest => RespondWorkflowTaskCompletedResponse;
    ACTIVITY_TASK_COMPLETED = "RespondActivityTaskCompleted":
        RespondActivityTaskCompletedRequest => RespondActivityTaskCompletedResponse;
    ACTIVITY_TASK_FAILED = "RespondActivityTaskFailed":
        RespondActivityTaskFailedRequest => RespondActivityTaskFailedResponse;
    ACTIVITY_TASK_CANCELED = "RespondActivityTaskCanceled":
        RespondActivityTaskCanceledRequest => RespondActivityTaskCanceledResponse;
}

/// A call as it is sent, however often.
pub(crate) struct EncodedCall {
    pub path: &'static str,
    message: Bytes,
}

impl EncodedCall {
    /// The size of the message.
    pub fn len(&self) -> usize {
        self.message.len() - PREFIX_BYTES
    }
}

impl<Q: Message, A: Message + Default> Method<Q, A> {
    pub fn encode(&self, request: &Q) -> EncodedCall {
        let length = request.encoded_len();
        let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
        bytes.put_u8(0);
        // Far longer ones are refused before.
        bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        request.encode_raw(&mut bytes);
        EncodedCall { path: self.path, message: bytes.freeze() }
    }

    pub fn decode(&self, answer: Bytes) -> Result<A, Status> {
        segno_proto::decode::decode(answer).map_err(Status::from)
    }
}

impl Transport {
    /// One call. `limit` is sent to the server, and is kept here.
    pub async fn unary(&self, call: &EncodedCall, limit: Duration) -> Result<Bytes, Status> {
        let head = self.head(call.path, limit);
        match tokio::time::timeout(limit, self.answered(head, call.message.clone())).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::deadline_exceeded(format!("no answer within {limit:?}"))),
        }
    }

    async fn answered(&self, head: Request<()>, message: Bytes) -> Result<Bytes, Status> {
        let (head, mut body) = self.send(head, message).await?.into_parts();
        if head.status != StatusCode::OK {
            return Err(refused(&head.headers, head.status));
        }
        if let Some(status) = Status::from_header_map(&head.headers)
            && status.code() != Code::Ok
        {
            return Err(status);
        }
        let answer = message_of(&mut body).await?;
        let trailers = poll_fn(|cx| body.poll_trailers(cx)).await.map_err(status)?;
        match trailers.as_ref().or(Some(&head.headers)).and_then(Status::from_header_map) {
            Some(status) if status.code() == Code::Ok => {
                answer.ok_or_else(|| Status::internal("the server answered without a message"))
            }
            Some(status) => Err(status),
            None => Err(Status::unknown("the server answered without a status")),
        }
    }

    fn head(&self, path: &'static str, limit: Duration) -> Request<()> {
        let mut head = Request::new(());
        *head.method_mut() = HttpMethod::POST;
        *head.uri_mut() = self.target().uri(http::uri::PathAndQuery::from_static(path));
        *head.version_mut() = Version::HTTP_2;
        let headers = head.headers_mut();
        *headers = self.target().metadata.clone();
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        if let Ok(limit) = HeaderValue::try_from(format!("{}m", limit.as_millis())) {
            headers.insert("grpc-timeout", limit);
        }
        head
    }
}

/// The message of an answer, in a buffer of its own: what is kept of it does not keep the connection's buffers.
async fn message_of(body: &mut RecvStream) -> Result<Option<Bytes>, Status> {
    let mut prefix = [0; PREFIX_BYTES];
    // Of the prefix, and of the message.
    let (mut read, mut length) = (0, 0);
    let mut message = BytesMut::new();
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        let mut data = data.map_err(status)?;
        // It fails only for more than there was.
        let _ = body.flow_control().release_capacity(data.len());
        if read < PREFIX_BYTES {
            let part = data.split_to(data.len().min(PREFIX_BYTES - read));
            prefix[read..read + part.len()].copy_from_slice(&part);
            read += part.len();
            if read == PREFIX_BYTES {
                length = length_of(prefix)?;
                message.reserve(length);
            }
        }
        if message.len() + data.len() > length {
            return Err(Status::internal("the server answered with more than one message"));
        }
        message.extend_from_slice(&data);
    }
    match read {
        0 => Ok(None),
        PREFIX_BYTES if message.len() == length => Ok(Some(message.freeze())),
        _ => Err(Status::internal("the answer ended within its message")),
    }
}

fn length_of([compressed, length @ ..]: [u8; PREFIX_BYTES]) -> Result<usize, Status> {
    let length = u32::from_be_bytes(length) as usize;
    if compressed != 0 {
        return Err(Status::internal("the server answered with compressed bytes, which were not asked for"));
    }
    if length > MESSAGE_BYTES_MAX {
        let text = format!("the answer has {length} bytes; at most {MESSAGE_BYTES_MAX} are read");
        return Err(Status::out_of_range(text));
    }
    Ok(length)
}

/// The code for an HTTP status when there is no status of gRPC: gRPC's own table.
fn refused(headers: &HeaderMap, found: StatusCode) -> Status {
    if let Some(status) = Status::from_header_map(headers) {
        return status;
    }
    let code = match found {
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    };
    Status::new(code, format!("the server answered with HTTP status {found}"))
}
