//! The names of a Nexus operation.

use std::fmt;

use segno_proto::events::NexusOperationScheduledEventAttributes;

/// An operation by its names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NexusTarget {
    pub endpoint: String,
    pub service: String,
    pub operation: String,
}

impl NexusTarget {
    /// The operation that an event scheduled.
    pub fn of(event: &NexusOperationScheduledEventAttributes) -> Self {
        let (endpoint, service, operation) = (&event.endpoint, &event.service, &event.operation);
        Self { endpoint: endpoint.clone(), service: service.clone(), operation: operation.clone() }
    }
}

impl fmt::Display for NexusTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nexus operation \"{}.{}\" of endpoint {:?}", self.service, self.operation, self.endpoint)
    }
}
