//! The tasks of a worker, and the execution of one attempt.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use segno_proto::common::Payload;

use super::context::TaskContext;
use crate::{
    converter::{self, ConversionError},
    definition::signature::Task,
    failure::Failure,
    panics,
};

/// One attempt of a task, with payloads in and out. It never panics.
pub type TaskFn =
    Arc<dyn Fn(TaskContext, Vec<Payload>) -> BoxFuture<'static, Result<Vec<Payload>, Failure>> + Send + Sync>;

/// The kind of a task that executes every kind for which there is no other.
pub(crate) const DYNAMIC: &str = "*";

/// The tasks that a worker can execute.
#[derive(Clone, Default)]
pub struct TaskRegistry {
    tasks: BTreeMap<String, TaskFn>,
    duplicates: BTreeSet<String>,
}

impl TaskRegistry {
    /// Adds a task. Two of one kind are remembered, and refused when the worker is built.
    pub fn add<T: Task>(&mut self, state: Arc<T::State>) {
        let function: TaskFn = Arc::new(move |ctx, input| {
            let state = state.clone();
            attempt(async move {
                let input = converter::decode(&input, T::ARGUMENTS).map_err(unreadable)?;
                let output = T::execute(state, ctx, input).await.map_err(|error| error.failure())?;
                converter::encode(&output, 1).map_err(unreadable)
            })
        });
        self.add_raw(T::KIND, function);
    }

    /// Adds a task as payloads in and out.
    pub fn add_raw(&mut self, kind: impl Into<String>, function: TaskFn) {
        let kind = kind.into();
        if self.tasks.insert(kind.clone(), function).is_some() {
            self.duplicates.insert(kind);
        }
    }

    /// The task of this kind; failing that, the one that executes all kinds.
    pub fn get(&self, kind: &str) -> Option<TaskFn> {
        self.tasks.get(kind).or_else(|| self.tasks.get(DYNAMIC)).cloned()
    }

    /// The kinds that it has, sorted.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.tasks.keys().map(String::as_str)
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Kinds that were added more than once.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = &str> {
        self.duplicates.iter().map(String::as_str)
    }
}

/// Input or output that is not what the types say. Another attempt may go to a worker that has the right types, so that
/// it may be tried again.
fn unreadable(error: ConversionError) -> Failure {
    Failure::application("Conversion", error.to_string()).into()
}

/// A panic of the task, also in its `Drop` or in `Serialize` of its output, is a failure of kind `Panic`.
fn attempt(
    body: impl Future<Output = Result<Vec<Payload>, Failure>> + Send + 'static,
) -> BoxFuture<'static, Result<Vec<Payload>, Failure>> {
    async move {
        match panics::catch_future(body).await {
            Ok(outcome) => outcome,
            Err(panic) => Err(panic.failure()),
        }
    }
    .boxed()
}

/// Runs a task that is not `async` on a thread that may block. A panic in it goes on in the caller.
pub async fn blocking<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(|| panics::catch(body)).await {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => panic.resume(),
        Err(error) => panic!("a blocking task was not executed: {error}"),
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
