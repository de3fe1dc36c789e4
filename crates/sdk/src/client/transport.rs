//! The transport of calls: gRPC over one HTTP/2 connection, which is re-established when it was lost.
//!
//! It uses `h2` directly, without a queue of requests and without a task for each of them: a call writes its frames
//! into the connection and waits only for its stream. docs/internals/decisions/036 has the figures.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, future::BoxFuture};
use h2::{Reason, RecvStream, client::SendRequest};
use http::{
    HeaderMap, Request, Response, Uri,
    uri::{Authority, PathAndQuery, Scheme},
};
use http_body::{Body as _, Frame};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::OwnedMutexGuard,
};
use tonic::{Status, body::Body, codegen::Service};

use super::{
    dial::{dial, without_brackets},
    keep_alive::{self, CountingStream},
    proxy::HttpProxy,
};
use crate::lock::lock;

/// How long a connection may take, with everything that belongs to it.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes that the server may send before this side has read them: of one call, and of all together.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 5 * 1024 * 1024;

/// Where the server is and how to get there.
pub(super) struct Target {
    pub scheme: Scheme,
    pub authority: Authority,
    pub proxy: Option<HttpProxy>,
    #[cfg(feature = "tls")]
    pub tls: Option<super::tls::Tls>,
    /// How often the connection is probed.
    pub keep_alive: Option<Duration>,
    /// Added to every call.
    pub metadata: HeaderMap,
}

/// Sends calls to a server.
#[derive(Clone)]
pub(crate) struct Transport(Arc<Inner>);

struct Inner {
    target: Target,
    /// The connection, and how many there were before it.
    live: Mutex<(u64, Option<SendRequest<Bytes>>)>,
    /// One attempt at a time; calls that waited for it use its connection, or fail with its error.
    connecting: Arc<tokio::sync::Mutex<Option<(Instant, String)>>>,
}

impl Transport {
    pub(super) fn new(target: Target) -> Self {
        let inner = Inner { target, live: Mutex::default(), connecting: Arc::default() };
        Self(Arc::new(inner))
    }

    pub(super) fn target(&self) -> &Target {
        &self.0.target
    }

    /// Connects, if there is no connection.
    pub(super) async fn connect(&self) -> io::Result<()> {
        self.requests().await.map(|_| ())
    }

    fn live(&self) -> std::sync::MutexGuard<'_, (u64, Option<SendRequest<Bytes>>)> {
        // Nothing panics while the lock is held.
        lock(&self.0.live)
    }

    /// A connection that takes requests.
    async fn requests(&self) -> io::Result<SendRequest<Bytes>> {
        let asked = Instant::now();
        let (mut number, mut requests) = self.live().clone();
        loop {
            if let Some(there) = requests {
                if let Ok(ready) = there.ready().await {
                    return Ok(ready);
                }
                // It is lost, or the server wants no more requests on it.
                let mut live = self.live();
                if live.0 == number {
                    live.1 = None;
                }
            }
            let failed = self.0.connecting.clone().lock_owned().await;
            (number, requests) = self.live().clone();
            if requests.is_some() {
                continue;
            }
            if let Some((_, why)) = failed.as_ref().filter(|(at, _)| *at >= asked) {
                return Err(io::Error::other(why.clone()));
            }
            // Apart from this call, which may give up: others wait for the same connection.
            let attempt = tokio::spawn(self.clone().attempt(failed));
            return attempt.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        }
    }

    /// One attempt. What came of it is noted before the next one can begin.
    async fn attempt(self, mut failed: OwnedMutexGuard<Option<(Instant, String)>>) -> io::Result<SendRequest<Bytes>> {
        let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT:?}")));
        let made = tokio::time::timeout(CONNECT, self.0.target.connect()).await.unwrap_or_else(late);
        *failed = made.as_ref().err().map(|error| (Instant::now(), error.to_string()));
        let made = made?;
        let mut live = self.live();
        *live = (live.0 + 1, Some(made.clone()));
        Ok(made)
    }

    /// Sends a request with its one message, and waits for the beginning of the answer.
    pub(super) async fn send(&self, head: Request<()>, message: Bytes) -> Result<Response<RecvStream>, Status> {
        let mut requests = self
            .requests()
            .await
            .map_err(|error| Status::unavailable(format!("{} cannot be reached: {error}", self.0.target.authority)))?;
        let (response, mut stream) = requests.send_request(head, false).map_err(status)?;
        stream.send_data(message, true).map_err(status)?;
        response.await.map_err(status)
    }

    /// A call of a generated client.
    async fn pass_on(&self, request: Request<Body>) -> Result<Response<Answer>, Status> {
        let (mut head, body) = request.into_parts();
        head.uri = self.0.target.uri(head.uri.into_parts().path_and_query.unwrap_or(PathAndQuery::from_static("/")));
        for (name, value) in &self.0.target.metadata {
            head.headers.insert(name, value.clone());
        }
        let message = whole(body).await?;
        let response = self.send(Request::from_parts(head, ()), message).await?;
        Ok(response.map(|stream| Answer { stream, data_is_over: false }))
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Answer>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        async move { transport.pass_on(request).await }.boxed()
    }
}

impl Target {
    pub(super) fn uri(&self, path: PathAndQuery) -> Uri {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        // All parts are there, so that it cannot fail.
        Uri::from_parts(parts).unwrap_or_default()
    }

    fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.scheme == Scheme::HTTPS { 443 } else { 80 })
    }

    async fn connect(&self) -> io::Result<SendRequest<Bytes>> {
        let stream = match &self.proxy {
            Some(proxy) => proxy.connect(&format!("{}:{}", self.authority.host(), self.port())).await?,
            None => dial((without_brackets(self.authority.host()), self.port())).await?,
        };
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return self.handshake(tls.connect(stream).await?).await;
        }
        self.handshake(stream).await
    }

    async fn handshake<T>(&self, stream: T) -> io::Result<SendRequest<Bytes>>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stream, reads) = CountingStream::new(stream);
        let (requests, mut connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(stream)
            .await
            .map_err(io::Error::other)?;
        let pings = connection.ping_pong().zip(self.keep_alive);
        tokio::spawn(async move {
            let lost = async {
                match pings {
                    Some((pings, interval)) => keep_alive::lost(pings, reads, interval).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = connection => tracing::debug!(error = ?ended.err(), "the connection to the server ended"),
                // Dropped, the connection ends every call on it.
                _ = lost => tracing::debug!("the connection to the server is given up: there is no sign of life"),
            }
        });
        Ok(requests)
    }
}

/// The whole body of a request, which has one message.
async fn whole(mut body: Body) -> Result<Bytes, Status> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut all = BytesMut::from(first);
    all.unsplit(rest);
    Ok(all.freeze())
}

/// The body of an answer.
pub(crate) struct Answer {
    stream: RecvStream,
    data_is_over: bool,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.data_is_over {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // It fails only for more than there was.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(status(error)))),
                None => self.data_is_over = true,
            }
        }
        match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(Some(Err(status(error)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// The status of a call whose connection or stream ended: gRPC's own table of codes.
pub(super) fn status(error: h2::Error) -> Status {
    let text = format!("the connection to the server was lost: {error}");
    match error.reason() {
        None | Some(Reason::REFUSED_STREAM) => Status::unavailable(text),
        _ if error.is_go_away() || error.is_io() => Status::unavailable(text),
        Some(Reason::CANCEL) => Status::cancelled(text),
        Some(Reason::ENHANCE_YOUR_CALM) => Status::resource_exhausted(text),
        Some(Reason::INADEQUATE_SECURITY) => Status::permission_denied(text),
        Some(_) => Status::internal(text),
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
