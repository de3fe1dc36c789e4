//! Workflows: the context, its futures, and what executes them.

pub mod handlers;

/// What a workflow does everything with.
pub struct Context<S = ()>(std::marker::PhantomData<S>);

/// A wish to begin again.
pub struct ContinueAsNew;
