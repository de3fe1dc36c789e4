//! Names of operations, with their types.

use std::{fmt, marker::PhantomData};

/// An operation of a Nexus service, with the types of its input and its result.
pub struct NexusOperation<I, O> {
    service: &'static str,
    name: &'static str,
    marker: PhantomData<fn(I) -> O>,
}

impl<I, O> NexusOperation<I, O> {
    /// The one with these names on the wire.
    pub const fn named(service: &'static str, name: &'static str) -> Self {
        Self { service, name, marker: PhantomData }
    }

    /// The service's name on the wire.
    pub const fn service(&self) -> &'static str {
        self.service
    }

    /// The operation's name on the wire.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<I, O> Clone for NexusOperation<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for NexusOperation<I, O> {}

impl<I, O> fmt::Debug for NexusOperation<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NexusOperation({:?}, {:?})", self.service, self.name)
    }
}
