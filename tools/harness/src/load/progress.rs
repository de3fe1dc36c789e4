//! One line that says how far things are, rewritten in place; only for people, so only on a terminal.

use std::{
    io::{IsTerminal, Write, stderr},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::session::Session;

/// How often the line is written.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);

/// The line; gone when this is dropped.
pub struct Progress(Option<JoinHandle<()>>);

impl Progress {
    /// Shows how much of a session's load is done.
    pub fn start(session: &Rc<Session>) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let session = session.clone();
        let begun = Instant::now();
        Self(Some(tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(WRITE_INTERVAL).await;
                let (label, done) = (&session.load.label, session.finished_count());
                let seconds = begun.elapsed().as_secs();
                eprint!("\r\x1b[2K{label} {} {done} done, {seconds} s", session.stage());
                // A line that cannot be shown is no reason to stop.
                let _ = stderr().flush();
            }
        })))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
            eprint!("\r\x1b[2K");
        }
    }
}
