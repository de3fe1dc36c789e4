//! Threads of a store in this process: they do the blocking work of callers, who wait for the answer asynchronously.
//!
//! Threads are started when they are needed, up to a limit, and stay. Work begins in the order of its arrival, and is
//! done whether or not its caller still waits.
//!
//! What holds: what the work holds is dropped before its answer can be seen; after [`Threads::stop`] no work runs.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use crate::lock::lock;
use crate::{CommitError, Read, ReadError, Write};

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Debug)]
pub struct Threads {
    name: &'static str,
    threads_max: usize,
    pool: Arc<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that wait for work.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    is_stopped: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Queue").field("jobs", &self.jobs.len()).field("threads", &self.threads.len()).finish()
    }
}

impl Threads {
    /// At most so many threads, with this name.
    pub fn new(name: &'static str, threads_max: usize) -> Self {
        Self { name, threads_max, pool: Arc::default() }
    }

    /// Reads on one of the threads.
    pub fn read<T: Send + 'static>(&self, read: impl FnOnce() -> Result<T, ReadError> + Send + 'static) -> Read<T> {
        let answer = self.run(read);
        Box::pin(async move { answer.await.unwrap_or_else(|| Err(ReadError::Failed(NOT_FINISHED.to_owned()))) })
    }

    /// Writes on one of the threads.
    pub fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce() -> Result<T, CommitError> + Send + 'static,
    ) -> Write<T> {
        let answer = self.run(write);
        Box::pin(async move { answer.await.unwrap_or_else(|| Err(CommitError::Unknown(NOT_FINISHED.to_owned()))) })
    }

    /// Does some work on one of the threads. `None` if it panicked or the threads were stopped before it began.
    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> PendingResult<T> {
        let slot = Arc::new(Slot(Mutex::new(SlotState::Waiting(None))));
        let sender = Sender(slot.clone());
        let job: Job = Box::new(move || {
            let done = work();
            sender.set(SlotState::Done(done));
        });
        let mut queue = lock(&self.pool.queue);
        if !queue.is_stopped {
            queue.jobs.push_back(job);
            if queue.jobs.len() > queue.idle && queue.threads.len() < self.threads_max {
                self.start_thread(&mut queue);
            }
            self.pool.changed.notify_one();
        }
        PendingResult(slot)
    }

    fn start_thread(&self, queue: &mut Queue) {
        let pool = self.pool.clone();
        match std::thread::Builder::new().name(self.name.to_owned()).spawn(move || pool.work()) {
            Ok(thread) => queue.threads.push(thread),
            // The threads that there are go on; without any, no job would be answered.
            Err(_) if !queue.threads.is_empty() => {}
            Err(_) => queue.jobs.clear(),
        }
    }

    /// Drops what waits, and ends when what runs has ended.
    pub fn stop(&self) {
        let mut queue = lock(&self.pool.queue);
        queue.is_stopped = true;
        let (jobs, threads) = (std::mem::take(&mut queue.jobs), std::mem::take(&mut queue.threads));
        drop(queue);
        self.pool.changed.notify_all();
        // Their callers are woken outside the lock.
        drop(jobs);
        for thread in threads {
            // Panics of the work do not get there.
            let _ = thread.join();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

const NOT_FINISHED: &str = "the store has stopped or failed";

impl Pool {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if queue.is_stopped {
                return;
            }
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // The caller gets no answer; the thread goes on.
                let _ = catch_unwind(AssertUnwindSafe(job));
                queue = lock(&self.queue);
                continue;
            }
            queue.idle += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

/// Where an answer is put.
#[derive(Debug)]
struct Slot<T>(Mutex<SlotState<T>>);

#[derive(Debug)]
enum SlotState<T> {
    Waiting(Option<Waker>),
    Done(T),
    /// There will be no answer, or it was taken.
    Empty,
}

/// Puts the answer there; dropped without it, there is none.
struct Sender<T>(Arc<Slot<T>>);

impl<T> Sender<T> {
    fn set(&self, state: SlotState<T>) {
        let before = {
            let mut slot = lock(&self.0.0);
            match *slot {
                SlotState::Waiting(_) => std::mem::replace(&mut *slot, state),
                _ => return,
            }
        };
        if let SlotState::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.set(SlotState::Empty);
    }
}

/// The answer of some work; `None` if there is none.
#[derive(Debug)]
struct PendingResult<T>(Arc<Slot<T>>);

impl<T> Future for PendingResult<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.0.0);
        match std::mem::replace(&mut *slot, SlotState::Empty) {
            SlotState::Done(answer) => Poll::Ready(Some(answer)),
            SlotState::Empty => Poll::Ready(None),
            SlotState::Waiting(_) => {
                *slot = SlotState::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wait;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn work_runs_side_by_side_up_to_the_limit() {
        let threads = Threads::new("test", 3);
        let (barrier, running, most) =
            (Arc::new(Barrier::new(3)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = |number: usize| {
            let (barrier, running, most) = (barrier.clone(), running.clone(), most.clone());
            threads.run(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                barrier.wait();
                running.fetch_sub(1, Ordering::SeqCst);
                number
            })
        };
        // Each needs two others at the same time.
        let answers: Vec<_> = (0..30).map(work).collect();
        let answers: Vec<_> = answers.into_iter().map(Wait::wait).collect();
        assert_eq!(answers, (0..30).map(Some).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn work_that_panics_has_no_answer_and_hurts_no_other() {
        let threads = Threads::new("test", 1);
        assert_eq!(threads.run(|| -> u8 { panic!("expected by this test") }).wait(), None);
        assert_eq!(
            threads.read(|| -> Result<u8, _> { panic!("expected by this test") }).wait(),
            Err(ReadError::Failed(NOT_FINISHED.to_owned()))
        );
        assert_eq!(threads.run(|| 7).wait(), Some(7));
    }

    #[test]
    fn stopping_drops_what_waits_and_ends_what_runs() {
        let threads = Threads::new("test", 1);
        let (began, ended) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
        let running = threads.run({
            let (began, ended) = (began.clone(), ended.clone());
            move || {
                began.wait();
                std::thread::sleep(std::time::Duration::from_millis(20));
                ended.fetch_add(1, Ordering::SeqCst)
            }
        });
        let waiting = threads.run(|| 7);
        began.wait();
        threads.stop();
        assert_eq!(ended.load(Ordering::SeqCst), 1, "it waited for the end");
        assert_eq!((running.wait(), waiting.wait()), (Some(0), None));
        assert_eq!(threads.run(|| 7).wait(), None);
    }

    /// A caller that has its answer may drop the store and open it again.
    #[test]
    fn what_work_holds_is_dropped_before_its_answer() {
        let threads = Threads::new("test", 2);
        for _ in 0..1_000 {
            let held = Arc::new(());
            let copy = held.clone();
            assert_eq!(threads.run(move || Arc::strong_count(&copy)).wait(), Some(2));
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }
}
