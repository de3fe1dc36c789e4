//! Signals, queries and updates of a workflow.

/// The handlers of a workflow with the state `S`.
pub struct Handlers<S>(std::marker::PhantomData<S>);

impl<S> Default for Handlers<S> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}
