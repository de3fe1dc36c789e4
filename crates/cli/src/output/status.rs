//! The states of workflows and namespaces as words.

use segno_proto::enums::{NamespaceState, WorkflowExecutionStatus as Status};

use super::{dynamic::short_name, style::Style, table::Cell};

/// `Running`, `TimedOut`, ...
pub fn word(status: Status) -> String {
    short_name("WorkflowExecutionStatus", status.as_str_name())
}

/// The colour of a status.
pub fn style(status: Status) -> Style {
    match status {
        Status::Running => Style::Blue,
        Status::Completed => Style::Green,
        Status::Failed | Status::TimedOut | Status::Terminated => Style::Red,
        Status::Canceled | Status::Paused => Style::Yellow,
        Status::ContinuedAsNew | Status::Unspecified => Style::Plain,
    }
}

/// A status in a table.
pub fn cell(status: Status) -> Cell {
    Cell::styled(word(status), style(status))
}

/// `Registered`, `Deleted`, ...
pub fn namespace(state: NamespaceState) -> String {
    short_name("NamespaceState", state.as_str_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_words() {
        assert_eq!(word(Status::TimedOut), "TimedOut");
        assert_eq!(word(Status::ContinuedAsNew), "ContinuedAsNew");
        assert_eq!(namespace(NamespaceState::Registered), "Registered");
    }
}
