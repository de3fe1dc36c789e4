//! The protocol's own messages, for what the rest of this crate has no words for.

pub use segno_proto::{
    command::{Command, command::Attributes as CommandAttributes},
    common::{Payload, Payloads, WorkflowExecution},
    enums,
    events::{HistoryEvent, history_event::Attributes},
    failure::Failure as WireFailure,
    workflowservice,
};
