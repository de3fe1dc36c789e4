//! The signature of a task or a workflow for its callers: name, input and output.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

use crate::{failure::Result, options::ScheduleTaskOptions, task::TaskContext};

/// A value that can be written as JSON and sent between threads.
pub trait Data: Serialize + DeserializeOwned + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Send + 'static> Data for T {}

/// A task as a workflow sees it: a name, an input, an output. Temporal calls tasks activities.
pub trait TaskDefinition: Send + Sync + 'static {
    /// The type of its input.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// The type of its result.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// Its name on the wire.
    const KIND: &'static str;
    /// How many payloads the input becomes: with two or more, `Input` is a tuple of that length.
    #[doc(hidden)]
    const ARGUMENTS: usize = 1;
    /// Options of every call that does not bring its own.
    fn options() -> ScheduleTaskOptions {
        ScheduleTaskOptions::default()
    }
}

/// A task that a worker can execute.
pub trait Task: TaskDefinition {
    /// The state that its executions share; `()` for a plain function.
    type State: Send + Sync + 'static;
    /// One attempt.
    fn execute(
        state: Arc<Self::State>,
        ctx: TaskContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// A workflow as its callers see it: a name, an input, an output.
pub trait WorkflowDefinition: Send + Sync + 'static {
    /// The type of its input.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// The type of its result.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// Its name on the wire.
    const KIND: &'static str;
    /// How many payloads the input becomes: with two or more, `Input` is a tuple of that length.
    #[doc(hidden)]
    const ARGUMENTS: usize = 1;
}
