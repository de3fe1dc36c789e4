//! The state of a connection that its own task shares with the tasks that handle its calls.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    task::Waker,
};

use segno_http2::{Connection, ErrorCode};
use tokio::{runtime::Handle, time::Instant};

use super::incoming::Dispatcher;
use segno_store::lock::lock;

/// Calls of a closed connection that are cancelled at once; more of them in slices.
const CANCELLED_AT_ONCE: usize = 64;

/// A connection behind a mutex.
pub(crate) struct SharedConnection(Mutex<State>);

pub(super) struct State {
    /// Absent once the connection is closed.
    pub(super) connection: Option<Connection<Dispatcher>>,
    /// Wakes the task that writes; absent while that task has bytes to write.
    pub(super) writer: Option<Waker>,
    /// When bytes of the peer last arrived, or it last took some.
    pub(super) last_active: Instant,
}

impl SharedConnection {
    pub(crate) fn new(connection: Connection<Dispatcher>) -> Self {
        let connection = Some(connection);
        Self(Mutex::new(State { connection, writer: None, last_active: Instant::now() }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Changes the connection, if it is still open, and wakes the task that writes.
    pub(crate) fn send(&self, frames: impl FnOnce(&mut Connection<Dispatcher>)) {
        let mut state = self.lock();
        let Some(connection) = &mut state.connection else { return };
        frames(connection);
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    pub(super) fn last_active(&self) -> Instant {
        self.lock().last_active
    }

    /// Whether the peer's connection preface is complete.
    pub(super) fn is_established(&self) -> bool {
        self.lock().connection.as_ref().is_some_and(Connection::is_established)
    }

    /// Closes the connection: calls under way are cancelled, and responses that were not written are lost. Thousands of calls
    /// are cancelled in slices, so that others run in between.
    pub(super) fn close(&self) {
        let Some(mut connection) = self.lock().connection.take() else { return };
        if connection.open_streams() > CANCELLED_AT_ONCE
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                while connection.drop_streams(CANCELLED_AT_ONCE) {
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}

/// Sends the response of one call. If its handler [started](Responder::start) and ends without a response (it
/// panicked), the stream is reset. A handler that never started was cancelled, or the runtime shuts down.
pub(crate) struct Responder {
    connection: Arc<SharedConnection>,
    stream: u32,
    is_due: bool,
}

impl Responder {
    pub(super) fn new(connection: Arc<SharedConnection>, stream: u32) -> Self {
        Self { connection, stream, is_due: false }
    }

    /// The handler's task runs: from now on a response is due.
    pub(super) fn start(&mut self) {
        self.is_due = true;
    }

    /// Sends a part of the response.
    pub(super) fn send(&self, part: impl FnOnce(&mut Connection<Dispatcher>, u32)) {
        self.connection.send(|connection| part(connection, self.stream));
    }

    /// Sends the whole response, or its end.
    pub(super) fn finish(mut self, part: impl FnOnce(&mut Connection<Dispatcher>, u32)) {
        self.is_due = false;
        self.send(part);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.is_due {
            self.send(|connection, stream| connection.reset(stream, ErrorCode::Internal));
        }
    }
}
