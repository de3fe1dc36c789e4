//! What the task of a connection shares with the tasks that answer its calls.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use segno_http2::{Code, Connection, Settings};
use tokio::time::Instant;

use super::incoming::Calls;

/// A connection and who writes for it.
pub(crate) struct Line(Mutex<State>);

pub(super) struct State {
    /// Absent once the connection is over.
    pub(super) connection: Option<Connection<Calls>>,
    /// Wakes the task that writes; absent while that task has something to write.
    pub(super) writer: Option<Waker>,
    /// When the peer was last heard.
    pub(super) heard: Instant,
}

impl Line {
    pub(crate) fn new(settings: Settings) -> Self {
        let connection = Some(Connection::new(settings));
        Self(Mutex::new(State { connection, writer: None, heard: Instant::now() }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something on the connection, if it is still there.
    pub(crate) fn say(&self, words: impl FnOnce(&mut Connection<Calls>)) {
        let mut state = self.lock();
        let Some(connection) = &mut state.connection else { return };
        words(connection);
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// When the peer was last heard.
    pub(super) fn heard(&self) -> Instant {
        self.lock().heard
    }

    /// The connection is over: calls under way are given up, and answers that were not written are lost.
    pub(super) fn close(&self) {
        let connection = self.lock().connection.take();
        drop(connection);
    }
}

/// One call's right to answer. A call that [began](Turn::begin) and ends without an answer (its handler panicked) ends
/// its stream. One that never began was given up, or everything ends.
pub(crate) struct Turn {
    line: Arc<Line>,
    stream: u32,
    open: bool,
}

impl Turn {
    pub(super) fn new(line: Arc<Line>, stream: u32) -> Self {
        Self { line, stream, open: false }
    }

    /// The call's task runs.
    pub(super) fn begin(&mut self) {
        self.open = true;
    }

    /// Says a part of the answer.
    pub(super) fn say(&self, words: impl FnOnce(&mut Connection<Calls>, u32)) {
        self.line.say(|connection| words(connection, self.stream));
    }

    /// Says the answer, or its end.
    pub(super) fn finish(mut self, words: impl FnOnce(&mut Connection<Calls>, u32)) {
        self.open = false;
        self.say(words);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.open {
            self.say(|connection, stream| connection.reset(stream, Code::Internal));
        }
    }
}
