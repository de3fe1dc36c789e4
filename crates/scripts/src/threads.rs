//! Threads on which scripts are executed: turns, queries, checks, compilation. Threads that serve calls do none of
//! this.
//!
//! They have a low priority (`nice` 10), so that calls come first when the cores are busy. [`super::permits`] chooses
//! the next job. A long job yields periodically ([`TimeSlice::give_way`]): the interpreter can be paused in the middle
//! of a turn only by blocking its thread, so a paused job keeps its thread and returns its permit.
//!
//! A job whose caller has left before it began is dropped.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use segno_environment::{environment::Threads, lock::lock, vitals::panic_text};
use segno_runs::error::CallError;
use segno_store::NamespaceKey;
use tokio::{sync::oneshot, time::Instant};

use super::permits::{Grant, Permits};

/// Queries and checks of one namespace that may wait. Those beyond are refused.
const WAITING_MAX: usize = 256;
/// A thread without work ends after this long.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How much the priority of these threads is lowered.
const NICE: i32 = 10;

type Job = Box<dyn FnOnce(&mut TimeSlice) + Send>;

/// Opened when a paused job may go on.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *lock(&self.is_open) = true;
        self.opened.notify_one();
    }

    fn wait(&self) {
        let opened = self.opened.wait_while(lock(&self.is_open), |is_open| !*is_open);
        drop(opened.unwrap_or_else(PoisonError::into_inner));
    }
}

struct Pool {
    threads: Arc<dyn Threads>,
    work: Mutex<Work>,
    /// A job was granted, or the pool is over.
    granted: Condvar,
}

struct Work {
    permits: Permits<Job, Arc<Gate>>,
    /// Jobs that have a permit and wait for a thread to take them.
    granted: VecDeque<(NamespaceKey, Job)>,
    /// Threads without a job.
    idle: usize,
    is_over: bool,
}

/// See the module. Without threads, as in a simulation, the caller's task does what it asks for.
pub(super) struct ScriptThreads(Option<Arc<Pool>>);

impl ScriptThreads {
    /// At most this many jobs are executed at the same time, but at least two: one of a namespace, one of another.
    pub fn new(threads: Option<Arc<dyn Threads>>, most: usize) -> Self {
        let pool = |threads| {
            let permits = Permits::new(most.max(2));
            let work = Work { permits, granted: VecDeque::new(), idle: 0, is_over: false };
            Arc::new(Pool { threads, work: Mutex::new(work), granted: Condvar::new() })
        };
        Self(threads.map(pool))
    }

    /// Does what a call of a namespace asks for. Refused if too much of that namespace waits.
    pub async fn run<T: Send + 'static>(
        &self,
        namespace: NamespaceKey,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallError> {
        if self.0.as_ref().is_some_and(|pool| lock(&pool.work).permits.waiting_of(namespace) >= WAITING_MAX) {
            return Err(CallError::TooManyScriptCalls);
        }
        self.run_in_slices(namespace, move |_| work()).await
    }

    /// Does work that gives way by itself. The node bounds how much of it there is.
    pub(crate) async fn run_in_slices<T: Send + 'static>(
        &self,
        namespace: NamespaceKey,
        work: impl FnOnce(&mut TimeSlice) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let Some(pool) = &self.0 else {
            let mut slice = TimeSlice { pool: None, namespace, began: Instant::now() };
            return done(catch_unwind(AssertUnwindSafe(|| work(&mut slice))));
        };
        let (answer, answered) = oneshot::channel();
        let job = move |slice: &mut TimeSlice| {
            if !answer.is_closed() {
                let _ = answer.send(catch_unwind(AssertUnwindSafe(|| work(slice))));
            }
        };
        {
            let mut work = lock(&pool.work);
            work.permits.push(namespace, Box::new(job));
            pool.dispatch(&mut work);
        }
        answered.await.map_or(Err(CallError::ShuttingDown), done)
    }
}

fn done<T>(done: std::thread::Result<T>) -> Result<T, CallError> {
    done.map_err(|panic| CallError::Unavailable(format!("the machine panicked: {}", panic_text(&*panic))))
}

impl Drop for ScriptThreads {
    fn drop(&mut self) {
        if let Some(pool) = &self.0 {
            lock(&pool.work).is_over = true;
            pool.granted.notify_all();
        }
    }
}

impl Pool {
    /// Hands out all permits that are free.
    fn dispatch(self: &Arc<Self>, work: &mut Work) {
        while let Some((namespace, granted)) = work.permits.next() {
            match granted {
                Grant::Paused(gate) => gate.open(),
                Grant::Job(job) => {
                    work.granted.push_back((namespace, job));
                    if work.idle >= work.granted.len() {
                        self.granted.notify_one();
                    } else {
                        self.add_thread(work);
                    }
                }
            }
        }
    }

    fn add_thread(self: &Arc<Self>, work: &mut Work) {
        let pool = self.clone();
        if let Err(error) = self.threads.spawn("segno-scripts", Box::new(move || pool.serve())) {
            tracing::error!(%error, "no thread for a script");
            // Its caller is told; the others go on.
            if let Some((namespace, job)) = work.granted.pop_back() {
                drop(job);
                work.permits.end(namespace, Duration::ZERO);
            }
        }
    }

    /// Executes jobs until there are none for a while.
    fn serve(self: &Arc<Self>) {
        if let Err(error) = rustix::process::nice(NICE) {
            tracing::debug!(%error, "scripts run at the priority of calls");
        }
        while let Some((namespace, job)) = self.next_job() {
            let mut slice = TimeSlice { pool: Some(self.clone()), namespace, began: Instant::now() };
            job(&mut slice);
            let used = slice.began.elapsed();
            let mut work = lock(&self.work);
            work.permits.end(namespace, used);
            self.dispatch(&mut work);
        }
    }

    fn next_job(&self) -> Option<(NamespaceKey, Job)> {
        let mut work = lock(&self.work);
        work.idle += 1;
        let none = |work: &mut Work| work.granted.is_empty() && !work.is_over;
        let waited = self.granted.wait_timeout_while(work, IDLE_MAX, none);
        work = waited.unwrap_or_else(PoisonError::into_inner).0;
        work.idle -= 1;
        work.granted.pop_front()
    }
}

/// The time that a job has on its thread.
pub(super) struct TimeSlice {
    /// None without threads.
    pool: Option<Arc<Pool>>,
    namespace: NamespaceKey,
    /// When the job got its permit, or time was last charged.
    began: Instant,
}

impl TimeSlice {
    /// Lets others go first, if any wait.
    pub(crate) fn give_way(&mut self) {
        let Some(pool) = &self.pool else { return };
        let used = self.began.elapsed();
        let mut work = lock(&pool.work);
        if work.permits.is_any_waiting() {
            let gate = Arc::new(Gate::default());
            work.permits.pause(self.namespace, used, gate.clone());
            pool.dispatch(&mut work);
            drop(work);
            gate.wait();
        } else {
            work.permits.charge(self.namespace, used);
        }
        self.began = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use segno_environment::Environment;

    use super::*;

    fn threads() -> ScriptThreads {
        ScriptThreads::new(Environment::of_machine().threads, 2)
    }

    const A: NamespaceKey = NamespaceKey(1);
    const B: NamespaceKey = NamespaceKey(2);

    /// While jobs of one namespace never end, another one's are done.
    #[tokio::test]
    async fn jobs_of_one_namespace_leave_room_for_those_of_another() {
        let threads = Arc::new(threads());
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let endless: Vec<_> = (0..30)
            .map(|_| {
                let (threads, held) = (threads.clone(), held.clone());
                tokio::spawn(async move { threads.run(A, move || lock(&held).recv().is_ok()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        for number in 0..10 {
            assert_eq!(threads.run(B, move || number).await, Ok(number));
        }
        drop(release);
        for job in endless {
            assert_eq!(job.await.expect("no panic"), Ok(false));
        }
    }

    #[tokio::test]
    async fn long_jobs_alternate() {
        let threads = Arc::new(threads());
        let order = Arc::new(Mutex::new(Vec::new()));
        let work = |number: usize| {
            let (threads, order) = (threads.clone(), order.clone());
            tokio::spawn(async move {
                let job = move |slice: &mut TimeSlice| {
                    for _ in 0..50 {
                        lock(&order).push(number);
                        slice.give_way();
                    }
                };
                threads.run_in_slices(A, job).await
            })
        };
        let (first, second) = (work(1), work(2));
        assert_eq!((first.await.expect("no panic"), second.await.expect("no panic")), (Ok(()), Ok(())));
        assert_eq!(lock(&order).len(), 100);
    }

    #[tokio::test]
    async fn too_much_of_a_namespace_is_refused_and_those_whose_caller_left_are_not_done() {
        let threads = threads();
        let (release, held) = mpsc::channel::<()>();
        let mut first = Box::pin(threads.run(A, move || held.recv().is_ok()));
        assert!(tokio::time::timeout(Duration::ZERO, &mut first).await.is_err(), "it waits");
        let done = Arc::new(Mutex::new(0));
        let mut waiting = Vec::new();
        for _ in 0..WAITING_MAX {
            let done = done.clone();
            let mut job = Box::pin(threads.run(A, move || *lock(&done) += 1));
            assert!(tokio::time::timeout(Duration::ZERO, &mut job).await.is_err(), "it waits");
            waiting.push(job);
        }
        assert_eq!(threads.run(A, || ()).await, Err(CallError::TooManyScriptCalls));
        assert_eq!(threads.run(B, || 7).await, Ok(7));
        drop(waiting);
        release.send(()).expect("it is held");
        assert_eq!(first.await, Ok(true));
        // There is room as soon as those that were dropped had their turn.
        while threads.run(A, || 8).await != Ok(8) {
            tokio::task::yield_now().await;
        }
        assert_eq!(*lock(&done), 0);
    }

    #[tokio::test]
    async fn a_panic_is_told_and_the_thread_goes_on() {
        let threads = threads();
        let panicked = threads.run(A, || panic!("on purpose")).await;
        assert!(matches!(panicked, Err(CallError::Unavailable(text)) if text.contains("on purpose")));
        assert_eq!(threads.run(A, || 3).await, Ok(3));
    }

    #[tokio::test]
    async fn without_threads_the_task_does_it() {
        let threads = ScriptThreads::new(None, 2);
        let caller = std::thread::current().id();
        let sliced = |slice: &mut TimeSlice| {
            slice.give_way();
            std::thread::current().id()
        };
        assert_eq!(threads.run_in_slices(A, sliced).await, Ok(caller));
        assert!(threads.run(A, || panic!("on purpose")).await.is_err());
    }
}
