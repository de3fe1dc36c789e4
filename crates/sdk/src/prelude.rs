//! Everything that a program with workflows usually needs: `use segno_sdk::prelude::*;`.

pub use std::time::Duration;

pub use futures_util::future::{join_all, try_join_all};
pub use serde_json::Value;
pub use tokio::{join, try_join};
pub use uuid::Uuid;

pub use crate::{
    CancellationType, ChildOptions, ChildWorkflowFuture, Client, ClientError, Context, Error, Failure, FailureKind,
    Handle, NexusContext, NexusOptions, OperationFuture, PromiseFuture, Query, Queue, Result, RetryPolicy,
    ScheduleTaskOptions, Signal, StartOptions, StartedOperation, Task, TaskContext, TaskDefinition, TaskFuture,
    TimerFuture, Update, Worker, Workflow, WorkflowContext, WorkflowDefinition, define_task, define_workflow,
    nexus_service, select, task, tasks, workflow,
};
