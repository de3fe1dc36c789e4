//! Detects connections that are dead without having been closed: sends a PING when nothing was read for a while.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long the server may take for its sign of life.
const PROBE: Duration = Duration::from_secs(15);

/// Counts the reads of a stream that brought bytes.
#[derive(Clone, Default)]
pub(super) struct Reads(Arc<AtomicU64>);

impl Reads {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream whose reads are counted.
pub(super) struct CountingStream<T> {
    stream: T,
    reads: Reads,
}

impl<T> CountingStream<T> {
    pub fn new(stream: T) -> (Self, Reads) {
        let reads = Reads::default();
        (Self { stream, reads: reads.clone() }, reads)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for CountingStream<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.reads.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CountingStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Ends when the connection is dead. A connection on which bytes arrive is alive, however long the answer to a probe
/// takes: it may stand behind a long answer to a call.
pub(super) async fn lost(mut pings: PingPong, reads: Reads, interval: Duration) {
    let mut seen = reads.count();
    loop {
        tokio::time::sleep(interval).await;
        if std::mem::replace(&mut seen, reads.count()) != seen {
            continue;
        }
        if pings.send_ping(Ping::opaque()).is_err() {
            return;
        }
        loop {
            let before = reads.count();
            match tokio::time::timeout(PROBE, poll_fn(|cx| pings.poll_pong(cx))).await {
                Ok(Ok(_)) => break,
                Ok(Err(_)) => return,
                Err(_) if reads.count() == before => return,
                Err(_) => {}
            }
        }
        seen = reads.count();
    }
}
