//! Reading and writing one connection.
//!
//! What arrives is read into a buffer of the thread, so that a silent connection has none. What is to be written is
//! left for one turn of the scheduler: calls that finish in the same moment share a write.

use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};

use super::{incoming::Calls, line::Line};
use crate::delivery::Receipt;

/// More than the largest frame.
const READ_BYTES: usize = 64 * 1024;
/// Larger buffers are not kept while there is nothing to write.
const KEPT_BYTES: usize = 16 * 1024;

thread_local! {
    static ARRIVED: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Why reading stopped.
enum Reading {
    Ended,
    Paused,
}

/// See the module. Done when the connection is over.
pub(super) struct Socket {
    stream: TcpStream,
    line: Arc<Line>,
    calls: Calls,
    /// The beginning of a frame whose end has not arrived.
    partial: Vec<u8>,
    output: Vec<u8>,
    /// How much of `output` is written.
    written: usize,
    /// What there is to write has waited for its turn.
    waited: bool,
    /// The peer did not take more when it was last written to.
    blocked: bool,
    /// The peer broke the protocol: nothing is read any more, and the last words are written.
    broken: bool,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, line: Arc<Line>, calls: Calls) -> Self {
        let (partial, output) = (Vec::new(), Vec::new());
        Self { stream, line, calls, partial, output, written: 0, waited: false, blocked: false, broken: false }
    }

    /// Reads what there is. Ready when nothing more will come; paused, with nobody to wake this task for it, as long as
    /// the peer does not take what it is told.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Reading>> {
        while !self.is_paused() {
            let ended = ARRIVED.with_borrow_mut(|arrived| self.poll_read_into(arrived, context));
            if ready!(ended)? {
                return Poll::Ready(Ok(Reading::Ended));
            }
        }
        Poll::Ready(Ok(Reading::Paused))
    }

    fn is_paused(&self) -> bool {
        self.broken || self.line.lock().connection.as_ref().is_some_and(|connection| connection.is_congested())
    }

    /// Reads once; true at the end.
    fn poll_read_into(&mut self, arrived: &mut [u8], context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let before = self.partial.len();
        let mut buffer = ReadBuf::new(arrived);
        buffer.put_slice(&self.partial);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        let bytes = buffer.filled();
        if bytes.len() == before {
            return Poll::Ready(Ok(true));
        }
        let mut state = self.line.lock();
        state.heard = Instant::now();
        let Some(connection) = &mut state.connection else { return Poll::Ready(Ok(true)) };
        match connection.receive(&mut self.calls, bytes) {
            Ok(used) => {
                self.partial.clear();
                self.partial.extend_from_slice(&bytes[used..]);
            }
            Err(violation) => {
                tracing::debug!(%violation, "a peer does not keep to HTTP/2");
                connection.give_up(violation);
                self.broken = true;
            }
        }
        Poll::Ready(Ok(false))
    }

    /// Writes what there is; ready when the connection has said its last word.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.output.len() {
                let rest = &self.output[self.written..];
                let Poll::Ready(bytes) = Pin::new(&mut self.stream).poll_write(context, rest) else {
                    self.blocked = true;
                    return Poll::Pending;
                };
                let bytes = bytes?;
                if bytes == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += bytes;
            }
            let mut delivered: Vec<Receipt> = Vec::new();
            let mut state = self.line.lock();
            if std::mem::take(&mut self.blocked) {
                // It took something, late as it is.
                state.heard = Instant::now();
            }
            let Some(connection) = &mut state.connection else { return Poll::Ready(Ok(())) };
            if self.written > 0 {
                connection.written(self.written, |receipt| delivered.push(receipt));
                self.output.clear();
                self.written = 0;
            }
            let has_output = connection.has_output();
            let is_over = !has_output && (self.broken || connection.is_done());
            if has_output && self.waited {
                connection.take_output(&mut self.output);
            } else if !has_output {
                connection.rest();
                state.writer = Some(context.waker().clone());
            }
            drop(state);
            delivered.into_iter().for_each(Receipt::delivered);
            if is_over {
                return Poll::Ready(Ok(()));
            }
            if !has_output {
                self.waited = false;
                if self.output.capacity() > KEPT_BYTES {
                    self.output = Vec::new();
                }
                return Poll::Pending;
            }
            if !self.waited {
                self.waited = true;
                // To the end of the queue: who finishes until then is written with the rest.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

impl Future for Socket {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let is_paused = match self.poll_read(context)? {
                Poll::Ready(Reading::Ended) => return Poll::Ready(Ok(())),
                Poll::Ready(Reading::Paused) => true,
                Poll::Pending => false,
            };
            if let Poll::Ready(ended) = self.poll_write(context) {
                return Poll::Ready(ended);
            }
            // What was written may have been what reading paused for.
            if !is_paused || self.is_paused() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.line.close();
    }
}
