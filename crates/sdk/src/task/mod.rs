//! Executing tasks.

/// What a task can ask and say while it runs.
#[derive(Clone)]
pub struct TaskContext;

/// The tasks that a worker can execute.
#[derive(Default)]
pub struct TaskRegistry;
