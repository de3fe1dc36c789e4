//! A request under way on a connection of the HTTP port, and what the port has to know of it.

use super::accept::Evictable;

/// A request under way. Dropped when it is answered.
pub(crate) struct RequestInProgress(Option<Evictable>);

impl RequestInProgress {
    pub(crate) fn begin(connection: &Evictable) -> Self {
        connection.busy();
        Self(Some(connection.clone()))
    }

    /// Its caller is known, and with that the connection.
    pub(crate) fn of_known_caller(&self) {
        if let Some(connection) = &self.0 {
            connection.established();
        }
    }

    /// It was read and waits for a worker, as one of a limited number.
    pub(crate) fn waits(&self) {
        if let Some(connection) = &self.0 {
            connection.waits();
        }
    }

    /// The answer is a stream of events, which lasts as long as the connection.
    pub(crate) fn goes_on(mut self) {
        self.0 = None;
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.idle();
        }
    }
}
