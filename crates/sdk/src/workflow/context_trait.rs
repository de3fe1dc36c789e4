//! [`WorkflowContext`]: the interface of workflow code as a trait, so that helpers can take `&impl WorkflowContext`.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use uuid::Uuid;

use super::futures::{ChildWorkflowFuture, OperationFuture, PromiseFuture, TaskFuture, TimerFuture};
use crate::{
    definition::{TaskDefinition, WorkflowDefinition},
    failure::Result,
    options::ScheduleTaskOptions,
};

/// Scheduling is a function call: each of these returns at once, and what is returned can be awaited, joined, raced or
/// dropped. Nothing is sent before the workflow has nothing left to do.
pub trait WorkflowContext: Send + Sync {
    /// Schedules a task.
    fn schedule<T: TaskDefinition>(&self, input: T::Input) -> TaskFuture<T::Output>;

    /// Schedules a task by its name.
    fn schedule_raw(&self, task_type: &str, input: Value) -> TaskFuture<Value>;

    /// Schedules a task with options.
    fn schedule_with_options<T: TaskDefinition>(
        &self,
        input: T::Input,
        options: ScheduleTaskOptions,
    ) -> TaskFuture<T::Output>;

    /// Schedules a task by its name with options.
    fn schedule_with_options_raw(
        &self,
        task_type: &str,
        input: Value,
        options: ScheduleTaskOptions,
    ) -> TaskFuture<Value>;

    /// Starts a timer.
    fn sleep(&self, duration: Duration) -> TimerFuture;

    /// Starts a child workflow. Its id is `<this workflow's id>/<name>`, or a generated one if `name` is empty.
    fn schedule_workflow<W: WorkflowDefinition>(&self, name: &str, input: W::Input) -> ChildWorkflowFuture<W::Output>;

    /// Starts a child workflow by its kind.
    fn schedule_workflow_raw(&self, name: &str, kind: &str, input: Value) -> ChildWorkflowFuture<Value>;

    /// A value that a client provides, once.
    fn promise<T: DeserializeOwned>(&self, name: &str) -> PromiseFuture<T>;

    /// The same as JSON.
    fn promise_raw(&self, name: &str) -> PromiseFuture<Value>;

    /// Executes a closure that replay must not repeat. Its result is recorded.
    fn run<F, T>(&self, name: &str, f: F) -> OperationFuture<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static;

    /// The time of this workflow task, in milliseconds since the epoch.
    fn current_time_millis(&self) -> i64;

    /// A random id that replay gives again.
    fn random_uuid(&self) -> Uuid;

    /// A random number from 0 to below 1 that replay gives again.
    fn random(&self) -> f64;

    /// Durable state that can be read from outside.
    fn get_state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>>;

    /// Changes it.
    fn set_state<T: Serialize>(&self, key: &str, value: &T) -> Result<()>;

    /// Removes it.
    fn clear_state(&self, key: &str) -> Result<()>;
}
