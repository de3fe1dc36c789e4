//! The executor of everything outside of the nodes: clients, workers, faults. Its time is virtual, in whole milliseconds, and
//! the seed decides which of several tasks that can go on is next.
//!
//! Nodes are not executed here: each has a runtime of its own ([`crate::host`]), so that it can be killed between two steps.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use segno_store::lock::lock;

use crate::{Millis, random::Random};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The number of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u64);

/// Executes tasks in virtual time. Clones are handles of one executor.
#[derive(Clone)]
pub struct Executor(Rc<Inner>);

struct Inner {
    now: Cell<Millis>,
    random: RefCell<Random>,
    next_id: Cell<u64>,
    /// Tasks that are not executed at this moment, with their wakers.
    tasks: RefCell<BTreeMap<TaskId, (Task, Arc<TaskWaker>)>>,
    ready: Arc<Mutex<Vec<TaskId>>>,
    /// By moment and by number, since two may have the same moment.
    timers: RefCell<BTreeMap<(Millis, u64), Waker>>,
}

struct TaskWaker {
    task: TaskId,
    is_ready: AtomicBool,
    ready: Arc<Mutex<Vec<TaskId>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            lock(&self.ready).push(self.task);
        }
    }
}

impl Executor {
    /// An executor whose choices follow from these numbers.
    pub fn new(random: Random) -> Self {
        Self(Rc::new(Inner {
            now: Cell::new(0),
            random: RefCell::new(random),
            next_id: Cell::new(0),
            tasks: RefCell::default(),
            ready: Arc::default(),
            timers: RefCell::default(),
        }))
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.0.now.get()
    }

    fn number(&self) -> u64 {
        self.0.next_id.set(self.0.next_id.get() + 1);
        self.0.next_id.get()
    }

    /// Starts a task.
    pub fn spawn(&self, work: impl Future<Output = ()> + 'static) -> TaskId {
        let id = TaskId(self.number());
        let waker = Arc::new(TaskWaker { task: id, is_ready: AtomicBool::new(false), ready: self.0.ready.clone() });
        waker.clone().wake();
        self.0.tasks.borrow_mut().insert(id, (Box::pin(work), waker));
        id
    }

    /// Ends a task where it waits.
    pub fn abort(&self, task: TaskId) {
        let ended = self.0.tasks.borrow_mut().remove(&task);
        drop(ended);
    }

    /// Ends all tasks where they wait.
    pub fn clear(&self) {
        let tasks = std::mem::take(&mut *self.0.tasks.borrow_mut());
        drop(tasks);
        let timers = std::mem::take(&mut *self.0.timers.borrow_mut());
        drop(timers);
    }

    /// Executes tasks until all of them wait.
    pub fn run_ready(&self) {
        loop {
            let task = {
                let mut ready = lock(&self.0.ready);
                if ready.is_empty() {
                    return;
                }
                let place = self.0.random.borrow_mut().below(ready.len());
                ready.remove(place)
            };
            let Some((mut work, waker)) = self.0.tasks.borrow_mut().remove(&task) else { continue };
            waker.is_ready.store(false, Ordering::Relaxed);
            let shared = Waker::from(waker.clone());
            if work.as_mut().poll(&mut Context::from_waker(&shared)).is_pending() {
                self.0.tasks.borrow_mut().insert(task, (work, waker));
            }
        }
    }

    /// When the next sleep ends.
    pub fn next_timer(&self) -> Option<Millis> {
        self.0.timers.borrow().keys().next().map(|(at, _)| *at)
    }

    /// Sets the time, which ends sleeps.
    pub fn advance(&self, to: Millis) {
        self.0.now.set(to.max(self.now()));
        loop {
            let mut timers = self.0.timers.borrow_mut();
            let Some(first) = timers.first_entry().filter(|first| first.key().0 <= self.now()) else { return };
            let waker = first.remove();
            drop(timers);
            waker.wake();
        }
    }

    /// Sleeps so long.
    pub fn sleep(&self, duration: Millis) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Sleeps until a moment.
    pub fn sleep_until(&self, at: Millis) -> Sleep {
        Sleep { executor: self.clone(), key: (at, self.number()) }
    }

    /// What some work gives, unless it takes longer.
    pub async fn timeout<T>(&self, duration: Millis, work: impl Future<Output = T>) -> Option<T> {
        let mut sleep = self.sleep(duration);
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(move |context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Pin::new(&mut sleep).poll(context).map(|()| None),
        })
        .await
    }
}

/// See [`Executor::sleep`].
pub struct Sleep {
    executor: Executor,
    key: (Millis, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.key.0 <= self.executor.now() {
            return Poll::Ready(());
        }
        self.executor.0.timers.borrow_mut().insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.executor.0.timers.borrow_mut().remove(&self.key);
    }
}

/// A value that one task waits for, and another part sets once.
pub struct Slot<T>(RefCell<SlotState<T>>);

enum SlotState<T> {
    Empty(Option<Waker>),
    Full(T),
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(RefCell::new(SlotState::Empty(None)))
    }
}

impl<T> Slot<T> {
    /// Sets the value. The first one counts.
    pub fn set(&self, value: T) {
        let mut state = self.0.borrow_mut();
        if let SlotState::Empty(waker) = &mut *state {
            let waker = waker.take();
            *state = SlotState::Full(value);
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Waits for the value and takes it.
    pub async fn take(&self) -> T {
        std::future::poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            match std::mem::replace(&mut *state, SlotState::Empty(Some(context.waker().clone()))) {
                SlotState::Full(value) => Poll::Ready(value),
                SlotState::Empty(_) => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which tasks end that sleep for the same time, and the time at the end.
    fn order(seed: u64) -> (Vec<u64>, Millis) {
        let executor = Executor::new(Random::stream(seed, "order"));
        let ended: Rc<RefCell<Vec<u64>>> = Rc::default();
        for number in 0..10 {
            let (sleeper, ended) = (executor.clone(), ended.clone());
            executor.spawn(async move {
                sleeper.sleep(5).await;
                ended.borrow_mut().push(number);
            });
        }
        executor.run_ready();
        while let Some(at) = executor.next_timer() {
            executor.advance(at);
            executor.run_ready();
        }
        (ended.take(), executor.now())
    }

    #[test]
    fn the_seed_decides_who_is_next() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1).0, order(2).0);
        assert_eq!(order(3).1, 5);
    }

    #[test]
    fn work_that_takes_too_long_is_dropped() {
        let executor = Executor::new(Random::stream(1, "timeout"));
        let seen: Rc<RefCell<Vec<Option<u8>>>> = Rc::default();
        let (inner, notes) = (executor.clone(), seen.clone());
        executor.spawn(async move {
            let fast = inner
                .timeout(10, async {
                    inner.sleep(3).await;
                    1
                })
                .await;
            let slow = inner
                .timeout(10, async {
                    inner.sleep(30).await;
                    2
                })
                .await;
            notes.borrow_mut().extend([fast, slow]);
        });
        executor.run_ready();
        while let Some(at) = executor.next_timer() {
            executor.advance(at);
            executor.run_ready();
        }
        assert_eq!((seen.take(), executor.now()), (vec![Some(1), None], 13));
    }
}
