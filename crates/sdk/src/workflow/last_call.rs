//! The line at which workflow code called its context last: near what it does now. A thread that executes
//! workflows shares it with the task that waits for its answer.

use std::{
    cell::OnceCell,
    panic::Location,
    sync::{Arc, Mutex},
};

use crate::lock::lock;

/// A line of the user's program.
pub(crate) type Place = &'static Location<'static>;

/// The last call of the workflow that a thread executes.
#[derive(Clone, Default)]
pub(crate) struct LastCall(Arc<Mutex<Option<Place>>>);

thread_local! {
    static WATCHED: OnceCell<LastCall> = const { OnceCell::new() };
}

impl LastCall {
    /// Follows the workflows of the current thread from now on.
    pub fn watch_this_thread(&self) {
        // A thread has one watcher for good.
        let _ = WATCHED.try_with(|watched| watched.set(self.clone()));
    }

    pub fn get(&self) -> Option<Place> {
        *lock(&self.0)
    }
}

/// Notes a call of the workflow that this thread executes, if it is watched.
pub(crate) fn set(place: Option<Place>) {
    let _ = WATCHED.try_with(|watched| {
        if let Some(watched) = watched.get() {
            *lock(&watched.0) = place;
        }
    });
}
