//! Reading and writing one connection.
//!
//! Bytes are read into a buffer of the thread, so that an idle connection has none. Output waits until the scheduler has
//! run the other tasks that are ready: calls that finish at the same time share a write.

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
    time::Instant,
};

use super::{accept::Evictable, incoming::Dispatcher, shared::SharedConnection};
use crate::{
    delivery::Receipt,
    security::{
        tls::Stream,
        tls_mistakes::{Mistake, is_client_hello},
    },
};

/// More than the largest frame.
const READ_BYTES: usize = 64 * 1024;
/// Larger buffers are not kept while there is nothing to write.
const KEPT_BYTES: usize = 16 * 1024;
/// After so many reads the task yields to others.
const READS_MAX: usize = 2;

thread_local! {
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Why reading stopped.
enum Reading {
    Ended,
    Paused,
}

/// See the module. Done when the connection is closed.
pub(super) struct Socket {
    stream: Stream,
    connection: Arc<SharedConnection>,
    dispatcher: Dispatcher,
    accepted_at: Instant,
    /// Notified once when the handshake is complete and the caller authenticated.
    evictable: Option<Evictable>,
    /// The beginning of a frame whose end has not arrived.
    partial: Vec<u8>,
    output: Vec<u8>,
    /// How much of `output` is written.
    written: usize,
    /// Other tasks have run since there was output.
    has_yielded: bool,
    /// The socket did not take more when it was last written to.
    is_blocked: bool,
    /// After a connection error nothing is read; what is left to write is written.
    has_failed: bool,
}

impl Socket {
    pub(super) fn new(
        stream: Stream,
        connection: Arc<SharedConnection>,
        dispatcher: Dispatcher,
        evictable: Evictable,
    ) -> Self {
        Self {
            stream,
            connection,
            dispatcher,
            accepted_at: Instant::now(),
            evictable: Some(evictable),
            partial: Vec::new(),
            output: Vec::new(),
            written: 0,
            has_yielded: false,
            is_blocked: false,
            has_failed: false,
        }
    }

    /// Reads what there is. Ready when the peer has closed its side, or when reading is paused because the peer does
    /// not read; nothing wakes this task for reading then.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Reading>> {
        let mut reads = 0;
        while !self.is_paused() {
            if reads == READS_MAX {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            reads += 1;
            let ended = READ_BUFFER.with_borrow_mut(|buffer| self.poll_read_into(buffer, context));
            if ready!(ended)? {
                return Poll::Ready(Ok(Reading::Ended));
            }
        }
        Poll::Ready(Ok(Reading::Paused))
    }

    fn is_paused(&self) -> bool {
        let is_congested = || self.connection.lock().connection.as_ref().is_some_and(|it| it.is_congested());
        self.has_failed || is_congested()
    }

    /// Reads once; true at the end.
    fn poll_read_into(&mut self, buffer: &mut [u8], context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let before = self.partial.len();
        let mut buffer = ReadBuf::new(buffer);
        buffer.put_slice(&self.partial);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        let bytes = buffer.filled();
        if bytes.len() == before {
            return Poll::Ready(Ok(true));
        }
        let mut state = self.connection.lock();
        let now = Instant::now();
        state.last_active = now;
        let Some(connection) = &mut state.connection else { return Poll::Ready(Ok(true)) };
        match connection.receive(&mut self.dispatcher, bytes, now - self.accepted_at) {
            Ok(used) => {
                self.partial.clear();
                self.partial.extend_from_slice(&bytes[used..]);
            }
            Err(error) => {
                if !connection.is_established() && is_client_hello(bytes) {
                    Mistake::TlsClient.note();
                }
                tracing::debug!(%error, "a connection error");
                connection.abort(error);
                self.has_failed = true;
            }
        }
        if connection.is_established()
            && self.dispatcher.is_welcome()
            && let Some(evictable) = self.evictable.take()
        {
            evictable.established();
        }
        Poll::Ready(Ok(false))
    }

    /// Writes what there is; ready when the connection is to be closed.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.output.len() {
                let rest = &self.output[self.written..];
                let Poll::Ready(bytes) = Pin::new(&mut self.stream).poll_write(context, rest) else {
                    self.is_blocked = true;
                    return Poll::Pending;
                };
                let bytes = bytes?;
                if bytes == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += bytes;
            }
            // Encrypted bytes may still wait inside the stream.
            if self.written > 0 && Pin::new(&mut self.stream).poll_flush(context)?.is_pending() {
                self.is_blocked = true;
                return Poll::Pending;
            }
            let mut delivered: Vec<Receipt> = Vec::new();
            let mut state = self.connection.lock();
            if std::mem::take(&mut self.is_blocked) {
                // The peer reads, even if it sends nothing.
                state.last_active = Instant::now();
            }
            let Some(connection) = &mut state.connection else { return Poll::Ready(Ok(())) };
            if self.written > 0 {
                connection.written(self.written, |receipt| delivered.push(receipt));
                self.output.clear();
                self.written = 0;
            }
            let has_output = connection.has_output();
            let is_over = !has_output && (self.has_failed || connection.is_shut_down());
            if has_output && self.has_yielded {
                connection.take_output(&mut self.output);
            } else if !has_output {
                connection.shrink();
                state.writer = Some(context.waker().clone());
            }
            drop(state);
            delivered.into_iter().for_each(Receipt::delivered);
            if is_over {
                // Tells the peer that nothing was cut off (close_notify).
                return Pin::new(&mut self.stream).poll_shutdown(context);
            }
            if !has_output {
                self.has_yielded = false;
                if self.output.capacity() > KEPT_BYTES {
                    self.output = Vec::new();
                }
                return Poll::Pending;
            }
            if !self.has_yielded {
                self.has_yielded = true;
                // To the end of the run queue: responses that are ready until then go into the same write.
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
            let was_paused = match self.poll_read(context)? {
                Poll::Ready(Reading::Ended) => {
                    // The peer may be gone: whether it takes the farewell is its own business.
                    let _ = Pin::new(&mut self.stream).poll_shutdown(context);
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Reading::Paused) => true,
                Poll::Pending => false,
            };
            if let Poll::Ready(ended) = self.poll_write(context) {
                return Poll::Ready(ended);
            }
            // Reading may have paused for what was written now.
            if !was_paused || self.is_paused() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.connection.close();
    }
}
