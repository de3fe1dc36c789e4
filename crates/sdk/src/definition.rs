//! Definitions of tasks and workflows: name, input and output.
//!
//! The macros [`task`](macro@crate::task), [`tasks`](macro@crate::tasks) and [`workflow`](macro@crate::workflow)
//! implement these traits; [`define_task!`](crate::define_task) and [`define_workflow!`](crate::define_workflow)
//! declare those that are implemented elsewhere, in any language.

use std::sync::Arc;

use crate::{failure::Result, versioning::VersioningBehavior, workflow::Context};

pub use crate::workflow::handlers::Handlers;
pub use messages::{Query, Signal, Update};
pub use signature::{Data, Task, TaskDefinition, WorkflowDefinition};

pub(crate) mod messages;
pub(crate) mod signature;

/// Tasks that share a state: what [`tasks`](macro@crate::tasks) implements for the type it stands on.
pub trait TaskSet: Send + Sync + Sized + 'static {
    /// Registers each of them.
    fn register(self: Arc<Self>, registry: &mut crate::task::TaskRegistry);
}

/// So that an instance can be kept, for tests or for other workers.
impl<S: TaskSet> TaskSet for Arc<S> {
    fn register(self: Arc<Self>, registry: &mut crate::task::TaskRegistry) {
        S::register(Arc::clone(&*self), registry);
    }
}

/// A workflow that a worker can execute.
pub trait Workflow: WorkflowDefinition {
    /// Its fields: rebuilt by replay, never stored. `()` for a plain function.
    type State: Send + Sync + 'static;
    /// The state that it begins with.
    fn init(input: &Self::Input) -> Self::State;
    /// Its signals, queries and updates.
    fn handlers() -> Handlers<Self::State> {
        Handlers::default()
    }
    /// Whether it moves to another version when the server's routing does.
    fn versioning() -> VersioningBehavior {
        VersioningBehavior::Unspecified
    }
    /// The workflow itself.
    fn run(ctx: Context<Self::State>, input: Self::Input) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// Names a task that is written elsewhere: `define_task!(pub Charge = "charge": Order => Receipt);`
///
/// A tuple stands for several arguments, as it does for `#[task]`: `(String, u32)` is two payloads.
#[macro_export]
macro_rules! define_task {
    ($(#[$meta:meta])* $visibility:vis $name:ident = $kind:literal : $($types:tt)+) => {
        $crate::__define!(TaskDefinition, "task", [$(#[$meta])* $visibility] $name, $kind, $($types)+);
    };
}

/// Names a workflow that is written elsewhere: `define_workflow!(pub Shipping = "Shipping": Order => Receipt);`
///
/// A tuple stands for several arguments, as it does for `#[workflow]`.
#[macro_export]
macro_rules! define_workflow {
    ($(#[$meta:meta])* $visibility:vis $name:ident = $kind:literal : $($types:tt)+) => {
        $crate::__define!(WorkflowDefinition, "workflow", [$(#[$meta])* $visibility] $name, $kind, $($types)+);
    };
}

/// The common part of both macros.
#[doc(hidden)]
#[macro_export]
macro_rules! __define {
    ($trait:ident, $what:literal, $item:tt $name:ident, $kind:literal,
        ($first:ty, $($rest:ty),+ $(,)?) => $output:ty $(;)?) => {
        $crate::__define!(@ $trait, $what, $item $name, $kind, ($first, $($rest),+), $output,
            [::core::stringify!($first), $(::core::stringify!($rest)),+].len());
    };
    ($trait:ident, $what:literal, $item:tt $name:ident, $kind:literal, $input:ty => $output:ty $(;)?) => {
        $crate::__define!(@ $trait, $what, $item $name, $kind, $input, $output, 1);
    };
    (@ $trait:ident, $what:literal, [$($item:tt)*] $name:ident, $kind:literal, $input:ty, $output:ty, $count:expr) => {
        #[doc = concat!("The ", $what, " `", $kind, "`.")]
        $($item)*
        struct $name;
        impl $crate::$trait for $name {
            type Input = $input;
            type Output = $output;
            const KIND: &'static str = $kind;
            const ARGUMENTS: usize = $count;
        }
    };
}
