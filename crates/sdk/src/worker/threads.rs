//! Threads for workflow code, without a runtime. So a workflow that uses the network or tokio's timers fails at that
//! line, and tokio's cooperative budget does not interfere.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock, mpsc},
    thread,
};

use tokio::sync::oneshot;

use super::system_thread::SystemThread;
use crate::workflow::last_call::{LastCall, Place};

type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct WorkflowThreads(Vec<WorkflowThread>);

struct WorkflowThread {
    queue: mpsc::Sender<Job>,
    /// There once it runs, if the operating system tells about threads.
    system: Arc<OnceLock<SystemThread>>,
    last_call: LastCall,
}

impl WorkflowThreads {
    pub fn start(count: usize) -> std::io::Result<Self> {
        (0..count.max(1)).map(WorkflowThread::start).collect::<std::io::Result<_>>().map(Self)
    }

    /// Runs a job on the thread of a run. `None` if the job panicked.
    pub async fn run<T: Send + 'static>(&self, run_id: &str, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            // A panic here was not caught by the executor; the thread goes on all the same.
            if let Ok(value) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)) {
                let _ = answer.send(value);
            }
        });
        self.thread(run_id)?.queue.send(job).ok()?;
        answered.await.ok()
    }

    /// Whether the thread of a run sleeps now in a call such as `std::thread::sleep`.
    pub fn sleeps(&self, run_id: &str) -> bool {
        self.thread(run_id).and_then(|thread| thread.system.get()).is_some_and(SystemThread::sleeps)
    }

    /// Where the workflow that the thread of a run executes called its context last.
    pub fn last_call(&self, run_id: &str) -> Option<Place> {
        self.thread(run_id)?.last_call.get()
    }

    fn thread(&self, run_id: &str) -> Option<&WorkflowThread> {
        let mut hasher = DefaultHasher::new();
        run_id.hash(&mut hasher);
        self.0.get(usize::try_from(hasher.finish() % self.0.len() as u64).unwrap_or_default())
    }
}

impl WorkflowThread {
    fn start(number: usize) -> std::io::Result<Self> {
        let (queue, jobs) = mpsc::channel::<Job>();
        let (system, last_call) = (Arc::new(OnceLock::new()), LastCall::default());
        let started = Self { queue, system: system.clone(), last_call: last_call.clone() };
        thread::Builder::new().name(format!("segno-workflow-{number}")).spawn(move || {
            if let Some(this) = SystemThread::current() {
                let _ = system.set(this);
            }
            last_call.watch_this_thread();
            for job in jobs {
                job();
            }
        })?;
        Ok(started)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[tokio::test]
    async fn a_thread_that_sleeps_is_told_from_one_that_waits_or_computes() {
        let threads = WorkflowThreads::start(1).unwrap();
        assert_eq!(threads.run("a", || 1).await, Some(1));
        let sleeps_during = async |job: Box<dyn FnOnce() + Send>| {
            let running = threads.run("a", job);
            let looks = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                threads.sleeps("a")
            };
            tokio::join!(running, looks).1
        };
        assert!(sleeps_during(Box::new(|| thread::sleep(Duration::from_millis(400)))).await);
        let computes = || {
            let began = std::time::Instant::now();
            while began.elapsed() < Duration::from_millis(400) {}
        };
        assert!(!sleeps_during(Box::new(computes)).await);
        let waits = || {
            let (_sender, receiver) = mpsc::channel::<()>();
            let _ = receiver.recv_timeout(Duration::from_millis(400));
        };
        assert!(!sleeps_during(Box::new(waits)).await);
        assert!(!threads.sleeps("a"), "nothing runs");
    }
}
