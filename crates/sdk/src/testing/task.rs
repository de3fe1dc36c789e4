//! One attempt of a task, without a server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_proto::common::Payload;
use serde::Serialize;
use serde_json::Value;

use crate::lock::lock;
use crate::{
    converter,
    definition::Task,
    failure::Failure,
    task::{Answer, CancelReason, Cancellation, Heartbeats, TaskContext, TaskInfo, TaskRegistry},
};

type OnHeartbeat = Box<dyn FnMut(Value) + Send>;
type Change = Box<dyn FnOnce(&mut TaskInfo) + Send>;

/// Executes one attempt of a task, as a worker would: the input passes through JSON, a panic is a failure.
///
/// ```
/// # use segno_sdk::{Result, TaskContext, task, testing::TaskTest};
/// #[task]
/// async fn count(ctx: TaskContext, to: u32) -> Result<u32> {
///     let from = ctx.heartbeat_details::<u32>().unwrap_or(0);
///     for number in from..to {
///         ctx.heartbeat(number).await?;
///     }
///     Ok(to - from)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// assert_eq!(TaskTest::new().run::<Count>(5).await.unwrap(), 5);
/// assert_eq!(TaskTest::new().attempt(2).heartbeat_details(3).run::<Count>(5).await.unwrap(), 2);
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct TaskTest {
    attempt: Option<u32>,
    details: Vec<Payload>,
    heartbeat: Option<OnHeartbeat>,
    cancel: Option<(Duration, CancelReason)>,
    change: Vec<Change>,
}

impl TaskTest {
    /// A first attempt.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which attempt it is.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// The details of the last heartbeat of the attempt before.
    ///
    /// # Panics
    /// If it cannot be sent.
    pub fn heartbeat_details<T: Serialize>(mut self, details: T) -> Self {
        match converter::encode_json(&details) {
            Ok(details) => self.details = vec![details],
            Err(error) => panic!("{error}"),
        }
        self
    }

    /// Called with the details of every heartbeat: none is held back.
    pub fn on_heartbeat(mut self, listen: impl FnMut(Value) + Send + 'static) -> Self {
        self.heartbeat = Some(Box::new(listen));
        self
    }

    /// The task is cancelled after this time, as if its workflow had requested it.
    pub fn cancel_after(self, time: Duration) -> Self {
        self.cancel_after_with(time, CancelReason::CancelRequested)
    }

    /// The task is cancelled after this time, for this reason.
    pub fn cancel_after_with(mut self, time: Duration, reason: CancelReason) -> Self {
        self.cancel = Some((time, reason));
        self
    }

    /// Changes anything else that the task can read about itself.
    pub fn info(mut self, change: impl FnOnce(&mut TaskInfo) + Send + 'static) -> Self {
        self.change.push(Box::new(change));
        self
    }

    /// Executes the attempt of a task that is a plain function.
    pub async fn run<T: Task<State = ()>>(self, input: T::Input) -> Result<T::Output, Failure> {
        self.run_with_state::<T>((), input).await
    }

    /// Executes the attempt of a task with a state.
    pub async fn run_with_state<T: Task>(
        self,
        state: impl Into<Arc<T::State>>,
        input: T::Input,
    ) -> Result<T::Output, Failure> {
        let mut registry = TaskRegistry::default();
        registry.add::<T>(state.into());
        let unreadable = |error: converter::ConversionError| Failure::application("Conversion", error.to_string());
        let input = converter::encode(&input, T::ARGUMENTS).map_err(unreadable)?;
        let Some(function) = registry.get(T::KIND) else {
            return Err(Failure::new("the task was not added").into());
        };

        let mut info = TaskInfo::new(T::KIND, "task-test");
        info.workflow_id = "workflow-test".to_owned();
        info.run_id = "run-test".to_owned();
        info.workflow_kind = "WorkflowTest".to_owned();
        info.namespace = "default".to_owned();
        info.queue = "test".to_owned();
        info.attempt = self.attempt.unwrap_or(1);
        info.heartbeat_details = self.details;
        for change in self.change {
            change(&mut info);
        }

        let cancellation = Arc::new(Cancellation::default());
        let heartbeats = Heartbeats::observer(observer(self.heartbeat), cancellation.clone());
        let ctx = TaskContext::new(info, cancellation, heartbeats);
        let cancelled = async {
            if let Some((time, reason)) = self.cancel {
                tokio::time::sleep(time).await;
                ctx.cancel(reason);
            }
            std::future::pending::<Result<Vec<Payload>, Failure>>().await
        };
        let output = tokio::select! {
            output = function(ctx.clone(), input) => output?,
            output = cancelled => output?,
        };
        Ok(converter::decode(&output, 1).map_err(unreadable)?)
    }
}

fn observer(heartbeat: Option<OnHeartbeat>) -> Arc<dyn Fn(Vec<Payload>) -> Answer + Send + Sync> {
    let heartbeat = Mutex::new(heartbeat);
    Arc::new(move |details| {
        if let Some(listen) = &mut *lock(&heartbeat) {
            let details = details.first().and_then(|details| converter::decode_payload(details).ok());
            listen(details.unwrap_or_default());
        }
        Answer::Taken
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{failure::Result, task};

    #[task]
    async fn climb(ctx: TaskContext, steps: u32, name: String) -> Result<String> {
        for step in ctx.heartbeat_details::<u32>().unwrap_or(0)..steps {
            ctx.heartbeat(step + 1).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(format!("{name} is up, attempt {}", ctx.info().attempt))
    }

    #[tokio::test(start_paused = true)]
    async fn every_heartbeat_is_heard() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = heard.clone();
        let output = TaskTest::new()
            .attempt(3)
            .heartbeat_details(2)
            .on_heartbeat(move |details| listener.lock().unwrap().push(details))
            .run::<Climb>((4, "Ann".to_owned()))
            .await;
        assert_eq!(output.unwrap(), "Ann is up, attempt 3");
        assert_eq!(*heard.lock().unwrap(), [Value::from(3), Value::from(4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_told_to_stop() {
        let began = tokio::time::Instant::now();
        let output = TaskTest::new().cancel_after(Duration::from_millis(2500)).run::<Climb>((100, "Ann".to_owned()));
        assert!(output.await.unwrap_err().is_cancelled());
        assert_eq!(began.elapsed().as_secs(), 3);
    }

    #[task]
    fn explode(ctx: TaskContext) -> Result<()> {
        ctx.heartbeat_blocking("fuse")?;
        panic!("boom on attempt {}", ctx.info().attempt)
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let failure = TaskTest::new().run::<Explode>(()).await.unwrap_err();
        assert_eq!(failure.application_kind(), Some("Panic"));
        assert!(failure.message().starts_with("boom on attempt 1, at "), "{failure}");
    }
}
