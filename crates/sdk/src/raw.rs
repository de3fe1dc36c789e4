//! The protocol's own messages, for features that the rest of this crate does not cover.

pub use segno_proto::{
    command::{Command, command::Attributes as CommandAttributes},
    common::{Payload, Payloads, WorkflowExecution},
    enums,
    events::{HistoryEvent, history_event::Attributes},
    failure::Failure as WireFailure,
    workflowservice,
};
