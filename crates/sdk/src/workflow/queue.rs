//! The root futures of a workflow (the run itself, spawned futures, handlers) that are to be polled.
//!
//! Wakes are allowed only inside a workflow task, on its thread: so the order of polls follows from history alone.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
    thread::{self, ThreadId},
};

use super::sorted::Sorted;
use crate::lock::lock;

/// A root: 0 is the run itself, the others follow by age.
pub(crate) type RootId = u64;

#[derive(Default)]
pub(crate) struct RunQueue {
    woken: Mutex<WokenRoots>,
    torn_down: AtomicBool,
}

#[derive(Default)]
struct WokenRoots {
    roots: Sorted<RootId, ()>,
    /// The thread whose workflow task it is.
    polled_on: Option<ThreadId>,
    foreign: bool,
}

impl RunQueue {
    fn woken(&self) -> std::sync::MutexGuard<'_, WokenRoots> {
        lock(&self.woken)
    }

    pub fn begin_polling(&self) {
        self.woken().polled_on = Some(thread::current().id());
    }

    pub fn end_polling(&self) {
        self.woken().polled_on = None;
    }

    pub fn push(&self, root: RootId) {
        self.woken().roots.insert(root, ());
    }

    /// The oldest root that was woken.
    pub fn pop(&self) -> Option<RootId> {
        self.woken().roots.pop_first().map(|(root, ())| root)
    }

    pub fn take_foreign(&self) -> bool {
        std::mem::take(&mut self.woken().foreign)
    }

    /// From now on drops and wakes mean nothing: the instance is being thrown away.
    pub fn tear_down(&self) {
        self.torn_down.store(true, Ordering::SeqCst);
    }

    pub fn is_torn_down(&self) -> bool {
        self.torn_down.load(Ordering::SeqCst)
    }

    /// Whether the current thread is inside a workflow task of this workflow.
    pub fn is_polling(&self) -> bool {
        self.woken().polled_on == Some(thread::current().id())
    }
}

struct RootWaker {
    root: RootId,
    queue: Arc<RunQueue>,
}

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queue.is_torn_down() {
            return;
        }
        let mut woken = self.queue.woken();
        if woken.polled_on == Some(thread::current().id()) {
            woken.roots.insert(self.root, ());
        } else {
            woken.foreign = true;
        }
    }
}

pub(crate) fn waker(root: RootId, queue: &Arc<RunQueue>) -> Waker {
    Waker::from(Arc::new(RootWaker { root, queue: queue.clone() }))
}
