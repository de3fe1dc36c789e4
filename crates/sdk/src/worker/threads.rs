//! Threads for workflow code, without a runtime. So a workflow that uses the network or tokio's timers fails at that
//! line, and tokio's cooperative budget does not interfere.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::mpsc,
    thread,
};

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct WorkflowThreads {
    queues: Vec<mpsc::Sender<Job>>,
}

impl WorkflowThreads {
    pub fn start(count: usize) -> std::io::Result<Self> {
        let mut queues = Vec::new();
        for number in 0..count.max(1) {
            let (queue, jobs) = mpsc::channel::<Job>();
            thread::Builder::new().name(format!("segno-workflow-{number}")).spawn(move || {
                for job in jobs {
                    job();
                }
            })?;
            queues.push(queue);
        }
        Ok(Self { queues })
    }

    /// Runs a job on the thread of a run. `None` if the job panicked.
    pub async fn run<T: Send + 'static>(&self, run_id: &str, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let mut hasher = DefaultHasher::new();
        run_id.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % self.queues.len() as u64).unwrap_or_default();
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            // A panic here was not caught by the executor; the thread goes on all the same.
            if let Ok(value) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)) {
                let _ = answer.send(value);
            }
        });
        self.queues.get(index)?.send(job).ok()?;
        answered.await.ok()
    }
}
